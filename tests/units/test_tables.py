"""Tables of chapters: what they say in a notebook and in a terminal."""

import numpy as np
import pytest
import torch

from collectives_lab import compare, table
from collectives_lab.basics.guesses import how_far


def test_a_table_reads_well_as_text_and_as_html() -> None:
    """Four digits, a dash for nothing, and nothing of HTML gets through."""
    shown = table(["a", "b<"], [1 / 3, None], [[1, 2], 12345.6])
    assert repr(shown) == "a       b<\n0.3333  –\n1, 2    12,346"
    assert "<th>b&lt;</th>" in shown._repr_html_()
    assert "<td nowrap>1, 2</td><td nowrap>12,346</td>" in shown._repr_html_()


def test_lists_in_a_list_stay_apart() -> None:
    """A reader sees which buckets belong to which pass."""
    shown = table(["passes"], [[[32.03], [4, 28.03]]])
    assert shown.rows == (("[32.03], [4, 28.03]",),)


def test_answers_stand_side_by_side() -> None:
    """Names become words; a guess that was not made is a dash; numpy's figures too."""
    shown = compare(my_guess=None, predicted=np.float64(0.25), measured=4)
    assert repr(shown) == "my guess  predicted  measured\n–         0.25       4"


@pytest.mark.parametrize(
    ("guess", "answer", "words"),
    [
        (12, 4.0, "3 times too high"),
        (torch.tensor(2.0), np.float64(9), "4.5 times too low"),
        (1.1, 1, "10% too high"),
        (3, 3.1, "right"),
        (0, 0, "right"),
        (5, 0, "5 too high"),
        (-1, 1, "2 too low"),
        (-8, -2, "4 times too low"),
        (1234567, 12, "102,881 times too high"),
        (float("nan"), 1, "not a number"),
        (" Tree", "tree", "right"),
        ("ring", "tree", "not so"),
        (True, 1, "not so"),
        ("halving doubling", "Halving-doubling", "right"),
        ("no", np.False_, "right"),
        ("1,000", 1000, "right"),
        ("many", 4, "need a number"),
        ([3, 5, "ring"], (3, 50, "ring"), "right, 10 times too low, right"),
        ([3, None], [4, 4], "25% too low, –"),
        ([[1, 2], [3, 4]], torch.tensor([[1, 2], [3, 4]]), "right"),
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 50], "4 of 5 right"),
        ([3], np.array([3, 4]), "1 for 2 answers"),
        ("many", [3, 4], "1 for 2 answers"),
        (3, [3], "right"),
        ([4], 2, "2 times too high"),
        ([print], [3], ""),
        ({}, 4, ""),
        (print, None, ""),
        (np.ndarray, [1], ""),
        (10**400, 1, ""),
    ],
)
def test_a_guess_says_how_far_it_is_off(guess, answer, words) -> None:
    """A number, a word or a list; of anything else nothing is said, and no error."""
    assert how_far(guess, answer) == words
    shown = compare(my_guess=guess, predicted="else", measured=answer)
    assert (f": {words}" in repr(shown)) == bool(words)


def test_a_guess_without_an_answer_is_only_shown() -> None:
    """Where there is no other answer, or nothing was guessed."""
    assert repr(compare(my_guess=7)) == "my guess\n7"
    assert "–" in repr(compare(my_guess=None, measured=4))


def test_a_guess_is_held_against_what_was_measured() -> None:
    """Else against what was predicted, else against the first answer beside it."""
    assert "7: right" in repr(compare(my_guess=7, predicted=4, measured=7))
    assert "7: right" in repr(compare(my_guess=7, by_rule=4, predicted=7))
    assert "7: right" in repr(compare(my_guess=7, by_rule=7, of_old=4))


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("has no words")

    __repr__ = tolist = __str__


def test_no_guess_breaks_a_cell() -> None:
    """Whatever a reader guesses, the answer is shown."""
    for guess in (10**5000, Unspeakable(), [Unspeakable()], (), {1}, "", 4j, b"4"):
        assert "42" in repr(compare(my_guess=guess, measured=42))


def test_rows_must_fit_their_head() -> None:
    """A row of another length is refused."""
    with pytest.raises(ValueError, match="a row of 1 cells under a head of 2"):
        table(["a", "b"], [1])
