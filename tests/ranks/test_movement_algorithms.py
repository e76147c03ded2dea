"""Broadcast, scatter, gather, all_gather and all_to_all over sends and receives.

One battery a verb holds every algorithm to torch's own verb, with many cases in one run
of each world size; wrong algorithms have to fail it.
"""

import sys
from itertools import chain

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from algorithm_table import WORLD_SIZES, names_of

import collectives_lab as lab
from collectives_lab import algorithms
from collectives_lab.algorithms.steps import children, exchange, parent, subtree_size
from collectives_lab.basics.verbs import verb_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])
DTYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool),
)
"""Those that every verb of Gloo takes: it knows no int16, and gathers no complex64."""


def like(shape, dtype=torch.float32, layout="plain", salt=0):
    """A tensor whose small whole numbers depend on the rank, in a layout of memory."""
    count = torch.Size(shape).numel()
    values = torch.arange(count) * 3 + 7 * dist.get_rank() + salt
    whole = (values % 2 if dtype == torch.bool else values % 100).to(dtype)
    whole = whole.reshape(shape)
    if layout == "transposed":
        return whole.mT.contiguous().mT
    if layout == "strided":
        wide = torch.zeros(*shape, 2, dtype=dtype)
        wide[..., 0] = whole
        return wide[..., 0]
    return whole


def cases(lengths):
    """Shape, dtype and layout of what is moved: every length, dtype and layout once."""
    yield from (((n,), torch.float32, "plain") for n in lengths)
    yield from (((lengths[-1],), dtype, "plain") for dtype in DTYPES)
    yield (lengths[-1], 3), torch.float32, "transposed"
    yield (lengths[-1], 2, 2), torch.float64, "strided"
    yield (0, 3), torch.float32, "plain"


def where(rank, *case):
    return f"rank {rank} of {dist.get_world_size()}, {case}"


def same(actual, wanted):
    return actual.shape == wanted.shape and torch.equal(actual, wanted)


# -- what each verb must do, held against torch's: cases, and whether they are right ---


def broadcast(move, group, ranks):
    for i, case in enumerate(cases([0, 1, len(ranks) - 1, 2 * len(ranks), 37])):
        src = ranks[i % len(ranks)]
        actual, wanted = like(*case), like(*case).contiguous()
        move(actual, src, group=group)
        dist.broadcast(wanted, src, group=group)
        yield (case, src), same(actual, wanted)


def scatter(move, group, ranks):
    for i, case in enumerate(cases([0, 1, 5])):
        src = ranks[i % len(ranks)]
        parts = [like(*case, salt=11 * r) for r in ranks]
        parts = parts if src == dist.get_rank() else None
        whole = parts and [part.contiguous() for part in parts]
        actual, wanted = like(*case), like(*case).contiguous()
        move(actual, parts, src, group=group)
        dist.scatter(wanted, whole, src, group=group)
        yield (case, src), same(actual, wanted)


def gather(move, group, ranks):
    for i, case in enumerate(cases([0, 1, 5])):
        dst = ranks[i % len(ranks)]
        actual, wanted = (
            [like(*case, salt=50) for _ in ranks] if dst == dist.get_rank() else None
            for _ in range(2)
        )
        wanted = wanted and [part.contiguous() for part in wanted]
        move(like(*case), actual, dst, group=group)
        dist.gather(like(*case).contiguous(), wanted, dst, group=group)
        pairs = zip(actual or (), wanted or (), strict=True)
        yield (case, dst), all(same(*pair) for pair in pairs)


def all_gather(move, group, ranks):
    for shape, *kind in cases([0, 1, 5]):
        whole = (len(ranks) * shape[0], *shape[1:])
        actual, wanted = like(whole, *kind), like(whole, *kind).contiguous()
        move(actual, like(shape, *kind), group=group)
        dist.all_gather_into_tensor(wanted, like(shape, *kind).contiguous(), group)
        yield (shape, *kind), same(actual, wanted)


def all_to_all(move, group, ranks):
    for shape, *kind in cases([0, 1, 5]):
        shape = (len(ranks) * shape[0], *shape[1:])
        actual, wanted = like(shape, *kind, salt=9), like(shape, *kind).contiguous()
        move(actual, like(shape, *kind), group=group)
        dist.all_to_all_single(wanted, like(shape, *kind).contiguous(), group=group)
        yield (shape, *kind), same(actual, wanted)


VERBS = {
    verb: [getattr(algorithms, name) for name in names_of(verb.__name__)]
    for verb in (broadcast, scatter, gather, all_gather, all_to_all)
}


def wrong_cases(verb, moves, ranks=None):
    """The cases, by name, in which an algorithm does not do what torch's verb does."""
    group = None if ranks is None else dist.new_group(ranks)
    ranks = ranks or list(range(dist.get_world_size()))
    if dist.get_rank() not in ranks:
        return []
    return [
        where(dist.get_rank(), move.__name__, case)
        for move in moves
        for case, right in verb(move, group, ranks)
        if not right
    ]


def all_wrong_cases(table, ranks=None):
    return [case for verb, moves in table for case in wrong_cases(verb, moves, ranks)]


def wrong(world_size, table, ranks=None):
    """The wrong cases on all ranks."""
    results = lab.run(all_wrong_cases, world_size, [list(table), ranks]).results
    return list(chain.from_iterable(results))


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_every_algorithm_does_what_its_verb_does(world_size):
    """Results are torch's, bit by bit: all lengths, dtypes, layouts, shapes, roots."""
    assert not wrong(world_size, VERBS.items())


@pytest.mark.parametrize(
    "world_size, ranks", [(5, [4, 0, 3]), (4, [2]), (7, [1, 2, 3, 5, 6])]
)
def test_an_algorithm_keeps_to_its_group(world_size, ranks):
    """In a subgroup src and dst are ranks of the world, and parts go by the group's."""
    assert not wrong(world_size, VERBS.items(), ranks)


def test_every_algorithm_of_these_verbs_is_in_the_battery():
    """No exported name that moves and does not reduce is left out."""
    tried = {move.__name__ for moves in VERBS.values() for move in moves}
    reducing = {"reduce", "reduce_scatter", "all_reduce"}
    assert tried == {n for n in algorithms.__all__ if verb_of(n) not in reducing}


# -- wrong ones: each has to fail the battery ------------------------------------------


def place(group, root):
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    return (ranks.index(dist.get_rank()) - ranks.index(root)) % len(ranks)


def skips_the_last(tensor, src=0, group=None):
    """A broadcast that never reaches the last rank."""
    kept = tensor.clone()
    algorithms.chain_broadcast(tensor, src, group)
    if place(group, src) == dist.get_world_size(group) - 1:
        tensor.copy_(kept)


def root_of_the_group(tensor, src=0, group=None):
    """A broadcast that takes src for a rank of the group."""
    ranks = dist.get_process_group_ranks(group)
    algorithms.flat_broadcast(tensor, ranks[src % len(ranks)], group)


def drops_the_tail(tensor, src=0, group=None):
    """A broadcast of world_size equal chunks, and of nothing that is left over."""
    size = dist.get_world_size(group)
    algorithms.binomial_broadcast(tensor[: len(tensor) // size * size], src, group)


def into_a_copy(tensor, src=0, group=None):
    """A broadcast that is not written back where the tensor is not contiguous."""
    algorithms.binomial_broadcast(tensor.contiguous(), src, group)


def neighbours_part(tensor, scatter_list=None, src=0, group=None):
    """A scatter with the owner off by one."""
    turned = scatter_list and [*scatter_list[1:], scatter_list[0]]
    algorithms.direct_scatter(tensor, turned, src, group)


def without_the_root(tensor, gather_list=None, dst=0, group=None):
    """A gather in which the root leaves its own part out."""
    kept = gather_list and [part.clone() for part in gather_list]
    algorithms.binomial_gather(tensor, gather_list, dst, group)
    if gather_list:
        gather_list[dst].copy_(kept[dst])


def one_step_short(output, input, group=None):
    """A ring that ends a step early."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    data = output.contiguous()
    rows = data.tensor_split(size)
    rows[rank].copy_(input)
    for k in range(size - 2):
        receive, send = rows[(rank - 1 - k) % size], rows[(rank - k) % size]
        exchange(group, [(receive, (rank - 1) % size)], [(send, (rank + 1) % size)])
    output.copy_(data)


def unturned(output, input, group=None):
    """Bruck's all_gather without its last turn of the rows."""
    algorithms.bruck_all_gather(output, input, group)
    parts = output.chunk(dist.get_world_size(group)) if output.numel() else ()
    turned = [*parts[dist.get_rank(group) :], *parts[: dist.get_rank(group)]]
    if turned:
        output.copy_(torch.cat(turned))


def powers_of_two_only(output, input, group=None):
    """Recursive doubling that forgets the ranks beyond the power of two."""
    size = dist.get_world_size(group)
    if size & (size - 1) == 0:
        algorithms.recursive_doubling_all_gather(output, input, group)


def as_it_came(output, input, group=None):
    """An all_to_all that leaves the parts in the order in which they came."""
    algorithms.pairwise_all_to_all(output, input, group=group)
    output.copy_(output.flip(0))


WRONG = [
    (broadcast, skips_the_last, None),
    (broadcast, root_of_the_group, [1, 2, 3]),
    (broadcast, drops_the_tail, None),
    (broadcast, into_a_copy, None),
    (scatter, neighbours_part, None),
    (gather, without_the_root, None),
    (all_gather, one_step_short, None),
    (all_gather, unturned, None),
    (all_gather, powers_of_two_only, None),
    (all_to_all, as_it_came, None),
]


@pytest.mark.parametrize(
    "verb, move, ranks", [pytest.param(*w, id=w[1].__name__) for w in WRONG]
)
def test_a_wrong_algorithm_fails_the_battery(verb, move, ranks):
    """The battery finds each of the mistakes that such code is known for."""
    assert any(move.__name__ in case for case in wrong(5, [(verb, [move])], ranks))


# -- what the battery does not reach ---------------------------------------------------


def in_segments():
    wanted, missed = like((37, 3)), []
    dist.broadcast(wanted, 1)
    for segment in (4, 7, 64, 10**6, None):
        actual = like((37, 3))
        algorithms.chain_broadcast(actual, 1, segment=segment)
        missed += [segment] * (not same(actual, wanted))
    return missed


def test_a_chain_takes_any_segment():
    """From one element up, whole elements or not, and in one piece."""
    assert lab.run(in_segments, 5).results == [[]] * 5


SPLITS = [[0, 1, 2], [4, 0, 1], [1, 0, 3]]
"""Rows that each rank has for each."""


def uneven():
    rank = dist.get_rank()
    own, theirs = SPLITS[rank], [row[rank] for row in SPLITS]
    wanted = torch.zeros(sum(theirs), 2)
    dist.all_to_all_single(wanted, like((sum(own), 2)), theirs, own)
    moved = []
    for move in (algorithms.direct_all_to_all, algorithms.pairwise_all_to_all):
        actual = torch.zeros(sum(theirs), 2)
        move(actual, like((sum(own), 2)), theirs, own)
        moved.append(same(actual, wanted))
    return moved


def test_parts_of_all_to_all_may_be_uneven():
    """Direct and pairwise take split sizes as torch does, empty ones too."""
    assert lab.run(uneven, 3).results == [[True, True]] * 3


def in_training():
    weight = torch.nn.Parameter(like((3, 3)).mT)
    for move in VERBS[broadcast]:
        move(weight, 0)
    whole = torch.zeros(dist.get_world_size() * 3, 3)
    algorithms.ring_all_gather(whole, weight)
    return weight.is_leaf, whole.requires_grad, weight.tolist()


def test_parameters_can_be_moved():
    """A tensor that wants a gradient is moved as it is, and nothing is recorded."""
    results = lab.run(in_training, 3).results
    assert results == [(True, False, results[0][2])] * 3


def refusals():
    size = dist.get_world_size()
    one, two, x = torch.zeros(1), torch.zeros(2), torch.zeros(size + 1)
    outside = dist.new_group([0, 1])
    calls = [
        lambda: algorithms.binomial_broadcast(one, size),
        lambda: algorithms.flat_broadcast(one, 2, outside),
        lambda: algorithms.chain_broadcast(one, 0, segment=3),
        lambda: algorithms.binomial_scatter(one, [two] * size),
        lambda: algorithms.direct_gather(one, [one] * (size - 1)),
        lambda: algorithms.ring_all_gather(x, one),
        lambda: algorithms.bruck_all_gather(torch.zeros(size).double(), one),
        lambda: algorithms.pairwise_all_to_all(x, x),
        lambda: algorithms.direct_all_to_all(x, x, [1] * size, [1] * size),
        lambda: algorithms.bruck_all_to_all(one.squeeze(), one.squeeze()),
    ]
    collected = []
    for call in calls:
        try:
            call()
        except ValueError as error:
            collected.append(str(error))
        else:
            collected.append("")
    return collected


def test_bad_arguments_are_refused_before_anything_is_sent():
    """A ValueError names the rank, what it found and what it needs."""
    words = [
        "the root is rank 3; need one of [0, 1, 2]",
        "",  # who is outside of the group hears that first
        "segment is 3 bytes; an element has 4",
        "scatter_list has 3 tensors",
        "gather_list has 2 tensors",
        "all_gather of torch.float32 (1,) into torch.float32 (4,)",
        "into torch.float64 (3,); need the same dtype and 3 times the elements",
        "has shape (4,); need a dim 0 that 3 ranks divide",
        "output_split_sizes is [1, 1, 1] for shape (4,)",
        "has shape (); need a dim 0",
    ]
    run = lab.run(refusals, 3)
    for rank, result in enumerate(run.results):
        for sentence, word in zip(result, words, strict=True):
            assert word in sentence
        assert all(f"rank {rank}" in s for s in result if "segment" not in s and s), (
            result
        )
    assert "the root is rank 2; need one of [0, 1]" in run.results[0][1]
    assert len(run.trace) == 0


@pytest.mark.parametrize("world_size", range(1, 18))
def test_the_tree_reaches_everyone_once(world_size):
    """Children know their parent, and subtrees are runs of places."""
    below = {v: children(v, world_size) for v in range(world_size)}
    assert sorted(chain.from_iterable(below.values())) == list(range(1, world_size))
    for v, ranks_below in below.items():
        assert all(parent(child) == v for child in ranks_below)
        assert subtree_size(v, world_size) == 1 + sum(
            subtree_size(c, world_size) for c in ranks_below
        )
