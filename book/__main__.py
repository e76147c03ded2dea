"""`python -m book`: execute what has to be, build the site, check its links.

`python -m book 5 6` is for authors: only these chapters are executed where they have to
be, the others appear as they were kept or without outputs, and the site is a preview.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nbclient.exceptions import CellExecutionError

from book import links
from book.answers import answers_of
from book.build import BuildError, build, summary
from book.execution import (
    ROOT,
    Execution,
    ProcessLeft,
    chapters,
    complaints,
    execute,
    kept,
    number_of,
    unexecuted,
)

SITE = ROOT / "build" / "book"
PREVIEW = SITE.with_name("preview")
DEADLINE = 600.0
"""Seconds for a chapter: a slow machine may take long, the tests hold the minute."""


def main() -> None:
    """Build `build/book/`, or say what failed and leave an older one as it was."""
    chosen, site = sys.argv[1:], PREVIEW if sys.argv[1:] else SITE
    try:
        if chosen:
            done = [previewed(chapter, chosen) for chapter in chapters()]
        else:
            done = [with_answers(executed(chapter)) for chapter in chapters()]
            print(f"book: {summary(done)}", flush=True)
        build(done, site)
    except (CellExecutionError, TimeoutError, ProcessLeft, BuildError) as error:
        sys.exit(f"book: {error}\nbook: there is no new book, for the reason above")
    addresses = links.outside(site)
    print(f"book: {len(links.pages(site))} pages, and all links between them resolve")
    print("book: links to other hosts, which nobody followed:", *addresses)
    print(f"book: open {site / 'index.html'}")


def previewed(chapter: Path, chosen: Sequence[str]) -> Execution:
    """Return a chosen chapter executed, another one as it was kept, else as it is."""
    if str(number_of(chapter)) in chosen:
        return with_answers(executed(chapter))
    return kept(chapter) or unexecuted(chapter)


def with_answers(chapter: Execution) -> Execution:
    """Return an execution with that of the answers to its exercises."""
    path = answers_of(chapter.chapter)
    return replace(chapter, answers=executed(path).notebook) if path else chapter


def executed(chapter: Path) -> Execution:
    """Return the chapter as it was kept, or execute it now; print which."""
    if done := kept(chapter):
        print(f"book: {chapter.stem} is there, it took {done.seconds:.0f} s")
        return done
    print(f"book: executing {chapter.stem}", flush=True)
    done = execute(chapter, DEADLINE)
    print(f"book: {chapter.stem} took {done.seconds:.0f} s", flush=True)
    for text in complaints(done.notebook):
        print(f"book: {chapter.stem} wrote to stderr: {text}", file=sys.stderr)
    return done


if __name__ == "__main__":
    main()
