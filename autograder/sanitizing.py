"""Render a student's Markdown as HTML that can do nothing.

The HTML that a browser gets is sanitized, not the Markdown it comes from: readers of
Markdown differ, and a text that is harmless to one of them is a link to another. nh3
parses it as browsers do and writes it anew from a list of what is allowed.
"""

import re
from html import escape
from typing import Any
from urllib.parse import unquote, urlsplit

import nh3
from mistune import import_plugin
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from autograder.images import BEGINS, POINTER, Images

TAGS = {
    *("b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "li", "ol", "p", "pre", "s"),
    *("span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th", "thead"),
    *("tr", "ul", "a", "img"),
}
ATTRIBUTES = {
    "a": {"href", "title"},
    "img": {"src", "alt", "title"},
    "ol": {"start"},
    "td": {"style"},
    "th": {"style"},
    "div": {"class"},
    "span": {"class"},
}
PLUGINS = ("strikethrough", "table", "url", "def_list")
"""As nbconvert has them, but a list of tasks keeps its `[x]`: no page has boxes."""
VALUES = {
    # A browser reads `http:x` as a path of the page's own server: a host must follow.
    # It has a dot and letters behind it, so it is no machine that has no name outside.
    "href": re.compile(
        r"(?i:https?)://(?:[a-zA-Z0-9-]+\.)+[a-zA-Z][a-zA-Z0-9-]+(?::[0-9]{1,5})?"
        r"(?:[/?#][^\s\\<>\"']*)?|mailto:[^\s\\<>\"'@:?]+@[a-zA-Z0-9.-]+"
    ),
    "src": re.compile(rf"data:(?:{'|'.join(BEGINS)});base64,[a-zA-Z0-9+/=]+"),
    "style": re.compile(r"text-align: ?(?:left|right|center);?"),
    # Of code in colours, and no class that formgrader's own buttons have.
    "class": re.compile(r"highlight|[a-z][a-z0-9]{0,2}"),
    "start": re.compile(r"[0-9]{1,9}"),
}


class Renderer(IPythonRenderer):
    """nbconvert's renderer, in which an image comes with its cell or is left out."""

    def image(self, text: str, url: str, title: str | None = None) -> str:
        """Return an attached image, or the words that it was left out."""
        name = unquote(url).removeprefix(POINTER)
        if url.startswith("data:"):
            return super().image(text, url, title)
        if url.startswith(POINTER) and (kinds := self.attachments.get(name)):
            kind, data = next(iter(kinds.items()))
            return super().image(text, f"data:{kind};base64,{data}", title)
        return escape(f"(image {unquote(url)} left out)")


def markdown(source: str, attachments: Images, host: str = "") -> str:
    """Render Markdown as HTML of plain text, tables, code, own images and links.

    host: whose pages no link leads to, as it is the server that shows the page.
    """
    renderer = Renderer(
        escape=False, attachments=attachments, exclude_anchor_links=True
    )
    plugins = [import_plugin(name) for name in PLUGINS]
    try:
        rendered = MarkdownWithMath(renderer, plugins=plugins).render(source)
    except RecursionError:
        rendered = f"<pre>{escape(source)}</pre>"
    return sanitized(rendered, host)


def sanitized(html: str, host: str = "") -> str:
    """Keep of HTML what is on the lists above; a link opens a page of its own."""

    def value(tag: str, attribute: str, text: str) -> str | None:
        if attribute in VALUES and not VALUES[attribute].fullmatch(text):
            return None
        return None if attribute == "href" and _leads_to(text, host) else text

    return nh3.clean(
        html,
        tags=TAGS,
        clean_content_tags={"script", "style"},
        attributes=ATTRIBUTES,
        attribute_filter=value,
        url_schemes={"http", "https", "mailto", "data"},
        link_rel="noopener noreferrer",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def _leads_to(url: str, host: str) -> bool:
    return bool(host) and urlsplit(url).hostname == urlsplit(f"//{host}").hostname


def escaped(resources: dict[str, Any]) -> dict[str, Any]:
    """Escape the texts that a template writes as they are, as names of students."""
    return {k: escape(v) if isinstance(v, str) else v for k, v in resources.items()}
