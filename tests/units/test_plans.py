"""Plan = cost: one battery over every algorithm there is, and no torch.

A plan reaches everyone it must and wastes nothing where it says so, and replayed it
takes what the formula says. That it is what a run records is held in
test_recorded_as_planned.py.
"""

import inspect
import re
from functools import cache

import numpy as np
import pytest
from algorithm_table import ROWS, power_of_two, uncut

import collectives_lab as lab
from collectives_lab import costs, fabrics, plans
from collectives_lab.basics import verbs
from collectives_lab.basics.verbs import verb_of
from collectives_lab.plans import steps
from collectives_lab.plans.steps import Steps, all_gather_chunks, share
from collectives_lab.replay import replay
from collectives_lab.trace import bound

EVEN = {"all_gather", "all_to_all", "gather", "reduce_scatter", "scatter"}
"""Verbs whose tensor is P equal shares, so that P divides its elements."""

ROOTED = {"broadcast", "gather", "reduce", "scatter"}
VERBS = EVEN | ROOTED | {"all_reduce"}

NAMES = list(ROWS)
OPTIMAL = [name for name in NAMES if ROWS[name].optimal]
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)


def options_of(name):
    return [{}, *ROWS[name].options]


def roots_of(name, world_size):
    """Roots to try, as options; none where the verb has no root."""
    some = {0, world_size // 2, world_size - 1}
    return [{"root": r} for r in some] if verb_of(name) in ROOTED else [{}]


def counts_of(name, world_size):
    """Numbers of elements to try: few, fewer than ranks, ones that nothing divides."""
    if verb_of(name) in EVEN:
        return [world_size * n for n in (0, 1, 7)]
    return [0, *uneven(world_size), even(world_size)]


def uneven(world_size):
    """Few elements, fewer than ranks, and ones that nothing divides."""
    return [1, max(world_size - 1, 2), 2 * world_size + 1, 37]


def even(world_size):
    """Elements that cut evenly, however an algorithm cuts them."""
    return 4 * world_size * power_of_two(world_size)


# -- a plan reaches everyone it must ---------------------------------------------------


def least(verb, world_size, nbytes, rank, root):
    """Bytes (sent, received) without which a rank cannot have taken part."""
    share, rest = nbytes / world_size, nbytes * (world_size - 1) / world_size
    at_root, elsewhere = {
        "broadcast": ((nbytes, 0), (0, nbytes)),
        "reduce": ((0, nbytes), (nbytes, 0)),
        "scatter": ((rest, 0), (0, share)),
        "gather": ((0, rest), (share, 0)),
        "all_gather": ((share, rest),) * 2,
        "reduce_scatter": ((rest, share),) * 2,
        "all_to_all": ((rest, rest),) * 2,
        "all_reduce": ((nbytes, nbytes),) * 2,
    }[verb]
    if world_size == 1:
        return 0, 0
    return at_root if rank == root else elsewhere


def heard(trace):
    """By rank, the ranks that it can have heard of when the plan has run."""
    known = [{rank} for rank in range(trace.world_size)]
    columns, sends = trace.columns, trace.is_op("send")
    issued, rank, peer = (columns[n][sends] for n in ("issued", "rank", "peer"))
    for step in np.unique(issued):
        before = [set(ranks) for ranks in known]
        now = issued == step
        for a, b in zip(rank[now].tolist(), peer[now].tolist(), strict=True):
            known[b] |= before[a]
    return known


def faults(trace, verb, nbytes, root=0):
    """What is wrong with a plan of a verb, in words."""
    found = []
    ops, everyone = trace.ops(), set(range(trace.world_size))
    columns, (sends, recvs) = trace.columns, trace.pairs()
    if set(ops) - {"send", "recv"}:
        found.append("there are calls that are no sends and no receives")
    if not len(sends) == ops.get("send", 0) == ops.get("recv", 0):
        found.append("not every send has its receive")
    if (columns["nbytes"][sends] != columns["nbytes"][recvs]).any():
        found.append("a message is sent and received in different sizes")
    if (columns["rank"][sends] == columns["peer"][sends]).any():
        found.append("a rank sends to itself")
    if not columns["nbytes"][sends].all():
        found.append("nothing is sent, as a message")
    pairs = zip(trace.bytes_sent(), trace.bytes_received(), strict=True)
    for rank, (sent, received) in enumerate(pairs):
        needed = least(verb, trace.world_size, nbytes, rank, root)
        if sent < needed[0] or received < needed[1]:
            found.append(f"rank {rank} moves too little")
    known = heard(trace)
    if verb in ("broadcast", "scatter") and not all(root in ranks for ranks in known):
        found.append("not everyone hears of the root")
    elif verb in ("gather", "reduce") and known[root] != everyone:
        found.append("the root does not hear of everyone")
    elif verb not in ROOTED and any(ranks != everyone for ranks in known):
        found.append("not everyone hears of everyone")
    return found if nbytes else [f for f in found if "hear" not in f]


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_reaches_everyone_it_must(name):
    """Sends meet receives, data can get where the verb wants it, nobody is left out."""
    plan, verb = getattr(plans, name), verb_of(name)
    for p in SIZES:
        for where in roots_of(name, p):
            for options in options_of(name):
                for count in counts_of(name, p):
                    trace = plan(p, 8 * count, 8, **where, **options)
                    assert not faults(trace, verb, 8 * count, **where), (p, count)


def says_optimal(plan):
    return bool(re.search(r"\b(is|an) optimal\b", " ".join(plan.__doc__.split())))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_optimal_says_so(name):
    """The docstring of a plan claims what the table here holds it to, and only that."""
    assert says_optimal(getattr(plans, name)) == (name in OPTIMAL)


def excess(trace, name, nbytes, root=None):
    """Bytes sent beyond the bound that the name is held to; the root's received too."""
    ranks = range(trace.world_size)
    least = [bound(verb_of(name), nbytes, rank, root, ranks) for rank in ranks]
    sent, received = trace.bytes_sent(), trace.bytes_received()
    how = ROWS[name].optimal
    if how == "total":
        return sum(sent) - sum(b for b, _ in least)
    if how == "root":
        return sent[root] - least[root][0] + received[root] - least[root][1]
    return sum(abs(a - b) for a, (b, _) in zip(sent, least, strict=True))


@pytest.mark.parametrize("name", OPTIMAL)
def test_an_optimal_plan_sends_what_its_bound_says(name):
    """Not a byte more, at every world size and root that the docstring speaks of."""
    for p in SIZES:
        if ROWS[name].optimal == "power of two" and p != power_of_two(p):
            continue
        nbytes = 4 * even(p)
        for where in roots_of(name, p):
            for options in options_of(name):
                trace = getattr(plans, name)(p, nbytes, 4, **where, **options)
                assert excess(trace, name, nbytes, **where) == 0, (p, where)


# -- the plan replayed takes what the formula says -------------------------------------

LINKS = [(1.0, 0.125), (0.0, 1e-9), (1e-5, 0.0)]
"""alpha and beta: whole numbers, and each of the two alone."""

uniform = cache(fabrics.uniform)


def gaps(plan, cost, name, world_size, count, **options):
    """By how much the plan replayed is longer than its cost, over the cost."""
    found = []
    nbytes, where = 8 * count, roots_of(name, world_size)[-1]
    trace = plan(world_size, nbytes, 8, **where, **options)
    for alpha, beta in LINKS:
        took = replay(trace, uniform(world_size, alpha, beta)).elapsed
        said = cost(world_size, nbytes, alpha, beta, **options)
        found.append((took - said) / said if said else took)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_replayed_takes_what_its_formula_says(name):
    """To 1e-9 where the formula is exact, and elsewhere never longer."""
    plan, cost = getattr(plans, name), getattr(costs, name)
    for p in SIZES:
        for options in options_of(name):
            for count in (0, 3 * even(p)):
                for gap in gaps(plan, cost, name, p, count, **options):
                    assert gap <= 1e-9, (p, count, options)
                    assert gap >= -1e-9 or not ROWS[name].exact(p), (p, count, options)


@pytest.mark.parametrize("name", [n for n in NAMES if verb_of(n) not in EVEN])
def test_uneven_chunks_take_no_longer_than_even_ones(name):
    """At most what S rounded up to even chunks takes; without chunks exactly that."""
    plan, is_exact = getattr(plans, name), ROWS[name].chunks is uncut

    def rounded_up(world_size, nbytes, *link, **options):
        even_chunks = 8 * ROWS[name].chunks(world_size)
        up = -(-nbytes // even_chunks) * even_chunks
        return getattr(costs, name)(world_size, up, *link, **options)

    for p in SIZES:
        for options in options_of(name):
            for count in uneven(p):
                for gap in gaps(plan, rounded_up, name, p, count, **options):
                    assert gap <= 1e-9, (p, count, options)
                    assert gap >= -1e-9 or not is_exact, (p, count, options)


@pytest.mark.parametrize("name", NAMES)
def test_a_formula_takes_arrays_and_numbers(name):
    """World sizes and bytes are broadcast, up to 10^6 ranks; numbers give a float."""
    cost = getattr(costs, name)
    ranks = np.array([1, 2, 3, 8, 1000, 2**20 - 1, 10**6])
    nbytes = np.array([0, 1, 10**6, 10**15])
    table = cost(ranks[:, None], nbytes, 1e-6, 1e-10)
    assert table.shape == (7, 4)
    assert (table[0] == 0).all() and (table[:, 0] == 0).all()
    assert (table[1:, 1:] > 0).all()
    for row, p in zip(table, ranks.tolist(), strict=True):
        one = [cost(p, n, 1e-6, 1e-10) for n in nbytes.tolist()]
        assert one == row.tolist()
        assert all(type(seconds) is float for seconds in one)


# -- wrong ones: each has to fail ------------------------------------------------------


def broadcast_by_ring(world_size, nbytes, itemsize, root, chunks):
    """The plan of scatter_all_gather_broadcast with other chunks in its ring."""
    whole = plans.scatter_all_gather_broadcast(world_size, nbytes, itemsize, root)
    scatter = [e for e in whole.events if e.issued < 2 * (world_size - 1).bit_length()]
    steps = Steps(world_size)
    for step in sorted({e.issued for e in scatter}):
        sends = [e for e in scatter if e.issued == step and e.op == "send"]
        columns = zip(*[(e.rank, e.peer, e.nbytes) for e in sends], strict=True)
        steps.step(*map(list, columns))
    all_gather_chunks(steps, chunks, root)
    return steps.trace()


def owner_off_by_one(world_size, nbytes, itemsize=1, root=0):
    chunks = share(nbytes // itemsize, world_size) * itemsize
    return broadcast_by_ring(world_size, nbytes, itemsize, root, np.roll(chunks, 1))


def whole_tensor_instead_of_chunk(world_size, nbytes, itemsize=1, root=0):
    chunks = np.full(world_size, nbytes)
    return broadcast_by_ring(world_size, nbytes, itemsize, root, chunks)


def tail_dropped(world_size, nbytes, itemsize=1, root=0):
    each = nbytes // itemsize // world_size * itemsize
    chunks = np.full(world_size, each)
    return broadcast_by_ring(world_size, each * world_size, itemsize, root, chunks)


def rank_skipped(world_size, nbytes, itemsize=1, root=0):
    steps = Steps(world_size)
    steps.step(root, (root + np.arange(1, world_size - 1)) % world_size, nbytes)
    return steps.trace()


def sent_to_oneself(world_size, nbytes, itemsize=1, root=0):
    steps = Steps(world_size)
    steps.step(root, np.arange(world_size), nbytes)
    return steps.trace()


def before_it_came(world_size, nbytes, itemsize=1, root=0):
    """A chain in which everyone passes on what it does not have yet."""
    steps = Steps(world_size)
    v = np.arange(world_size - 1)
    steps.step((root + v) % world_size, (root + v + 1) % world_size, nbytes)
    return steps.trace()


WRONG = [tail_dropped, rank_skipped, sent_to_oneself, before_it_came]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_plan_that_leaves_something_out_is_found(wrong):
    """A lost tail, a skipped rank, a message to oneself, one sent before it came."""
    nbytes = 8 * 37
    assert not faults(plans.flat_broadcast(5, nbytes, 8), "broadcast", nbytes)
    assert faults(wrong(5, nbytes, 8), "broadcast", nbytes)


def test_a_message_that_nobody_takes_is_found():
    """A plan whose last receive is missing fails the first of the tests above."""
    trace = plans.ring_all_gather(4, 64)
    events = list(trace.events)
    last = max(i for i, e in enumerate(events) if e.op == "recv")
    kept = lab.Trace.from_events([e for i, e in enumerate(events) if i != last], 4)
    assert "not every send has its receive" in faults(kept, "all_gather", 64)


@pytest.mark.parametrize("wrong", [whole_tensor_instead_of_chunk, rank_skipped])
def test_a_wrong_plan_does_not_take_what_the_formula_says(wrong):
    """Neither too much nor too little passes for the cost."""
    name = "scatter_all_gather_broadcast"
    plan, cost = getattr(plans, name), getattr(costs, name)
    assert all(abs(gap) <= 1e-9 for gap in gaps(plan, cost, name, 6, 48))
    assert any(abs(gap) > 1e-9 for gap in gaps(wrong, cost, name, 6, 48))


def test_bytes_beyond_the_bound_are_found():
    """A plan that sends whole tensors is not optimal, and recursive doubling on 6."""
    whole = plans.whole_ring_all_reduce(4, 64)
    assert excess(whole, "ring_all_reduce", 64) > 0
    paired = plans.recursive_doubling_all_gather(6, 24 * 8)
    assert excess(paired, "ring_all_gather", 24 * 8) > 0
    tree = plans.binomial_broadcast(8, 64)
    assert excess(tree, "chain_broadcast", 64, 0) > 0
    assert excess(tree, "binomial_broadcast", 64, 0) == 0


# -- names and arguments ---------------------------------------------------------------


def test_an_algorithm_has_one_file_name_and_one_row():
    """Plan, act and cost lie in `<verb>.py`, and the table has all and only these."""
    for room in (plans, lab.algorithms, costs):
        assert sorted(room.__all__) == sorted(NAMES)
        assert set(NAMES) <= set(dir(room))
        for name in NAMES:
            home = f"{room.__name__}.{verb_of(name)}"
            assert getattr(room, name).__module__ == home


def test_every_name_exists_three_times():
    """Plan, act and cost have one name, and every verb has its algorithms."""
    acts, formulas = set(lab.algorithms.__all__), set(costs.__all__)
    assert acts == formulas == set(plans.__all__)
    assert {verb_of(name) for name in NAMES} == VERBS == set(verbs.VERBS)
    for name in NAMES:
        planned, cost = (
            inspect.signature(getattr(m, name)).parameters for m in (plans, costs)
        )
        assert list(planned)[:3] == ["world_size", "nbytes", "itemsize"]
        assert list(cost)[:4] == ["world_size", "nbytes", "alpha", "beta"]
        assert ("root" in planned) == (verb_of(name) in ROOTED)


@pytest.mark.parametrize("name", NAMES)
def test_sizes_that_no_tensor_has_are_refused(name):
    """A ValueError says what was found and what is needed."""
    plan, cost = getattr(plans, name), getattr(costs, name)
    for bad, words in [
        ((0, 8), "world_size is 0"),
        ((2, -8), "nbytes is -8"),
        ((2, 6, 4), "nbytes is 6; need a multiple of itemsize"),
        ((2, 8, 0), "itemsize is 0"),
    ]:
        with pytest.raises(ValueError, match=words):
            plan(*bad)
    for bad, words in [
        ((0, 8, 1, 1), "world_size is 0; need whole ranks, 1 or more"),
        ((2.5, 8, 1, 1), "world_size is 2.5"),
        ((2, -8, 1, 1), "nbytes is -8; need 0 or more"),
        ((2, 8, -1, 1), "alpha is -1"),
        ((2, 8, 1, float("nan")), "beta is nan"),
    ]:
        with pytest.raises(ValueError, match=words):
            cost(*bad)


@pytest.mark.parametrize("name", [n for n in NAMES if verb_of(n) in ROOTED])
def test_a_root_is_one_of_the_ranks(name):
    """A root beyond the world is refused with the world's size."""
    for root in (-1, 4):
        with pytest.raises(ValueError, match=f"root is rank {root} of 4; need 0 <= r"):
            getattr(plans, name)(4, 16, root=root)


@pytest.mark.parametrize("name", [n for n in NAMES if verb_of(n) in EVEN])
def test_shares_are_equal(name):
    """Elements that the ranks do not divide are refused where the verb moves shares."""
    with pytest.raises(ValueError, match="nbytes is 20, 5 elements for 3 ranks"):
        getattr(plans, name)(3, 20, 4)


@pytest.mark.parametrize("name", [n for n in NAMES if ROWS[n].options])
def test_a_segment_holds_an_element(name):
    """A segment smaller than an element is refused, and one of no bytes in a cost."""
    with pytest.raises(ValueError, match="segment is 4 bytes"):
        getattr(plans, name)(3, 24 * 8, 8, segment=4)
    with pytest.raises(ValueError, match="segment is 0 bytes"):
        getattr(costs, name)(3, 24 * 8, 1, 1, segment=0)


def test_whole_numbers_of_numpy_are_whole_numbers():
    """Sizes and ranks out of an array do as well as Python's own."""
    for name in NAMES:
        planned = getattr(plans, name)
        assert planned(np.int64(4), np.int64(960), 4) == planned(4, 960, 4)


@pytest.mark.parametrize("wrong", [4.0, True, "4", None])
def test_a_world_size_is_a_whole_number(wrong):
    """Anything else is refused in words, by every plan."""
    for name in NAMES:
        with pytest.raises(ValueError, match="need a whole number"):
            getattr(plans, name)(wrong, 64)


def test_a_plan_that_has_no_room_is_refused(monkeypatch) -> None:
    """Before memory is gone it says how many messages, and what to use instead."""
    monkeypatch.setattr(steps, "free_memory", lambda: 13 * 10**7)
    assert len(plans.ring_all_reduce(512, 512)) == 2 * 2 * 511 * 512
    with pytest.raises(ValueError, match=r"up to 8,384,512 messages.*`costs`"):
        plans.ring_all_reduce(2048, 2048)
    with pytest.raises(ValueError, match=r"up to 4,194,303 messages.*`costs`"):
        plans.scatter_all_gather_broadcast(2048, 2048)
    monkeypatch.setattr(steps, "CHECKED", 1)
    monkeypatch.setattr(steps, "free_memory", lambda: 10**6)
    assert len(plans.ring_all_reduce(500, 2)) == 2 * 2 * 2 * 499  # of two chunks


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("world_size", [64, 48])
def test_a_plan_knows_before_how_many_messages_it_has(name, world_size, monkeypatch):
    """As many as it then has, so that nothing is built in vain."""
    plan, nbytes = getattr(plans, name), 64 * 48
    messages = len(plan(world_size, nbytes)) // 2
    monkeypatch.setattr(steps, "CHECKED", 1)
    monkeypatch.setattr(steps, "free_memory", lambda: 0)
    with pytest.raises(ValueError, match=f"has up to {messages:,} messages"):
        plan(world_size, nbytes)


@pytest.mark.parametrize(
    "name", ["ring_all_reduce", "double_tree_all_reduce", "chain_broadcast"]
)
def test_segments_are_counted_before_they_are_cut(name) -> None:
    """A terabyte in pieces of one byte is refused at once."""
    with pytest.raises(ValueError, match=r"has up to [\d,]+ messages, .*`costs`"):
        getattr(plans, name)(4, 2**40, segment=1)
