"""One output of a notebook that brings its own style, data and script.

Here you can make one (`live`), or one around a picture (`Explorer`). In JupyterLab all
outputs are one page, in Colab each is a page of its own, and an exported book has no
server: so an output loads nothing, and all names in it end with it. Where no script
runs, a reader sees what `still` is.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from collectives_lab.plots.figure import Diagram
from collectives_lab.widgets.knobs import Knob

HERE = Path(__file__).parent
OWN_KEYS = 'data-lm-suppress-shortcuts="true"'
"""On what has the focus, not around it, this keeps its keys from JupyterLab."""


def live(
    body: str, scripts: Sequence[str], function: str, data: Mapping[str, Any]
) -> str:
    """Return the HTML of `body` with a function of one of the scripts called on it.

    scripts: files of this folder, which see each other. function: gets the element
    around the body, and the data, JSON in which what is not finite is null.
    """
    key = f"lab-{uuid4().hex[:12]}"
    source = "\n".join((HERE / name).read_text("utf-8") for name in scripts)
    call = f'{function}(document.getElementById("{key}"), {_json(data)});'
    style = (HERE / "live.css").read_text("utf-8")
    return (
        f'<div class="lab-live" id="{key}"><style>{style}</style>{body}'
        f"<script>(() => {{\n{source}\n{call}\n}})();</script></div>"
    )


class Explorer(ABC):
    """A picture under sliders, with a sentence about it.

    A page shows it with a script of its own; where none runs, as the picture of what
    the sliders begin with. scripts, function: as for `live`. above, below: the classes
    of the elements around the picture, which the function fills.
    """

    scripts: tuple[str, ...]
    function: str
    above = "knobs key"
    below = ""
    knobs: tuple[Knob, ...]
    """The sliders, in their order."""

    @property
    @abstractmethod
    def data(self) -> dict[str, Any]:
        """What the page shows."""

    @abstractmethod
    def diagram(self) -> Diagram:
        """Return the picture of what the sliders begin with."""

    @abstractmethod
    def words(self) -> str:
        """Say what the sliders begin with."""

    def _repr_html_(self) -> str:
        body = (
            f'{_places(self.above)}<div class="stage">'
            f"{self.diagram()._repr_html_()}</div>"
            f'<div class="sentence" aria-live="polite"></div>{_places(self.below)}'
        )
        return live(body, self.scripts, self.function, self.data)

    def __repr__(self) -> str:
        return self.words()


def looks(colors: Iterable[str], dashes: Iterable[str]) -> list[dict[str, str]]:
    """Return how a page draws curves: each has its color and its dashes."""
    return [
        {"color": color, "dashes": dash}
        for color, dash in zip(colors, dashes, strict=False)
    ]


def _places(names: str) -> str:
    return "".join(f'<div class="{name}"></div>' for name in names.split())


def _json(data: Any) -> str:
    """Return JSON that stands inside of a script, which its text must not end."""
    text = json.dumps(_finite(data), separators=(",", ":"), allow_nan=False)
    return text.replace("</", "<\\/")


def _finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
