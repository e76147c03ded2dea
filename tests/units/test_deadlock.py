"""The wait-for graph: only ranks that can never move are accused, and all of those."""

import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

import pytest

from collectives_lab.basics.rank_sets import name_ranks
from collectives_lab.deadlock import (
    Snapshot,
    Waiting,
    balanced,
    explain,
    find_cycle,
    stuck_ranks,
    waits_for,
)
from collectives_lab.deadlock import wait_for_graph as deadlock

# -- a small world in which programs run by the rules -------------------------------

WORLD = (0, 1, 2, 3)
GROUPS = {"0": WORLD, "a": (0, 1, 2), "b": (1, 2, 3), "t": WORLD}
ROOTED = deadlock.GATHERING | deadlock.SPREADING


def send(dst, tag=0):
    return {"op": "send", "peer": dst, "tag": tag}


def recv(src=None, tag=0):
    return {"op": "recv", "peer": src, "tag": tag}


def isend(dst, tag=0):
    return send(dst, tag) | {"later": True}


def irecv(src=None, tag=0):
    return recv(src, tag) | {"later": True}


def wait(number=0):
    """Wait for the number-th isend or irecv of this thread."""
    return {"op": "wait", "number": number}


def call(op, group="0", root=None, empty=False):
    return {"op": op, "group": group, "root": root, "empty": empty}


@dataclass
class Post:
    """One send or recv or collective that a rank has begun."""

    rank: int
    waiting: Waiting
    matched: bool = False
    source: int | None = None


@dataclass
class Thread:
    """A program and how far it has come."""

    rank: int
    program: list[dict]
    at: int = 0
    blocked: Post | None = None
    begun: list[Post] = field(default_factory=list)

    @property
    def finished(self):
        return self.blocked is None and self.at == len(self.program)


class Model:
    """A scheduler of rendezvous sends, of recvs, and of collectives.

    eager: a collective ends for a rank as soon as any library could let it; else only
    once all members have come.
    """

    def __init__(self, programs, eager=True, rng=None):
        """Take the programs by rank: a list of calls, or a list of threads' lists."""
        self.eager = eager
        self.rng = rng or random.Random(0)
        everyone = range(len(programs))
        self.groups = {n: [r for r in g if r in everyone] for n, g in GROUPS.items()}
        self.threads = []
        for rank, program in enumerate(programs):
            threaded = bool(program) and isinstance(program[0], list)
            for part in program if threaded else [program]:
                self.threads.append(Thread(rank, part))
        self.posts = []
        self.posted = defaultdict(Counter)
        self.collectives = defaultdict(Counter)
        self.taken = defaultdict(Counter)
        self.steps = Counter()

    def can_step(self, thread):
        if thread.blocked is not None:
            return self._over(thread.blocked)
        return thread.at < len(thread.program)

    def step(self, thread):
        """End the call that blocks, or begin the next one."""
        self.steps[thread.rank] += 1
        if thread.blocked is not None:
            self._end(thread.blocked)
            thread.blocked = None
            return
        what = thread.program[thread.at]
        thread.at += 1
        if what["op"] == "wait":
            thread.blocked = thread.begun[what["number"]]
            return
        post = self._post(thread.rank, dict(what), f"p.py:{thread.at}")
        if what.get("later"):
            thread.begun.append(post)
        else:
            thread.blocked = post

    def run(self, most=10_000):
        """Go on in a random order until nobody can move, or for so many steps."""
        for _ in range(most):
            able = [t for t in self.threads if self.can_step(t)]
            if not able:
                break
            self.step(self.rng.choice(able))
        return self

    def _post(self, rank, what, where):
        what.pop("later", None)
        op, group = what["op"], what.setdefault("group", "0")
        if op in ("send", "recv"):
            key = (op, group, what["peer"], what["tag"])
            self.posted[rank][key] += 1
            number = self.posted[rank][key]
        else:
            self.collectives[rank][group] += 1
            number = self.collectives[rank][group]
        post = Post(rank, Waiting(**what, number=number, where=where))
        self.posts.append(post)
        self._match(post)
        return post

    def _match(self, post):
        """Let a new send or recv meet the oldest that fits it."""
        w = post.waiting
        if w.op not in ("send", "recv"):
            return
        fitting = {}
        for other in self.posts:
            pair = (post, other) if w.op == "send" else (other, post)
            if not other.matched and {w.op, other.waiting.op} == {"send", "recv"}:
                src, dst = pair
                if (
                    src.waiting.peer == dst.rank
                    and dst.waiting.peer in (None, src.rank)
                    and src.waiting.tag == dst.waiting.tag
                    and src.rank != dst.rank
                ):
                    fitting.setdefault(other.rank, pair)
        if fitting:
            src, dst = self.rng.choice(list(fitting.values()))
            src.matched = dst.matched = True
            dst.source = src.rank

    def _over(self, post):
        w = post.waiting
        if w.op in ("send", "recv"):
            return post.matched
        members = self.groups[w.group]
        come = [r for r in members if self.collectives[r][w.group] >= w.number]
        everybody = come == members
        if everybody or not self.eager or w.op in deadlock.SYMMETRIC:
            return everybody or (self.eager and w.empty)
        if w.op in deadlock.GATHERING:
            return w.root != post.rank or w.empty
        return w.root in come or w.empty

    def _end(self, post):
        """What the recorder does at the end of a recv."""
        w = post.waiting
        if w.op == "recv":
            self.taken[post.rank][w.group, w.tag] += 1
            if w.peer is None:
                self.posted[post.rank]["recv", w.group, None, w.tag] -= 1
                self.posted[post.rank]["recv", w.group, post.source, w.tag] += 1

    @property
    def blocked(self):
        """Ranks with a thread that waits and none that can move by itself."""
        calls = defaultdict(list)
        for t in self.threads:
            calls[t.rank].append(t)
        return sorted(
            rank
            for rank, threads in calls.items()
            if all(t.finished or t.blocked for t in threads)
            and any(t.blocked for t in threads)
        )

    def snapshots(self):
        """What the launcher sees: the ranks that wait and those that have finished."""
        collected = []
        for rank in sorted({t.rank for t in self.threads}):
            own = [t for t in self.threads if t.rank == rank]
            if all(t.finished or t.blocked for t in own):
                collected.append(
                    Snapshot(
                        rank,
                        dict(self.posted[rank]),
                        dict(self.collectives[rank]),
                        dict(self.taken[rank]),
                        {n: g for n, g in self.groups.items() if rank in g},
                        tuple(t.blocked.waiting for t in own if t.blocked),
                        all(t.finished for t in own),
                    )
                )
        return collected


def end_of(*programs, **options):
    """The snapshots of a world of these programs in which nobody can move any more."""
    return Model(programs, **options).run().snapshots()


# -- cases with a name ---------------------------------------------------------------

MEET = call("all_reduce")

STUCK = {
    "both receive first": ([[recv(1), send(1)], [recv(0), send(0)]], [0, 1]),
    "both send first": ([[send(1), recv(1)], [send(0), recv(0)]], [0, 1]),
    "a ring of three": ([[send((r + 1) % 3), recv((r - 1) % 3)] for r in WORLD[:3]], 3),
    "a ring of four": ([[recv((r + 1) % 4), send((r - 1) % 4)] for r in WORLD], 4),
    "send meets send of a third": ([[send(1)], [recv(2)], [recv(0)]], 3),
    "other tags": ([[send(1, tag=1)], [recv(0, tag=2)]], [0, 1]),
    "other tags, and a collective": (
        [[send(1, tag=1), MEET], [recv(0, tag=2), MEET], [MEET]],
        3,
    ),
    "a message to itself": ([[recv(0)]], [0]),
    "a peer that has finished": ([[recv(1)], []], [0]),
    "a send too many": ([[send(1), send(1)], [recv(0)]], [0]),
    "a recv too many": ([[send(1)], [recv(0), recv(0)]], [1]),
    "from any, nobody left": ([[recv(), recv()], [send(0)], []], [0]),
    "from any, all wait": ([[recv()], [recv()], [recv()]], 3),
    "from any, wrong tag": ([[recv(tag=1)], [send(0, tag=2)], []], [0, 1]),
    "from any took it": ([[recv(), recv(1)], [send(0)], []], [0]),
    "two senders, one recv": ([[recv()], [send(0)], [send(0)]], 1),
    "waits for an isend": ([[isend(1), wait()], []], [0]),
    "waits for an irecv": ([[irecv(1), wait()], [irecv(0), wait()]], [0, 1]),
    "a skipped all_reduce": ([[MEET], [MEET], [MEET], []], [0, 1, 2]),
    "a skipped barrier": ([[call("barrier")]] * 3 + [[]], [0, 1, 2]),
    "a collective against a send": ([[MEET], [MEET], [MEET], [send(0)]], 4),
    "a broadcast without its root": ([[call("broadcast", root=3)]] * 3 + [[]], 3),
    "a gather to the root alone": ([[call("gather", root=0)], [], [], []], [0]),
    "two groups crossing": (
        [
            [call("all_reduce", "a")],
            [call("all_reduce", "a"), call("all_reduce", "b")],
            [call("all_reduce", "b"), call("all_reduce", "a")],
            [call("all_reduce", "b")],
        ],
        4,
    ),
    "two threads, none can move": (
        [[[recv(1, tag=1)], [recv(1, tag=2)]], [recv(0, tag=3)]],
        [0, 1],
    ),
    "one thread has finished": ([[[recv(1)], []], []], [0]),
    "waits for the stuck": ([[recv(1)], [recv(2)], [recv(1)], [recv(0)]], 4),
}

FREE = {
    "one side receives first": [[recv(1), send(1)], [send(0), recv(0)]],
    "isend, recv, wait": [[isend(1), recv(1), wait()], [isend(0), recv(0), wait()]],
    "irecv posted before the sends": [
        [irecv(1), send(1), wait()],
        [irecv(0), send(0), wait()],
    ],
    "tags out of order": [
        [isend(1, 1), isend(1, 2), wait(), wait(1)],
        [recv(0, 2), recv(0, 1)],
    ],
    "from any": [[recv(), recv(), recv()], [send(0)], [send(0)], [send(0)]],
    "from any, then from one": [[recv(), recv(1)], [send(0), send(0)]],
    "two threads, one helps": [
        [[recv(1, tag=1)], [send(1, tag=2)]],
        [recv(0, tag=2), send(0, tag=1)],
    ],
    "groups in one order": [
        [call("all_reduce", "a")],
        [call("all_reduce", "a"), call("all_reduce", "b")],
        [call("all_reduce", "a"), call("all_reduce", "b")],
        [call("all_reduce", "b")],
    ],
}


@pytest.mark.parametrize("case", STUCK)
def test_who_can_never_move_is_found(case):
    """Every rank that waits in vain is accused, and nobody else."""
    programs, ranks = STUCK[case]
    model = Model(programs).run()
    assert stuck_ranks(model.snapshots()) == model.blocked
    if isinstance(ranks, list):
        assert model.blocked == ranks
    else:
        assert len(model.blocked) == ranks


@pytest.mark.parametrize("case", FREE)
def test_who_can_move_is_never_accused(case):
    """A correct program is let alone at every moment of its run, in any order."""
    for seed in range(20):
        model = Model(FREE[case], rng=random.Random(seed))
        while any(map(model.can_step, model.threads)):
            assert stuck_ranks(model.snapshots()) == []
            model.run(1)
        assert stuck_ranks(model.snapshots()) == []
        assert not model.blocked and balanced(model.snapshots())


def test_a_computing_rank_keeps_alive_who_waits_for_it():
    """A rank without a snapshot may still do anything; the ring behind it may go on."""
    snapshots = end_of([recv(1)], [recv(2)], [recv(0)])
    assert stuck_ranks(snapshots) == [0, 1, 2]
    assert stuck_ranks(snapshots[:2]) == []


def test_a_broadcast_is_judged_by_the_library_once_it_is_quiet():
    """Who passes a broadcast on is the library's choice: wait until it is quiet."""
    programs = [[call("broadcast", root=0)] for _ in WORLD[:3]] + [[]]
    snapshots = Model(programs, eager=False).run().snapshots()
    assert stuck_ranks(snapshots) == []
    assert stuck_ranks(snapshots, quiet=True) == [0, 1, 2]


def test_a_quiet_world_in_which_all_have_come_is_not_accused():
    """A collective that everybody is in takes as long as it takes."""
    programs = [[call("broadcast", root=1)]] * 4
    model = Model(programs)
    for thread in model.threads:
        model.step(thread)
    assert len(model.snapshots()) == 4
    assert stuck_ranks(model.snapshots(), quiet=True) == []


@pytest.mark.parametrize("op", sorted(deadlock.SYMMETRIC - {"barrier", "new_group"}))
def test_an_empty_collective_may_end_without_the_others(op):
    """Nothing to move may be nothing to wait for: no verdict until it is quiet."""
    programs = [[call(op, empty=True)]] * 3 + [[]]
    snapshots = Model(programs, eager=False).run().snapshots()
    assert stuck_ranks(snapshots) == []
    assert stuck_ranks(snapshots, quiet=True) == [0, 1, 2]


def test_only_the_root_of_a_gather_is_accused_at_once():
    """Who gives its share to a gather may be done, even if another never comes."""
    programs = [[call("gather", root=2)]] * 3 + [[]]
    snapshots = Model(programs, eager=False).run().snapshots()
    assert stuck_ranks(snapshots) == [2]
    assert stuck_ranks(snapshots, quiet=True) == [0, 1, 2]


def test_members_of_a_group_do_not_wait_for_others():
    """A collective of a subgroup needs its members, whatever the others do."""
    both = [call("all_reduce", "a")]
    snapshots = end_of([], both, both, [recv(0)])
    assert stuck_ranks(snapshots) == [1, 2, 3]
    assert waits_for(snapshots, 1) == [0]


# -- random worlds -------------------------------------------------------------------


def random_call(rng, rank, size, thread):
    """One call that other ranks may or may not answer."""
    peer = rng.choice([r for r in range(size) if r != rank])
    tag = rng.randrange(2)
    groups = ["t"] if thread else [n for n in ("0", "a", "b") if rank in GROUPS[n]]
    group = rng.choice(groups)
    op = rng.choice(["all_reduce", "barrier", "broadcast", "gather", "reduce"])
    root = rng.choice(GROUPS[group]) if op in ROOTED else None
    return rng.choice(
        [
            send(peer, tag),
            recv(peer, tag),
            recv(None, tag) if rng.random() < 0.4 else recv(peer, tag),
            isend(peer, tag),
            irecv(peer, tag),
            call(op, group, root, empty=op != "barrier" and rng.random() < 0.1),
        ]
    )


def random_programs(rng, simple=False):
    """Four ranks of one or two threads that mostly talk past each other."""
    programs = []
    for rank in WORLD:
        threads = []
        for thread in range(1 if simple or rng.random() < 0.7 else 2):
            calls, begun = [], 0
            for _ in range(rng.randrange(1, 6)):
                calls.append(random_call(rng, rank, len(WORLD), thread))
                if simple:
                    calls[-1].pop("later", None)
                elif calls[-1].get("later"):
                    begun += 1
                if begun and rng.random() < 0.4:
                    calls.append(wait(rng.randrange(begun)))
            threads.append(calls)
        programs.append(threads)
    return with_answers(rng, programs)


def with_answers(rng, programs):
    """Begin with some messages and collectives that succeed, so that worlds go on."""
    for _ in range(rng.randrange(4)):
        if rng.random() < 0.3:
            for threads in programs:
                threads[0].insert(0, dict(MEET))
        src, dst = rng.sample(WORLD, 2)
        programs[src][0].insert(0, send(dst))
        programs[dst][0].insert(0, recv(src) if rng.random() < 0.7 else recv())
    return programs


def false_accusations(judge, seeds, simple=False):
    """How many accused ranks move later; judged at random moments of random worlds."""
    wrong = 0
    for seed in seeds:
        rng = random.Random(seed)
        model = Model(random_programs(rng, simple), rng=rng)
        for _ in range(8):
            model.run(rng.randrange(6))
            accused = judge(model.snapshots())
            before = model.steps.copy()
            if accused:
                model.run()
                wrong += sum(model.steps[r] != before[r] for r in accused)
                break
    return wrong


def missed(judge, seeds, eager=True):
    """How many ranks that nobody can free any more are not accused."""
    count = 0
    for seed in seeds:
        rng = random.Random(seed)
        model = Model(random_programs(rng, simple=True), eager, rng).run()
        accused = judge(model.snapshots())
        assert set(accused) <= set(model.blocked)
        count += len(set(model.blocked) - set(accused))
    return count


@pytest.mark.slow
def test_no_rank_that_moves_later_is_ever_accused():
    """Of thousands of random worlds, with threads, tags, groups and recv from any."""
    assert false_accusations(stuck_ranks, range(1500)) == 0
    assert false_accusations(stuck_ranks, range(1000), simple=True) == 0


def test_every_rank_that_is_stuck_is_accused():
    """Where calls block until they are met, the end of a world is always recognised."""
    assert missed(stuck_ranks, range(1500)) == 0


def test_a_quiet_end_is_recognised_whatever_the_library_does():
    """Once nothing moves, also collectives that end late by choice are judged."""
    assert (
        missed(
            lambda is_quiet: stuck_ranks(is_quiet, quiet=True), range(1500), eager=False
        )
        == 0
    )


def all_who_wait(snapshots):
    """A wrong judge: whoever waits is stuck."""
    return [s.rank for s in snapshots if s.waiting]


def all_if_all_wait(snapshots):
    """A wrong judge: if every rank waits or has finished, nobody can move."""
    return all_who_wait(snapshots) if len(snapshots) == len(WORLD) else []


def without_posted(snapshots):
    """A wrong judge: does not see what has been posted already."""
    return stuck_ranks([replace(s, posted={}) for s in snapshots])


def nobody(snapshots):
    """A wrong judge: proves nothing."""
    return []


@pytest.mark.parametrize("judge", [all_who_wait, all_if_all_wait, without_posted])
def test_a_judge_that_accuses_too_many_is_caught(judge):
    """The battery finds an unsound judge."""
    assert false_accusations(judge, range(300)) > 0


def test_a_judge_that_accuses_too_few_is_caught():
    """The battery finds an incomplete judge."""
    assert missed(nobody, range(50)) > 0


def test_a_large_world_is_judged_at_once():
    """256 ranks of which one skips a collective: verdict and words in a second."""
    size = 256
    waiting = (Waiting("all_reduce", "0", 1),)
    groups = {"0": range(size)}
    snapshots = [
        Snapshot(r, collectives={"0": 1}, groups=groups, waiting=waiting)
        for r in range(size - 1)
    ]
    snapshots.append(Snapshot(size - 1, groups=groups, finished=True))
    begun = time.process_time()
    ranks = stuck_ranks(snapshots)
    text = explain(snapshots, ranks)
    assert time.process_time() - begun < 1
    assert ranks == list(range(size - 1))
    assert text.startswith("ranks 0-254 can never go on.")


# -- what is left on the way ---------------------------------------------------------


def test_what_is_on_its_way_is_seen():
    """A world is balanced when each send had its recv and each collective all ranks."""
    assert balanced(end_of([send(1)], [recv(0)]))
    assert balanced(end_of([recv(), recv()], [send(0)], [send(0)]))
    assert balanced(end_of(*[[MEET, call("barrier")]] * 4))
    assert not balanced(end_of([isend(1)], []))
    assert not balanced(end_of([], [irecv(0)]))
    assert not balanced(end_of([irecv()], []))
    assert not balanced(end_of([MEET], [MEET], [MEET], []))


def test_a_dropped_message_counts_until_it_is_quiet():
    """It may have left before its handle was gone; what waits then, waits in vain."""
    sender, receiver = end_of([isend(1)], [recv(0), recv(0)])
    assert stuck_ranks([sender, receiver]) == [1]  # in the second recv
    dropped = {("send", "0", 1, 0, 2): "line 3"}
    sender = replace(sender, posted={("send", "0", 1, 0): 2}, dropped=dropped)
    assert stuck_ranks([sender, receiver]) == []
    assert stuck_ranks([sender, receiver], quiet=True) == [1]
    words = explain([sender, receiver], [1])
    assert words.endswith(
        "rank 0 kept nothing of its isend (line 3), and torch forgets a message whose "
        "handle is gone: keep what isend returns, and wait() for it."
    )
    other = replace(sender, dropped={("send", "0", 1, 0, 1): "line 2"})
    assert stuck_ranks([other, receiver], quiet=True) == []


def test_a_dropped_irecv_takes_a_message_with_it():
    """The send that it was for, and the recv that comes after it, wait in vain."""
    lost = {("recv", "0", 0, 0, 1): "line 5"}
    sender, receiver = end_of([send(1)], [irecv(0)])
    waiting = Waiting("send", "0", 1, peer=1)
    sender = replace(sender, waiting=(waiting,), finished=False)
    posted = {("recv", "0", 0, 0): 1}
    receiver = replace(receiver, posted=posted, finished=True, dropped=lost)
    assert stuck_ranks([sender, receiver]) == []
    assert stuck_ranks([sender, receiver], quiet=True) == [0]
    assert "rank 1 kept nothing of its irecv (line 5)" in explain(
        [sender, receiver], [0]
    )

    done = Snapshot(0, posted={("send", "0", 1, 0): 2}, finished=True)
    again = Waiting("recv", "0", 2, peer=0)
    after = Snapshot(1, posted={("recv", "0", 0, 0): 2}, waiting=(again,), dropped=lost)
    assert stuck_ranks([done, after], quiet=True) == [1]
    elsewhere = replace(after, dropped={("recv", "0", 0, 7, 1): "another tag"})
    assert stuck_ranks([done, elsewhere], quiet=True) == []

    meeting = Waiting("barrier", "0", 1)
    both = [Snapshot(r, collectives={"0": 1}, waiting=(meeting,)) for r in range(2)]
    assert stuck_ranks(both, quiet=True) == []
    assert stuck_ranks([both[0], replace(both[1], dropped=lost)], quiet=True) == [0, 1]


def test_groups_in_another_order_are_reported_with_their_ranks():
    """Each call that waits says which group it makes or uses."""

    def making(rank, members):
        name = f"new_group {members}"
        wait = Waiting("new_group", name, 1)
        return Snapshot(rank, {}, {name: 1}, groups={name: members}, waiting=(wait,))

    snapshots = [making(0, (0, 1)), making(1, (0, 1, 2)), making(2, (0, 1, 2))]
    words = explain(snapshots, stuck_ranks(snapshots))
    assert "rank 0 waits in new_group([0, 1]) for rank 1" in words
    assert "ranks 1 and 2 wait in new_group([0, 1, 2]) for rank 0" in words
    assert "Every rank must make every group, in the same order" in words
    crossing = end_of(*STUCK["two groups crossing"][0])
    words = explain(crossing, stuck_ranks(crossing))
    assert "in all_reduce of group a (ranks 0-2) for rank 2" in words


# -- words ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "cure"),
    [
        ("both receive first", "let one side send before it receives"),
        ("both send first", "let one side receive first, or use isend"),
        ("a ring of three", "Every one sends first"),
        ("send meets send of a third", "Order the calls so that each send meets"),
        ("a recv too many", "Every send needs one recv, and every recv one send"),
        ("other tags", "A send and its recv need the same tag and group"),
        ("from any, wrong tag", "A send and its recv need the same tag and group"),
        ("other tags, and a collective", "need the same tag and group"),
        ("a message to itself", "A message from a rank to itself never meets"),
        ("a skipped all_reduce", "do not call all_reduce under a condition on rank"),
        ("two groups crossing", "in several groups must use them in the same order"),
        (
            "a collective against a send",
            "finish the sends and recvs on all ranks first",
        ),
    ],
)
def test_each_deadlock_has_its_cure(case, cure):
    """The last line says what usually helps in this case."""
    snapshots = end_of(*STUCK[case][0])
    assert cure in explain(snapshots, stuck_ranks(snapshots)).splitlines()[-1]


def test_a_circle_is_reported_with_ranks_and_lines():
    """Who waits for whom, and where: one line a rank, in the order of the circle."""
    snapshots = end_of(*STUCK["a ring of three"][0])
    assert explain(snapshots, [0, 1, 2]).splitlines() == [
        "ranks 0-2 can never go on: 0 -> 1 -> 2 -> 0 wait in a circle.",
        "  rank 0 waits in send to rank 1 (p.py:1)",
        "  rank 1 waits in send to rank 2 (p.py:1)",
        "  rank 2 waits in send to rank 0 (p.py:1)",
        "Every one sends first, and a send ends only when its recv is posted: let one "
        "side receive first, or use isend, recv, then wait.",
    ]


def test_a_finished_peer_is_reported_as_such():
    """Waiting for somebody who has left is said in so many words."""
    snapshots = end_of(*STUCK["a peer that has finished"][0])
    message = "rank 0 waits in recv from rank 1, but rank 1 has finished (p.py:1)"
    assert message in explain(snapshots, [0])
    snapshots = end_of([recv()], [], [])
    message = "rank 0 waits in recv from any rank, but ranks 1 and 2 have finished"
    assert message in explain(snapshots, [0])


def test_a_skipped_collective_names_who_is_missing():
    """Only the rank that has not come is waited for."""
    snapshots = end_of(*STUCK["a skipped all_reduce"][0])
    assert waits_for(snapshots, 0) == [3]
    message = (
        "ranks 0-2 wait in all_reduce for rank 3, but rank 3 has finished (p.py:1)"
    )
    assert message in explain(snapshots, [0, 1, 2])


def test_different_collectives_ask_for_one_order():
    """Ranks in different collectives are told that the order must be the same."""
    snapshots = end_of(
        [call("all_reduce", "a"), call("all_reduce", "0")],
        [call("all_reduce", "0")],
        [call("all_reduce", "0")],
        [call("all_reduce", "0")],
    )
    assert stuck_ranks(snapshots) == [0, 1, 2, 3]
    assert "in the same order" in explain(snapshots, [0, 1, 2, 3])


def test_a_long_list_of_ranks_is_cut():
    """Of many different waits some are shown and the rest counted."""
    alike = [Snapshot(r, waiting=(Waiting("barrier", "0", 1),)) for r in range(20)]
    assert "ranks 0-19 wait in barrier" in explain(alike, list(range(20)), limit=3)
    ring = [
        Snapshot(r, waiting=(Waiting("send", "0", 1, (r + 1) % 20),)) for r in range(20)
    ]
    text = explain(ring, list(range(20)), limit=3)
    assert text.count("waits in send") == 3
    assert "... and 17 more" in text


@pytest.mark.parametrize(
    ("edges", "cycle"),
    [
        ({}, []),
        ({0: [1], 1: [2], 2: []}, []),
        ({0: [1], 1: [0]}, [0, 1]),
        ({2: [2]}, [2]),
        ({3: [1], 1: [2], 2: [3]}, [1, 2, 3]),
        ({0: [1], 1: [2], 2: [3], 3: [0, 2]}, [2, 3]),
        ({0: [1, 2], 1: [3], 2: [0], 3: [0]}, [0, 2]),
        ({5: [4], 4: [5, 1], 1: [0], 0: [1]}, [4, 5]),
    ],
)
def test_the_shortest_circle_is_found(edges, cycle):
    """A shortest cycle, from its smallest rank on, along the edges."""
    assert find_cycle(edges) == cycle


def test_random_circles_are_real_and_shortest():
    """Every cycle found follows edges, and none is shorter."""
    rng = random.Random(4)
    for _ in range(200):
        size = rng.randrange(2, 7)
        edges = {
            a: [b for b in range(size) if rng.random() < 0.25] for a in range(size)
        }
        cycle = find_cycle(edges)
        reach, shortest = {(a, b) for a in edges for b in edges[a]}, 0
        paths = set(reach)
        for length in range(1, size + 1):
            if any(a == b for a, b in paths):
                shortest = length
                break
            paths = {(a, c) for a, b in paths for x, c in reach if x == b}
        assert len(cycle) == shortest
        assert all(
            b in edges[a] for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True)
        )


@pytest.mark.parametrize(
    ("ranks", "name"),
    [
        ([3], "rank 3"),
        ([2, 0], "ranks 0 and 2"),
        ([0, 1, 2, 3], "ranks 0-3"),
        ([0, 1], "ranks 0 and 1"),
        ([5, 0, 1, 2, 7, 8], "ranks 0-2, 5, 7 and 8"),
        ([1, 1], "rank 1"),
    ],
)
def test_ranks_are_named_as_a_person_would(ranks, name):
    """Runs of three and more are shortened, and the last is joined by `and`."""
    assert name_ranks(ranks) == name
