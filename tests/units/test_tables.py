"""Tables of chapters: what they say in a notebook and in a terminal."""

import numpy as np
import pytest

from collectives_lab import compare, table


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


def test_rows_must_fit_their_head() -> None:
    """A row of another length is refused."""
    with pytest.raises(ValueError, match="a row of 1 cells under a head of 2"):
        table(["a", "b"], [1])
