"""What a notebook defines when it is run from top to bottom is what is graded."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from autograder_course import RING

from autograder import remarks
from autograder.program import Reading, read, texts
from autograder.statements import IMPORTS, Code
from autograder.trial import Trial, tried
from autograder.worker import checked
from collectives_lab import checking
from collectives_lab.wire import Box, Outcome, Program

Cells = str | tuple[str, ...]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with Box() as opened:
        yield opened


def reading(cells: Cells, after: tuple[str, ...] = ()) -> Reading:
    """A notebook of these cells, and of those behind the test cell, read for `f`."""
    before = (cells,) if isinstance(cells, str) else cells
    numbered = [Code(n, source) for n, source in enumerate(before, 1)]
    behind = enumerate(after, len(before) + 2)
    return read([*numbered, *(Code(n, s, after=True) for n, s in behind)], ["f"])


def called(box: Box, submission: Reading | Trial) -> Outcome:
    """What a rank gives that runs the notebook and calls `f(2)`."""
    program = Program.notebook(texts(submission.runs))
    with box.ranks(1, program) as ranks:
        return ranks.call("f", [(2,)])


def notes(
    box: Box, cells: Cells, after: tuple[str, ...] = (), given: tuple[str, ...] = ()
) -> list[str]:
    """What is said of a notebook."""
    submission = reading(cells, after)
    return remarks.on(submission, tried(submission, box), ["f"], given)


# What counts

LATER = "class A:\n    def next(self, x: Later) -> A:\n        return 2\nf = A().next"
FUTURE = "from __future__ import annotations"
HELPERS = "T = {}\ndef two(*_): return 2\n"
DEFINES = {
    "for": "T = {}\nfor n in (1, 2):\n    T[n] = lambda n=n: n\n"
    "def f(x): return T[x]()",
    "for_def": "for k in [2]:\n    def f(x): return k",
    "while": "n = 0\nwhile n < 2: n += 1\ndef f(x): return n",
    "if": HELPERS + "if two() == 2:\n    print('é')\n    def f(x): return two()",
    "else": "if 1 > 2:\n    K = 1\nelse:\n    K = 2\ndef f(x): return K",
    "main": "if __name__ == '__main__':\n    def f(x): return 2",
    "with": "import math\nwith open('/dev/null') as n:\n    def f(x): return 2",
    "try": "try:\n    import none_such as n\nexcept ImportError:\n    n = 2\n"
    "def f(x): return n",
    "finally": ("try:\n    1 / 0\nfinally:\n    K = 2", "def f(x): return K"),
    "match": "match 2:\n    case K: pass\ndef f(x): return K",
    "walrus": "(K := 2)\ndef f(x): return K",
    "comprehension": "L = []\n[L.append(n) for n in range(3)]\ndef f(x): return L[2]",
    "attribute": HELPERS + "class A: pass\na = A()\na.b = A()\na.b.two = two\n"
    "def f(x): return a.b.two()",
    "class_attribute": "class A:\n    def n(self): return 1\n"
    "A.n = lambda self: 2\ndef f(x): return A().n()",
    "attribute_of_itself": "def f(x):\n    return f.calls\nf.calls = 2",
    "item": HELPERS + "T['two'] = two\ndef f(x): return T['two']()",
    "update": HELPERS + "T.update(two=two)\ndef f(x): return T['two']()",
    "alias": HELPERS + "same = T\nsame['two'] = two\ndef f(x): return T['two']()",
    "register": HELPERS + "def register(n, g):\n    T[n] = g\nregister('two', two)\n"
    "def f(x): return T['two']()",
    "decorator": "T = {}\ndef keep(g):\n    T[g.__name__] = g\n    return g\n"
    "@keep\ndef two(): return one() + 1\ndef one(): return 1\n"
    "def f(x): return T['two']()",
    "subclass": "class B:\n    kinds = []\n    def __init_subclass__(cls):\n"
    "        B.kinds.append(cls)\nclass C(B): pass\nclass D(C): pass\n"
    "def f(x): return len(B.kinds)",
    "dispatch": "import functools\n@functools.singledispatch\ndef g(x): return 1\n"
    "@g.register\ndef _(x: int): return 2\ndef f(x): return g(x)",
    "dispatch_by_call": "import functools\ng = functools.singledispatch(lambda x: 1)\n"
    "g.register(int, lambda x: 2)\ndef f(x): return g(x)",
    "global": "def setup():\n    global K\n    K = 2\nsetup()\ndef f(x): return K",
    "globals": "for n in ('f', 'g'):\n    globals()[n] = lambda x: 2",
    "exec": "exec('def f(x): return 2')",
    "setattr": "class A: pass\nsetattr(A, 'n', 2)\ndef f(x): return A.n",
    "module_attribute": "import math\nmath.two = 2\ndef f(x): return math.two",
    "setting": "import sys\nsys.setrecursionlimit(2345)\n"
    "def f(x): return sys.getrecursionlimit() - 2343",
    "star": "from math import *\ndef f(x): return floor(2.5)",
    "star_that_fails": ("from none_such import *", "def f(x): return 2"),
    "await": "async def g(): return 2\nK = await g()\ndef f(x): return K",
    "del": "K = 2\ndef f(x): return K\nL = K\ndel L",
    "wrapped": "def f(x): return 1\ng = f\ndef f(x): return g(x) + 1",
    "dataclass": FUTURE + "\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n"
    "    x: Later = 2\ndef f(x): return P().x",
    "future": f"# mine\n{FUTURE}\n{LATER}",
    "future_of_another_cell": (FUTURE, LATER),
    "last_one": ("def f(x): return 1", "def f(x): return 2"),
    "display": "T = {}\nfor n in (1, 2):\n    display(n)\n    T[n] = n\n"
    "def f(x): return T[x]",
    "import_or_magic": "try:\n    import math as lab\nexcept ImportError:\n"
    "    %pip install lab\ndef f(x): return lab.floor(2.5)",
    "own_dist": "import torch.distributed as dist\nclass dist: size = 2\n"
    "def f(x): return dist.size",
    "no_group_yet": "import torch.distributed as dist\nK = dist.is_initialized()\n"
    "def f(x): return 2 * (dist.is_initialized() - K)",
    "group_of_its_own": "import torch.distributed as dist\n"
    "dist.init_process_group('fake', rank=0, world_size=2, store=dist.HashStore())\n"
    "def f(x): return dist.get_world_size() + 1",
}


@pytest.mark.parametrize("cells", DEFINES.values(), ids=DEFINES)
def test_what_the_notebook_has_the_rank_has(box: Box, cells: Cells) -> None:
    """Each of these works in a notebook, so it works where it is checked."""
    outcome = called(box, reading(cells))
    assert (outcome.results, outcome.failure) == ([2], None)


def test_definitions_alone_are_not_the_notebook(box: Box) -> None:
    """A reader that takes only functions and imports fails where others are tried."""
    for kind in ("for", "if", "with", "attribute", "register", "decorator"):
        submission = reading(DEFINES[kind])
        submission.runs = [
            s for s in submission.runs if s.kind in IMPORTS or s.is_plain_function
        ]
        assert called(box, submission).failure is not None, kind


def test_lines_are_the_students(box: Box) -> None:
    """In whatever block, behind whatever stands on the line."""
    submission = reading(
        f"{FUTURE}\n'doc'; print(1); x = (\n 1)\nif 1:\n    def f(x):\n     1/0"
    )
    failure = called(box, submission).failure
    assert failure is not None and failure.places[-1] == ("cell 1", 6, "f")


def test_what_stands_behind_the_test_helps_only_where_needed(box: Box) -> None:
    """The last definition before it counts; a helper that is nowhere else does too."""
    first = "T = [4]\ndef f(x): return later() + T[0]"
    after = ("def f(x): return 3\nT.append(1)", "x = T.pop()\ndef later(): return 0")
    assert called(box, reading(first, after)).results == [4]


def test_every_rank_begins_alike(box: Box) -> None:
    """Random numbers of a cell are the same on each, as those of a notebook are."""
    submission = reading(
        "import random, torch\nimport numpy as np\n"
        "K = random.random(), float(torch.rand(1)), np.random.rand()\n"
        "def f(x): return K"
    )
    with box.ranks(2, Program.notebook(texts(submission.runs))) as ranks:
        one, other = ranks.call("f", [(2,)] * 2).results
    assert one == other is not None


# What costs nobody the rest

COSTS_NOTHING = (
    *("%load_ext collectives_lab", "!pip install none_such", "%%ranks 2\nprint(1)"),
    *("import lab_of_mine", "lab.run(f, 4)", "assert False", "x = [", "1 / 0", "f?"),
    *("import matplotlib.pyplot as plt\nplt.plot([1])", "open('x', 'w').write('y')"),
    *("input()", "import sys\nsys.exit()", "raise KeyboardInterrupt", "exit()"),
    *("import torch.distributed as dist\ndist.barrier()", "display(3)", "\ufffd"),
    *("dist.init_process_group('gloo')\nx = 'a' * 10**11", "return 3", "x = f(3) + y"),
    *("import ast, time\nast.parse = time.monotonic = time.process_time = None",),
)


def test_a_cell_that_fails_costs_nobody_the_rest(box: Box) -> None:
    """All of these around a solution, and what they print is not the solution's."""
    cells = (*COSTS_NOTHING, "print('mine')\ndef f(x): return x", *COSTS_NOTHING)
    submission = reading(cells)
    after = tried(submission, box)
    outcome = called(box, after)
    assert (outcome.results, outcome.printed, after.endless) == ([2], "", {})
    lines = remarks.on(submission, after, ["f"], ())
    assert len(lines) < 12 and sum(map(len, lines)) < 2000


ENDLESS = (
    ("while True:\n    pass", "does not end"),
    ("import time\ntime.sleep(60)", "does not end"),
    ("import os\nos._exit(3)", r"ends the process \(it left with exit code 3 "),
)


@pytest.mark.slow
def test_a_statement_that_hangs_or_kills_is_left_out(box: Box) -> None:
    """It is named, and the statements around it are run."""
    cells = ["T = {}\nfor n in (1, 2):\n    T[n] = n"]
    cells += [source for source, _ in ENDLESS]
    submission = reading((*cells, "def f(x): return T[x]"))
    after = tried(submission, box)
    assert called(box, after).results == [2]
    lines = remarks.on(submission, after, ["f"], ())
    for note, (source, why) in zip(lines, ENDLESS, strict=True):
        line = source.split("\n")[source.startswith("import")]
        assert re.search(rf"{re.escape(line)}.* {why}.*, so it is left out$", note)


def test_what_takes_long_runs_only_where_the_solution_needs_it(box: Box) -> None:
    """Each rank runs the notebook: a demonstration does not cost its time each time."""
    slow = "sum(range(10**7))"
    submission = tried(
        reading(
            f"T = {{}}\ndef setup(n):\n    T[n] = {slow} and n\nsetup(2)\n"
            f"x = {slow}\ny = 3\ndef f(x): return T[x]"
        ),
        box,
    )
    assert [s.text for s in submission.slow] == [f"x = {slow}"]
    assert called(box, submission).results == [2]


# Remarks

REMARKS = {
    "T = 1 / 0\ndef f(x): return T": r"line 1: `T = 1 / 0` fails where submissions are "
    r"checked: ZeroDivisionError: division by zero\. Your solution uses T",
    "T = {}\nfor k in [1]: T.update(g(1))\ndef f(x): return T": "Your solution uses T",
    "def my_f(x): return 2": r"no cell .* defines f; it defines my_f \(cell 1\)",
    "x = 1": "no cell of your notebook defines f. What is checked must be called f",
    "%%timeit -n1\ndef f(x): return 2": "cell 1 is left out, for its `%%timeit -n1`: ",
    "from no_file_here import f": "No module named 'no_file_here'.* Only the not",
    "A = 1\n\ndef f(x):\n    break": "SyntaxError: 'break' outside loop",
    "def f(x): return 2\ng(": r"cell 1 is left out: line 2: '\(' was never closed",
    "def f(x): return 2\nlab.run(f)": r"the rest went on: cell 1 \(line 2\) \(Name",
    "import matplotlib.pyplot as plt\ndef f(x): return 2\nplt.show()": r"the rest went "
    r"on: cell 1 \(line 3\) \(plt is of matplotlib, which is not imported there\)",
}


@pytest.mark.parametrize("source", REMARKS)
def test_what_was_left_out_is_reported(box: Box, source: str) -> None:
    """No honest work gets nothing in silence: the line is named, and why."""
    assert re.search(REMARKS[source], "\n".join(notes(box, source)))


def test_no_remark_on_what_costs_nothing(box: Box) -> None:
    """Released cells, magics and plots that nobody needs are no news."""
    given = "lab.table(\n    1,\n)"
    cells = (
        f"%matplotlib inline\nimport matplotlib.pyplot\n{given}",
        "def f(x): return 2",
    )
    assert notes(box, cells, given=(given,)) == []
    assert notes(box, cells) != []


def test_a_released_demonstration_is_no_fault(box: Box) -> None:
    """It fails here; the solution may change what it reads, so it counts as needed."""
    given = "run = g.run(f)"
    solution = "T = {}\ndef f(x):\n    T[x] = x\n    return len(T) + 1"
    assert notes(box, (solution, given, "U = T"), given=(given,)) == []
    assert "fails where" in "\n".join(notes(box, (solution, given)))


def test_reading_a_collection_does_not_change_it() -> None:
    """What only looks at a dict is no reason to run what calls it."""
    cells = ("T = {}", "class C:\n    x = [*T.items()]\ndef f(x): return C", "run(f)")
    submission = reading(cells)
    assert [s.text for s in submission.statements if s not in submission.needed] == [
        "run(f)"
    ]
    submission = reading((cells[0], cells[1].replace("items", "popitem"), cells[2]))
    assert {s.text for s in submission.statements} == {
        s.text for s in submission.needed
    }


def test_a_solution_behind_the_test_is_reported(box: Box) -> None:
    """The stub before it counts; a copy of the same is no word worth."""
    stub, solution = "def f(x): raise NotImplementedError", "def f(x): return 2"
    note = "cell 3, behind the test, defines f too: the one before the test counts"
    assert notes(box, stub, after=(solution,)) == [note]
    assert notes(box, stub, after=(stub,)) == notes(box, (), after=(solution,)) == []


@pytest.mark.parametrize(
    "source",
    [
        f"for {','.join(f'a{k}' for k in range(20_000))} in b: pass\n"
        f"def f(x): return {', '.join(f'a{k}' for k in range(20_000))}",
        "".join(f"for a{k} in b: pass\n" for k in range(900))
        + f"def f(x): return {' + '.join(f'a{k}' for k in range(900))}",
        f"for {'a' * 50_000} in b: pass\ndef f(x): return {'a' * 50_000}",
        f"raise ValueError('{'a' * 50_000}')\nT = {{}}['\\x1b[2J']\ndef f(x): T",
    ],
    ids=["names", "lines", "name", "error"],
)
def test_notes_fill_no_page(box: Box, source: str) -> None:
    """Whatever a cell holds, and whatever its errors say."""
    written = notes(box, source)
    assert 0 < len(written) < 20 and max(map(len, written)) < remarks.LONGEST + 10
    assert all(note.isprintable() for note in written)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "bad",
    [
        "def g(:\n    pass",
        "x = '",
        "x = (" * 500,
        "-" * 10**5 + "1",
        "1" + "+1" * 10**5,
        "x = " + "9" * 10**5,
        *("1\n" * 10**5, "(" + "\n" * 10**5, " " * 10**5 + "!"),
    ],
)
def test_a_cell_that_python_cannot_read_costs_only_itself(bad: str) -> None:
    """The other cells go on, and the cell is named with its line."""
    submission = reading((bad, "def f(x): return x"))
    assert [s.cell.name for s in submission.runs] == ["cell 2"]
    assert "cell 1" in submission.notes[0]


@pytest.mark.timeout(20)
def test_many_cells_that_use_each_other_are_read_soon() -> None:
    """What is needed is found in a time that grows with the notebook's size."""
    calls = [f"def g{n}(): g{n + 1}(); T[{n}] = 1\ng{n}()" for n in range(4000)]
    cells = ["\n".join(calls[k : k + 400]) for k in range(0, 4000, 400)]
    submission = reading(("T = {}", *cells, "def f(x): return T"))
    assert len(submission.needed) == len(submission.runs) == 8002


# The self-check and the grader

NOT_COPIED = (
    *("dispatch", "no_group", "group_of", "module", "setting", "import_or", "future"),
    *("await", "own_dist", "dataclass"),
)
"""Kinds that cannot be copied to the ranks of a notebook, or need one to be read."""


NAMES = re.compile(r"\b(?:[a-zA-Z]|two|one|keep|register|setup|same|next|kinds)\b")


def of_all_kinds() -> list[str]:
    """Cells that define helpers in each of these ways, by names of their own."""
    cells = ["OF = []"]
    for kind, defined in DEFINES.items():
        sources = [defined] if isinstance(defined, str) else defined
        if kind.startswith(NOT_COPIED):
            continue
        named = [NAMES.sub(rf"\g<0>_{kind}", source) for source in sources]
        cells += [*named, f"OF.append(f_{kind})"]
    return cells


RING_CELLS = [
    "import torch\nimport torch.distributed as dist\nSTEPS = {}",
    """
def chunks(tensor):
    return list(tensor.view(-1).tensor_split(dist.get_world_size()))

def turn(out, inn):
    rank, size = dist.get_rank(), dist.get_world_size()
    sent = dist.isend(out.contiguous(), (rank + 1) % size)
    dist.recv(inn, (rank - 1) % size)
    sent.wait()

for name, shift, adds in (("reduce_scatter", 0, True), ("all_gather", 1, False)):
    def step(tensor, shift=shift, adds=adds):
        flat = tensor.reshape(-1).clone()
        parts = list(flat.tensor_split(dist.get_world_size()))
        rank, size = dist.get_rank(), dist.get_world_size()
        for k in range(size - 1):
            out, inn = (rank + shift - k) % size, (rank + shift - k - 1) % size
            came = torch.empty_like(parts[inn])
            turn(parts[out], came)
            parts[inn].copy_(parts[inn] + came if adds else came)
        tensor.copy_(flat.view(tensor.shape))
    STEPS[name] = step
""",
    "def ring_all_reduce(tensor):\n    assert [g(2) for g in OF] == [2] * len(OF)\n"
    "    for step in STEPS.values():\n        step(tensor)",
]


@pytest.mark.slow
def test_the_self_check_predicts_the_grade(box: Box) -> None:
    """A notebook that defines its helpers in every way passes both, or neither."""
    cells = [*of_all_kinds(), *RING_CELLS]
    kernel: dict[str, Any] = {"__name__": "__main__", "display": print}
    for source in cells:
        with suppress(ZeroDivisionError, ImportError):
            exec(compile(source, "a cell", "exec", dont_inherit=True), kernel)
    own = checking.check(RING, kernel[RING])
    numbered = [(n, source) for n, source in enumerate(cells, 1)]
    job = {"cells": numbered, "given": [], "tests": {RING: len(cells) + 1}}
    job |= {"seeds": {RING: "1"}, "student": "ann"}
    verdict = checked(job, RING, box)
    assert own.points == verdict["points"] == 20, verdict["notes"]
    again = checked(job | {"programs": {RING: verdict["program"]}}, RING, box)
    assert again["report"] == verdict["report"]
