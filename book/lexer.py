"""Colours for the cells of a chapter: IPython, in which a `%%ranks` cell is Python."""

from __future__ import annotations

from typing import ClassVar

from ipython_pygments_lexers import IPython3Lexer
from pygments.lexer import bygroups, using
from pygments.lexers.python import Python3Lexer
from pygments.token import Operator, Text
from sphinx.application import Sphinx


class ChapterLexer(IPython3Lexer):
    """IPython's own lexer knows no magic of ours, and leaves their cells black."""

    name = "a cell of a chapter"
    aliases: ClassVar = ["chapter"]
    tokens: ClassVar = IPython3Lexer.tokens | {
        "root": [
            (
                r"(?s)(%%ranks)([^\n]*\n)(.*)",
                bygroups(Operator, Text, using(Python3Lexer)),
            ),
            *IPython3Lexer.tokens["root"],
        ]
    }


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the lexer under the name `chapter`."""
    app.add_lexer("chapter", ChapterLexer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
