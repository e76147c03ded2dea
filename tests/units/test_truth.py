"""Published measurements: each has a source; each set is scored or says why not."""

import math
from dataclasses import asdict, replace

import pytest
from conftest import ROOT

from collectives_lab import predictions, truth
from collectives_lab.__main__ import main
from collectives_lab.truth import call_fit as fit
from collectives_lab.truth.cli import markdown
from collectives_lab.truth.scoring import quantile


def test_every_row_has_a_source_a_unit_and_a_set() -> None:
    """A fact without its place in a source is no fact."""
    assert len(truth.rows()) >= 280
    for row in truth.rows():
        assert row.source and row.where and row.what and row.unit and row.basis, row
        assert row.value > 0, row


def test_every_set_is_in_the_split_and_none_besides() -> None:
    """A set that nobody decided on would be scored by chance."""
    assert {row.set for row in truth.rows()} == set(truth.split())


@pytest.mark.parametrize("name", truth.split())
def test_a_set_is_scored_in_a_fold_or_says_why_not(name: str) -> None:
    """Folds are whole: nobody is predicted by constants that have seen it."""
    split = truth.split()[name]
    assert split.machine and split.kind in truth.KINDS
    assert bool(split.fold) == (split.scored or split.kind == "later")
    assert split.scored or split.reason


BARS = {
    ("one node", True): 0.10,
    ("one node", False): 0.25,
    ("across nodes", True): 0.20,
    ("across nodes", False): 0.25,
    ("later", True): 0.20,
    ("later", False): 0.25,
}
"""How far the geometric mean of a set may be off, by kind and size.

All sets of less than 64 MiB across nodes are of nccl-tests.
"""

MISSED = {("oci-a100-2", False): 0.3, ("lambda-b200-2", False): 0.4}
"""Bars that are missed, and what holds instead: sets that were read later."""


@pytest.mark.parametrize("name, is_large", truth.by_set())
def test_a_set_is_predicted_without_having_been_seen(name, is_large) -> None:
    """Within the bar of its kind, as a geometric mean; what is missed is named."""
    bar = BARS[truth.split()[name].kind, is_large]
    assert truth.by_set()[name, is_large].error <= MISSED.get((name, is_large), bar)


def test_a_missed_bar_is_missed() -> None:
    """Else it is to be taken off the list."""
    for name, is_large in MISSED:
        bar = BARS[truth.split()[name].kind, is_large]
        assert truth.by_set()[name, is_large].error > bar


def test_no_call_is_off_by_a_factor_of_two() -> None:
    """Neither way."""
    for row in truth.compared():
        assert 0.5 < row.ratio < 2, (row.call.row.set, row.call.nbytes)


def test_ranges_hold_four_in_five_and_are_narrow() -> None:
    """Of all calls, and with ratios of 1.5 inside a node and 2 across in the median."""
    rows = truth.compared()
    assert sum(row.is_covered for row in rows) >= 0.8 * len(rows)
    for kind, most in (("one node", 1.5), ("across nodes", 2.0)):
        some = [r for r in rows if truth.split()[r.call.row.set].kind == kind]
        ratios = sorted(r.prediction.high / r.prediction.low for r in some)
        assert ratios[len(ratios) // 2] <= most


@pytest.mark.parametrize(
    "wrong",
    [
        {"links": 0.5},
        {"fill": 1e9},
        {"rendezvous": 1e-3},
        {"blackwell": 50.0},
        {"lines": 2e-5},
    ],
)
def test_wrong_constants_miss(wrong) -> None:
    """Each constant matters: another value is further off than the fitted one."""
    usual = predictions.constants()
    scored = fit.calls()
    assert fit.loss(scored, replace(usual, **wrong)) > 1.2 * fit.loss(scored, usual)


@pytest.mark.parametrize("left_out", ["", *fit.folds()])
def test_the_constants_are_those_of_the_fit(left_out) -> None:
    """No step of a fiftieth makes the loss smaller, so the tables are no guess."""
    some = [call for call in fit.calls() if call.fold != left_out]
    best = predictions.constants(left_out)
    least = fit.loss(some, best)
    for name in asdict(best):
        for factor in (1.02, 1 / 1.02):
            value = getattr(best, name) * factor
            other = replace(best, **{name: value})
            if name != "links" or value <= 1:
                assert fit.loss(some, other) > least * 0.998


def test_a_range_is_a_weighted_quantile() -> None:
    """The first value that has the share of the weights."""
    assert quantile([(3.0, 1.0), (1.0, 1.0), (2.0, 2.0)], 0.75) == 2.0
    assert quantile([(1.0, 1.0)], 0.8) == 1.0


def test_the_command_prints_all_sets_and_each_call_of_one(capsys) -> None:
    """Also those that are not scored, with the reason; a wrong name is an error."""
    assert main_of("truth") == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in truth.split())
    assert main_of("truth", "p3dn-2") == 0
    assert len(capsys.readouterr().out.splitlines()) == 7
    assert main_of("truth", "llama3") == 0
    assert "Llama 3 405B" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main_of("truth", "p3dn")
    assert "there are aws-p4de-2" in capsys.readouterr().err


def test_the_page_of_the_site_shows_what_the_command_prints() -> None:
    """All of it: `truth --markdown` makes the part between the marks."""
    page = (ROOT / "docs" / "truth.md").read_text()
    shown = page.partition("<!-- truth -->\n")[2].partition("<!-- /truth -->")[0]
    made = truth.report(), truth.step_report(), truth.not_scored()
    tables = map(markdown, made)
    assert shown.strip() == "\n\n".join(tables)


def main_of(*arguments: str) -> int:
    """Run a command as a shell would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["collectives_lab", *arguments])
        return main()


def test_an_error_is_a_geometric_mean() -> None:
    """1.1 and 1 / 1.1 are both 10 % off."""
    rows = truth.compared()[:2]
    changed = [
        replace(row, prediction=replace(row.prediction, seconds=f * row.call.seconds))
        for row, f in zip(rows, (1.1, 1 / 1.1), strict=True)
    ]
    (found,) = truth.by_set(changed).values()
    assert math.isclose(found.error, 0.1) and math.isclose(found.worst, 0.1)
