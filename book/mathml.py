"""Formulas as MathML, written at build time: browsers draw it without any script.

The conversion is docutils' own. A formula that it does not know stops the build.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def inline(writer: Any, node: nodes.math) -> None:
    """Write a formula in a line of text."""
    writer.body.append(str(tex2mathml(node.astext())))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    """Write a formula of its own, which scrolls by itself where it is too wide."""
    formula = tex2mathml(node.astext(), as_block=True)
    writer.body.append(f'<div class="math-block">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer under the name `mathml`."""
    renderers = ((inline, None), (block, None))
    app.add_html_math_renderer("mathml", *renderers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
