"""The reductions: one battery for every algorithm, and wrong ones that fail it.

A new algorithm's test is its row in algorithm_table.py.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from algorithm_table import ROWS, WORLD_SIZES, names_of
from conftest import Standing
from torch.distributed import ReduceOp

import collectives_lab as lab
from collectives_lab import algorithms, plans
from collectives_lab.algorithms.steps import (
    combination,
    exchange,
    rank_and_size,
    ring_step,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])

ALL_REDUCES, REDUCES, REDUCE_SCATTERS = (
    [getattr(algorithms, name) for name in names_of(verb)]
    for verb in ("all_reduce", "reduce", "reduce_scatter")
)


# -- what is reduced -------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One call: an op on a tensor of this shape (a share's, for reduce_scatter)."""

    shape: tuple[int, ...]
    op: str = "SUM"
    dtype: torch.dtype = torch.float64
    layout: str = "in a row"
    group: str = "world"

    @property
    def reduce_op(self) -> ReduceOp.RedOpType:
        return getattr(ReduceOp, self.op)

    def term(self, rank: int, count: int) -> torch.Tensor:
        """What a rank contributes: small integers, or a power of 4 that names it."""
        at = torch.arange(count)
        if self.op == "SUM" and self.dtype == torch.float64:
            return torch.full((count,), 4.0**rank, dtype=self.dtype)
        if self.op == "PRODUCT":
            return (1 + ((at + rank) % 5 == 0).long()).to(self.dtype)
        values = (at + 3 * rank) % 7
        if self.dtype == torch.int64:
            values += 2**54  # no float64 holds the sum
        return values.to(self.dtype)

    def truth(self, ranks: Sequence[int], count: int) -> torch.Tensor:
        """The result by definition, in numbers that hold it exactly."""
        wide = torch.float64 if self.dtype.is_floating_point else torch.int64
        terms = torch.stack([self.term(r, count).to(wide) for r in ranks])
        if self.op in ("SUM", "AVG"):
            total = terms.sum(0).to(self.dtype)
            return total / len(ranks) if self.op == "AVG" else total
        fold = {
            "PRODUCT": torch.mul,
            "MIN": torch.minimum,
            "MAX": torch.maximum,
            "BAND": torch.bitwise_and,
            "BOR": torch.bitwise_or,
            "BXOR": torch.bitwise_xor,
        }[self.op]
        return reduce(fold, terms.unbind()).to(self.dtype)


def cases(world_size: int) -> list[Case]:
    """Every length, op, dtype and layout, and a group that is not the world.

    Dtypes and layouts do not depend on how many ranks there are: up to 5 will do.
    """
    odd = (world_size + 1,)
    lengths = sorted({0, 1, world_size - 1, world_size, 2 * world_size + 3})
    all_cases = [*(Case((n,)) for n in lengths), Case(odd, "PRODUCT", torch.float32)]
    all_cases.append(Case(odd, group="all but 0"))
    if world_size > 5:
        return all_cases
    ops = ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
    all_cases += [Case(odd, op, torch.int32) for op in ops]
    all_cases += [Case(odd, op, torch.float32) for op in ("SUM", "MIN", "MAX", "AVG")]
    all_cases += [Case(odd, op, torch.bfloat16) for op in ("SUM", "AVG")]
    all_cases += [Case(odd, "SUM", torch.float16), Case(odd, "MAX", torch.uint8)]
    all_cases += [Case(odd, "SUM", torch.int64), Case(())]
    all_cases += [Case((3, 2, 2), layout=name) for name in LAYOUTS]
    return all_cases + [
        Case(odd, op, torch.float32, group="all but 0") for op in ("MIN", "AVG")
    ]


LAYOUTS = {
    "in a row": lambda shape, dtype: torch.zeros(shape, dtype=dtype),
    "backwards": lambda shape, dtype: torch.zeros(shape[::-1], dtype=dtype).permute(
        *range(len(shape))[::-1]
    ),
    "every other": lambda shape, dtype: torch.zeros((*shape, 2), dtype=dtype)[..., 0],
}


def laid_out(case: Case, shape: tuple[int, ...], values: torch.Tensor) -> torch.Tensor:
    """The values in a tensor of this shape and of the case's layout in memory."""
    tensor = LAYOUTS[case.layout](shape, case.dtype)
    return tensor.copy_(values.view(shape))


# -- how a verb is called, on a rank ---------------------------------------------------

Complaint = str


@dataclass(frozen=True)
class Call:
    """A case on this rank, among these ranks of the world."""

    case: Case
    ranks: tuple[int, ...]
    group: dist.ProcessGroup | None

    def compare(self, got: torch.Tensor, want: torch.Tensor) -> list[Complaint]:
        """Say what is wrong with a result; where it can be read, who is missing."""
        wrong = (got.reshape(-1) != want).nonzero().flatten().tolist()
        if not wrong:
            return []
        at = wrong[0]
        value = got.reshape(-1)[at].item()
        named = ""
        if self.case.op == "SUM" and self.case.dtype == torch.float64 and value >= 0:
            digits = [int(value) // 4**r % 4 for r in self.ranks]
            counted = zip(self.ranks, digits, strict=True)
            named = ", ".join(
                f" counts rank {r} {n} times" for r, n in counted if n != 1
            )
        return [
            f"rank {dist.get_rank()}: {self.case}: element {at} is {value}, not "
            f"{want[at].item()}{named}"
        ]


def run_all_reduce(algorithm: Callable, call: Call) -> list[Complaint]:
    """All ranks have the result, in place."""
    case, count = call.case, torch.Size(call.case.shape).numel()
    x = laid_out(case, case.shape, case.term(dist.get_rank(), count))
    algorithm(x, case.reduce_op, group=call.group)
    return call.compare(x, case.truth(call.ranks, count))


def run_reduce(algorithm: Callable, call: Call) -> list[Complaint]:
    """The root has the result, in place; at all others nothing changes."""
    case, count = call.case, torch.Size(call.case.shape).numel()
    wrong = []
    for dst in {call.ranks[0], call.ranks[-1]}:
        own = case.term(dist.get_rank(), count)
        x = laid_out(case, case.shape, own)
        algorithm(x, dst, case.reduce_op, group=call.group)
        is_root = dist.get_rank() == dst
        wrong += call.compare(x, case.truth(call.ranks, count) if is_root else own)
    return wrong


def run_reduce_scatter(algorithm: Callable, call: Call) -> list[Complaint]:
    """Each rank has its share of the result in output; input does not change."""
    case, p = call.case, len(call.ranks)
    each = torch.Size(case.shape).numel()
    shape = (p * case.shape[0], *case.shape[1:]) if case.shape else (p,)
    ours = case.term(dist.get_rank(), p * each)
    x, output = (
        laid_out(case, shape, ours),
        LAYOUTS[case.layout](case.shape, case.dtype),
    )
    algorithm(output, x, case.reduce_op, group=call.group)
    share = case.truth(call.ranks, p * each).view(p, each)
    own = share[call.ranks.index(dist.get_rank())]
    return call.compare(output, own) + call.compare(x, ours)


def battery(algorithm: Callable, run_verb: Callable) -> list[Complaint]:
    """Run all cases of this world size on this rank."""
    ranks = tuple(range(dist.get_world_size()))
    groups = {"world": (ranks, None)}
    if len(ranks) > 1:
        groups["all but 0"] = (ranks[1:], dist.new_group(ranks[1:]))
    wrong = []
    for case in cases(len(ranks)):
        members, group = groups.get(case.group, ((), None))
        if dist.get_rank() in members:
            wrong += run_verb(algorithm, Call(case, members, group))
    return wrong + average_of_integers(algorithm, run_verb, ranks)


def average_of_integers(
    algorithm: Callable, run_verb: Callable, ranks: tuple[int, ...]
) -> list[Complaint]:
    """It is an error, of the type that torch raises."""
    case = Case((5,), "AVG", torch.int32)
    try:
        run_verb(algorithm, Call(case, ranks, None))
    except RuntimeError as error:
        return [] if "torch.int32" in str(error) else [f"unclear: {error}"]
    return [f"rank {dist.get_rank()}: averages integers"]


def complaints(ranks: lab.Ranks, algorithm: Callable, run_verb: Callable) -> str:
    """What all ranks say is wrong; "" where nothing is."""
    run = ranks.run(battery, (algorithm, run_verb), timeout=60)
    return "\n".join(line for each in run.results for line in each)


def named(algorithms_: list[Callable]) -> list:
    return [pytest.param(a, id=a.__name__) for a in algorithms_]


@pytest.mark.parametrize("world_size", WORLD_SIZES)
@pytest.mark.parametrize("algorithm", named(ALL_REDUCES))
def test_an_all_reduce_is_right(
    algorithm: Callable, world_size: int, standing: Standing
) -> None:
    """All ranks end with the reduction, for every length, op, dtype and layout."""
    assert not complaints(standing(world_size), algorithm, run_all_reduce)


@pytest.mark.parametrize("world_size", WORLD_SIZES)
@pytest.mark.parametrize("algorithm", named(REDUCES))
def test_a_reduce_is_right(
    algorithm: Callable, world_size: int, standing: Standing
) -> None:
    """The root ends with the reduction, and nobody else's tensor changes."""
    assert not complaints(standing(world_size), algorithm, run_reduce)


@pytest.mark.parametrize("world_size", WORLD_SIZES)
@pytest.mark.parametrize("algorithm", named(REDUCE_SCATTERS))
def test_a_reduce_scatter_is_right(
    algorithm: Callable, world_size: int, standing: Standing
) -> None:
    """Each rank ends with its share of the reduction, and inputs stay as they are."""
    assert not complaints(standing(world_size), algorithm, run_reduce_scatter)


# -- floating sums ---------------------------------------------------------------------


def floats(rank: int, count: int) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(rank))


def sums_of_floats(algorithms_: list[Callable]) -> dict[str, torch.Tensor]:
    collected = {}
    for algorithm in algorithms_:
        x = floats(dist.get_rank(), 1001)
        algorithm(x)
        collected[algorithm.__name__] = x
    return collected


def differing(results: list[torch.Tensor]) -> list[int]:
    """Ranks whose result has other bits than that of rank 0."""
    bits = [x.view(torch.int32) for x in results]
    return [rank for rank, b in enumerate(bits) if not torch.equal(b, bits[0])]


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_floating_sums(world_size: int) -> None:
    """They are near the truth, and the same on all ranks where that is promised."""
    sums = lab.run(sums_of_floats, world_size, (ALL_REDUCES,)).results
    terms = [floats(rank, 1001) for rank in range(world_size)]
    truth = torch.stack(terms).double().sum(0)
    for name in (algorithm.__name__ for algorithm in ALL_REDUCES):
        by_rank = [by_name[name] for by_name in sums]
        for x in by_rank:
            torch.testing.assert_close(x.double(), truth, rtol=0, atol=1e-4)
        if ROWS[name].same_bits:
            assert not differing(by_rank), f"{name}: ranks with other bits than rank 0"


def test_bits_that_differ_are_found() -> None:
    """The comparison above sees an algorithm in which every rank has its own order."""
    (name,) = (name for name in ROWS if not ROWS[name].same_bits)
    sums = lab.run(sums_of_floats, 5, ([getattr(algorithms, name)],)).results
    assert differing([by_name[name] for by_name in sums])


# -- wrong algorithms ------------------------------------------------------------------


def ring(tensor, op, group, chunks, owner=0):
    """A ring all-reduce in place of these chunks, which are all there is."""
    _, p = rank_and_size(group)
    combine = combination(op, tensor.dtype)
    for k in range(p - 1):
        ring_step(group, range(p), chunks, k, combine)
    for k in range(p - 1, 2 * (p - 1)):
        ring_step(group, range(p), chunks, k + owner, combine)
    if op == ReduceOp.AVG:
        tensor.div_(p)


def drops_the_tail(tensor, op=ReduceOp.SUM, group=None):
    _, p = rank_and_size(group)
    row = tensor.contiguous().view(-1)
    chunks = row[: row.numel() // p * p].view(p, -1).unbind()
    ring(row, op, group, chunks)
    tensor.copy_(row.view(tensor.shape))


def counts_on_torch_chunk(tensor, op=ReduceOp.SUM, group=None):
    row = tensor.contiguous().view(-1)
    ring(row, op, group, row.chunk(rank_and_size(group)[1]))
    tensor.copy_(row.view(tensor.shape))


def pads_with_zeros_and_counts_them(tensor, op=ReduceOp.SUM, group=None):
    """Chunks overlap in nothing but zeros, which is no matter to a sum."""
    _, p = rank_and_size(group)
    row = torch.zeros(p, tensor.numel(), dtype=tensor.dtype)
    row[rank_and_size(group)[0]] = tensor.contiguous().view(-1)
    algorithms.ring_all_reduce(row, ReduceOp.SUM, group)
    combine = combination(op, tensor.dtype)
    result = reduce(combine, [*row.unbind(), torch.zeros_like(row[0])])
    tensor.copy_((result / p if op == ReduceOp.AVG else result).view(tensor.shape))


def receives_into_the_live_slice(tensor, op=ReduceOp.SUM, group=None):
    rank, p = rank_and_size(group)
    row = tensor.contiguous().view(-1)
    combine = combination(op, tensor.dtype)
    for k in range(1, p):
        own = row.clone()
        exchange(group, [(row, (rank - k) % p)], [(own, (rank + k) % p)])
        combine(row, row, out=row)
    if op == ReduceOp.AVG:
        row.div_(p)
    tensor.copy_(row.view(tensor.shape))


def owner_off_by_one(tensor, op=ReduceOp.SUM, group=None):
    row = tensor.contiguous().view(-1)
    ring(row, op, group, row.tensor_split(rank_and_size(group)[1]), owner=1)
    tensor.copy_(row.view(tensor.shape))


def divides_twice(tensor, op=ReduceOp.SUM, group=None):
    algorithms.ring_all_reduce(tensor, op, group)
    if op == ReduceOp.AVG:
        tensor.div_(rank_and_size(group)[1])


def doubles_past_the_end(tensor, op=ReduceOp.SUM, group=None):
    """Right for powers of two; elsewhere some ranks find no partner and go on alone."""
    rank, p = rank_and_size(group)
    row = tensor.contiguous().view(-1)
    combine = combination(op, tensor.dtype)
    for k in range((p - 1).bit_length()):
        peer = rank ^ 2**k
        if peer < p:
            incoming = torch.empty_like(row)
            exchange(group, [(incoming, peer)], [(row, peer)])
            combine(row, incoming, out=row)
    if op == ReduceOp.AVG:
        row.div_(p)
    tensor.copy_(row.view(tensor.shape))


def averages_integers(tensor, op=ReduceOp.SUM, group=None):
    is_average = op == ReduceOp.AVG
    algorithms.ring_all_reduce(tensor, ReduceOp.SUM if is_average else op, group)
    if is_average:
        tensor.copy_(tensor / rank_and_size(group)[1])


def forgets_the_layout(tensor, op=ReduceOp.SUM, group=None):
    algorithms.ring_all_reduce(tensor.contiguous(), op, group)


def sums_in_float32(tensor, op=ReduceOp.SUM, group=None):
    if tensor.dtype.is_floating_point:
        rounded = tensor.float()
        algorithms.ring_all_reduce(rounded, op, group)
        tensor.copy_(rounded)
    else:
        algorithms.ring_all_reduce(tensor, op, group)


def calls_the_world(tensor, op=ReduceOp.SUM, group=None):
    algorithms.ring_all_reduce(tensor, op, None)


def leaves_partial_sums(tensor, dst=0, op=ReduceOp.SUM, group=None):
    algorithms.tree_all_reduce(tensor, op, group)


def takes_dst_for_a_rank_of_the_group(tensor, dst=0, op=ReduceOp.SUM, group=None):
    p = rank_and_size(group)[1]
    dst = dist.get_process_group_ranks(group or dist.group.WORLD)[dst % p]
    algorithms.flat_reduce(tensor, dst, op, group)


def overwrites_its_input(output, input, op=ReduceOp.SUM, group=None):
    rank, p = rank_and_size(group)
    algorithms.tree_all_reduce(input, op, group)
    output.copy_(input.reshape(p, *output.shape)[rank])


def keeps_the_share_of_the_next(output, input, op=ReduceOp.SUM, group=None):
    p = rank_and_size(group)[1]
    moved = input.reshape(p, *output.shape).roll(-1, 0)
    algorithms.ring_reduce_scatter(output, moved, op, group)


@pytest.mark.parametrize(
    "wrong, run_verb, world_size, message",
    [
        (drops_the_tail, run_all_reduce, 3, "element 0 is 4.0, not 21.0"),
        (counts_on_torch_chunk, run_all_reduce, 4, "IndexError"),
        (pads_with_zeros_and_counts_them, run_all_reduce, 2, "PRODUCT"),
        (receives_into_the_live_slice, run_all_reduce, 3, "counts rank 0 "),
        (owner_off_by_one, run_all_reduce, 3, "counts rank "),
        (divides_twice, run_all_reduce, 2, "AVG"),
        (doubles_past_the_end, run_all_reduce, 3, "counts rank 2 0 times"),
        (averages_integers, run_all_reduce, 2, "averages integers"),
        (forgets_the_layout, run_all_reduce, 2, "backwards"),
        (sums_in_float32, run_all_reduce, 13, "SUM"),
        (calls_the_world, run_all_reduce, 3, "rank 0"),
        (leaves_partial_sums, run_reduce, 2, "element 0 is 5.0, not 1.0"),
        (takes_dst_for_a_rank_of_the_group, run_reduce, 3, "all but 0"),
        (overwrites_its_input, run_reduce_scatter, 2, "element 0 is 5.0, not 1.0"),
        (keeps_the_share_of_the_next, run_reduce_scatter, 3, "MAX"),
    ],
)
def test_a_wrong_algorithm_fails(
    wrong: Callable,
    run_verb: Callable,
    world_size: int,
    message: str,
    standing: Standing,
) -> None:
    """The battery finds it, and says what is wrong."""
    try:
        complaint = complaints(standing(world_size), wrong, run_verb)
    except lab.LabError as error:
        complaint = str(error)
    assert message in complaint


def test_powers_of_two_hide_a_missing_fold(standing: Standing) -> None:
    """The world sizes of the battery matter: on 4 ranks that wrong one is right."""
    assert "counts" not in complaints(standing(2), doubles_past_the_end, run_all_reduce)


# -- bad arguments ---------------------------------------------------------------------


def refused(call: Callable[[], None]) -> tuple[str, str]:
    """The type and the text of the error that a call raises."""
    try:
        call()
    except (ValueError, RuntimeError) as error:
        return type(error).__name__, str(error)
    return "", ""


def bad_calls() -> dict[str, tuple[str, str]]:
    x, scaled = torch.ones(6), dist._make_nccl_premul_sum(2.0)
    other = dist.new_group([1])
    collected = {}
    for algorithm in (*ALL_REDUCES, *REDUCES):
        collected[algorithm.__name__] = refused(lambda a=algorithm: a(x, op=scaled))
    for algorithm in REDUCE_SCATTERS:
        collected[algorithm.__name__] = refused(lambda a=algorithm: a(x[:3], x, scaled))
        uneven = refused(lambda a=algorithm: a(x[:4], x))
        collected[f"{algorithm.__name__}, uneven"] = uneven
        collected[f"{algorithm.__name__}, dtypes"] = refused(
            lambda a=algorithm: a(x[:3].double(), x)
        )
    nodes = refused(lambda: algorithms.hierarchical_all_reduce(x, ranks_per_node=3))
    segment = refused(lambda: algorithms.ring_all_reduce(x, segment=3))
    bits = refused(lambda: algorithms.ring_all_reduce(x, ReduceOp.BAND))
    collected |= {"nodes": nodes, "segment": segment, "bits": bits}
    collected["root"] = refused(lambda: algorithms.flat_reduce(x, dst=2))
    if dist.get_rank() == 0:
        collected["group"] = refused(lambda: algorithms.ring_all_reduce(x, group=other))
    return collected


def test_a_bad_call_is_refused_before_anything_is_sent() -> None:
    """The error names the rank, what was found and the rule; nobody is left waiting."""
    run = lab.run(bad_calls, 2)
    texts = run.results[0]
    for name, (kind, text) in texts.items():
        assert kind == ("RuntimeError" if name == "bits" else "ValueError"), name
        assert "rank 0" in text, name
    assert "(6,) into torch.float32 (4,)" in texts["ring_reduce_scatter, uneven"][1]
    assert "ranks_per_node is 3" in texts["nodes"][1]
    assert "segment is 3 bytes; an element has 4" in texts["segment"][1]
    assert len(run.trace) == 0


def test_the_errors_of_torch_have_the_same_types() -> None:
    """Gloo refuses averages of integers, and bits of floats, by a RuntimeError too."""

    def by_torch() -> list[str]:
        ints, floats = torch.ones(2, dtype=torch.int32), torch.ones(2)
        return [
            refused(lambda: dist.all_reduce(ints, ReduceOp.AVG))[0],
            refused(lambda: dist.all_reduce(floats, ReduceOp.BAND))[0],
        ]

    assert lab.run(by_torch, 2).results == [["RuntimeError"] * 2] * 2


# -- segments --------------------------------------------------------------------------


def in_segments(segment: int | None, names: list[str]) -> list[torch.Tensor]:
    collected = []
    for algorithm in (getattr(algorithms, name) for name in names):
        for count in (0, 1, 2, 37):
            x = torch.full((count,), 4.0 ** dist.get_rank(), dtype=torch.float64)
            algorithm(x, segment=segment)
            collected.append(x)
    return collected


@pytest.mark.parametrize("world_size", [1, 2, 3, 6])
def test_segments_of_any_size(world_size: int) -> None:
    """A chunk in many messages, the last one shorter, ends as in one."""
    truth = (4**world_size - 1) / 3
    names = [name for name in names_of("all_reduce") if ROWS[name].options]
    for segment in (20, 64, None):
        for result in lab.run(in_segments, world_size, (segment, names)).results:
            assert all((x == truth).all() for x in result)


def moved(run_or_plan: lab.Run | lab.Trace, op: str) -> list[list[tuple[int, int]]]:
    """Peer and bytes of the sends, or of the recvs, in order and by rank."""
    trace = run_or_plan.trace if isinstance(run_or_plan, lab.Run) else run_or_plan
    events = (trace.of_rank(rank) for rank in range(trace.world_size))
    return [
        [(e.peer or 0, e.nbytes) for e in of_rank if e.op == op] for of_rank in events
    ]


def test_a_large_chunk_goes_in_segments_of_a_mebibyte() -> None:
    """Unless asked otherwise, so that adding one overlaps with receiving another."""
    count = 2**19 * 3 + 1

    def large() -> None:
        algorithms.ring_all_reduce(torch.zeros(count))

    run = lab.run(large, 2)
    plan = plans.ring_all_reduce(2, count * 4, 4, segment=2**20)
    assert moved(run, "send") == moved(plan, "send")
    assert moved(run, "recv") == moved(plan, "recv")
    assert moved(run, "send") != moved(plans.ring_all_reduce(2, count * 4, 4), "send")
