"""The past of a rank tells who leaves a call out, and who does not."""

from pathlib import Path

import pytest
from dump_files import Recorder, rows

from collectives_lab.checking import failure_dumps
from collectives_lab.diagnosis import explain
from collectives_lab.diagnosis.verdict import Verdict

LEFT_OUT = [(3, 2), (0, 1), (1, 0)]
"""Who waits in its row for whom, the rank that leaves the row's second call out."""


def verdict_of(ranks: list[Recorder], folder: Path, form: str = "pickle") -> Verdict:
    for recorder in ranks:
        recorder.save(folder, f"rank_{recorder.rank}", form)
    return explain(folder)


def left_out(steps: int, waits: int, leaves: int) -> list[Recorder]:
    """One rank goes on to the call of all without the second call of its row."""
    ranks = rows(steps)
    for r in ranks:
        r.call("all_gather", group=r.row, line=2)
        if r.rank != leaves:
            state = "started" if r.rank == waits else "completed"
            r.call("reduce_scatter", group=r.row, line=5, state=state)
        if r.rank != waits:
            r.call(line=8, state="started")
    return ranks


def test_who_leaves_a_call_out_is_named_with_both_lines(tmp_path: Path) -> None:
    """Whoever it is, with lines and without; it is likely, and never proved."""
    for n, (waits, leaves) in enumerate(LEFT_OUT):
        for form in ("pickle", "json"):
            folder = tmp_path / f"{n}{form}"
            folder.mkdir()
            verdict = verdict_of(left_out(4, waits, leaves), folder, form)
            assert (verdict.kind, verdict.culprits) == ("order", [leaves]), str(verdict)
            assert not verdict.proved
    verdict = explain(tmp_path / "0pickle")
    assert verdict.answer.startswith("Rank 2 likely left out a call of group 2")
    assert "train.py:5" in verdict.answer
    assert "this time it makes all_reduce of 8 Float at /home/me/train.py:8" in str(
        verdict
    )
    assert verdict.lines == {
        **dict.fromkeys((0, 1, 2), "/home/me/train.py:8"),
        3: "/home/me/train.py:5",
    }


def test_without_a_past_the_circle_is_all_that_is_known(tmp_path: Path) -> None:
    """A call that followed only once before is no habit."""
    verdict = verdict_of(left_out(2, 3, 2), tmp_path)
    assert (verdict.kind, verdict.culprits) == ("deadlock", [2, 3]), str(verdict)


def test_a_change_that_others_make_too_is_nobodys_fault_alone(tmp_path: Path) -> None:
    """Ranks 0 and 1 go on with their row, and the three others evaluate."""
    ranks = rows(4, [0, 1, 2], [3, 4])
    for r in ranks:
        if r.rank < 2:
            r.call("all_gather", group=r.row, line=2, state="started")
        else:
            r.call("reduce", line=20, state="started")
    verdict = verdict_of(ranks, tmp_path)
    assert (verdict.kind, verdict.culprits) == ("deadlock", [0, 1, 2]), str(verdict)


def test_a_change_in_which_no_rank_of_the_circle_waits_is_no_cause(
    tmp_path: Path,
) -> None:
    """Ranks 1 and 4 use two groups in two orders; only rank 0 waits in the row."""
    ranks = rows(3, [0, 1], [2, 3], [4])
    for r in ranks:
        if r.rank in (1, 4):
            r.groups |= {"5": [1, 4], "6": [1, 4]}
            r.call(group="5" if r.rank == 1 else "6", line=30, state="started")
        else:
            state = "started" if r.rank == 0 else "completed"
            r.call("all_gather", group=r.row, line=2, state=state)
    verdict = verdict_of(ranks, tmp_path)
    assert (verdict.kind, verdict.culprits) == ("deadlock", [1, 4]), str(verdict)


@pytest.mark.slow
def test_the_dumps_of_forty_students_have_no_false_proof(tmp_path: Path) -> None:
    """`explain` names the rank at fault, and calls nobody else's fault proved."""
    skipped = 0
    for n in range(40):
        student = f"student {n}"
        failure_dumps.write(student, tmp_path / student)
        for case, fault in failure_dumps.seeded(student).items():
            verdict = explain(tmp_path / student / case)
            assert verdict.culprits == [fault.rank], f"{student}, {case}: {verdict}"
            skipped += fault.kind == "skipped" and verdict.kind == "order"
    assert skipped > 5, "there are calls left out among them"
