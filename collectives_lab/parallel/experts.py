"""Expert parallelism: a mixture-of-experts layer whose experts live on many ranks.

Here: `route`, which sends each token to its best 1 or 2 experts and drops what exceeds
their capacity; `all_to_all`, whose backward pass is the all-to-all in reverse; and
`Experts`, the layer.

Who owns what: every rank holds its own tokens and the same router; the experts are
shared evenly in order, and a rank holds the parameters of its own only.

What is sent in a layer, for n tokens on a rank of d numbers each, which take k of E
experts, and P ranks:

    forward    how many tokens come         E numbers a rank       all-to-all
               dispatch: tokens to experts  at most k n d          all-to-all
               combine: results to tokens   as many, back          all-to-all
    backward   gradients of the results     as in the dispatch     all-to-all
               gradients of the tokens      as in the combine      all-to-all

The parts are as large as the routing makes them: `traffic` says for each pair. A rank
with n tokens never sends more than k n d numbers at a time, however many ranks there
are; what grows is the number of messages, P (P-1), and so their smallness. The rank
whose experts are wanted most computes longest, and the others wait for it in the
combine. An expert's gradient is complete where it lives; the router's is the sum over
ranks, which the caller makes, as in data parallelism.

Sources: Lepikhin et al. 2021, GShard, section 2.2 (top-2, capacity, dispatch); Fedus,
Zoph and Shazeer 2022, Switch Transformers, section 2.2 (top-1, balance).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from collectives_lab.parallel.problem import MLP


@dataclass(frozen=True)
class Routing:
    """The routing of one rank's tokens; a *choice* is a token and an expert.

    token, expert, gate: of every choice that was kept, ordered by expert, and by token
    and choice within it. wanted: choices by expert before any was dropped. load: those
    that were kept. shares: the mean probability of each expert.
    """

    token: torch.Tensor
    expert: torch.Tensor
    gate: torch.Tensor
    wanted: torch.Tensor
    load: torch.Tensor
    shares: torch.Tensor

    @property
    def dropped(self) -> int:
        """Choices that no expert had room for."""
        return int(self.wanted.sum() - self.load.sum())

    @property
    def balance(self) -> torch.Tensor:
        """E sum(f_e p_e): 1 if experts are wanted alike, E if all tokens want one.

        f is the share of the choices, p that of the probability; times some 0.01 and
        added to the loss it keeps the router fair. Source: Switch Transformers,
        equation 4.
        """
        wanted = self.wanted.to(self.shares) / self.wanted.sum().clamp(min=1)
        return len(wanted) * (wanted * self.shares).sum()


def route(logits: torch.Tensor, top: int, capacity_factor: float | None) -> Routing:
    """Choose the `top` best experts of each token, and drop what exceeds the capacity.

    logits: (tokens, experts). With top 1 a choice's gate is the expert's probability,
    with more they are normalised to sum 1. An expert takes at most `capacity(...)` of
    these tokens: first choices before second ones, and earlier tokens before later
    ones; None for no limit. The rule is each rank's own, so it needs no communication.
    Raises ValueError for counts and factors that cannot be.
    """
    tokens, experts = logits.shape
    if not 1 <= top <= experts:
        raise ValueError(f"top is {top} of {experts} experts; need 1 <= top <= experts")
    probabilities = logits.softmax(-1)
    gates, chosen = probabilities.topk(top)
    if top > 1:
        gates = gates / gates.sum(-1, keepdim=True)
    # All first choices, then all second ones: who is served first.
    expert, gate = chosen.T.flatten(), gates.T.flatten()
    token = torch.arange(tokens, device=logits.device).repeat(top)
    accepted = torch.ones_like(expert, dtype=torch.bool)
    if capacity_factor is not None:
        room = capacity(tokens, experts, top, capacity_factor)
        accepted = _place_in_queue(expert, experts) < room
    order = torch.nonzero(accepted).flatten()
    order = order[expert[order].argsort(stable=True)]
    return Routing(
        token[order],
        expert[order],
        gate[order],
        expert.bincount(minlength=experts),
        expert[order].bincount(minlength=experts),
        probabilities.mean(0),
    )


def capacity(tokens: int, experts: int, top: int, factor: float) -> int:
    """Return how many tokens of a rank an expert takes at most.

    They are factor x top x tokens / experts, rounded up; at factor 1 there is room for
    all if they are spread evenly.
    """
    if not (math.isfinite(factor) and factor > 0):
        raise ValueError(f"capacity_factor is {factor}; need a number above 0, or None")
    return math.ceil(factor * top * tokens / experts)


def _place_in_queue(expert: torch.Tensor, experts: int) -> torch.Tensor:
    """Return, by choice, how many earlier ones want the same expert."""
    wants = nn.functional.one_hot(expert, experts)
    return (wants.cumsum(0) - 1).gather(1, expert[:, None]).flatten()


def owned(experts: int, world_size: int) -> list[int]:
    """Return how many experts each rank holds: neighbours, the first ranks one more."""
    each, more = divmod(experts, world_size)
    return [each + (rank < more) for rank in range(world_size)]


def traffic(loads: Sequence[torch.Tensor]) -> list[list[int]]:
    """Return the tokens that the dispatch sends, `[src][dst]`.

    loads: by rank, the `load` of its routing. Times d and the bytes of a number these
    are the splits of the all-to-all; the combine sends the transpose.
    """
    counts = owned(len(loads[0]), len(loads))
    return [[int(part.sum()) for part in load.split(counts)] for load in loads]


class _AllToAll(torch.autograd.Function):
    """An all-to-all of rows whose gradient goes back the way that they came."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        give: list[int],
        take: list[int],
        group: dist.ProcessGroup | None,
    ) -> torch.Tensor:
        ctx.give, ctx.take, ctx.group = give, take, group
        received = rows.new_empty(sum(take), *rows.shape[1:])
        dist.all_to_all_single(received, rows.contiguous(), take, give, group=group)
        return received

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        back = _AllToAll.apply(grads[0], ctx.take, ctx.give, ctx.group)
        return back, None, None, None


def all_to_all(
    rows: torch.Tensor,
    give: Sequence[int],
    take: Sequence[int],
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Give the first give[0] rows to rank 0, and so on; return what the ranks give us.

    take: rows that come from each rank. All ranks call it; if rows need a gradient on
    one of them they must on all, and all call backward. Raises ValueError for splits
    that do not fit.
    """
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    if sum(give) != len(rows) or not len(give) == len(take) == world_size:
        raise ValueError(
            f"rank {rank}: gives {list(give)} and takes {list(take)} with {len(rows)} "
            f"rows; need a number for each of {world_size} ranks, and give all rows"
        )
    return _AllToAll.apply(rows, list(give), list(take), group)


class Experts(nn.Module):
    """A mixture of experts in place of an MLP: (..., width) -> (..., width).

    A token's result is the sum of its experts' results, each times its gate; a dropped
    choice adds nothing, so that only the residual connection around the layer carries
    such a token on. After a call `routing` has where this rank's tokens went, and
    `arrived` how many came to each of its experts.
    """

    def __init__(
        self,
        width: int,
        experts: int,
        top: int = 1,
        capacity_factor: float | None = None,
        group: dist.ProcessGroup | None = None,
        seed: int = 0,
    ):
        """Make the router and this rank's experts, the same for any number of ranks.

        seed: expert e is made from seed + 1 + e. Raises ValueError unless every rank
        has an expert.
        """
        super().__init__()
        rank, world_size = dist.get_rank(group), dist.get_world_size(group)
        if experts < world_size:
            raise ValueError(
                f"rank {rank}: {experts} experts on {world_size} ranks; need one for "
                "each rank at least"
            )
        self.top, self.capacity_factor, self.group = top, capacity_factor, group
        self.counts = owned(experts, world_size)
        self.first = sum(self.counts[:rank])
        own_experts = range(self.first, self.first + self.counts[rank])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.router = nn.Linear(width, experts, bias=False)
            made = []
            for expert in own_experts:
                torch.manual_seed(seed + 1 + expert)
                made.append(MLP(width))
        self.experts = nn.ModuleList(made)
        self.routing: Routing | None = None
        self.arrived: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Route, dispatch, compute, combine; all ranks of the group call it."""
        tokens = x.flatten(0, -2)
        routing = route(self.router(tokens), self.top, self.capacity_factor)
        here = self._announce(routing.load)
        give = [int(part.sum()) for part in routing.load.split(self.counts)]
        take = here.sum(1).tolist()
        arrived = all_to_all(tokens[routing.token], give, take, self.group)
        results = all_to_all(self._compute(arrived, here), take, give, self.group)
        self.routing, self.arrived = routing, here.sum(0).tolist()
        weighted = routing.gate[:, None] * results
        return torch.zeros_like(tokens).index_add(0, routing.token, weighted).view_as(x)

    def _announce(self, load: torch.Tensor) -> torch.Tensor:
        """Tell each rank how many tokens come; return them as (src, own expert)."""
        own_count, world_size = len(self.experts), len(self.counts)
        here = all_to_all(load, self.counts, [own_count] * world_size, self.group)
        return here.view(world_size, own_count)

    def _compute(self, arrived: torch.Tensor, here: torch.Tensor) -> torch.Tensor:
        """Give each expert its tokens, from all ranks at once; keep their order."""
        expert = torch.arange(len(self.experts), device=here.device).repeat(len(here))
        expert = expert.repeat_interleave(here.flatten())
        order = expert.argsort(stable=True)
        parts = arrived[order].split(here.sum(0).tolist())
        results = [e(part) for e, part in zip(self.experts, parts, strict=True)]
        return torch.cat(results)[order.argsort()]
