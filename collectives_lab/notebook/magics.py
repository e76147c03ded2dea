"""The magics themselves: which ranks stand, and what a cell does with them."""

from __future__ import annotations

import linecache
import re
import warnings
from dataclasses import replace
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments
from IPython.display import display

from collectives_lab.emulation import Emulated
from collectives_lab.launch import LabError, Ranks, Run
from collectives_lab.launch.cluster import count_engines
from collectives_lab.notebook import folded_output
from collectives_lab.notebook.cell_output import (
    CellSyntaxError,
    explained,
    interrupted,
    show,
    show_all,
    variables,
)
from collectives_lab.notebook.options import (
    chosen,
    count,
    ends_in_semicolon,
    known,
    parsed,
    seconds,
    whole,
)
from collectives_lab.notebook.place import Place, are_alike

DEFAULT_SIZE = 4
"""Ranks of a `%%ranks` cell that names no number, before any did."""

_ACTIONS = ("restart", "stop")
_ALONE = "; `%ranks` alone shows the ranks, `%%ranks 4` above a cell runs it on 4 ranks"


@magics_class
class RanksMagics(Magics):
    """Standing ranks of a notebook, by their number, and the two magics on them.

    places: by their number, where they stand, as the reader has said it. emulated: the
    fabric whose network they feel, if they feel one.
    """

    shell: Any

    def __init__(self, shell: Any):
        super().__init__(shell)
        self.standing: dict[int, Ranks] = {}
        self.places: dict[int, Place] = {}
        self.emulated: dict[int, Any] = {}
        self.size = DEFAULT_SIZE

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
    @argument("--timeout", help="seconds that the cell may take")
    @argument("--push", help="variables to copy to every rank first: name,name")
    @argument("--quiet", "-q", action="store_true", help="show no last expression")
    @argument("--show", action="store_true", help="show the traffic after the cell")
    def run_cell(self, line: str, cell: str) -> None:
        """Run the cell on every rank; variables stay there, the run is `_run` here."""
        args = parsed(self.run_cell, line)
        wanted = Place.of(args, "%%ranks", self.shell.user_ns)
        size = self._size(args.size, args.cluster)
        on = None if args.on is None else chosen(args.on, size)
        timeout = None if args.timeout is None else seconds(args.timeout)
        values = self._values(args.push)
        file = self._register("\n" + cell)  # line 1 is the one with %%ranks
        is_quiet = args.quiet or ends_in_semicolon(cell)
        try:
            ranks = self._ranks(size, wanted)
            if values:
                ranks.push(**values)
            run = ranks.execute("\n" + cell, on, timeout, file, is_quiet, show)
        except LabError as error:
            self._keep(error.run, args.show)
            self._hint(error)
            raise
        except KeyboardInterrupt as interrupt:
            raise interrupted(self.standing.get(size)) from interrupt
        show_all(folded_output.fold(run.results))
        self._keep(run, args.show)

    @line_magic("ranks")
    @magic_arguments("ranks")
    @argument("action", nargs="?", help="restart or stop; default: show them")
    @argument("size", nargs="?", help="which ones, by their number; all if left out")
    @argument("--backend", help="auto, gloo or nccl, of those that are started")
    @argument("--cluster", help="where they are started, as for %%%%ranks")
    @argument("--fabric", help="the network that they feel, as for %%%%ranks")
    def manage(self, line: str) -> None:
        """Show the standing ranks, restart them without variables, or stop them."""
        args = parsed(self.manage, line)
        action = known("%ranks", args.action, _ACTIONS, _ALONE)
        wanted = Place.of(args, "%ranks", self.shell.user_ns)
        if action is None:
            self._tell()
            return
        sizes = list(self.standing) or [self.size]
        if args.size is not None:
            sizes = [whole(args.size, f"%ranks {action}")]
        if action == "restart" and args.size is None and args.cluster is not None:
            sizes = [self._size(None, args.cluster)]
        for size in sizes if action == "restart" else ():
            self._check(size, wanted)  # of all of them before any ends
        for size in sizes:
            if action == "restart":
                self._restart(size, wanted)
            else:
                self._stop(size)

    def close(self) -> None:
        """End all ranks; returns when they have ended."""
        while self.standing:
            self.standing.popitem()[1].close()

    def _size(self, text: str | None, cluster: str | None) -> int:
        """How many ranks are meant: so many, or as many as the cluster has engines."""
        if text is not None:
            return whole(text, "%%ranks")
        if cluster is None:
            return self.size
        for size in (self.size, *self.places):
            if self._place(size).cluster == cluster and self.standing[size].alive:
                return size
        return count_engines(self._cluster(cluster))

    def _cluster(self, name: str) -> Any:
        """The variable of this name, or the name itself, of a profile."""
        value = self.shell.user_ns.get(name)
        return name if value is None else value

    def _place(self, size: int) -> Place:
        """Where the ranks of this number are."""
        return self.places.get(size, Place())

    def _ranks(self, size: int, wanted: Place) -> Ranks:
        """The ranks that stand, or new ones."""
        ranks = self.standing.get(size)
        if ranks is None:
            others = [n for n, ranks in self.standing.items() if ranks.alive]
            ranks = self._start(size, wanted)
            if others:
                those = " and ".join(f"`%%ranks {n}`" for n in others)
                print(f"Other ranks than those of {those}: variables are their own")
            return ranks
        changed = self._changed(size, wanted)
        if not ranks.alive and (changed or self._place(size).cluster):
            return self._start(size, wanted)  # on what the variable says now
        if changed:
            self._check(size, wanted)  # nobody is advised to do what cannot be
            raise UsageError(
                f"{count(size)} stand {self._told(size, changed)}; `%ranks restart "
                f"{size} {changed}` ends them, with their variables, and starts others"
            )
        self.size = size
        return ranks

    def _changed(self, size: int, wanted: Place) -> Place:
        """Compare the options on the line with the running ranks; return what differs.

        Two fabrics are equal if their links are, whatever variables they are in.
        """
        place = replace(self._place(size), backend=self.standing[size].backend)
        is_same = are_alike(self._fabric(wanted), self.emulated.get(size))
        other = None if is_same else wanted.fabric
        return replace(wanted.beyond(place), fabric=other)

    def _told(self, size: int, changed: Place) -> str:
        """Say where the ranks run now, in the option that the line would change."""
        place = self._place(size)
        if changed.fabric and changed.fabric == place.fabric:
            name = place.fabric
            return f"on what {name} was before, and {name} is another network now"
        if changed.fabric:
            where = f"on {place.fabric}" if place.fabric else "without --fabric"
            return f"{where} already"
        if changed.cluster:
            return f"on {place.cluster or 'this machine'} already"
        return f"on {self.standing[size].backend} already"

    def _asked(self, size: int, wanted: Place) -> dict[str, Any]:
        """What `Ranks` is asked for: what the line says, or else what stood."""
        place = wanted.over(self._place(size))
        cluster = None if place.cluster is None else self._cluster(place.cluster)
        fabric = self._fabric(wanted) if wanted.fabric else self.emulated.get(size)
        backend = place.backend or "auto"
        felt = None if fabric is None else Emulated(fabric)
        return {"backend": backend, "cluster": cluster, "fabric": felt}

    def _check(self, size: int, wanted: Place) -> None:
        """Raise LaunchError if ranks that stand could not be started there."""
        if wanted and size in self.standing:
            self.standing[size].replanned(**self._asked(size, wanted))

    def _start(self, size: int, wanted: Place) -> Ranks:
        """Start ranks where the line says, or else where they stood."""
        asked, ranks = self._asked(size, wanted), self.standing.get(size)
        if ranks is None:
            ranks = Ranks(size, **asked)
        else:
            ranks.restart(**asked)
        self.standing[size], self.places[size] = ranks, wanted.over(self._place(size))
        felt = asked["fabric"]
        self.emulated[size] = None if felt is None else felt.fabric
        self.size = size
        told = "" if felt is None else f"; transfers as on {felt!r}"
        print(f"{count(size)} on {ranks.backend}: {ranks.backend_reason}{told}")
        return ranks

    def _fabric(self, place: Place) -> Any:
        """The variable that a place names as its fabric."""
        return None if place.fabric is None else self.shell.user_ns.get(place.fabric)

    def _restart(self, size: int, wanted: Place) -> None:
        ranks = self.standing.get(size)
        if ranks is None or wanted or self._place(size).cluster:
            self._start(size, wanted)
        else:
            ranks.restart()
            print(f"{count(size)} restarted on {ranks.backend}")

    def _stop(self, size: int) -> None:
        ranks = self.standing.pop(size, None)
        self.places.pop(size, None)
        self.emulated.pop(size, None)
        if ranks is not None:
            ranks.close()
            print(f"{count(size)} stopped")
        else:
            print(f"{count(size)} did not stand")

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
            raise CellSyntaxError(explained(error)) from None
        return file

    def _keep(self, run: Run | None, is_shown: bool) -> None:
        """Make the run of a cell `_run`."""
        if run is None:
            return
        run.results = [
            None if one is None else folded_output.Look(one) for one in run.results
        ]
        self.shell.user_ns["_run"] = run
        if is_shown:
            display(run)

    def _tell(self) -> None:
        rows = [["ranks", "backend", "state", "variables"]]
        for size, ranks in self.standing.items():
            names = variables(ranks)  # first: a rank that has died is found by it
            state = "standing" if ranks.alive else "ended; the next cell starts others"
            felt = f", --fabric {name}" if (name := self._place(size).fabric) else ""
            backend = f"{ranks.backend} ({ranks.backend_reason}){felt}"
            rows.append([str(size), backend, state, names if ranks.alive else ""])
        if len(rows) == 1:
            print(f"no ranks stand; `%%ranks {self.size}` above a cell starts some")
        else:
            display(folded_output.table(rows), raw=True)
