"""A vocabulary in parts: an embedding and a loss whose tables no rank has whole.

Here: `share`, which part of a count is a rank's; `Rows`, the rows of a table that are
this rank's; `cross_entropy` of logits of which each rank has some letters'; and `loss`,
`problem.loss` for a model that ends in such logits.

    embedding  own rows for own letters, zeros for others': the sum over ranks is the
               vector. What comes after `Rows` adds up
    loss       the cross-entropy of a letter is the logarithm of a sum of exponentials,
               less the target's logit. all_reduce MAX of one number a letter, then
               all_reduce of two: the sum, and the logit, for which all but its owner
               put 0
    backward   nothing is sent: softmax less one-hot, each rank for its own letters

Source: Shoeybi et al., Megatron-LM, 2019, section 3 (embeddings and the fused loss).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd import Function

from collectives_lab.parallel.problem import VOCABULARY, Batch


def share(count: int, what: str, group: dist.ProcessGroup | None = None) -> slice:
    """Return this rank's part of `count` things.

    Sizes differ by one at most, larger first.

    what: the name of the things, for the error. Raises ValueError for too few.
    """
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    if count < world_size:
        raise ValueError(
            f"rank {rank}: {count} {what} for {world_size} ranks; need at least one a "
            "rank, so take fewer ranks or a larger model"
        )
    each, rest = divmod(count, world_size)
    begin = rank * each + min(rank, rest)
    return slice(begin, begin + each + (rank < rest))


class Rows(nn.Module):
    """Some rows of a table; zeros for an index in the others'."""

    def __init__(self, table: nn.Embedding, rows: slice):
        super().__init__()
        self.begin, self.end = rows.start, rows.stop
        self.table = nn.Embedding.from_pretrained(
            table.weight[rows].detach().clone(), freeze=False
        )

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        own = (index >= self.begin) & (index < self.end)
        rows = self.table((index - self.begin).where(own, 0))
        return rows * own.unsqueeze(-1)


class _CrossEntropy(Function):
    @staticmethod
    def forward(
        ctx: Any,
        logits: torch.Tensor,
        targets: torch.Tensor,
        begin: int,
        group: dist.ProcessGroup | None,
    ) -> torch.Tensor:
        top = logits.amax(-1)
        dist.all_reduce(top, dist.ReduceOp.MAX, group=group)
        shifted = logits - top.unsqueeze(-1)
        own = (targets >= begin) & (targets < begin + logits.shape[-1])
        place = (targets - begin).where(own, 0).unsqueeze(-1)
        target_logit = shifted.gather(-1, place).squeeze(-1).where(own, 0)
        sums = torch.stack([shifted.exp().sum(-1), target_logit])
        dist.all_reduce(sums, group=group)
        total, target_logit = sums
        ctx.save_for_backward(shifted.exp() / total.unsqueeze(-1), place, own)
        return total.log() - target_logit

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        softmax, place, own = ctx.saved_tensors
        one_hot = torch.zeros_like(softmax)
        one_hot.scatter_(-1, place, own.unsqueeze(-1).to(softmax.dtype))
        return (softmax - one_hot) * gradient.unsqueeze(-1), None, None, None


def cross_entropy(
    logits: torch.Tensor,
    targets: torch.Tensor,
    begin: int,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Return the cross-entropy of each target, the same on all ranks.

    logits: (..., letters of this rank), the first of which is `begin`. targets: (...),
    the same on all ranks.
    """
    return _CrossEntropy.apply(logits, targets, begin, group)


def loss(
    model: Callable[[torch.Tensor], torch.Tensor],
    examples: Batch,
    whole: int | None = None,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Return `problem.loss` of a model that gives the logits of this rank's letters."""
    begin = share(VOCABULARY, "letters", group).start
    losses = cross_entropy(model(examples.inputs), examples.targets, begin, group)
    rows = len(examples.inputs) if whole is None else whole
    return losses.sum() / (rows * examples.targets.shape[1])
