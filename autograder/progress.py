"""A progress bar on standard error with the time left; a few lines in a file."""

import sys
import time
from types import TracebackType

WIDTH = 30


class Progress:
    """Counts to `total`: `with Progress("checking", 200) as bar: bar.step()`."""

    def __init__(self, what: str, total: int):
        self.what, self.total, self.done = what, total, 0
        self.began = self.first = time.monotonic()
        self.is_terminal = sys.stderr.isatty()
        self.shown = ""

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.shown and self.is_terminal:
            print(file=sys.stderr)

    def step(self) -> None:
        """Count one, and show it."""
        self.done += 1
        if self.done == 1:  # what came before it was the start of the workers
            self.first = time.monotonic()
        line = str(self)
        if self.is_terminal:
            padding = " " * max(len(self.shown) - len(line), 0)
            print(f"\r{line}{padding}", end="", file=sys.stderr, flush=True)
        elif self.done == self.total or self.done % max(self.total // 10, 1) == 0:
            print(line, file=sys.stderr, flush=True)
        self.shown = line

    def __str__(self) -> str:
        full = WIDTH * self.done // self.total
        now = time.monotonic()
        each = (now - self.first) / (self.done - 1) if self.done > 1 else 0.0
        left = f", {duration(each * (self.total - self.done))} left" if each else ""
        end = left if self.done < self.total else f" in {duration(now - self.began)}"
        bar = f"[{'#' * full}{'.' * (WIDTH - full)}]"
        return f"{self.what} {bar} {self.done}/{self.total}{end}"


def duration(seconds: float) -> str:
    """`75` -> `1 min 15 s`."""
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
