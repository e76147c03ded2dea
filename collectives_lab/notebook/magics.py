"""The magics `%%ranks` and `%ranks`: they run a cell on ranks, and manage the ranks."""

from __future__ import annotations

import linecache
import re
import warnings
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments
from IPython.display import display

from collectives_lab.launch import LabError, Run
from collectives_lab.notebook import folded_results, timing
from collectives_lab.notebook.cell_messages import (
    CellSyntaxError,
    explain_syntax_error,
    interruption,
    variables,
)
from collectives_lab.notebook.options import (
    Placement,
    check_word,
    ends_in_semicolon,
    parse_line,
    parse_seconds,
    rank_count,
    rank_list,
    timing_of,
)
from collectives_lab.notebook.rank_groups import RankGroups
from collectives_lab.notebook.rank_names import RankNames

_ACTIONS = ("restart", "stop")
_ALONE = "; `%ranks` alone shows the ranks, `%%ranks 4` above a cell runs it on 4 ranks"


def _options(parser: Any) -> list[str]:
    return [text for action in parser._actions for text in action.option_strings]


@magics_class
class RanksMagics(Magics):
    """The two magics on the rank groups of a notebook."""

    shell: Any

    def __init__(self, shell: Any):
        super().__init__(shell)
        self.groups = RankGroups(shell)
        words = {
            "%%ranks": _options(self.run_cell.parser),
            "%ranks": [*_ACTIONS, *_options(self.manage.parser)],
        }
        self.names = RankNames(shell, self.groups, words)
        self.timeout: float | None = None
        """Seconds that a cell may take; None: those of `Ranks`, 30."""

    @cell_magic("ranks")
    @magic_arguments("%ranks")  # IPython writes one more % before it
    @argument(
        "size", nargs="?", help="how many ranks; those of the last cell if left out"
    )
    @argument("--on", help="only these ranks: 0,2 or 0-2")
    @argument("--backend", help="auto, gloo or nccl, for ranks that have to be started")
    @argument(
        "--cluster",
        help="where ranks that have to be started are: the engines of an ipyparallel "
        "cluster, a variable with a Client, Cluster or view, or the name of a profile; "
        "without a size there are as many ranks as engines",
    )
    @argument(
        "--fabric",
        help="a variable with a Fabric, for ranks that have to be started: their "
        "transfers take the time that they would take on it",
    )
    @argument(
        "--timeout",
        help="seconds that the cell may take: 30, or what `%%ranks --timeout` has set",
    )
    @argument("--push", help="variables to copy to every rank first: name,name")
    @argument("--quiet", "-q", action="store_true", help="show no last expression")
    @argument("--show", action="store_true", help="show the traffic after the cell")
    def run_cell(self, line: str, cell: str) -> None:
        """Run the cell on every rank; variables stay there, the run becomes `_run`.

        With %%time or %%timeit in its first line it says how long that took.
        """
        args = parse_line(self.run_cell, line)
        requested = Placement.of(args, "%%ranks", self.shell.user_ns)
        size = self.groups.choose_size(args.size, args.cluster)
        on = None if args.on is None else rank_list(args.on, size)
        timeout = parse_seconds(args.timeout) if args.timeout else self.timeout
        values = self._values(args.push)
        time, cell = timing_of(cell)
        file = self._register("\n" + cell)  # line 1 is the one with %%ranks
        is_loop = time is not None and time.is_loop
        is_quiet = args.quiet or is_loop or ends_in_semicolon(cell)
        try:
            ranks = self.groups.ranks(size, requested)
            if values:
                ranks.push(**values)
            show = folded_results.show_output
            run = ranks.execute("\n" + cell, on, timeout, file, is_quiet, show)
            took = ""
            if time is not None and is_loop:
                took = timing.of_loops(ranks, cell, on, timeout, time)
            elif time is not None:
                took = timing.of_run(run)
        except LabError as error:
            self._store(error.run, args.show)
            self._hint(error)
            raise
        except KeyboardInterrupt as interrupt:
            raise interruption(self.groups.find(size), interrupt) from interrupt
        folded_results.show(folded_results.fold(run.results))
        if took:
            print(took)
        self._store(run, args.show)

    @line_magic("ranks")
    @magic_arguments("ranks")
    @argument("action", nargs="?", help="restart or stop; default: show them")
    @argument("size", nargs="?", help="which ones, by their number; all if left out")
    @argument("--backend", help="auto, gloo or nccl, of those that are started")
    @argument("--cluster", help="where they are started, as for %%%%ranks")
    @argument("--fabric", help="the network that they feel, as for %%%%ranks")
    @argument("--timeout", help="seconds that each %%%%ranks cell may take from now on")
    def manage(self, line: str) -> None:
        """Show the standing ranks, restart them without variables, or stop them."""
        args = parse_line(self.manage, line)
        action = check_word("%ranks", args.action, _ACTIONS, _ALONE)
        requested = Placement.of(args, "%ranks", self.shell.user_ns)
        if args.timeout is not None:
            self.timeout = parse_seconds(args.timeout)
            print(f"`%%ranks` cells may take {self.timeout:g} s from now on")
        if action is None:
            if args.timeout is None:
                self._show_ranks()
            return
        sizes = [size for size, _ in self.groups] or [self.groups.size]
        if args.size is not None:
            sizes = [rank_count(args.size, f"%ranks {action}")]
        if action == "restart" and args.size is None and args.cluster is not None:
            sizes = [self.groups.choose_size(None, args.cluster)]
        if action == "restart":
            self.groups.restart(sizes, requested)
            return
        for size in sizes:
            self.groups.stop(size)

    def close(self) -> None:
        """End all ranks, and return when they have ended."""
        self.groups.close()

    def _values(self, names: str | None) -> dict[str, Any]:
        """Return the variables of the kernel that --push names."""
        requested = [name for name in (names or "").split(",") if name]
        for name in requested:
            if name not in self.shell.user_ns:
                raise UsageError(f"--push {name}: there is no such variable here")
        return {name: self.shell.user_ns[name] for name in requested}

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
        """Register a cell for tracebacks and return its file name.

        Raises CellSyntaxError if it is not Python.
        """
        # execution_count may be that of the next cell already, unlike the history.
        number = len(self.shell.history_manager.input_hist_parsed) - 1
        file = f"<ranks In[{number}]>"
        copies = 1
        while file in linecache.cache:  # without a history, numbers repeat
            copies += 1
            file = f"<ranks In[{number}] {copies}>"
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        try:
            with warnings.catch_warnings(action="ignore"):  # the ranks will print them
                compile(code, file, "exec", dont_inherit=True)
        except SyntaxError as error:
            raise CellSyntaxError(explain_syntax_error(error)) from None
        return file

    def _store(self, run: Run | None, is_shown: bool) -> None:
        """Store the run of a cell as `_run`, and show it if asked to."""
        if run is None:
            return
        run.results = [
            None if bundle is None else folded_results.RichOutput(bundle)
            for bundle in run.results
        ]
        self.shell.user_ns["_run"] = run
        if is_shown:
            display(run)

    def _show_ranks(self) -> None:
        """Show a table of the rank groups."""
        rows = [["ranks", "backend", "state", "variables"]]
        for size, group in self.groups:
            ranks = group.ranks
            names = variables(ranks)  # first, since this notices a rank that has died
            state = "standing" if ranks.alive else "ended; the next cell starts others"
            backend = f"{ranks.backend} ({ranks.backend_reason})"
            if group.placement.fabric:
                backend += f", --fabric {group.placement.fabric}"
            rows.append([str(size), backend, state, names if ranks.alive else ""])
        if len(rows) == 1:
            print(
                f"no ranks stand; `%%ranks {self.groups.size}` above a cell starts some"
            )
        else:
            display(folded_results.table(rows), raw=True)
