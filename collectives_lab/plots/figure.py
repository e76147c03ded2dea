"""Parts that all pictures share: rank colours, the `Diagram`, and its labels.

Here you can ask for a rank's colour (`rank_color`), begin a figure (`diagram`), write
labels on it that never cover each other (`Labels`), and show several figures beside
each other (`side_by_side`).
"""

from __future__ import annotations

import base64
import html
import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from collectives_lab.trace import Trace

# Eight colours that stay apart for the colour-blind and show on white and on black: six
# of Okabe and Ito's, then a violet and a brown for their yellow and black. Of
# matplotlib's own, okabe_ito and petroff8 have a colour that is pale on white.
PALETTE = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#D55E00",
    "#56B4E9",
    "#8844DD",
    "#994F28",
)
INK = "#7A7A7A"  # as far from white as from the black of a dark notebook
PILL = "#4A4A4A"
DPI = 96  # what a browser calls an inch
PHONE = 3.5  # inches that a narrow screen shows
NARROW_SCREEN = "(max-width: 46em)"  # as in the style of the site
MOST_SVG = 100_000  # bytes; a larger drawing goes into the page as pixels

STYLE = {
    "font.family": "sans-serif",
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "collectives_lab",
    "hatch.linewidth": 0.7,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.handlelength": 1.6,
    "legend.columnspacing": 1.4,
}


class Traced(Protocol):
    """An object with a trace: a Run, a Timeline."""

    @property
    def trace(self) -> Trace:
        """The recorded or planned calls."""


def trace_of(thing: Trace | Traced) -> Trace:
    """Return the trace of a Run or a Timeline; a trace is its own."""
    trace = thing if isinstance(thing, Trace) else getattr(thing, "trace", None)
    if not isinstance(trace, Trace):
        raise TypeError(
            f"a {type(thing).__name__} has no trace; draw a Trace, or what has one in "
            "its .trace, as a Run or a Timeline does"
        )
    return trace


def rank_color(rank: int) -> str:
    """Give the colour of a rank, the same in every figure.

    Ranks eight apart share a colour, which is why a figure labels its ranks too.
    """
    return PALETTE[rank % len(PALETTE)]


class Diagram(Figure):
    """A matplotlib Figure that shows itself in a notebook, with a caption and words.

    caption: the message of the figure. alt: its contents in words, for a reader who
    cannot see it. is_large: whether it goes into the page as pixels at once, because
    its drawing would be too large in any case. narrow: the same for a phone.
    """

    caption: str = ""
    alt: str = ""
    is_large: bool = False
    narrow: Diagram | None = None

    def _repr_html_(self) -> str:
        """Return the figure as one image, whose text no page style can change."""
        width, height = (round(DPI * inches) for inches in self.get_size_inches())
        start = f'<img alt="{html.escape(self.alt)}" src="{self._source()}" '
        image = start + f'style="width:{width}px;max-width:100%;height:auto">'
        if self.narrow:  # an image with a width in its style would keep that
            wide = f'width="{width}" height="{height}"'
            image = f'{start}{wide} style="max-width:100%;height:auto">'
            image = f"<picture>{self.narrow._as_source()}{image}</picture>"
        return (
            f'<figure style="margin:0.5em 0">{image}'
            f"<figcaption>{html.escape(self.caption)}</figcaption></figure>"
        )

    def _as_source(self) -> str:
        """Return what a browser takes in place of an image on a narrow screen."""
        width, height = (round(DPI * inches) for inches in self.get_size_inches())
        size = f'width="{width}" height="{height}"'
        return f'<source media="{NARROW_SCREEN}" {size} srcset="{self._source()}">'

    def _source(self) -> str:
        """Return the drawing, or its pixels where these are smaller, as an address."""
        kind, data = "svg+xml", b"" if self.is_large else self._svg()
        if self.is_large or len(data) > MOST_SVG:
            kind, data = "png", self._png()
        return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"

    def _svg(self) -> bytes:
        """Return a small SVG: no comments, and a hundredth of a point is exact."""
        buffer = io.StringIO()
        with mpl.rc_context(STYLE):
            self.savefig(buffer, format="svg", metadata={"Date": None})
        drawing = re.sub(r"<!--.*?-->|\n\s*", " ", buffer.getvalue(), flags=re.DOTALL)
        shorter = re.compile(r"(\.\d\d)\d+")
        tags = re.compile(r"<[^>]*>")
        return tags.sub(lambda tag: shorter.sub(r"\1", tag[0]), drawing).encode()

    def _png(self) -> bytes:
        """Return a PNG of twice the size for sharp screens, in 256 colours."""
        buffer = io.BytesIO()
        with mpl.rc_context(STYLE):
            self.savefig(buffer, format="rgba", dpi=2 * DPI)
        canvas: Any = self.canvas  # what it has rounded, as it has rounded it
        size = int(canvas.renderer.width), int(canvas.renderer.height)
        drawing = Image.frombytes("RGBA", size, buffer.getvalue())
        small = io.BytesIO()
        pixels = drawing.quantize(256, Image.Quantize.FASTOCTREE)
        pixels.save(small, "png", optimize=True)
        return small.getvalue()


@dataclass(frozen=True)
class Row:
    """Diagrams that a notebook shows beside each other, or below where it is narrow."""

    diagrams: tuple[Diagram, ...]

    def _repr_html_(self) -> str:
        style = "display:flex;flex-wrap:wrap;gap:0 1.5em;align-items:flex-start"
        return f'<div style="{style}">{"".join(map(_item, self.diagrams))}</div>'


def _item(one: Diagram) -> str:
    """Return the HTML of a diagram that shrinks to stay in its row, to 3/4 at most.

    Where a page keeps figures wider than the window, as the site does on phones, the
    caption stays as wide as the window: hence `min-width`.
    """
    width = round(one.get_figwidth() * DPI)
    style = f"flex:{width} 1 {round(0.75 * width)}px;min-width:0;max-width:{width}px"
    return f'<div style="{style}">{one._repr_html_()}</div>'


def side_by_side(*diagrams: Diagram) -> Row:
    """Show two or more diagrams beside each other, each with its caption."""
    return Row(diagrams)


def diagram(width: float, height: float) -> tuple[Diagram, Axes]:
    """Begin a figure of so many inches, with one axes."""
    figure = blank(width, height)
    return figure, figure.add_subplot()


def blank(width: float, height: float) -> Diagram:
    """Begin a figure without axes; without pyplot, nothing shows it twice."""
    figure = Diagram(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def key_above(ax: Axes, signs: Mapping[str, Any], most: int = 99) -> None:
    """Explain the signs, by name, above the axes and clear of the data.

    most: signs in a row; more of them, or wider ones than the figure, are shared out
    evenly over rows.
    """
    for rows in range(math.ceil(len(signs) / most) or 1, len(signs) + 2):
        columns = math.ceil(len(signs) / rows) or 1
        place = {"loc": "lower right", "bbox_to_anchor": (1, 1)}
        key = ax.legend(signs.values(), signs.keys(), ncols=columns, **place)
        if key.get_window_extent().width <= ax.figure.bbox.width:
            break


def cell_grid(ax: Axes, rows: int, columns: int | None = None) -> None:
    """Rule so many rows and columns of cells, whose middles are at whole numbers.

    columns: as many as rows if left out.
    """
    high = [n - 0.5 for n in range(rows + 1)]
    wide = high if columns is None else [n - 0.5 for n in range(columns + 1)]
    names = "color", "linewidth", "linestyle"
    style = {name: mpl.rcParams[f"grid.{name}"] for name in names}
    for rule, edges, ends in (ax.hlines, high, wide), (ax.vlines, wide, high):
        rule(edges, ends[0], ends[-1], alpha=0.4, zorder=1.5, **style)
    ax.tick_params(length=0)


def on_color(color: Any) -> str:
    """Return black or white, as reads better on a colour; matplotlib has no such."""
    red, green, blue = mpl.colors.to_rgb(color)
    return "black" if 0.21 * red + 0.72 * green + 0.07 * blue > 0.46 else "white"


def settle(figure: Diagram) -> None:
    """Fix the layout, so that what is measured in pixels from here on stays true."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


class Labels:
    """Labels on a settled axes; one that would cover another is left out.

    matplotlib places legends clear of the data, but no labels among it.
    """

    def __init__(self, ax: Axes, fontsize: float) -> None:
        self.ax, self.fontsize = ax, fontsize
        self.occupied: list[Bbox] = []
        self._sizes: dict[tuple[str, float], tuple[float, float]] = {}

    def size(self, text: str, angle: float = 0) -> tuple[float, float]:
        """Return the width and height of a label, turned by an angle, in pixels."""
        if (text, angle) not in self._sizes:
            drawn = self._text(0, 0, text, angle)
            box = drawn.get_window_extent()
            pad = 0.4 * self.fontsize * DPI / 72
            self._sizes[text, angle] = box.width + pad, box.height + pad
            drawn.remove()
        return self._sizes[text, angle]

    def put(self, text: str, left: float, middle: float, angle: float = 0) -> bool:
        """Write `text` from the pixel `left` on, or as near as the axes has room."""
        width, height = self.size(text, angle)
        frame = self.ax.get_window_extent()
        left = max(frame.x0, min(left, frame.x1 - width))
        box = Bbox.from_bounds(left, middle - height / 2, width, height)
        is_outside = box.y0 < frame.y0 - 1 or box.y1 > frame.y1 + 1
        if is_outside or any(box.overlaps(other) for other in self.occupied):
            return False
        self.occupied.append(box)
        centre = (left + width / 2, middle)
        x, y = self.ax.transData.inverted().transform(centre)
        self._text(x, y, text, angle)
        return True

    def _text(self, x: float, y: float, text: str, angle: float) -> Text:
        style = {"zorder": 5, "rotation": angle}
        return pill_text(self.ax, x, y, text, self.fontsize, **style)


def pill_text(
    ax: Axes, x: float, y: float, text: str, fontsize: float, **more: Any
) -> Text:
    """Write white on a dark pill, which reads well on every colour."""
    pill = {"boxstyle": "round,pad=0.2", "facecolor": PILL, "edgecolor": "none"}
    style: dict[str, Any] = {"ha": "center", "va": "center", "bbox": pill}
    return ax.text(x, y, text, fontsize=fontsize, color="white", **style, **more)
