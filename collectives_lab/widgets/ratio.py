"""An explorer of the ratio of communication to computation: sliders and break-even.

Here you can turn the ranks, the model, the batch and the hardware of a data-parallel
step, and see on which side of gamma = 1 it lands (`explore_ratio`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ipywidgets
import numpy as np
from numpy.typing import ArrayLike

from collectives_lab.costs import training
from collectives_lab.plots.figure import INK, Diagram, blank
from collectives_lab.plots.series import SERIES
from collectives_lab.units import format_bandwidth, format_seconds


def _decades(first: int, last: int) -> list[float]:
    """1, 2 and 5 in each decade, as one writes them: 5e-6, not 5 times 10**-6."""
    return [float(f"{d}e{n}") for n in range(first, last) for d in (1, 2, 5)]


RANKS = [2**n for n in range(1, 15)]
PARAMETERS = _decades(6, 12)
TOKENS = [2**n for n in range(9, 27)]
RATES = _decades(11, 16)
BANDWIDTHS = _decades(8, 12)
ALPHAS = [0.0, *_decades(-6, -3)]

CURVE_RANKS = 2.0 ** np.arange(1, 14.01, 0.25)
LOWEST, HIGHEST = 1e-4, 1e4
"""The ratios that the picture shows."""

WORDS = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
COMPUTE, MOVE = SERIES[2], SERIES[1]


class RatioExplorer:
    """The ratio under sliders, in SI units; `tokens` are those of all ranks together.

    Where no kernel runs, a notebook shows the picture as it was when it was saved.
    """

    def __init__(
        self,
        world_size: int,
        parameters: float,
        tokens: int,
        flop_rate: float,
        bandwidth: float,
        alpha: float,
        bytes_per_parameter: float,
    ):
        self.bytes_per_parameter = bytes_per_parameter
        self.ranks = _slider("ranks", RANKS, world_size, str)
        self.parameters = _slider("parameters", PARAMETERS, parameters, _count)
        self.tokens = _slider("tokens a step", TOKENS, tokens, "{:,}".format)
        self.flop_rate = _slider("TFLOP/s a rank", RATES, flop_rate, _tera)
        self.bandwidth = _slider("bandwidth", BANDWIDTHS, bandwidth, format_bandwidth)
        self.alpha = _slider("alpha", ALPHAS, alpha, format_seconds)
        self.sliders = (
            *(self.ranks, self.parameters, self.tokens),
            *(self.flop_rate, self.bandwidth, self.alpha),
        )
        self.picture = ipywidgets.HTML()
        for slider in self.sliders:
            slider.observe(self._redraw, "value")
        grid = ipywidgets.Layout(display="flex", flex_flow="row wrap")
        knobs = ipywidgets.Box(self.sliders, layout=grid)
        self.box = ipywidgets.VBox([knobs, self.picture])
        self._redraw()

    def seconds(
        self, world_size: ArrayLike, local_tokens: ArrayLike
    ) -> tuple[Any, Any]:
        """How long a step computes and communicates on so many ranks."""
        ranks, tokens = np.asarray(world_size, float), np.asarray(local_tokens, float)
        compute = training.compute_seconds(
            self.parameters.value, tokens, self.flop_rate.value
        )
        moved = training.all_reduce_seconds(
            self.parameters.value,
            ranks,
            self.bandwidth.value,
            self.bytes_per_parameter,
            self.alpha.value,
        )
        return compute, moved

    def diagram(self) -> Diagram:
        """The step as a bar, and below it gamma against the ranks."""
        ranks, local = self.ranks.value, self.tokens.value / self.ranks.value
        compute, moved = map(float, self.seconds(ranks, local))
        figure = blank(8.4, 4.4)
        bar, curves = figure.subplots(2, height_ratios=[1, 9])
        _draw_step(bar, compute, moved)
        lines = {
            "the same batch, split": self.tokens.value / CURVE_RANKS,
            "the same batch a rank": local + 0 * CURVE_RANKS,
        }
        for number, (name, tokens) in enumerate(lines.items()):
            seconds = self.seconds(CURVE_RANKS, tokens)
            _draw_curve(curves, number, name, seconds[1] / seconds[0])
        _set_axes(curves)
        _mark(curves, ranks, moved / compute)
        figure.caption = self._words(compute, moved)
        figure.alt = (
            "A bar of one step, computing then communicating, and two curves of the "
            f"ratio gamma against the number of ranks. {figure.caption}"
        )
        return figure

    def _words(self, compute: float, moved: float) -> str:
        """What the sliders say, and on which side of break-even it is."""
        gamma, ranks = moved / compute, self.ranks.value
        local = self.tokens.value / ranks
        slower = "communication" if gamma > 1 else "computation"
        return (
            f"{ranks} ranks, {_number(local)} tokens each, "
            f"{_count(self.parameters.value)} parameters: "
            f"computing takes {format_seconds(compute)}, "
            f"the all-reduce {format_seconds(moved)}, "
            f"so gamma = {_number(gamma)} and {slower} takes longer. "
            f"{_even(local, gamma, self.alpha.value)}"
        )

    def _redraw(self, _: Any = None) -> None:
        self.picture.value = self.diagram()._repr_html_()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """The widget for a page with a kernel, and for others the picture."""
        bundle = self.box._repr_mimebundle_()
        return bundle | {"text/html": self.picture.value}


def explore_ratio(
    world_size: int = 64,
    parameters: float = 7e9,
    tokens: int = 2048,
    flop_rate: float = 312e12,
    bandwidth: float = 600e9,
    alpha: float = 0.0,
    bytes_per_parameter: float = 2,
) -> RatioExplorer:
    """Draw the ratio of a data-parallel step under sliders, beginning with these.

    tokens: of all ranks together. flop_rate: operations a second that a rank sustains.
    bandwidth: one way, bytes a second. alpha: seconds a message of the ring.
    """
    return RatioExplorer(
        world_size, parameters, tokens, flop_rate, bandwidth, alpha, bytes_per_parameter
    )


def _slider(
    name: str, values: Iterable[float], value: float, text: Callable[..., str]
) -> Any:
    """A slider over these values and the one it begins with."""
    return ipywidgets.SelectionSlider(
        options=[(text(option), option) for option in sorted({*values, value})],
        value=value,
        description=name,
        continuous_update=False,
        style={"description_width": "8.5em"},
        layout=ipywidgets.Layout(width="27em"),
    )


def _count(number: float) -> str:
    """`7 billion`, and below a million the number itself."""
    for scale, word in WORDS:
        if number >= scale:
            return f"{number / scale:.3g} {word}"
    return f"{number:,g}"


def _number(value: float) -> str:
    """Three digits, or all before the point; never with an exponent."""
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def _tera(flop_rate: float) -> str:
    """Without its unit, for which the slider has no room."""
    return f"{flop_rate / 1e12:.4g}"


def _even(local: float, gamma: float, alpha: float) -> str:
    """The tokens a rank at which both take equally long: gamma falls as they grow."""
    return f"Break-even on as many ranks: {_number(local * gamma)} tokens each" + (
        ", latency included." if alpha else ", whatever the model."
    )


def _draw_step(ax: Any, compute: float, moved: float) -> None:
    """One step from left to right, as shares of its time."""
    share = compute / (compute + moved)
    ax.barh(0, share, color=COMPUTE)
    hatched = {"edgecolor": MOVE, "facecolor": "none", "hatch": "////"}
    ax.barh(0, 1 - share, left=share, **hatched)
    ax.set(xlim=(0, 1), ylim=(-0.4, 0.4))
    ax.axis("off")
    look = {"color": INK, "fontsize": 9, "transform": ax.transAxes, "va": "bottom"}
    ax.text(0, 1.05, f"one step: {share:.1%} computing", **look)
    ax.text(1, 1.05, f"{1 - share:.1%} communicating", ha="right", **look)


def _draw_curve(ax: Any, number: int, name: str, gamma: np.ndarray) -> None:
    """One way to add ranks, with its name in a key."""
    look = {"color": SERIES[3 * number], "linestyle": ("-", "--")[number]}
    ax.plot(CURVE_RANKS, gamma, linewidth=1.8, label=name, **look)


def _set_axes(ax: Any) -> None:
    """Logarithmic both ways, the break-even across, everything in the neutral ink."""
    ax.set(xscale="log", yscale="log", ylim=(LOWEST, HIGHEST))
    ax.set_xlim(CURVE_RANKS[0], CURVE_RANKS[-1])
    ax.set_xlabel("ranks", color=INK, fontsize=9)
    ax.set_ylabel("gamma, communicating / computing", color=INK, fontsize=9)
    ticks = [4**n for n in range(1, 7)]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    decades = [10.0**n for n in range(-4, 5, 2)]
    ax.set_yticks(decades, [f"{gamma:g}" for gamma in decades])
    ax.minorticks_off()
    ax.tick_params(colors=INK, labelsize=9)
    ax.grid(color=INK, alpha=0.25, linewidth=0.5)
    for side, spine in ax.spines.items():
        spine.set(color=INK, visible=side in ("left", "bottom"))
    ax.set_facecolor("none")
    ax.axhline(1, color=INK, linewidth=1.2)
    ax.axhspan(1, HIGHEST, color=MOVE, alpha=0.12, linewidth=0)
    ax.legend(
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=2,
        frameon=False,
        fontsize=8,
        labelcolor=INK,
        handlelength=2.5,
    )


def _mark(ax: Any, ranks: int, gamma: float) -> None:
    """Where the sliders stand, and which side is which."""
    at = float(np.clip(gamma, LOWEST * 1.2, HIGHEST / 1.2))
    ax.plot(ranks, at, "o", ms=9, mfc="none", mec=INK, mew=1.8, clip_on=False, zorder=4)
    look = {"color": INK, "fontsize": 8, "transform": ax.transAxes}
    ax.text(0.01, 0.98, "communication takes longer", va="top", **look)
    ax.text(0.99, 0.02, "computation takes longer", ha="right", **look)
