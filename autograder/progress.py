"""A progress bar on standard error with the time left; a few lines in a file."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

WIDTH = 30
T = TypeVar("T")


def progress(what: str, items: Iterable[T], total: int) -> Iterator[T]:
    """Yield the items, and show how many of `total` are done: `for x in progress(...)`.

    The time left is by those after the first one, which includes the start of workers.
    """
    is_terminal = sys.stderr.isatty()
    began = first = time.monotonic()
    shown = ""
    try:
        for done, item in enumerate(items, 1):
            yield item
            now = time.monotonic()
            first = now if done == 1 else first
            each = (now - first) / (done - 1) if done > 1 else 0.0
            left = f", {duration(each * (total - done))} left" if each else ""
            end = left if done < total else f" in {duration(now - began)}"
            full = WIDTH * done // total
            bar = f"[{'#' * full}{'.' * (WIDTH - full)}]"
            line = f"{what} {bar} {done}/{total}{end}"
            if is_terminal:
                padded = line.ljust(len(shown))
                print(f"\r{padded}", end="", file=sys.stderr, flush=True)
            elif done == total or done % max(total // 10, 1) == 0:
                print(line, file=sys.stderr, flush=True)
            shown = line
    finally:
        if shown and is_terminal:
            print(file=sys.stderr)


def duration(seconds: float) -> str:
    """Write `75` as `1 min 15 s`."""
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
