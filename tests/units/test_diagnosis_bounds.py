"""What files cannot show: short dumps, one moment, a tie, dumps of two runs."""

from pathlib import Path

from dump_files import recorders

from collectives_lab.diagnosis import explain


def test_a_rank_without_a_call_is_a_rank_like_others(tmp_path: Path) -> None:
    """It does not come; and where no rank has made a call, nobody knows anything."""
    ranks = recorders(steps=0, backend="gloo")
    for r in ranks:
        r.save(tmp_path)
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits) == ("unknown", [])
    assert verdict.trace is not None and not verdict.trace.events
    for r in ranks:
        if r.rank != 2:
            r.call(state="scheduled")
            r.save(tmp_path)
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits) == ("busy", [2])
    assert verdict.picture.splitlines()[1].split() == ["rank", "2", "-"]
