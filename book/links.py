"""Check a site as it lies on disk: its links are right, and it loads only its own.

Here you can list what is wrong (`faults`) and the addresses of other hosts, which a
page may link to and nobody follows here (`outside`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FOLLOWED = {"next", "prev", "search", "index", "author", "canonical"}
"""Kinds of <link> that only point to a page; other kinds are loaded."""
LOADED = {"src", "poster", "data", "href", "xlink:href"}
"""Attributes whose address is loaded, except in tags that only link to it."""
IN_STYLE = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""")
ADDRESS = re.compile(
    r"(https?://[\w.-]+\.[a-z]{2,}(:\d+)?(/\S*)?(\?\S*)?|mailto:\S+@\S+)"
)


@dataclass
class Page(HTMLParser):
    """A page: its anchors, its links, and the addresses that it loads."""

    text: str
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    in_style: bool = False

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.in_style = tag == "style"
        self.anchors |= {
            attributes[name] for name in ("id", "name") if name in attributes
        }
        self.loads += _addresses(attributes.get("style", ""))
        is_link = tag in ("a", "area") or attributes.get("rel") in FOLLOWED
        for name in LOADED & attributes.keys():
            (self.links if is_link else self.loads).append(attributes[name])

    def handle_endtag(self, tag: str) -> None:
        self.in_style = False

    def handle_data(self, data: str) -> None:
        if self.in_style:
            self.loads += _addresses(data)


def _addresses(style: str) -> list[str]:
    """Return the addresses that a style sheet loads."""
    return [url or imported for url, imported in IN_STYLE.findall(style)]


@cache
def read(path: Path) -> Page:
    """Parse the page in this file, once."""
    return Page(path.read_text(encoding="utf-8"))


def pages(site: Path) -> list[Path]:
    """Return all pages of a site."""
    return sorted(site.rglob("*.html"))


def faults(site: Path) -> list[str]:
    """Return a sentence for each broken link and each load from another host."""
    read.cache_clear()
    site, problems = site.resolve(), []
    for path in pages(site):
        page, name = read(path), path.relative_to(site)
        problems += [f"{name} loads {a}" for a in page.loads if not _is_own(a)]
        own_addresses = [*filter(_is_own, page.links + page.loads)]
        problems += [
            f"{name}: {wrong}"
            for a in own_addresses
            for wrong in _broken(a, path, site)
        ]
        wrong_form = {a for a in page.links if not _is_own(a) and not _is_address(a)}
        problems += [f"{name} links to {a!r}, which is no address" for a in wrong_form]
    for path in sorted(site.rglob("*.css")):
        loads, name = _addresses(path.read_text()), path.relative_to(site)
        problems += [f"{name} loads {a}" for a in loads if not _is_own(a)]
    return problems


def outside(site: Path) -> list[str]:
    """Return all addresses of other hosts that pages link to."""
    links = (link for path in pages(site.resolve()) for link in read(path).links)
    return sorted({link for link in links if not _is_own(link)})


def _is_own(address: str) -> bool:
    """Return whether an address is in the page or the same site."""
    parts = urlsplit(address)
    return parts.scheme == "data" or not (parts.scheme or parts.netloc)


def _is_address(address: str) -> bool:
    return ADDRESS.fullmatch(address) is not None


def _broken(address: str, path: Path, site: Path) -> Iterator[str]:
    """Yield a problem of an address within the site, if it has one."""
    parts = urlsplit(address)
    if parts.scheme == "data":
        return
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_relative_to(site) or not target.is_file():
        yield f"{address} is not there"
    elif parts.fragment and target.suffix == ".html":
        has_anchor = unquote(parts.fragment) in read(target).anchors
        yield from [] if has_anchor else [f"{address} has no such anchor"]
