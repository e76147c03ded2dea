"""Moves of chunks as an MSCCL++ plan: put, signal, wait, then add or copy.

Each rank has one thread block. In each step of the algorithm it puts its chunks into
the scratch buffers of others and signals them, then waits for theirs and adds or copies
them from its own. Every chunk that arrives has a place of its own, so no rank needs to
know that another is ready.
"""

from __future__ import annotations

from typing import Any

from collectives_lab.formats.moved_chunks import MovedChunks, Run
from collectives_lab.formats.msccl_writing import NAMES

Json = dict[str, Any]


def document(moved: MovedChunks) -> Json:
    """Return the JSON of an algorithm that works in place."""
    places = _places(moved)
    return {
        "name": moved.name,
        "collective": NAMES.get(moved.verb, moved.verb),
        "protocol": "Simple",
        "inplace": True,
        "reuse_resources": False,
        "gpus": [_gpu(moved, rank, places) for rank in range(moved.world_size)],
        "num_threads_per_block": 1024,
        "use_double_scratch_buffer": False,
        "buffer_alignment": 16,
        "min_message_size": 0,
        "max_message_size": 2**64 - 1,
    }


def _places(moved: MovedChunks) -> dict[tuple[int, Run], int]:
    """Return where in its receiver's scratch buffer each run of a step arrives."""
    places: dict[tuple[int, Run], int] = {}
    used = [0] * moved.world_size
    for step, runs in enumerate(moved.steps):
        for run in runs:
            places[step, run] = used[run.dst]
            used[run.dst] += run.length
    return places


def _gpu(moved: MovedChunks, rank: int, places: dict[tuple[int, Run], int]) -> Json:
    sends, recvs = moved.peers("src", rank), moved.peers("dst", rank)
    peers = sorted({*sends, *recvs})
    scratch = [at + run.length for (_, run), at in places.items() if run.dst == rank]
    access: Json = {"access_channel_type": "memory"}
    channel = {"channel_type": "memory", "channel_ids": list(range(len(peers)))}
    block: Json = {
        "id": 0,
        "ops": _operations(moved, rank, places, peers, sends),
        "channels": [channel],
        "remote_buffer_refs": [access | {"remote_buffer_ids": list(range(len(sends)))}],
    }
    return {
        "id": rank,
        **{"input_chunks": moved.sizes["i"], "output_chunks": moved.sizes["o"]},
        "scratch_chunks": max(scratch, default=0),
        "threadblocks": [block],
        "channels": [{"channel_type": "memory", "connected_to": peers}],
        "remote_buffers": [
            {"rank": peer, "type": "s", "access_channel_types": ["memory"]}
            for peer in sends
        ],
        "semaphores": [],
    }


def _operations(
    moved: MovedChunks,
    rank: int,
    places: dict[tuple[int, Run], int],
    peers: list[int],
    sends: list[int],
) -> list[Json]:
    """Return the operations of a rank, step by step."""
    ops: list[Json] = []
    for step in range(len(moved.steps)):
        out, into = moved.runs("src", rank, step), moved.runs("dst", rank, step)
        for run in out:
            there: Json = {
                "buffer_id": sends.index(run.dst),
                "index": places[step, run],
                "size": run.length,
            }
            ops.append(
                {
                    "name": "put",
                    "src_buff": [_chunk(moved.buffer, run.chunk, run.length)],
                    "dst_buff": [there],
                    "channel_type": "memory",
                }
            )
        ops += _synced("signal", [run.dst for run in out], peers)
        ops += _synced("wait", [run.src for run in into], peers)
        for run in into:
            own = _chunk(moved.buffer, run.chunk, run.length)
            came = _chunk("s", places[step, run], run.length)
            adds: Json = {"name": "re", "src_buff": [own, came]}
            copies: Json = {"name": "copy", "src_buff": [came]}
            ops.append((adds if run.adds else copies) | {"dst_buff": [own]})
            ops[-1] |= {"reduce_op": "sum"} if run.adds else {}
        ops.append({"name": "nop"})
    return ops


def _synced(name: str, ranks: list[int], peers: list[int]) -> list[Json]:
    """Return the signal to some ranks, or the wait for theirs, after a sync."""
    ids = [peers.index(peer) for peer in sorted(set(ranks))]
    op = {"name": name, "channel_ids": ids, "channel_type": "memory"}
    return [{"name": "nop"}, op, {"name": "nop"}] if ids else []


def _chunk(buffer: str, index: int, size: int) -> Json:
    return {"type": buffer, "index": index, "size": size}
