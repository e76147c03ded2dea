"""Batches of calls: what their last entry says is true of each of their calls."""

import json
from pathlib import Path
from typing import Any

import pytest

from collectives_lab.formats import flight_recorder
from collectives_lab.formats.flight_recorder import Call


def entry(name: str, number: int, op: int, **more: Any) -> dict[str, Any]:
    is_p2p = name.startswith(("send", "recv")) or bool(more.get("is_p2p"))
    return {
        "profiling_name": f"nccl:{name}",
        "process_group": ["0", "default_pg"],
        "collective_seq_id": 0 if is_p2p else number,
        "p2p_seq_id": number if is_p2p else 0,
        "op_id": op,
        "record_id": op,
        "state": "scheduled",
        "retired": False,
        "is_p2p": is_p2p,
        "input_sizes": [[op]],
        "input_dtypes": ["Float"],
    } | more


def end(number: int, op: int, **more: Any) -> dict[str, Any]:
    sizes = {"input_sizes": [], "input_dtypes": []}
    return entry("coalesced", number, op, **sizes | more)


DONE = {
    "state": "completed",
    "retired": True,
    "duration_ms": 4.0,
    "time_discovered_completed_ns": 9,
}


def read(folder: Path, *entries: dict[str, Any]) -> tuple[Call, ...]:
    path = folder / "rank_0.json"
    path.write_text(json.dumps({"version": "2.10", "entries": entries}))
    return flight_recorder.read(path).calls


@pytest.mark.parametrize("more", [DONE, {"state": "started"}, {}])
def test_messages_are_over_when_their_batch_is(more: dict, tmp_path: Path) -> None:
    """Torch tracks the batch only, and calls each message scheduled for ever."""
    parts = [entry("recv 0<-1", 3, 1), entry("send 0->1", 3, 2)]
    calls = read(tmp_path, *parts, end(3, 2, is_p2p=True, **more))
    assert [(c.verb, c.peer) for c in calls] == [("recv", 1), ("send", 1)]
    assert {c.over for c in calls} == {more is DONE}
    assert {c.state for c in calls} == {more.get("state", "scheduled")}
    assert calls[0].batch == calls[1].batch != 0


def test_collectives_of_a_batch_are_one_call(tmp_path: Path) -> None:
    """With the tensors of all, and the state and the times of the batch."""
    parts = [entry("_all_gather_base", 7, op) for op in (4, 5, 6)]
    before = entry("all_reduce", 6, 3, **DONE)
    calls = read(tmp_path, before, *parts, end(7, 6, **DONE))
    assert [(c.verb, c.number, c.over) for c in calls] == [
        ("all_reduce", 6, True),
        ("all_gather", 7, True),
    ]
    assert calls[1].inputs == ((4,), (5,), (6,))
    assert calls[1].duration == pytest.approx(0.004)


def test_a_batch_has_no_call_of_another_number_or_group(tmp_path: Path) -> None:
    """A message that waits by itself, before a batch, is none of its calls."""
    alone = entry("send 0->2", 2, 1)
    other = entry("recv 0<-1", 3, 2, process_group=["1", "pipeline"])
    part = entry("recv 0<-1", 3, 2)
    calls = read(tmp_path, alone, other, part, end(3, 2, is_p2p=True, **DONE))
    assert [(c.group, c.number, c.over) for c in calls] == [
        ("0", 2, False),
        ("1", 3, False),
        ("0", 3, True),
    ]


def test_a_batch_whose_calls_the_ring_has_lost_is_left_out(tmp_path: Path) -> None:
    """Its last entry alone says of no message what became of it."""
    calls = read(tmp_path, end(3, 2, is_p2p=True, **DONE), entry("all_reduce", 1, 3))
    assert [c.verb for c in calls] == ["all_reduce"]
