"""A parameter server in virtual time: the order of its updates, and what they miss."""

import pytest

from collectives_lab.replay.staleness import Clocks, play


def one_is_slow(worker: int, clock: int) -> float:
    return 4.0 if worker == 3 else 1.0


def test_bound_zero_is_in_step() -> None:
    """Nobody begins a step before the slowest one has ended the last."""
    done = play(4, 0, one_is_slow, steps=3)
    assert [g.worker for g in done] == 3 * [0, 1, 2, 3]
    assert [g.begin for g in done] == [4.0 * (n // 4) for n in range(12)]
    assert [g.missed for g in done] == 3 * [0, 1, 2, 3]


def test_without_a_bound_the_slow_one_misses_what_others_do() -> None:
    """Three workers that are four times as fast make twelve updates meanwhile."""
    done = play(4, None, one_is_slow, steps=32)
    assert {g.missed for g in done if g.worker == 3 and g.end <= 32} == {12}
    assert [g.worker for g in done[:3]] == [0, 1, 2]
    assert done[-1].end == 4 * 32 and done[-1].missed == 0


@pytest.mark.parametrize("bound", [0, 1, 2, 5])
def test_a_bound_bounds_the_lead_and_the_misses(bound: int) -> None:
    """A worker that begins is at most `bound` ahead of what had arrived by then."""
    done = play(4, bound, one_is_slow, steps=20)
    for g in done:
        clock = [
            sum(h.worker == w and h.end <= g.begin for h in done) for w in range(4)
        ]
        assert clock[g.worker] - min(clock) <= bound
    assert max(g.missed for g in done) <= 3 * (2 * bound + 1)
    assert len(done) == 80


def test_a_rule_that_lets_everyone_go_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above fails where the bound is not kept."""
    monkeypatch.setattr(Clocks, "_may_go", lambda self, worker: True)
    done = play(4, 1, one_is_slow, steps=20)
    assert max(g.missed for g in done) > 3 * (2 * 1 + 1)


def test_what_cannot_be_is_refused() -> None:
    """No workers, no gradients, and a bound below zero."""
    for counts in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="need 1 or more of both"):
            play(counts[0], None, one_is_slow, steps=counts[1])
    with pytest.raises(ValueError, match="bound is -1"):
        play(1, -1, one_is_slow, steps=1)
