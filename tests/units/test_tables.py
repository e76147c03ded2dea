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
    assert "<td>1, 2</td><td>12,346</td>" in shown._repr_html_()


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
        (float("nan"), 1, "not a number"),
        (" Tree", "tree", "right"),
        ("ring", "tree", "not so"),
        (True, 1, "not so"),
        ([3, 5, "ring"], (3, 50, "ring"), "2 of 3 right"),
        ([3], np.array([3, 4]), "1 for 2 answers"),
        (3, [3, 4], ""),
        ("many", [3, 4], ""),
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
    """Where nothing is measured or predicted, or nothing was guessed."""
    assert repr(compare(my_guess=7, of_old=4)) == "my guess  of old\n7         4"
    assert "–" in repr(compare(my_guess=None, measured=4))


def test_rows_must_fit_their_head() -> None:
    """A row of another length is refused."""
    with pytest.raises(ValueError, match="a row of 1 cells under a head of 2"):
        table(["a", "b"], [1])
