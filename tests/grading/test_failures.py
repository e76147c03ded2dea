"""The promises of the failure lab: its recordings and dumps say enough, and no more."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from test_assignments import ROOT, program, read

from collectives_lab import checking
from collectives_lab.checking import failure_dumps, failure_recordings, mesh_training
from collectives_lab.checking.exercises.failure_lab import DUMPS_WOULD_SHOW, WOULD_SHOW
from collectives_lab.checking.failure_recordings import CASES, KINDS, Fault
from collectives_lab.formats import flight_recorder
from collectives_lab.trace import Event, Trace
from collectives_lab.wire import Box, Program

STUDENTS = [f"student {n}" for n in range(200)]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with Box() as opened:
        yield opened


# -- diagnosis: from a recording alone -------------------------------------------------


def place(event: Event) -> tuple[int, int]:
    """Step and line, as the record says them."""
    step, line = re.fullmatch(r"step (\d+), line (\d+)", event.where).groups()
    return int(step), int(line)


def line(event: Event) -> int:
    return place(event)[1]


def steps(trace: Trace, rank: int) -> list[list[Event]]:
    """What a rank did, step by step."""
    events = trace.of_rank(rank)
    last = max(place(event)[0] for event in events)
    return [[e for e in events if place(e)[0] == step] for step in range(last + 1)]


def diagnose(trace: Trace) -> Iterator[Fault]:
    """Every fault that somebody could read from a recording."""
    ranks = range(trace.world_size)
    done = [steps(trace, rank) for rank in ranks]
    for rank in ranks:
        last = done[rank][-1][-1]
        if last.op == "compute" and last.completed is None:
            yield Fault("stopped", rank, len(done[rank]) - 1, line(last))
        for step, events in enumerate(done[rank]):
            lines = [line(event) for event in events]
            expected = {2, 5, 8, 9, 10, 11, 12, 13, 16, 17}
            expected |= {4} if rank > 0 else set()
            expected |= {7} if rank < max(ranks) else set()
            end = max(lines) if step == len(done[rank]) - 1 else 18
            for missing in sorted(expected - set(lines)):
                if missing < end:
                    yield Fault("skipped", rank, step, missing)
            if lines != sorted(lines):
                yield Fault("swapped", rank, step, 11)
            for event in events:
                others = [
                    other
                    for peer in ranks
                    if peer != rank and step < len(done[peer])
                    for other in done[peer][step]
                    if line(other) == line(event)
                ]
                yield from differences(rank, step, event, others)


def differences(
    rank: int, step: int, event: Event, others: list[Event]
) -> Iterator[Fault]:
    """How one call differs from the same line of the other ranks."""
    if event.op in ("send", "recv"):
        if event.tag != step:
            yield Fault("tag", rank, step, line(event))
    elif event.op == "compute":
        known = sorted(other.seconds for other in others if other.seconds)
        if event.seconds and known and event.seconds > 1.3 * known[len(known) // 2]:
            yield Fault("slow", rank, step, line(event))
    elif len(others) > 1:
        for kind, name in (("size", "nbytes"), ("root", "root")):
            values = Counter(getattr(other, name) for other in others)
            if len(values) == 1 and getattr(event, name) not in values:
                yield Fault(kind, rank, step, line(event))


@pytest.mark.parametrize("student", STUDENTS[::4])
def test_a_recording_says_what_was_wrong_and_nothing_else(student: str) -> None:
    """From the recording alone the fault is found, and it is the only one to find."""
    seeded, recordings = (
        failure_recordings.seeded(student),
        failure_recordings.recordings(student),
    )
    for case in CASES:
        first, *more = diagnose(recordings[case])
        assert first == seeded[case], case
        assert all(first.kind == "slow" == other.kind for other in more), more
        assert {(first.rank, first.line)} >= {(m.rank, m.line) for m in more}


@pytest.mark.parametrize("student", STUDENTS[1::20])
def test_the_reference_diagnoses_anybody_s(box: Box, student: str) -> None:
    """It is a program, so that an example for any student has full marks."""
    notebook = read(ROOT / "solutions/failure_lab/failure_lab.ipynb")
    report = checking.grade(
        "failure_lab", program(notebook, "failure_lab"), student=student, box=box
    )
    assert report.passed, str(report)


def test_a_right_job_has_no_fault() -> None:
    """The diagnosis above finds nothing where nothing was done."""
    nothing = Fault("slow", 9, 9, 8)
    random = failure_recordings.random_of("", "right")
    calls = [
        call
        for rank in range(5)
        for call in failure_recordings._program(rank, 5, 3, nothing, random)
    ]
    trace = failure_recordings._recorded(Trace.from_events(calls, 5), nothing)
    assert not list(diagnose(trace))
    assert all(event.completed is not None for event in trace.events)


def test_only_a_slow_rank_lets_the_job_end() -> None:
    """Every other fault leaves calls that never end, and ranks that wait."""
    for student in STUDENTS[:20]:
        for case, trace in failure_recordings.recordings(student).items():
            waits = [e for e in trace.events if e.waited is not None]
            stuck = any(event.completed is None for event in waits)
            assert stuck == (failure_recordings.seeded(student)[case].kind != "slow")


def test_recordings_are_one_s_own() -> None:
    """They follow from the id, however it is written, and others have others."""
    own, again = (
        failure_recordings.recordings(" Ada "),
        failure_recordings.recordings("ada"),
    )
    assert all(own[case] == again[case] for case in CASES)
    drawn = {tuple(failure_recordings.seeded(student).values()) for student in STUDENTS}
    assert len(drawn) == len(STUDENTS)
    kinds = Counter(
        f.kind for s in STUDENTS for f in failure_recordings.seeded(s).values()
    )
    assert set(kinds) == set(KINDS) == set(WOULD_SHOW)
    assert min(kinds.values()) > 0.5 * max(kinds.values())


def test_no_collective_ends_before_all_ranks_have_made_it() -> None:
    """So the notebook says of the library, and that calls meet by their order."""
    for student in STUDENTS[:20]:
        for trace in failure_recordings.recordings(student).values():
            ranks = [
                [e for e in trace.of_rank(rank) if e.peer is None and e.op != "compute"]
                for rank in range(trace.world_size)
            ]
            for calls in itertools.zip_longest(*ranks):
                ends = [call.completed for call in calls if call and call.completed]
                if ends:
                    assert all(calls)
                    assert min(ends) > max(call.issued for call in calls)


# -- dumps -----------------------------------------------------------------------------


def dumped(folder: Path, student: str) -> dict[str, list[flight_recorder.Dump]]:
    """The dumps of each case as the lab reads them, by rank."""
    paths = failure_dumps.write(student, folder)
    return {case: [*map(flight_recorder.read, paths[case])] for case in paths}


Odd = tuple[int, int, str, int, str]
"""When the others made the call, the rank, the group, the number, and what is odd."""


def odd_calls(dumps: list[flight_recorder.Dump]) -> Iterator[Odd]:
    """Every call that one rank lacks, or makes otherwise than the others."""
    for group in sorted(set().union(*(dump.groups for dump in dumps))):
        ranks = next(dump.groups[group].ranks for dump in dumps if group in dump.groups)
        calls = {
            rank: {c.number: c for c in dumps[rank].calls if c.group == group}
            for rank in ranks
        }
        end = max(number for of_rank in calls.values() for number in of_rank)
        for number in range(end - 3, end + 1):
            there = {r: of[number] for r, of in calls.items() if number in of}
            created = min(call.created for call in there.values())
            for rank in set(ranks) - set(there):
                if number > max(calls[rank]):
                    yield created, rank, group, number, "missing"
            for what in ("verb", "inputs", "dtypes"):
                values = Counter(getattr(call, what) for call in there.values())
                for rank, call in there.items():
                    if values[getattr(call, what)] == 1 < len(there):
                        yield created, rank, group, number, what


@pytest.mark.parametrize("student", STUDENTS[::8])
def test_dumps_say_what_was_wrong_and_nothing_else(
    student: str, tmp_path: Path
) -> None:
    """From the files alone the fault is found, and all that is odd is on its rank."""
    seeded = failure_dumps.seeded(student)
    for case, dumps in dumped(tmp_path, student).items():
        fault, odd = seeded[case], sorted(odd_calls(dumps))
        assert {rank for _, rank, *_ in odd} == {fault.rank}
        first, _, group, number, _ = odd[0]
        assert (group, number) == (fault.group, fault.number)
        whats = {what for created, *_, what in odd if created == first}
        went_on = dumps[fault.rank].calls[-1].created > first
        if "missing" in whats or "verb" in whats:
            assert fault.kind == ("skipped" if went_on else "stopped")
        else:
            assert whats == {{"size": "inputs", "dtype": "dtypes"}[fault.kind]}


def test_dumps_have_the_form_that_torch_writes(tmp_path: Path) -> None:
    """The lab's own reader takes them: ranks, groups, states, lines; JSON has none."""
    dumps = dumped(tmp_path, "ada")
    for case, files in dumps.items():
        assert [dump.rank for dump in files] == [*range(len(files))]
        for dump in files:
            assert dump.complete and dump.backend == "nccl" and len(dump.groups) == 3
            assert len(dump.calls) == failure_dumps.BUFFER
            assert {call.where != "" for call in dump.calls} == {case == "F"}
            for number, group in enumerate(dump.groups):
                mine = [call for call in dump.calls if call.group == group]
                enqueued, _, completed = dump.status[str(number)]
                assert enqueued == mine[-1].number
                assert completed == max(call.number for call in mine if call.over)


def test_a_job_with_a_fault_in_its_dumps_is_stuck() -> None:
    """No rank ends the fault's step, and no call ends before all ranks began it."""
    for student in STUDENTS[:20]:
        for job in failure_dumps._jobs(student).values():
            random = failure_recordings.random_of("", student)
            queues = [
                mesh_training.calls(job, rank, random) for rank in range(job.world_size)
            ]
            mesh_training.play(queues, job.groups)
            calls = [call for queue in queues for call in queue]
            over = {(c.group, c.number) for c in calls if c.ended is not None}
            assert max(n for group, n in over if group == "0") == job.step
            for group, number in over:
                ranks = job.groups[group][1]
                met = [c for c in calls if (c.group, c.number) == (group, number)]
                assert [c.rank for c in met] == ranks
                assert min(c.ended for c in met) > max(c.started for c in met)


def test_dumps_are_one_s_own() -> None:
    """They follow from the id, however it is written; each job has another class."""
    assert failure_dumps.files(" Ada ") == failure_dumps.files("ada")
    assert failure_dumps.files("ada") != failure_dumps.files("bob")
    faults = [tuple(failure_dumps.seeded(student).values()) for student in STUDENTS]
    assert len(set(faults)) == len(STUDENTS)
    kinds = Counter(fault.kind for pair in faults for fault in pair)
    assert set(kinds) == set(failure_dumps.KINDS) == set(DUMPS_WOULD_SHOW)
    assert min(kinds.values()) > 0.5 * max(kinds.values())
    assert all(
        sum(fault.kind in ("stopped", "skipped") for fault in pair) == 1
        for pair in faults
    )


# -- answers ---------------------------------------------------------------------------


def right(student: str) -> dict[str, dict]:
    seeded = failure_recordings.seeded(student) | failure_dumps.seeded(student)
    return {case: asdict(fault) for case, fault in seeded.items()}


def failed(box: Box, answers: object, student: str = "ada") -> dict[str, str]:
    """The message of every property that does not hold."""
    text = f"def failure_lab(*_):\n    return {answers!r}"
    typed = Program.source([("cell 9", text)])
    report = checking.grade("failure_lab", typed, student=student, box=box)
    return {f.name: f.message for f in report.findings if not f.passed}


@pytest.mark.parametrize("student", ["", "ada", "bob"])
def test_a_right_diagnosis_has_full_marks(box: Box, student: str) -> None:
    """On one's own recordings; those of another are of no use."""
    assert not failed(box, right(student), student)
    assert failed(box, right(student), "somebody else")


def test_each_field_earns_its_own_point(box: Box) -> None:
    """A wrong rank costs the rank; a case that is left out costs itself."""
    answers = right("ada")
    answers["B"] |= {"rank": answers["B"]["rank"] + 1}
    del answers["D"]
    assert list(failed(box, answers)) == ["B_rank", "D_kind", "D_rank", "D_place"]


def test_both_swapped_lines_name_the_place(box: Box) -> None:
    """Which of two calls came too early, and which too late, is the same fault."""
    student, case = next(
        (s, c)
        for s in STUDENTS
        for c, f in failure_recordings.seeded(s).items()
        if f.kind == "swapped"
    )
    answers = right(student)
    answers[case]["line"] = 13
    assert not failed(box, answers, student)


@pytest.mark.parametrize(
    "change, name, message",
    [
        ({"kind": "late"}, "A_kind", "none of the kinds"),
        ({"kind": 3}, "A_kind", "not a name in quotation marks"),
        ({"rank": "2"}, "A_rank", "not a whole number"),
        ({"rank": True}, "A_rank", "not a whole number"),
        ({"rank": 99}, "A_rank", "rank 99 does what the program says"),
        ({"step": 99}, "A_place", "in step 99 all ranks"),
        ({"line": 99}, "A_place", "in line 99 what the program says"),
        ({"line": None}, "A_place", "not a whole number"),
    ],
)
def test_a_wrong_field_is_reported(
    box: Box, change: dict[str, object], name: str, message: str
) -> None:
    """The message says what is not so, and not what is."""
    answers = right("ada")
    answers["A"] |= change
    (failure,) = failed(box, answers).items()
    assert failure[0] == name and message in failure[1]


def test_a_later_slow_step_is_reported_as_such(box: Box) -> None:
    """Where a rank stays slow, the first step is asked for, and only that is right."""
    student, case = next(
        (s, c)
        for s in STUDENTS
        for c, f in failure_recordings.seeded(s).items()
        if f.kind == "slow"
    )
    answers = right(student)
    answers[case]["step"] += 1
    (message,) = failed(box, answers, student).values()
    assert "not for the first time" in message


def test_a_wrong_kind_is_reported_without_the_right_one(box: Box) -> None:
    """What would be to see of the wrong kind is told, and the right one is not."""
    fault = failure_recordings.seeded("ada")["A"]
    for kind in set(KINDS) - {fault.kind}:
        answers = right("ada")
        answers["A"]["kind"] = kind
        (message,) = failed(box, answers).values()
        assert WOULD_SHOW[kind] in message and repr(fault.kind) not in message


@pytest.mark.parametrize(
    "case, change, name, message",
    [
        ("F", {"kind": "swapped"}, "F_kind", "none of the kinds: stopped, skipped"),
        ("F", {"rank": 99}, "F_rank", "rank 99 does what the program says"),
        ("F", {"line": 3}, "F_line", "in line 3 nothing is wrong"),
        ("G", {"line": "8"}, "G_line", "not a whole number"),
        ("G", {"group": 0}, "G_evidence", "not a name in quotation marks"),
        ("G", {"group": "9"}, "G_evidence", "call 26 of group '9' is not the first"),
        ("G", {"number": 99}, "G_evidence", "99 of group 6 comes after the first"),
    ],
)
def test_a_wrong_field_of_dumps_is_reported(
    box: Box, case: str, change: dict[str, object], name: str, message: str
) -> None:
    """Each field of it costs its own point, and the right one is not said."""
    answers = right("ada")
    answers[case] |= change
    (failure,) = failed(box, answers).items()
    assert failure[0] == name and message in failure[1]


@pytest.mark.parametrize("answers", [None, 3, {"A": 3}, {"A": {}}, {}])
def test_what_is_no_answer_has_no_marks(box: Box, answers: object) -> None:
    """Anything at all may be returned."""
    assert len(failed(box, answers)) == 23
