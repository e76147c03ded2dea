"""Build the site from executed chapters, and check it before it takes its place."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from sphinx.cmd.build import build_main

from book import links, pages
from book.execution import ROOT, Execution


class BuildError(Exception):
    """Error for a site that was not built, with the reason."""


def build(done: Sequence[Execution], site: Path) -> None:
    """Write the site, and put it in the place of an older one once it is right.

    Raises BuildError for a warning of Sphinx or a broken link; the older one stays.
    """
    work = site.with_name(f"{site.name}-unfinished")
    shutil.rmtree(work, ignore_errors=True)
    source, html = work / "source", work / "html"
    source.mkdir(parents=True)
    pages.lay_out(done, source)
    options = ["-b", "html", "-q", "-W", "--keep-going", "-c", str(ROOT / "book")]
    folders = ["-d", str(work / "doctrees"), str(source), str(html)]
    if build_main([*options, *folders]):
        raise BuildError(f"Sphinx warned, as above, of what it read in {source}")
    if faults := links.faults(html):
        raise BuildError("\n".join([f"these links in {html} are broken:", *faults]))
    shutil.rmtree(site, ignore_errors=True)
    html.rename(site)
    shutil.rmtree(work)


def summary(done: Sequence[Execution]) -> str:
    """`12 chapters in 6:10, 31 s on the average, longest 05_the_ring with 44 s`."""
    total = sum(one.seconds for one in done)
    longest = max(done, key=lambda one: one.seconds)
    minutes, seconds = divmod(round(total), 60)
    return (
        f"{len(done)} chapters in {minutes}:{seconds:02}, {total / len(done):.0f} s on "
        f"the average, longest {longest.chapter.stem} with {longest.seconds:.0f} s"
    )
