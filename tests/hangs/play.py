"""Jobs on GPUs that are played on paper: who calls what, and when it starts and ends.

A rank's calls follow each other on its GPU, each behind what the rank computes before.
A collective ends when all have come, a message when both have, as NCCL's kernels do,
which turn for ever where what they got does not fit.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Shapes = Sequence[Sequence[int]]


@dataclass
class Call:
    """What a rank has put on its GPU: a collective, a message, or a batch of those."""

    rank: int
    group: str
    verb: str
    inputs: Shapes
    outputs: Shapes
    dtype: str
    created: float
    compute: float
    peers: tuple[tuple[str, int], ...] = ()
    line: int = 0
    waited: bool = True
    takes: float = 2.0
    never: bool = False
    number: int = 0
    p2p: int = 0
    op: int = 0
    started: float = np.inf
    ended: float = np.inf

    @property
    def is_batch(self) -> bool:
        return self.verb == "coalesced"


@dataclass
class Played:
    """A job on paper; its group "0" has all ranks."""

    world_size: int
    groups: dict[str, tuple[str, list[int]]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    clock: dict[int, float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        self.group("0", "default_pg", range(self.world_size))

    def group(self, name: str, desc: str, ranks: Sequence[int]) -> str:
        self.groups[name] = (desc, list(ranks))
        return name

    def call(
        self,
        rank: int,
        verb: str,
        inputs: Shapes = ((1024,),),
        outputs: Shapes | None = None,
        group: str = "0",
        dtype: str = "Float",
        compute: float = 5.0,
        **more: Any,
    ) -> Call:
        """Put a call on a rank's GPU, behind `compute` milliseconds of computing."""
        outputs = inputs if outputs is None else outputs
        self.clock[rank] += 0.05 + 0.01 * rank
        now = self.clock[rank]
        call = Call(rank, group, verb, inputs, outputs, dtype, now, compute, **more)
        self.calls.append(call)
        self.count(call)
        return call

    def all_call(self, verb: str, *args: Any, group: str = "0", **more: Any) -> None:
        for rank in self.groups[group][1]:
            self.call(rank, verb, *args, group=group, **more)

    def send(self, rank: int, dst: int, shape: Sequence[int], **more: Any) -> Call:
        return self.call(rank, "send", [shape], peers=(("send", dst),), **more)

    def recv(self, rank: int, src: int, shape: Sequence[int], **more: Any) -> Call:
        return self.call(rank, "recv", [shape], peers=(("recv", src),), **more)

    def batch(self, rank: int, ops: Sequence[tuple], **more: Any) -> Call:
        """batch_isend_irecv of (verb, peer, shape)."""
        shapes = [shape for *_, shape in ops]
        peers = tuple((verb, peer) for verb, peer, _ in ops)
        return self.call(rank, "coalesced", shapes, peers=peers, **more)

    def count(self, call: Call) -> None:
        """Number a call as its process group does."""
        mine = [c for c in self.calls if (c.rank, c.group) == (call.rank, call.group)]
        call.number = sum(not c.peers for c in mine)
        call.p2p = sum(bool(c.peers) for c in mine)
        call.op = sum(max(1, len(c.peers)) for c in mine)

    def partners(self) -> dict[int, list[Call]]:
        """By call, the calls without which it cannot end; too few where one is late."""
        collectives = defaultdict(list)
        sends: dict[tuple, list[Call]] = defaultdict(list)
        recvs: dict[tuple, list[Call]] = defaultdict(list)
        for call in self.calls:
            if not call.peers:
                collectives[call.group, call.number].append(call)
            for verb, peer in call.peers:
                pair = (call.rank, peer) if verb == "send" else (peer, call.rank)
                (sends if verb == "send" else recvs)[call.group, *pair].append(call)
        found: dict[int, list[Call]] = {}
        for call in self.calls:
            if not call.peers:
                found[id(call)] = collectives[call.group, call.number]
                continue
            found[id(call)] = [call]
            for verb, peer in call.peers:
                pair = (call.rank, peer) if verb == "send" else (peer, call.rank)
                ours, theirs = (sends, recvs) if verb == "send" else (recvs, sends)
                nth = ours[call.group, *pair].index(call)
                found[id(call)] += theirs[call.group, *pair][nth : nth + 1]
        return found

    def is_whole(self, call: Call, partners: list[Call]) -> bool:
        """Whether all have come, with what fits: else NCCL's kernels turn for ever."""
        if call.peers:
            sizes = {c.rank: c.inputs for c in partners if not c.is_batch}
            fits = len({str(s) for s in sizes.values()}) <= 1 and not call.never
            return len(partners) > len(call.peers) and fits
        one = {(c.verb, str(c.inputs), c.dtype, c.never) for c in partners}
        whole = len(partners) == len(self.groups[call.group][1])
        return whole and len(one) == 1 and not call.never

    def play(self) -> None:
        """Start and end what can, until nothing more does."""
        partners, moved = self.partners(), True
        while moved:
            moved = False
            for call in self.calls:
                moved |= self.start(call)
                moved |= self.end(call, partners[id(call)])

    def start(self, call: Call) -> bool:
        before = [c for c in self.calls if c.rank == call.rank]
        before = before[: before.index(call)]
        ends = [c.ended for c in before if c.waited or c.group == call.group]
        ready = max(ends, default=0.0)
        if np.isfinite(call.started) or np.isinf(ready) or call.takes == np.inf:
            return False
        call.started = max(ready, call.created) + call.compute
        return True

    def end(self, call: Call, partners: list[Call]) -> bool:
        if np.isfinite(call.ended) or not self.is_whole(call, partners):
            return False
        last = max(c.started for c in partners)
        call.ended = last + max(c.takes for c in partners)
        return bool(np.isfinite(call.ended))

    def sync(self, *ranks: int) -> None:
        """Let the programs of ranks wait for their GPUs, as `loss.item()` does."""
        self.play()
        for rank in ranks or range(self.world_size):
            ends = [c.ended for c in self.calls if c.rank == rank]
            last = max((end for end in ends if np.isfinite(end)), default=0.0)
            self.clock[rank] = max(self.clock[rank], last)
