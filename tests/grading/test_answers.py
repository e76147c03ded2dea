"""The promises of exercises that are answered by numbers and names."""

from collections.abc import Iterator

import pytest

from collectives_lab import checking
from collectives_lab.basics.own_cluster import CHOICES, constants
from collectives_lab.checking.exercises.which_verb import ANSWERS
from collectives_lab.costs import training
from collectives_lab.wire import Box, Program

ADA = constants("ada")
RIGHT = {name: (answer.verb, answer.cost) for name, answer in ANSWERS.items()}
FORMULAS = """
def ratio(k, c):
    per_rank = c["bytes_per_parameter"] * c["flop_rate"] / c["bandwidth"]
    return (k - 1) * per_rank / 3 / c["global_batch"]

def break_even(c):
    return 1 + 1 / ratio(2, c)

def compute(k, n, c):
    return 6 * n * c["global_batch"] / k / c["flop_rate"]

def ratio_with_latency(k, n, c):
    return ratio(k, c) + 2 * (k - 1) * c["alpha"] / compute(k, n, c)

def largest_size(c, times=9):
    return times * 1024 * c["alpha"] * c["bandwidth"] / c["bytes_per_parameter"]
"""


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with Box() as opened:
        yield opened


def program(text: str) -> Program:
    return Program.source([("cell 4", text)])


def failed(report: checking.Report) -> dict[str, str]:
    """The message of every property that does not hold."""
    return {f.name: f.message for f in report.findings if not f.passed}


def test_a_student_has_one_cluster_and_others_have_another() -> None:
    """Constants follow from the id, however it is written, and are plausible."""
    assert constants(" Ada ") == ADA != constants("bob")
    clusters = [constants(f"student {n}") for n in range(200)]
    assert len({tuple(c.values()) for c in clusters}) > 190
    for cluster in clusters:
        assert all(cluster[name] in CHOICES[name] for name in CHOICES)
        rates = [cluster[n] for n in ("flop_rate", "bandwidth", "bytes_per_parameter")]
        ranks = training.break_even_world_size(cluster["global_batch"], *rates)
        assert 4 < ranks < 4000


@pytest.mark.parametrize("student", ["ada", "bob", ""])
def test_formulas_hold_on_every_cluster(box: Box, student: str) -> None:
    """A derivation in letters has full marks whoever hands it in."""
    report = checking.grade(
        "communication_ratio", program(FORMULAS), student=student, box=box
    )
    assert report.passed, str(report)
    assert ("write your id" in str(report)) == (not student)


def test_numbers_hold_for_their_student_only(box: Box) -> None:
    """A number found on paper, to three digits, is right on one's own cluster."""
    rates = [ADA[n] for n in ("flop_rate", "bandwidth", "bytes_per_parameter")]
    break_even = training.break_even_world_size(ADA["global_batch"], *rates)
    typed = program(f"{FORMULAS}\ndef break_even(c):\n    return {break_even:.3g}\n")
    assert checking.grade("communication_ratio", typed, student="ada", box=box).passed
    other = checking.grade("communication_ratio", typed, student="bob", box=box)
    assert list(failed(other)) == ["break_even"]
    assert "the cluster of bob" in str(other)


SLIPS = [
    ("ratio", "ratio(k, c): return old(k, c) / k", "G/P tokens"),
    ("ratio", "ratio(k, c): return old(k + 1, c)", "P − 1"),
    ("ratio", "ratio(k, c): return 1 / old(k, c)", "upside down"),
    ("ratio", "ratio(k, c): return None", "returns None"),
    ("ratio", "ratio(k, c): return float('nan')", "returns nan"),
    ("break_even", "break_even(c): return old(c) - 1", "that, not P"),
    ("break_even", "break_even(c): return 2 * old(c)", "ranks γ is 2.0"),
    ("break_even", "break_even(c): return 0", "too few"),
    ("latency", "ratio_with_latency(k, n, c): return ratio(k, c)", "without α"),
    (
        "latency",
        "ratio_with_latency(k, n, c): return (ratio(k, c) + old(k, n, c)) / 2",
        "two halves",
    ),
    ("largest_size", "largest_size(c): return old(c, 10)", "a tenth of the bytes"),
    ("largest_size", "largest_size(c): return old(c, 1)", "latency is 0.5 of"),
    ("largest_size", "largest_size(c): return -1", "no size"),
]


@pytest.mark.parametrize("name, slip, message", SLIPS)
def test_a_slip_in_a_derivation_is_named(
    box: Box, name: str, slip: str, message: str
) -> None:
    """A known mistake fails its property, and the message says which it is."""
    function = slip.partition("(")[0]
    text = f"{FORMULAS}\nold = {function}\ndef {slip}\n"
    report = checking.grade(
        "communication_ratio", program(text), student="ada", box=box
    )
    assert message in failed(report)[name], str(report)


def answered(box: Box, **changed: object) -> dict[str, str]:
    """What fails where some of the right answers are replaced."""
    text = f"def which_verb():\n    return {RIGHT | changed!r}\n"
    return failed(checking.grade("which_verb", program(text), box=box))


def test_right_answers_have_full_marks(box: Box) -> None:
    """Verbs and bytes of the book's table; what is left out costs only itself."""
    assert not answered(box)
    rest = {name: answer for name, answer in RIGHT.items() if name != "batch"}
    text = f"def which_verb():\n    return {rest!r}\n"
    report = checking.grade("which_verb", program(text), box=box)
    assert failed(report) == {"batch": "there is no answer yet"}
    assert report.points == report.max_points - 2


def test_a_wrong_verb_is_reported_without_the_right_one(box: Box) -> None:
    """The message says what the verb does and what is needed, not its name."""
    (message,) = answered(box, counts=("all_reduce", 8e6)).values()
    assert "gives all of it to each" in message and "only one rank needs" in message
    assert "reduce" not in message.removeprefix("all_reduce")


@pytest.mark.parametrize(
    "scenario, factor, message",
    [
        ("gradient", 1 / 2, "enough for merging"),
        ("gradient", 64, "for all ranks together"),
        ("gradient", 64 / 63, "that is 2 S"),
        ("batch", 16 / 15, "that is S"),
        ("batch", 1 / 15, "that is one part"),
        ("checkpoint", 7 / 8, "every byte of S"),
        ("checkpoint", 7, "pass on"),
        ("embeddings", 2, "out and in together"),
        ("embeddings", 1 / 4, "numbers, of 4 bytes"),
        ("experts", 3.3, "what is S here"),
    ],
)
def test_wrong_bytes_are_explained(
    box: Box, scenario: str, factor: float, message: str
) -> None:
    """Bytes of a right verb that are a known mistake are called that."""
    verb, nbytes = RIGHT[scenario]
    failures = answered(box, **{scenario: (verb, factor * nbytes)})
    assert list(failures) == [scenario] and message in failures[scenario]


@pytest.mark.parametrize(
    "answer, message",
    [
        (None, "not a pair"),
        (([], 1), "not a name in quotation marks"),
        (("allreduce", 1), "none of the eight verbs"),
        (("all_reduce", "14 GB"), "not a number"),
        (("all_reduce", True), "not a number"),
        ({"a": 1}, "not a pair"),
    ],
)
def test_what_is_no_answer_is_reported_as_such(
    box: Box, answer: object, message: str
) -> None:
    """Anything at all may stand where an answer should."""
    assert message in answered(box, bucket=answer)["bucket"]


@pytest.mark.parametrize("body", ["return None", "return 3", "raise KeyError"])
def test_no_dict_of_answers_has_no_marks(box: Box, body: str) -> None:
    """Neither an error nor something else is worth a point."""
    text = f"def which_verb():\n    {body}\n"
    assert checking.grade("which_verb", program(text), box=box).points == 0
