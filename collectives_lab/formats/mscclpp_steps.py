"""The operations of an MSCCL++ thread block as steps of a Program.

Here `steps_of` says what each operation reads, stores, waits for and signals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from collectives_lab.formats.json_files import Node
from collectives_lab.formats.mscclpp_ranks import BlockOf, RankOf
from collectives_lab.formats.thread_blocks import Barrier, Part, Step

PAIRWISE = ("copy", "cpkt", "upkt", "get", "put", "pws", "pwsf", "ppkt", "rppkt")
"""Operations that copy their n-th source to their n-th destination."""

REDUCING = (
    *("re", "res", "rre", "rres", "repkt", "recpkt", "respkt", "recspkt"),
    *("glres", "gstore", "gstorepkt"),
)
"""Operations that add up all their sources, and store the sum in all destinations."""

SIGNALS = ("signal", "rlxsignal", "pws", "pwsf")
WAITS = ("wait", "rlxwait")
NOTHING = (
    "nop",
    "flush",
    *SIGNALS[:2],
    *WAITS,
    "barrier",
    "sem_acquire",
    "sem_release",
)

FROM_PACKETS = ("upkt", "rppkt", "gstorepkt")
"""Operations whose sources are packets; of those that reduce, all but the first are."""

TO_PACKETS = ("cpkt", "ppkt", "rppkt", "gstorepkt")

OPERATIONS = sorted({*PAIRWISE, *REDUCING, *NOTHING, "pipeline"})


def steps_of(rank: RankOf, block: Node, ops: Iterable[Node]) -> Iterator[Step]:
    """Yield the steps of a thread block."""
    owner = BlockOf(rank, block)
    for number, op in enumerate(ops):
        name = op["name"].text()
        if name not in OPERATIONS or name == "pipeline":
            raise ValueError(
                f"{op['name']} is {name!r}; need one of {', '.join(OPERATIONS)}"
            )
        yield _step(owner, op, name, f"operation {number} ({name})")


def _step(block: BlockOf, op: Node, name: str, text: str) -> Step:
    rank = block.rank.rank
    semaphores = [
        (rank, rank, "semaphore", n.number()) for n in op.items("semaphore_ids", True)
    ]
    barrier = None
    if name == "barrier":
        blocks = op["num_threadblocks"].number(1)
        barrier = Barrier(rank, op["barrier_id"].number(), blocks)
    waits = block.keys(op, True) if name in WAITS else []
    signals = block.keys(op, False) if name in SIGNALS else []
    return Step(
        text,
        tuple(_parts(block, op, name)),
        waits=tuple(semaphores if name == "sem_acquire" else waits),
        signals=tuple(semaphores if name == "sem_release" else signals),
        relaxed=name.startswith("rlx"),
        barrier=barrier,
        by_switch=name.startswith("g") and name != "get",
    )


def _parts(block: BlockOf, op: Node, name: str) -> list[Part]:
    """Return what an operation reads, and where it stores the sum."""
    if name in NOTHING:
        return []
    from_packets = name in FROM_PACKETS
    if name == "ppkt" and op["channel_type"].text() == "port":
        from_packets = True
        _check_ported(op)
    are_packets = name in REDUCING and name.endswith("pkt")
    sources = [
        block.ranges(op, chunk, from_packets or (n > 0 and are_packets))
        for n, chunk in enumerate(op.items("src_buff"))
    ]
    chunks = op.items("dst_buff")
    stored = [
        block.ranges(op, chunk, name in TO_PACKETS or _is_packet(name, n))
        for n, chunk in enumerate(chunks)
    ]
    if name in PAIRWISE:
        if len(sources) == 1:
            sources *= len(stored)
        if len(sources) != len(stored):
            raise ValueError(
                f"{op}: {len(sources)} src_buff, {len(stored)} dst_buff; need as many"
            )
        pairs = zip(sources, stored, strict=True)
        parts = [Part(tuple(a), tuple(b)) for a, b in pairs]
    else:
        flat = (
            tuple(r for ranges in side for r in ranges) for side in (sources, stored)
        )
        parts = [Part(*flat)]
    for part in parts:
        if len({r.length for r in (*part.reads, *part.writes)}) != 1:
            raise ValueError(
                f"{op}: src_buff and dst_buff differ in size; need one size"
            )
    return parts


def _check_ported(op: Node) -> None:
    """Raise ValueError for packets that a port shall make, which it cannot."""
    for chunk in op.items("src_buff"):
        if chunk["type"].text() != "s":
            raise ValueError(
                f"{chunk}: a port sends packets as they are, and only the scratch "
                "buffer has some; need scratch"
            )


def _is_packet(name: str, number: int) -> bool:
    """Return whether the n-th destination of an operation that reduces is packets."""
    return number > 0 and name in ("respkt", "recpkt", "recspkt")
