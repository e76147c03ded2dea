"""Act = plan: what a run records is what was planned, call by call.

Over every algorithm there is; test_plans.py holds the plans to the formulas.
"""

import sys

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from algorithm_table import ROWS
from test_plans import (
    NAMES,
    counts_of,
    options_of,
    owner_off_by_one,
    roots_of,
    tail_dropped,
    whole_tensor_instead_of_chunk,
)

from collectives_lab import algorithms, plans
from collectives_lab.basics.verbs import verb_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def act(move, verb, count, dtype=torch.float32, root=0, **options):
    """Call an algorithm as its verb is called, on a tensor of `count` elements."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    whole = torch.ones(count, dtype=dtype)
    part, *_ = parts = [*whole.clone().tensor_split(world_size)]
    listed = parts if rank == root else None
    arguments = {
        "broadcast": (whole, root),
        "reduce": (whole, root),
        "scatter": (part.clone(), listed, root),
        "gather": (part.clone(), listed, root),
        "all_gather": (whole, part),
        "reduce_scatter": (part, whole),
        "all_to_all": (whole.clone(), whole),
        "all_reduce": (whole,),
    }[verb]
    move(*arguments, **options)


def calls(trace, rank):
    return [(e.op, e.peer, e.nbytes) for e in trace.of_rank(rank)]


def by_direction(made):
    return sorted(made, key=lambda call: call[0])


def differing(ranks, name, plan=None, move=None):
    """The cases in which what the act records on these ranks is not the plan."""
    world_size = ranks.world_size
    plan = plan or getattr(plans, name)
    move, verb = move or getattr(algorithms, name), verb_of(name)
    cases = [
        (count, dtype, where | options)
        for where in roots_of(name, world_size)
        for options in options_of(name)
        for count in counts_of(name, world_size)
        for dtype in (torch.float32, torch.float64)
    ]

    def all_cases():
        for count, dtype, options in cases:
            act(move, verb, count, dtype, **options)

    trace = ranks.run(all_cases).trace
    collected = []
    for rank in range(world_size):
        made = calls(trace, rank)
        for count, dtype, options in cases:
            size = dtype.itemsize
            planned = calls(plan(world_size, count * size, size, **options), rank)
            given, made = made[: len(planned)], made[len(planned) :]
            if not ROWS[name].in_step:  # sends and receives each keep their own order
                given, planned = by_direction(given), by_direction(planned)
            if given != planned:
                collected.append((rank, count, dtype, options))
        if made:
            collected.append((rank, "calls that are not in the plan", made))
    return collected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_what_is_recorded_is_the_plan(name, world_size, standing):
    """Each rank calls what the plan has for it, in its order: op, peer and bytes."""
    assert not differing(standing(world_size), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("world_size", [5, 6, 8, 12])
def test_what_is_recorded_is_the_plan_on_many_ranks(name, world_size, standing):
    """The same on more ranks than a laptop has cores."""
    assert not differing(standing(world_size), name)


@pytest.mark.parametrize(
    "wrong", [owner_off_by_one, whole_tensor_instead_of_chunk, tail_dropped]
)
def test_a_wrong_plan_is_not_what_is_recorded(wrong, standing):
    """The recorded calls of the right algorithm differ from the wrong plan."""
    assert differing(standing(4), "scatter_all_gather_broadcast", plan=wrong)


def whole_ring(tensor, root=0):
    """A broadcast by a ring of whole tensors, with the right result."""
    algorithms.chain_broadcast(tensor, root, segment=None)


def without_its_tail(tensor, root=0):
    size = dist.get_world_size()
    kept = tensor[: tensor.numel() // size * size]
    algorithms.scatter_all_gather_broadcast(kept, root)


def by_the_library(tensor, root=0):
    dist.broadcast(tensor, root)


@pytest.mark.parametrize("wrong", [whole_ring, without_its_tail, by_the_library])
def test_a_wrong_act_is_not_the_plan(wrong, standing):
    """Right results are not enough: what moved has to be what was planned."""
    assert differing(standing(4), "scatter_all_gather_broadcast", move=wrong)
