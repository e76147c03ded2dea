"""The promises of the check: the same verdict for reader and grader, and why."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from conftest import Memory
from zoo_programs import zoo_program

import collectives_lab as lab
from collectives_lab.checking import (
    EXERCISES,
    NotGradable,
    Report,
    engine,
    grade,
    tensors,
)
from collectives_lab.checking.spec import Case, Inputs, Judgement
from collectives_lab.notebook import report_html as page
from collectives_lab.trace import Event, Trace
from collectives_lab.wire import Box, BoxError, Outcome, Program, Strided

RING = """
import torch
import torch.distributed as dist

def ring_all_reduce(tensor):
    rank, P = dist.get_rank(), dist.get_world_size()
    flat = tensor.reshape(-1).clone()
    chunks = list(flat.tensor_split(P))
    for k in range(2 * (P - 1)):
        send, recv = chunks[(rank - k) % P], chunks[(rank - k - 1) % P]
        got = torch.empty_like(recv)
        work = dist.isend(send, (rank + 1) % P)
        dist.recv(got, (rank - 1) % P)
        work.wait()
        if k < P - 1:
            recv += got
        else:
            recv.copy_(got)
    tensor.copy_(flat.view(tensor.shape))
"""


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with Box("C") as opened:
        yield opened


@pytest.fixture(scope="module", autouse=True)
def end_the_warm_box() -> Iterator[None]:
    """Other tests count the processes of this one."""
    yield
    lab.checking.close()


def graded(
    box: Box, text: str, seed: str = "0", name: str = "ring_all_reduce"
) -> Report:
    return grade(name, Program.source([("cell 1", text)]), seed, box=box)


def finding(report: Report, name: str):
    (verdict,) = (f for f in report.findings if f.name == name)
    return verdict


# -- exercises as data -----------------------------------------------------------------


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda e: e.name)
def test_every_property_has_cases_and_points(exercise) -> None:
    """And every case and judge is for properties that there are."""
    names = [p.name for p in exercise.properties]
    assert len(set(names)) == len(names) and all(
        p.points > 0 for p in exercise.properties
    )
    tested = {n for case in exercise.cases(Inputs("1", "ada")) for n in case.tests}
    assert tested == set(names) and set(exercise.judges) <= set(names)
    assert exercise.difficulty in ("easy", "medium", "hard")


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda e: e.name)
def test_a_seed_makes_the_same_inputs_again(exercise) -> None:
    """And another seed makes others, where there is anything to draw."""

    def shown(seed: str) -> str:
        return repr([(str(c), c.args) for c in exercise.cases(Inputs(seed, "ada"))])

    assert shown("1") == shown("1")
    draws = any(
        c.args[0] and isinstance(c.args[0][0], torch.Tensor)
        for c in exercise.cases(Inputs("1", "ada"))
    )
    assert not draws or shown("1") != shown("2")


# -- verdicts --------------------------------------------------------------------------


def test_a_right_solution_has_full_marks(box: Box) -> None:
    """By score, by points and by every property, in a box and as a function."""
    report = graded(box, RING)
    assert report.passed and report.score == 1 and report.points == 20
    assert report.trace.world_size == 4
    assert "the ring's bound is 1.75 S" in finding(report, "traffic").message


def test_the_same_submission_gets_the_same_verdict(box: Box) -> None:
    """A wrong one too, to the last word; another seed gives other numbers."""
    wrong = RING.replace("k < P - 1", "k < P - 2")
    first = graded(box, wrong).as_json()
    assert graded(box, wrong).as_json() == first
    assert graded(box, wrong, "another").as_json() != first


WRONG = {
    "doubles": (
        RING.replace("recv += got", "recv += 2 * got"),
        "two_ranks",
        "twice",
    ),
    "lacks": (
        RING.replace("recv += got", "recv += got if P == 2 or k else 0"),
        "world_sizes",
        "it lacks rank",
    ),
    "not in place": (
        RING.replace("tensor.copy_(", "print("),
        "two_ranks",
        "as it was before",
    ),
    "a new tensor": (
        RING.replace("tensor.copy_(flat.view(tensor.shape))", "return flat"),
        "two_ranks",
        "not in a new one",
    ),
    "twice the bytes": (
        RING.replace(
            "work = dist",
            "dist.isend(send, (rank + 1) % P, tag=1)\n"
            "        dist.recv(got, (rank - 1) % P, tag=1)\n        work = dist",
        ),
        "traffic",
        "rank 0 sends 2 S",
    ),
    "storage": (
        "import torch\n"
        + RING.replace(
            "tensor.copy_(flat.view(tensor.shape))",
            "tensor.copy_(flat.view(tensor.shape))\n"
            "    s = torch.as_strided(tensor, (1,), (1,), 0) if "
            "tensor.storage_offset() else None\n    s is not None and s.zero_()",
        ),
        "layouts",
        "memory beside it was written to",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_solution_gets_the_reason(box: Box, name: str) -> None:
    """By the property that it fails, with what is missing, doubled or too much."""
    text, prop, message = WRONG[name]
    verdict = finding(graded(box, text), prop)
    assert not verdict.passed and verdict.points == 0 and message in verdict.message, (
        verdict
    )


def test_the_smallest_case_speaks(box: Box) -> None:
    """Two ranks and one element where that fails already."""
    report = graded(
        box, "def ring_all_reduce(tensor):\n    raise NotImplementedError('x')"
    )
    assert report.points == 0 and not any(f.passed for f in report.findings)
    assert finding(report, "two_ranks").case == "2 ranks, 1 of float32"
    assert "line 2 of cell 1: `raise NotImplementedError('x')`" in str(report)
    assert str(report).count("NotImplementedError: x") == 1, "told once, then named"


@pytest.mark.slow
def test_a_loop_ends_the_check_at_its_deadline(box: Box) -> None:
    """All that was not tried is said to be so, and no point is given."""
    report = graded(box, "def ring_all_reduce(tensor):\n    while True: pass")
    assert report.points == 0 and len(report.runs) == 1
    message = finding(report, "two_ranks").message
    assert "never ends" in message and "of all ranks together; imports" in message


def test_a_failed_box_is_no_verdict(monkeypatch: pytest.MonkeyPatch, box: Box) -> None:
    """Not gradable is another thing than 0."""

    def broken(*_: object, **__: object) -> None:
        raise BoxError("no more processes")

    monkeypatch.setattr(box, "ranks", broken)
    with pytest.raises(NotGradable, match="no more processes"):
        graded(box, RING)


def test_no_file_of_the_checker_is_quoted(box: Box) -> None:
    """A line that a hostile rank names is looked up in its own program only."""
    secret = (
        "def ring_all_reduce(tensor):\n    dist.recv(tensor, 1 - dist.get_rank())\n"
    )
    text = (
        "import torch.distributed as dist\n"
        f"exec(compile({secret!r}, {__file__!r}, 'exec'), globals())\n"
    )
    report = graded(box, text)
    assert "wait in a circle" in str(report) and '"""The promises' not in str(report)
    assert "from __future__" not in str(report)


# -- over the wire ---------------------------------------------------------------------

MOVING = {
    "all_gather": "plain",
    "distributed_argmax": "ring",
    "distributed_mean": "gather_broadcast",
    "distributed_softmax": "gather_broadcast",
    "hierarchical_all_reduce": "class",
    "moe_dispatch": "plain",
    "overlapped_ddp": "plain",
    "reduce_scatter": "plain",
    "ring_all_reduce": "plain",
    "tree_broadcast": "doubling",
    "zero1_step": "plain",
}
"""Exercises that move bytes, and a right solution of each in the zoo."""

QUICK = ("distributed_mean", "ring_all_reduce", "tree_broadcast")


def without(outcome: Outcome, lost: Callable[[Event], bool]) -> Outcome:
    """An outcome as it would be had these messages and collectives not been."""
    events = [e for e in outcome.trace.events if e.op == "compute" or not lost(e)]
    trace = Trace.from_events(events, outcome.world_size, outcome.trace.groups)
    return replace(outcome, trace=trace)


def first_outcome(name: str, box: Box) -> tuple[Case, Outcome]:
    """The first case on several ranks, as a right solution ends it."""
    exercise = EXERCISES[name]
    text = zoo_program(name, f"ok_{MOVING[name]}").source
    program = Program.source([("cell 1", text)])
    if exercise.prelude:
        program = program.after("the world", exercise.prelude)
    case = next(c for c in exercise.cases(Inputs("1")) if c.world_size > 1)
    with box.ranks(case.world_size, program) as ranks:
        entry = case.entry or name
        return case, ranks.call(
            entry, case.args, exercise.allowed, case.schedule, case.outside
        )


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in MOVING],
)
def test_a_right_result_counts_if_it_came_over_the_wire(name: str, box: Box) -> None:
    """Not without a message, and not if one rank alone was told in another way."""
    case, outcome = first_outcome(name, box)
    judge, last = EXERCISES[name].result, case.world_size - 1
    assert judge(case, outcome).holds, judge(case, outcome).message
    for lost in (lambda event: True, lambda event: event.rank == last):
        judgement = judge(case, without(outcome, lost))
        assert not judgement.holds and "came over the wire" in judgement.message


def test_every_exercise_that_moves_bytes_has_its_least() -> None:
    """All but those whose answers are numbers and words."""
    answers = {"communication_ratio", "failure_lab", "which_verb"}
    assert EXERCISES.keys() - MOVING.keys() == answers


def test_too_little_between_nodes_is_no_good_mark(box: Box) -> None:
    """Whoever sends nothing across has not kept within the bytes that may cross."""
    case, outcome = first_outcome("hierarchical_all_reduce", box)
    judge, node = EXERCISES["hierarchical_all_reduce"].judges["crossing"], 2
    assert judge(case, outcome).holds
    inside = without(outcome, lambda e: e.rank // node != (e.peer or 0) // node)
    judgement = judge(case, inside)
    assert not judgement.holds and "only 0 S (0 B) leave node 0" in judgement.message


# -- words -----------------------------------------------------------------------------


def solved(name: str, stem: str, *changes: tuple[str, str]) -> str:
    """A solution of the zoo with parts of its text changed."""
    text = zoo_program(name, stem).source
    for old, new in changes:
        assert old in text, f"{name}/{stem} has no {old!r}"
        text = text.replace(old, new)
    return text


PIECES = """
import torch.distributed as dist

def overlapped_ddp(layers, bucket_bytes):
    for layer in reversed(layers):
        layer.backward()
        for piece in layer.gradient.view(-1).split(max(1, bucket_bytes // 4)):
            dist.all_reduce(piece)
        layer.gradient /= dist.get_world_size()
"""
FRACTION = """
from fractions import Fraction

def which_verb():
    return {"gradient": ("all_reduce", Fraction(1))}
"""
OWN_PART = """
import torch.distributed as dist

def all_gather(output, input):
    output.chunk(dist.get_world_size())[dist.get_rank()].copy_(input)
"""
OLD = ("momentum.mul_(0.9)", "old = momentum.clone()\n    momentum.mul_(0.9)")
BY_OLD = ("- lr * momentum", "- lr * old")
NEARLY = (
    "weights.copy_(padded[: len(weights)])",
    "weights.copy_(padded[: len(weights)] * (1 + rank * 2**-20))",
)
MISTAKES = {
    "the limit of all_reduces": (
        ("overlapped_ddp", "buckets", PIECES),
        "in 25 all_reduces; 5 are enough for 5 layers of 100 B in buckets of 4 B",
    ),
    "digits of float64": (
        (
            "distributed_softmax",
            "result",
            solved(
                "distributed_softmax",
                "ok_two_reductions",
                ("return e / total", "return (e / total).float().to(x.dtype)"),
            ),
        ),
        r"\[0\] is (0\.\d{12,}), not (?!\1:)0\.\d{12,}: that is near",
    ),
    "an untouched output": (
        ("all_gather", "result", "def all_gather(output, input): pass"),
        "rank 0: .*: output is as it was before",
    ),
    "a part that is missing": (
        ("all_gather", "result", OWN_PART),
        r"output\[\d\] is -?\d+, not -?\d+: the input of rank 1 belongs there",
    ),
    "the momentum of before": (
        ("zero1_step", "result", solved("zero1_step", "ok_plain", OLD, BY_OLD)),
        "it went by the momentum of before",
    ),
    "other weights than the owner's": (
        ("zero1_step", "identical", solved("zero1_step", "ok_plain", NEARLY)),
        "other bits than rank 0: the owner of a weight must update it",
    ),
    "halves": (
        ("tree_broadcast", "rounds", solved("tree_broadcast", "two_halves")),
        "on 2 ranks a tree takes 1: each of 2 messages takes one, and 1 of the whole",
    ),
    "a fraction": (
        ("which_verb", "gradient", FRACTION),
        r"`float\(\.\.\.\)` makes one",
    ),
}
"""A wrong answer by exercise, property and text, and what is said of it."""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_in_its_words(name: str, box: Box) -> None:
    """With the limit that counts, with digits that differ, and with what to do."""
    (exercise, prop, text), message = MISTAKES[name]
    verdict = finding(graded(box, text, name=exercise), prop)
    assert not verdict.passed and re.search(message, verdict.message), verdict.message


# -- in a notebook, and outside --------------------------------------------------------


def ring_all_reduce(tensor: torch.Tensor) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    total = tensor.clone()
    passed = tensor.clone(memory_format=torch.contiguous_format)
    for _ in range(world_size - 1):
        got = torch.empty_like(passed)
        work = dist.isend(passed, (rank + 1) % world_size)
        dist.recv(got, (rank - 1) % world_size)
        work.wait()
        total += got
        passed = got
    tensor.copy_(total)


@pytest.mark.slow
def test_the_self_check_predicts_the_grade(box: Box) -> None:
    """A function of the kernel and its text in a file have the same findings."""
    import inspect

    own = lab.check("ring_all_reduce", ring_all_reduce)
    text = "import torch, torch.distributed as dist\n" + inspect.getsource(
        ring_all_reduce
    )
    theirs = graded(box, text)
    assert own.points == theirs.points == 14
    assert [f.message for f in own.findings] == [f.message for f in theirs.findings]


def test_a_function_from_a_file_of_ones_own_is_reported(tmp_path, monkeypatch) -> None:
    """The grader gets the notebook only, so the check says what else it has used."""
    (tmp_path / "my_rings.py").write_text(
        "import torch.distributed as dist\n\ndef mine(tensor):\n"
        "    dist.all_reduce(tensor)\n"
    )
    (tmp_path / "unused.py").write_text("def other(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    my_rings, _ = importlib.import_module("my_rings"), importlib.import_module("unused")
    report = lab.check("ring_all_reduce", my_rings.mine)
    assert "code from my_rings.py, which a grader does not get" in report.note
    assert report.note in str(report) and report.note in page.report_html(report)

    space = {"__name__": "__main__"}  # as a cell of a notebook
    exec("def mine(tensor): pass", space)
    assert lab.check("ring_all_reduce", space["mine"]).note == ""


LOCK = threading.Lock()


def takes_a_lock(tensor: torch.Tensor) -> None:
    with LOCK:
        ring_all_reduce(tensor)


@pytest.mark.parametrize(
    "name, solution, error, message",
    [
        ("ring", ring_all_reduce, ValueError, "no exercise 'ring'; there are"),
        ("ring_all_reduce", 3, TypeError, "is int; need the function"),
        ("ring_all_reduce", None, TypeError, "is NoneType; need the function"),
        ("ring_all_reduce", takes_a_lock, TypeError, "make it in the function"),
        ("ring_all_reduce", {"ring": ring_all_reduce}, TypeError, "asks for ring_all"),
    ],
)
def test_a_wrong_call_says_what_is_right(name, solution, error, message) -> None:
    with pytest.raises(error, match=message):
        lab.check(name, solution)


def run_cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "collectives_lab", "check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


@pytest.mark.slow
def test_the_command_line_says_the_same(tmp_path) -> None:
    """Exit code 0 only if every property holds."""
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(RING)
    wrong.write_text(RING.replace("recv += got", "recv -= got"))
    done = run_cli("ring_all_reduce", str(right), "--tier", "C")
    assert done.returncode == 0 and "20 of 20" in done.stdout, done.stderr
    done = run_cli("ring_all_reduce", str(wrong), "--tier", "C", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["tier"].startswith("C")
    done = run_cli("ring_all_reduce", str(tmp_path / "ring.ipynb"))
    assert done.returncode == 2 and "call lab.check in it" in done.stderr
    done = run_cli("ring_all_reduce", str(tmp_path / "none.py"))
    assert done.returncode == 2 and "none.py cannot be read" in done.stderr
    assert run_cli("no_such", str(right)).returncode == 2


@pytest.mark.slow
def test_a_reader_who_has_gone_is_no_error(tmp_path) -> None:
    """`| head -1` ends before the report is out, and no traceback follows it."""
    (tmp_path / "right.py").write_text(RING)
    command = [sys.executable, "-m", "collectives_lab", "check", "ring_all_reduce"]
    command += [str(tmp_path / "right.py"), "--tier", "C"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == "" and process.wait(100) == 141


# -- reports ---------------------------------------------------------------------------


def test_a_report_is_kept_as_json(box: Box) -> None:
    """All but the trace comes back equal; anything else is refused in words."""
    report = graded(box, RING)
    again = Report.from_json(report.as_json())
    assert again.as_json() == report.as_json() and again.points == report.points
    for text in ("", "[]", "{}", '{"format": "other"}', report.as_json()[:-9]):
        with pytest.raises(ValueError, match="no report of a check"):
            Report.from_json(text)
    newer = report.as_json().replace("report 1", "report 2")
    with pytest.raises(ValueError, match=r"format is '.* report 2', .* reads '.* 1'"):
        Report.from_json(newer)


def test_a_card_escapes_what_is_a_strangers(box: Box) -> None:
    """Messages, names of cells and what was printed."""
    evil = "<script>alert(1)</script>"
    text = f"print('{evil}')\ndef ring_all_reduce(t):\n    raise ValueError('{evil}')\n"
    program = Program.source([(f"cell {evil}", text)])
    report = grade("ring_all_reduce", program, box=box)
    card = page.report_html(replace(report, shown=evil))
    assert "<script" not in card and "&lt;script" in card


def test_a_card_shows_properties_bytes_and_the_run(box: Box) -> None:
    """In a notebook: with the picture, with bars against the bound."""
    report = graded(box, RING)
    card = page.report_html(report)
    assert (
        card.count("<li>") == len(report.findings) and "the line is the bound" in card
    )
    assert "<img" in card or "<svg" in card


# -- tensors of cases ------------------------------------------------------------------


def test_integers_betray_a_narrower_dtype() -> None:
    """Sums over 8 ranks are exact, and a cast to the next dtype below changes them."""
    from random import Random

    for dtype, narrow in (
        (torch.float64, torch.float32),
        (torch.int64, torch.float64),
        (torch.int64, torch.int32),
    ):
        given = [tensors.integers(Random(r), [50], dtype) for r in range(8)]
        total = sum(int(x[0]) for x in given)
        assert int(torch.stack(given).sum(0)[0]) == total
        assert not torch.equal(given[0].to(narrow).to(dtype), given[0])


@pytest.mark.parametrize("kind", ["transposed", "columns", "rows"])
def test_memory_beside_a_view_is_watched(kind: str) -> None:
    """A write into the view is fine, one beside it is not."""
    given = tensors.layout(kind, torch.arange(15.0).view(3, 5))
    assert torch.equal(given.view, torch.arange(15.0).view(3, 5))
    after = given.storage.clone()
    Strided(after, given.size, given.stride, given.offset).view.add_(1)
    tensor, wrong = tensors.returned(given, after)
    assert not wrong and torch.equal(tensor, given.view + 1)
    if kind != "transposed":
        after[0] += 1
        assert "beside it" in tensors.returned(given, after)[1]


@pytest.mark.parametrize(
    "actual, expected, message",
    [
        (2.5, 3.0, "x[0] is 2.5, not 3"),
        (
            1 / 3,
            0.33333333432674408,
            "x[0] is 0.3333333333333333, not 0.33333333432674",
        ),
        (2**53 + 1, 2**53, "x[0] is 9007199254740993, not 9007199254740992"),
    ],
)
def test_numbers_that_differ_are_seen_to_differ(
    actual: float, expected: float, message: str
) -> None:
    """With more digits where eight of them are alike."""
    dtype = torch.int64 if isinstance(actual, int) else torch.float64
    both = [torch.tensor([n], dtype=dtype) for n in (actual, expected)]
    assert tensors.compare(*both, "x")[0].startswith(message)


def test_a_case_says_what_it_is() -> None:
    """In words that stand before a message."""
    assert str(Case([()], (), "")) == "1 rank"
    late = lab.wire.Schedule(3)
    assert str(Case([(), ()], (), "7 elements", schedule=late)) == (
        "2 ranks, 7 elements, messages delayed and reordered"
    )


# -- what the checker bears ------------------------------------------------------------


@pytest.mark.parametrize("error", [TypeError, MemoryError, RecursionError, KeyError])
def test_a_judge_that_fails_is_a_zero_to_be_looked_at(
    box: Box, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a student's values in play it is no lack of a verdict, to be tried again."""

    def fails(case: Case, outcome: Outcome):
        raise error("of these values")

    broken = replace(EXERCISES["ring_all_reduce"], result=fails)
    monkeypatch.setitem(EXERCISES, "ring_all_reduce", broken)
    report = graded(box, RING)
    assert report.points == 0 and error.__name__ in report.look
    assert {f.points for f in report.findings} == {0}
    assert Report.from_json(report.as_json()).look == report.look
    assert "a person should look" in str(report)


@pytest.mark.slow
def test_what_ranks_return_is_not_kept(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty cases of 12 MiB from each of 2 ranks need the memory of a few."""
    args = [[torch.ones(2)]] * 2
    cases = [Case(args, ["two_ranks"], f"case {n}") for n in range(20)]
    exercise = EXERCISES["ring_all_reduce"]
    many = replace(
        exercise,
        properties=[p for p in exercise.properties if p.name == "two_ranks"],
        cases=lambda inputs: cases,
        result=lambda case, outcome: Judgement(outcome.failure is None),
        judges={},
    )
    monkeypatch.setitem(EXERCISES, "ring_all_reduce", many)
    text = "import torch\ndef ring_all_reduce(x): return torch.ones(3 << 20)\n"
    graded(box, text)
    memory = Memory()
    report = graded(box, text)
    assert report.passed, report
    assert memory.grown() < 160 << 20


def test_a_run_of_very_many_operations_is_not_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its picture would take the checker many seconds; the card says so."""
    events = [Event(0, "send", 4, 1, tag=n, issued=float(n)) for n in range(2000)]
    report = Report("ring_all_reduce", [], trace=Trace.from_events(events, 2))
    monkeypatch.setattr(page, "picture_html", lambda trace: pytest.fail("it is drawn"))
    assert "2000 operations: too many to draw" in page.report_html(report)


def test_a_large_tensor_is_searched_within_its_own_memory() -> None:
    """What a rank has left in an input may be as large as a frame."""
    large, part = torch.zeros(3_900_000), torch.arange(1.0, 65.0)
    large[-64:] = part
    memory = Memory()
    assert tensors.contains(large, part) and not tensors.contains(large, part + 1)
    assert memory.grown() < 128 << 20


def test_a_check_has_a_deadline_over_all_its_cases(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No number of sessions adds up to more."""
    monkeypatch.setattr(engine, "SECONDS", 0.0)
    report = graded(box, RING)
    assert report.points == 0 and "in time" in str(report)
