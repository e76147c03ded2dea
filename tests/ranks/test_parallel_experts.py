"""Expert parallelism: rows of the battery, routing, and four all-to-alls."""

import sys
from collections import Counter
from functools import partial

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from parallel_battery import BATCH, STEPS, Curves, System, Trained, flat, new_model
from torch import nn

import collectives_lab as lab
from collectives_lab.parallel import experts, problem
from collectives_lab.parallel.experts import Experts, route

cloudpickle.register_pickle_by_value(sys.modules[__name__])

WIDTH, MANY = 4, 5
COUNTS = (7, 0, 4, 1)
"""Tokens of each rank."""

CASES = [(top, factor) for top in (1, 2) for factor in (None, 1.0, 0.4)]


# -- routing ---------------------------------------------------------------------------


def by_hand(logits: torch.Tensor, top: int, factor: float | None) -> list[tuple]:
    """The choices that are kept, (token, expert, gate), token by token as one reads."""
    chances = logits.softmax(-1)
    room = Counter()
    kept = []
    limit = None
    if factor is not None:
        limit = -(-factor * top * len(logits) // logits.shape[1])
    ranked = chances.argsort(-1, descending=True)[:, :top].tolist()
    for choice in range(top):
        for token, best in enumerate(ranked):
            expert = best[choice]
            if limit is None or room[expert] < limit:
                room[expert] += 1
                gate = chances[token, expert]
                if top > 1:
                    gate = gate / sum(chances[token, e] for e in best)
                kept.append((token, expert, gate))
    return kept


def kept_by(rule, logits: torch.Tensor, top: int, factor: float | None) -> set:
    routing = rule(logits, top, factor)
    triples = zip(routing.token, routing.expert, routing.gate, strict=True)
    return {(int(t), int(e), round(float(g), 9)) for t, e, g in triples}


def logits_of(seed: int, tokens: int = 20) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(tokens, MANY, generator=random, dtype=torch.float64)


@pytest.mark.parametrize("top, factor", CASES)
@pytest.mark.parametrize("seed", range(5))
def test_tokens_go_to_their_best_experts_that_have_room(top, factor, seed) -> None:
    """As by hand: first choices first, then earlier tokens; the rest is dropped."""
    logits = logits_of(seed)
    truth = by_hand(logits, top, factor)
    rounded = {(t, e, round(float(g), 9)) for t, e, g in truth}
    assert kept_by(route, logits, top, factor) == rounded
    routing = route(logits, top, factor)
    loads = Counter(e for _, e, _ in truth)
    assert routing.load.tolist() == [loads[e] for e in range(MANY)]
    assert routing.dropped == 20 * top - len(truth)
    assert routing.expert.tolist() == sorted(routing.expert.tolist())


def token_by_token(logits, top, factor):
    """Wrong: a token's second choice is served before the next token's first."""
    routed = route(logits, top, None)
    order = routed.token.argsort(stable=True)
    room, kept = Counter(), []
    for i in order.tolist():
        expert = int(routed.expert[i])
        if room[expert] < experts.capacity(len(logits), MANY, top, factor):
            room[expert] += 1
            kept.append(i)
    picked = (x[kept] for x in (routed.token, routed.expert, routed.gate))
    return experts.Routing(*picked, routed.wanted, routed.wanted, routed.shares)


def test_a_wrong_order_of_service_is_found() -> None:
    """Who is dropped depends on who is served first, and the test above sees it."""
    wrong = [
        kept_by(token_by_token, logits_of(seed), 2, 0.4)
        != kept_by(route, logits_of(seed), 2, 0.4)
        for seed in range(5)
    ]
    assert any(wrong)


def test_a_fair_router_has_balance_one() -> None:
    """The balance is 1 where experts are wanted alike, E where one has all tokens."""
    fair = 50 * torch.eye(MANY, dtype=torch.float64)
    assert route(fair, 1, None).balance == pytest.approx(1)
    one = fair[[2] * MANY]
    assert route(one, 1, None).balance == pytest.approx(MANY)
    assert route(one, 1, 1.0).balance == pytest.approx(MANY)  # what is wanted counts


def test_the_balance_teaches_the_router() -> None:
    """Going down its gradient takes tokens away from the expert that all want."""
    logits = torch.zeros(8, MANY, dtype=torch.float64)
    logits[:, 2] = 1
    logits.requires_grad_()
    route(logits, 1, None).balance.backward()
    assert (logits.grad[:, 2] > 0).all()
    assert (logits.grad[:, [0, 1, 3, 4]] < 0).all()


@pytest.mark.parametrize(
    "top, factor, complaint",
    [
        (0, None, "top is 0 of 5 experts"),
        (6, None, "top is 6 of 5 experts"),
        (1, 0, "capacity_factor is 0; need a number above 0"),
        (1, float("nan"), "capacity_factor is nan"),
    ],
)
def test_a_router_needs_counts_that_can_be(top, factor, complaint) -> None:
    """The error says what was found."""
    with pytest.raises(ValueError, match=complaint):
        route(logits_of(0), top, factor)


# -- the all-to-all --------------------------------------------------------------------


def test_the_gradient_goes_back_the_way_that_rows_came() -> None:
    """Rows reach their ranks, and their gradients come home, however uneven."""

    def there_and_back():
        rank, world_size = dist.get_rank(), dist.get_world_size()
        give = [(rank + dst) % 3 for dst in range(world_size)]
        take = [(src + rank) % 3 for src in range(world_size)]
        rows = torch.full((sum(give), 2), 10.0 * rank)
        rows += torch.arange(world_size).repeat_interleave(torch.tensor(give))[:, None]
        rows.requires_grad_()
        taken = experts.all_to_all(rows, give, take)
        sources = torch.arange(world_size).repeat_interleave(torch.tensor(take))
        assert torch.equal(taken, (10.0 * sources + rank)[:, None].expand(-1, 2))
        # Each row is weighed by where it is: its gradient names that rank and it.
        (taken * taken.detach()).sum().backward()
        assert torch.equal(rows.grad, rows.detach())
        return len(rows)

    assert lab.run(there_and_back, 4).results == [3, 4, 5, 3]


@pytest.mark.parametrize("give", [[1, 1], [3], [1, 1, 1]])
def test_splits_must_fit(give) -> None:
    """A number for each rank, and all rows."""

    def misfit() -> None:
        experts.all_to_all(torch.zeros(3, 1), give, [1, 1])

    with pytest.raises(lab.LabError, match="need a number for each of 2 ranks"):
        lab.run(misfit, 2)


# -- the layer -------------------------------------------------------------------------


def tokens_of(rank: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(rank)
    shape = COUNTS[rank], WIDTH
    return torch.randn(shape, generator=random, dtype=torch.float64)


class All(nn.Module):
    """The same layer in one process, by the definition: an expert after the other."""

    def __init__(self, width: int, many: int, top: int, factor: float | None):
        super().__init__()
        self.top, self.factor = top, factor
        torch.manual_seed(0)
        self.router = nn.Linear(width, many, bias=False)
        made = []
        for e in range(many):
            torch.manual_seed(1 + e)
            made.append(problem.MLP(width))
        self.experts = nn.ModuleList(made)
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(0, -2)
        kept = by_hand(self.router(tokens), self.top, self.factor)
        y = 0 * tokens
        for e, expert in enumerate(self.experts):
            own = [token for token, to, _ in kept if to == e]
            gates = [gate for _, to, gate in kept if to == e]
            if own:
                results = torch.stack(gates)[:, None] * expert(tokens[own])
                y = y.index_add(0, torch.tensor(own), results)
        return y.view_as(x)


def layer_on_ranks(cases, kind=Experts, group=None):
    """On a rank, by case: the result, and the gradients of all that has one."""
    collected = []
    rank = dist.get_rank(group)
    for top, factor in cases:
        layer = kind(WIDTH, MANY, top, factor, group).double()
        x = tokens_of(rank).requires_grad_()
        y = layer(x)
        ((rank + 1) * y**2).sum().backward()
        dist.all_reduce(layer.router.weight.grad, group=group)
        grads = [p.grad for p in layer.experts.parameters()]
        routing = layer.routing.wanted, layer.routing.load, layer.arrived
        collected.append((y.detach(), x.grad, layer.router.weight.grad, grads, routing))
    return collected


def check(results, cases) -> None:
    """Results and all gradients are those of one process with all experts."""
    for number, (top, factor) in enumerate(cases):
        layer = All(WIDTH, MANY, top, factor)
        inputs = [tokens_of(r).requires_grad_() for r in range(len(results))]
        outputs = [layer(x) for x in inputs]
        total = sum(((r + 1) * y**2).sum() for r, y in enumerate(outputs))
        total.backward()
        own = [of_rank[number] for of_rank in results]
        for (y, x_grad, router_grad, _, _), truth, x in zip(
            own, outputs, inputs, strict=True
        ):
            torch.testing.assert_close(y, truth.detach())
            torch.testing.assert_close(x_grad, x.grad)
            torch.testing.assert_close(router_grad, layer.router.weight.grad)
        grads = [grad for _, _, _, of_rank, _ in own for grad in of_rank]
        for grad, parameter in zip(grads, layer.experts.parameters(), strict=True):
            truth = parameter.grad
            torch.testing.assert_close(
                grad, torch.zeros_like(parameter) if truth is None else truth
            )


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_the_layer_equals_one_process_with_all_experts(world_size) -> None:
    """Top 1 and 2, with room for all and not, and with ranks without a token."""
    run = lab.run(layer_on_ranks, world_size, args=(CASES,))
    check(run.results, CASES)
    for number, (top, _) in enumerate(CASES):
        results = [of_rank[number][-1] for of_rank in run.results]
        assert sum(int(wanted.sum()) for wanted, *_ in results) == top * sum(
            COUNTS[:world_size]
        )
        arrived = [count for *_, here in results for count in here]
        assert sum(load for _, load, _ in results).tolist() == arrived


def test_layers_stand_side_by_side() -> None:
    """Experts are shared inside of a group: here two, of ranks in no order."""

    def both():
        groups = [dist.new_group(ranks) for ranks in ([3, 1], [0, 2])]
        own = groups[dist.get_rank() % 2 == 0]
        return dist.get_rank(own), layer_on_ranks(CASES, group=own)

    results = lab.run(both, 4).results
    for pair in (0, 1):
        places = dict(results[pair::2])
        check([places[0], places[1]], CASES)


class Unsorted(Experts):
    """Wrong: takes rows to be in the order of its experts as they come."""

    def _compute(self, arrived, here):
        parts = arrived.split(here.sum(0).tolist())
        return torch.cat([e(p) for e, p in zip(self.experts, parts, strict=True)])


class OneWay(Experts):
    """Wrong: the backward pass does not go home to other ranks."""

    def _compute(self, arrived, here):
        own = super()._compute(arrived.detach(), here)
        return own + 0 * arrived.sum()


class Ungated(Experts):
    """Wrong: all experts of a token count alike."""

    def forward(self, x):
        make, experts.route = experts.route, self._alike
        try:
            return super().forward(x)
        finally:
            experts.route = make

    @staticmethod
    def _alike(*args):
        routed = route(*args)
        object.__setattr__(routed, "gate", 0 * routed.gate + 0.5)
        return routed


@pytest.mark.parametrize("kind", [Unsorted, OneWay, Ungated])
def test_a_wrong_layer_is_found(kind) -> None:
    """The test above fails lost order, lost gradients and lost gates."""
    fn = partial(layer_on_ranks, kind=kind)
    results = lab.run(fn, 3, args=([(2, None)],)).results  # rank 1 has no token
    with pytest.raises(AssertionError):
        check(results, [(2, None)])


def with_experts(mlp: nn.Module) -> nn.Sequential:
    """The letters' model with another layer in place of its second MLP."""
    model = new_model(width=8, heads=2)
    model[2].mlp = mlp.double()
    return model


def train(top: int, factor: float | None) -> Trained:
    """Train: each rank on its share of the batch, all but the experts in copies."""
    layer = Experts(8, MANY, top, factor)
    model = with_experts(layer)
    local = set(layer.experts.parameters())
    optimizer = torch.optim.Adam(model.parameters(), lr=problem.RATE)

    def sum_up() -> None:
        for parameter in model.parameters():
            if parameter not in local:
                dist.all_reduce(parameter.grad)

    share = problem.loss_of_share(model, BATCH)
    return problem.descend(optimizer, share, STEPS, sum_up), None


def alone(
    top: int, factor: float | None, world_size: int
) -> tuple[Curves, torch.Tensor]:
    """One process, which drops tokens by the shares of the ranks."""
    model = with_experts(All(8, MANY, top, factor))
    optimizer = torch.optim.Adam(model.parameters(), lr=problem.RATE)

    def loss(step: int) -> torch.Tensor:
        batch = problem.batch(step, BATCH)
        shares = [batch.share(rank, world_size) for rank in range(world_size)]
        return sum(problem.loss(model, share, BATCH) for share in shares)

    def all_step() -> None:
        for parameter in model[2].mlp.experts.parameters():
            if parameter.grad is None:  # an expert nobody went to still takes a step
                parameter.grad = torch.zeros_like(parameter)

    return [problem.descend(optimizer, loss, STEPS, all_step)], flat(model)


SYSTEMS = {
    f"top {top} of experts, room for {factor}": System(
        partial(train, top, factor),
        (3,),
        alone=partial(alone, top, factor),
        of_losses=1e-9,
    )
    for top, factor in [(1, 0.7), (2, None)]
}


# -- what is sent ----------------------------------------------------------------------


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
@pytest.mark.parametrize("top, factor", [(1, 1.0), (2, None)])
def test_the_bytes_follow_from_the_routing(world_size, top, factor) -> None:
    """Counts, dispatch, combine, and the two back: each rank's bytes, exactly."""
    run = lab.run(layer_on_ranks, world_size, args=([(top, factor)],))
    loads = [of_rank[0][-1][1] for of_rank in run.results]
    moved = experts.traffic(loads)
    counts = experts.owned(MANY, world_size)
    row = WIDTH * 8
    for rank, sent in enumerate(run.trace.bytes_sent()):
        others = [r for r in range(world_size) if r != rank]
        away = row * sum(moved[rank][r] for r in others)
        home = row * sum(moved[r][rank] for r in others)
        announced = 8 * sum(counts[r] for r in others)
        summed = 2 * (world_size - 1) / world_size * MANY * row  # the router's gradient
        assert sent == pytest.approx(announced + 2 * away + 2 * home + summed)
        calls = [e for e in run.trace.of_rank(rank) if e.op == "all_to_all"]
        assert len(calls) == 5
    assert sum(map(sum, moved)) == sum(int(load.sum()) for load in loads)


def dispatch_of(tokens: int, each: int) -> torch.Tensor:
    """On a rank with so many tokens and experts of its own, take one step."""
    layer = Experts(WIDTH, each * dist.get_world_size(), top=2)
    random = torch.Generator().manual_seed(dist.get_rank())
    layer(torch.randn(tokens, WIDTH, generator=random))
    return layer.routing.load


def test_messages_grow_with_the_world_and_bytes_do_not() -> None:
    """Every rank talks to every other, but none sends more than k n d numbers."""
    pairs, most = [], []
    for world_size in (2, 4, 8):
        run = lab.run(dispatch_of, world_size, args=(64, 2))
        moved = experts.traffic(run.results)
        pairs.append(
            sum(
                n > 0
                for r, row in enumerate(moved)
                for c, n in enumerate(row)
                if c != r
            )
        )
        dispatch = [run.trace.of_rank(rank)[1].sent for rank in range(world_size)]
        most.append(max(dispatch))
    assert pairs == [2 * 1, 4 * 3, 8 * 7]
    assert all(sent <= 2 * 64 * WIDTH * 4 for sent in most)
    assert most[2] < 2 * most[0]


def test_every_rank_needs_an_expert() -> None:
    """Fewer experts than ranks are refused, since a rank would have none to train."""
    with pytest.raises(lab.LabError, match="1 experts on 2 ranks; need one for each"):
        lab.run(lambda: Experts(WIDTH, 1), 2)
