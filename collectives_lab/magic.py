"""`%%ranks`: a notebook cell on every rank; the one module that knows IPython.

Here you can run a cell on standing ranks (`%%ranks 4`), whose variables stay from cell
to cell, and see, restart or stop them (`%ranks`). The `Run` of the last such cell is
`_run`.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import linecache
import math
import re
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from collectives_lab import looks
from collectives_lab.launch import LabError, Ranks, Run, places, warm

DEFAULT_SIZE = 4
"""Ranks of a `%%ranks` cell that names no number, before any did."""

_BACKENDS = ("auto", "gloo", "nccl")
_ACTIONS = ("restart", "stop")
_ALONE = "; `%ranks` alone shows the ranks, `%%ranks 4` above a cell runs it on 4 ranks"
_GIVEN = {"rank", "world_size", "torch", "dist", "display"}
_NAMES = "display([name for name in globals() if name[0] != '_'])"


class CellSyntaxError(LabError):
    """A cell that is not Python. It is shown as IPython shows one; no rank sees it."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


@magics_class
class RanksMagics(Magics):
    """Standing ranks of a notebook, by their number, and the two magics on them."""

    shell: Any

    def __init__(self, shell: Any):
        super().__init__(shell)
        self.standing: dict[int, Ranks] = {}
        self.size = DEFAULT_SIZE

    @cell_magic("ranks")
    @magic_arguments("%ranks")  # IPython writes one more % before it
    @argument(
        "size", nargs="?", help="how many ranks; those of the last cell if left out"
    )
    @argument("--on", help="only these ranks: 0,2 or 0-2")
    @argument("--backend", help="auto, gloo or nccl, for ranks that have to be started")
    @argument("--timeout", help="seconds that the cell may take")
    @argument("--push", help="variables to copy to every rank first: name,name")
    @argument("--quiet", "-q", action="store_true", help="show no last expression")
    @argument("--show", action="store_true", help="show the traffic after the cell")
    def run_cell(self, line: str, cell: str) -> None:
        """Run the cell on every rank; variables stay there, the run is `_run` here."""
        args = _parsed(self.run_cell, line)
        size = self.size if args.size is None else _whole(args.size, "%%ranks")
        on = None if args.on is None else _chosen(args.on, size)
        timeout = None if args.timeout is None else _seconds(args.timeout)
        backend = _known("%%ranks --backend", args.backend, _BACKENDS)
        values = self._values(args.push)
        file = self._register("\n" + cell)  # line 1 is the one with %%ranks
        ends = DisplayHook.semicolon_at_end_of_expression(cell)
        is_quiet = args.quiet or bool(ends)
        try:
            ranks = self._ranks(size, backend)
            if values:
                ranks.push(**values)
            run = ranks.execute("\n" + cell, on, timeout, file, is_quiet, _show)
        except LabError as error:
            self._keep(error.run, args.show)
            self._hint(error)
            raise
        except KeyboardInterrupt as interrupt:
            raise _interrupted(self.standing.get(size)) from interrupt
        _show_all(looks.fold(run.results))
        self._keep(run, args.show)

    @line_magic("ranks")
    @magic_arguments("ranks")
    @argument("action", nargs="?", help="restart or stop; default: show them")
    @argument("size", nargs="?", help="which ones, by their number; all if left out")
    @argument("--backend", help="auto, gloo or nccl, of those that are started")
    def manage(self, line: str) -> None:
        """Show the standing ranks, restart them without variables, or stop them."""
        args = _parsed(self.manage, line)
        action = _known("%ranks", args.action, _ACTIONS, _ALONE)
        backend = _known("%ranks --backend", args.backend, _BACKENDS)
        if action is None:
            self._tell()
            return
        sizes = list(self.standing) or [self.size]
        if args.size is not None:
            sizes = [_whole(args.size, f"%ranks {action}")]
        for size in sizes:
            if action == "restart":
                self._restart(size, backend)
            else:
                self._stop(size)

    def close(self) -> None:
        """End all ranks; returns when they have ended."""
        while self.standing:
            self.standing.popitem()[1].close()

    def _ranks(self, size: int, backend: str | None) -> Ranks:
        """The ranks that stand, or new ones."""
        ranks = self.standing.get(size)
        if ranks is None:
            others = [n for n, ranks in self.standing.items() if ranks.alive]
            ranks = self._start(size, backend or "auto")
            if others:
                those = " and ".join(f"`%%ranks {n}`" for n in others)
                print(f"Other ranks than those of {those}: variables are their own")
            return ranks
        if backend not in (None, "auto", ranks.backend):
            if not ranks.alive:
                return self._start(size, backend)
            raise UsageError(
                f"{_count(size)} stand on {ranks.backend} already; `%ranks restart "
                f"{size} --backend {backend}` ends them, with their variables, and "
                "starts others"
            )
        self.size = size
        return ranks

    def _start(self, size: int, backend: str) -> Ranks:
        self.standing[size] = ranks = Ranks(size, backend)
        self.size = size
        print(f"{_count(size)} on {ranks.backend}: {ranks.backend_reason}")
        return ranks

    def _restart(self, size: int, backend: str | None) -> None:
        ranks = self.standing.get(size)
        if ranks is None or backend is not None:
            if ranks is not None:
                ranks.close()
            self._start(size, backend or "auto")
        else:
            ranks.restart()
            print(f"{_count(size)} restarted on {ranks.backend}")

    def _stop(self, size: int) -> None:
        ranks = self.standing.pop(size, None)
        if ranks is not None:
            ranks.close()
            print(f"{_count(size)} stopped")
        else:
            print(f"{_count(size)} did not stand")

    def _values(self, names: str | None) -> dict[str, Any]:
        """The variables of the kernel that --push names."""
        chosen = [name for name in (names or "").split(",") if name]
        for name in chosen:
            if name not in self.shell.user_ns:
                raise UsageError(f"--push {name}: there is no such variable here")
        return {name: self.shell.user_ns[name] for name in chosen}

    def _hint(self, error: LabError) -> None:
        """Add to a NameError on a rank that the kernel has a variable of the name."""
        cause = getattr(error, "cause", None)
        if not isinstance(cause, NameError):
            return
        # Its attribute `name` does not travel.
        name = re.sub(r"name '(\w+)' is not defined.*", r"\1", str(cause))
        if name in self.shell.user_ns and name not in self.shell.user_ns_hidden:
            error.args = (
                f"{error}\n\n`{name}` is a variable of the notebook, and ranks have "
                f"their own; `%%ranks --push {name}` copies it to them.",
            )

    def _register(self, code: str) -> str:
        """A file name that stands for the cell; CellSyntaxError if not Python."""
        # execution_count may be the next cell's already: not so the history.
        number = len(self.shell.history_manager.input_hist_parsed) - 1
        file = f"<ranks In[{number}]>"
        again = 1
        while file in linecache.cache:  # a number comes again where no history is kept
            again += 1
            file = f"<ranks In[{number}] {again}>"
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        try:
            with warnings.catch_warnings(action="ignore"):  # the ranks will say them
                compile(code, file, "exec", dont_inherit=True)
        except SyntaxError as error:
            raise CellSyntaxError(_explained(error)) from None
        return file

    def _keep(self, run: Run | None, is_shown: bool) -> None:
        """Make the run of a cell `_run`."""
        if run is None:
            return
        run.results = [None if one is None else looks.Look(one) for one in run.results]
        self.shell.user_ns["_run"] = run
        if is_shown:
            display(run)

    def _tell(self) -> None:
        rows = [["ranks", "backend", "state", "variables"]]
        for size, ranks in self.standing.items():
            state = "standing" if ranks.alive else "ended; the next cell starts others"
            backend = f"{ranks.backend} ({ranks.backend_reason})"
            rows.append([str(size), backend, state, _variables(ranks)])
        if len(rows) == 1:
            print(f"no ranks stand; `%%ranks {self.size}` above a cell starts some")
        else:
            display(looks.table(rows), raw=True)


# -- what was asked for ----------------------------------------------------------------


def _parsed(magic: Any, line: str) -> Any:
    try:
        return parse_argstring(magic, line)
    except UsageError as error:
        name = f"%{magic.parser.prog}"
        raise UsageError(f"{name}: {error}; `{name}?` tells what there is") from None


def _known(
    asker: str, text: str | None, known: Sequence[str], more: str = ""
) -> str | None:
    if text is None or text in known:
        return text
    rule = f"{', '.join(known[:-1])} or {known[-1]}"
    raise UsageError(f"{asker} {text}: need {rule}{more}")


def _whole(text: str, asker: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,8}", text, re.ASCII):
        raise UsageError(f"{asker} {text}: the number of ranks is 1, 2, 3, ...")
    return int(text)


def _chosen(text: str, size: int) -> list[int]:
    """The ranks that `0,2` or `0-2` names."""
    ranks: set[int] = set()
    for part in text.split(","):
        ends = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part, re.ASCII)
        if ends is None:
            raise UsageError(f"--on {text}: name ranks like 0,2 or 0-2")
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if not first <= last < size:
            raise UsageError(
                f"--on {text}: {_count(size)} are numbered 0 to {size - 1}"
            )
        ranks |= set(range(first, last + 1))
    return sorted(ranks)


def _seconds(text: str) -> float:
    seconds = math.nan
    with contextlib.suppress(ValueError):
        seconds = float(text)
    if not 0 < seconds < 1e8:
        raise UsageError(f"--timeout {text}: seconds, more than 0")
    return seconds


def _count(size: int) -> str:
    return "1 rank" if size == 1 else f"{size} ranks"


# -- what went wrong -------------------------------------------------------------------


def _explained(error: SyntaxError) -> str:
    """A syntax error as a notebook shows it, and what is special about ranks."""
    line = linecache.getline(error.filename or "", error.lineno or 0)
    error.text = error.text or line
    text = "".join(traceback.format_exception_only(error)).rstrip()
    if re.match(r"\s*(\w+\s*=\s*)?[%!]", line) or line.rstrip().endswith("?"):
        text += (
            "\nA rank runs plain Python: IPython's %, ! and ? are not available there. "
            "Use them in a cell without %%ranks."
        )
    elif "'await' outside" in str(error) or "outside async" in str(error):
        text += "\nA rank runs plain Python: use asyncio.run(...) there."
    return places.in_words(text)


def _interrupted(ranks: Ranks | None) -> KeyboardInterrupt:
    """What an interrupt says: that of a normal cell, and what became of the ranks."""
    said = "the ranks have ended, and their variables are gone"
    if ranks is not None and ranks.alive:
        said = "the ranks are free again and keep their variables"
    error = KeyboardInterrupt(f"the cell was interrupted; {said}")
    shown = [f"KeyboardInterrupt: {error}"]
    error._render_traceback_ = lambda: shown  # type: ignore[attr-defined]
    return error


# -- looking at ranks ------------------------------------------------------------------


def _show(ranks: list[int], bundle: looks.Bundle) -> None:
    """Show what some ranks show alike, as it comes."""
    _show_all([(ranks, bundle)])


def _show_all(folded: looks.Folded) -> None:
    """Show texts in one list with their ranks, and pictures below their ranks."""
    if all(set(bundle) == {"text/plain"} for _, bundle in folded):
        if folded:
            display(looks.listing(folded), raw=True)
        return
    for ranks, bundle in folded:
        display(looks.label(ranks), raw=True)
        display(bundle, raw=True)


def _variables(ranks: Ranks) -> str:
    """The names that cells have given values to, on any of the ranks."""
    found: set[str] = set()

    def note(_: list[int], bundle: looks.Bundle) -> None:
        found.update(ast.literal_eval(bundle["text/plain"]))

    if not ranks.alive:
        return ""
    try:
        ranks.execute(_NAMES, timeout=5.0, quiet=True, display=note)
    except LabError:
        return "?"
    names = sorted(found - _GIVEN)
    more = f", ... {len(names)} in all" if len(names) > 12 else ""
    return ", ".join(names[:12]) + more


# -- coming and going ------------------------------------------------------------------


def load_ipython_extension(shell: Any) -> None:
    """Register the magics and warm the fork server; those loaded before end."""
    unload_ipython_extension(shell)
    magics = RanksMagics(shell)
    shell.register_magics(magics)
    atexit.register(magics.close)
    named = getattr(shell.compile, "format_code_name", lambda file: None)

    def cell_name(file: str) -> str | None:
        ours = re.match(r"<ranks (In\[\d+\])", file)
        found = ("Cell", ours[1]) if ours else named(file)
        return " ".join(found) if found else None

    places.cell_name = cell_name
    warm()


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics away and end their ranks."""
    manager = shell.magics_manager
    magics = manager.registry.pop(RanksMagics.__name__, None)
    if magics is None:
        return
    for kind in ("line", "cell"):
        manager.magics[kind].pop("ranks", None)
    places.cell_name = lambda file: None
    atexit.unregister(magics.close)
    magics.close()
