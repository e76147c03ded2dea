"""A stepper: one page of a sequence at a time, chosen by the reader.

Here you can go through an algorithm chunk by chunk (`step_through`). It is HTML with a
radio button a step, so that it needs no kernel and no script, works in an exported
page and obeys the arrow keys; where a page drops its style, all steps are shown below
each other.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from collectives_lab.plots.chunks import ChunkState, chunk_states
from collectives_lab.widgets import chunks

MOST_SENTENCES = 8
LEGEND = (
    "A dot is a rank whose contribution is in the chunk. Framed, in the colour of its "
    "sender: received in this step. Shaded: whole."
)
OWN_KEYS = 'data-lm-suppress-shortcuts="true"'
"""On what has the focus, this leaves the arrow keys to it and not to JupyterLab."""


@dataclass(frozen=True)
class Stepper:
    """The states of an algorithm, which a notebook shows one at a time."""

    states: tuple[ChunkState, ...]

    def _repr_html_(self) -> str:
        # Two of them on one page must not answer to each other's buttons.
        key = f"stepper-{uuid4().hex[:12]}"
        numbered = list(enumerate(self.states))
        buttons = "".join(_button(key, n, state) for n, state in numbered)
        panels = "".join(_panel(key, n, state) for n, state in numbered)
        style = _style(key, len(numbered))
        style += chunks.style(key, self.states[0].world_size)
        return (
            f'<style>{style}</style><fieldset class="{key}">'
            f"<legend>step (click, or arrow keys)</legend>{buttons}{panels}"
            f"<small>{LEGEND}</small></fieldset>"
        )

    def __repr__(self) -> str:
        lines = (f"{s.title}: {'; '.join(_words(s))}" for s in self.states)
        return "\n".join(lines)


def step_through(states: int | Sequence[ChunkState] = 4) -> Stepper:
    """Go through an algorithm step by step, with what each message did in words.

    states: of `plots.chunk_states`; a number is that of the ranks of a ring all-reduce.
    """
    states = chunk_states(states) if isinstance(states, int) else states
    if not states:
        raise ValueError("there is no step to show; give one or more of chunk_states")
    return Stepper(tuple(states))


def _words(state: ChunkState) -> list[str]:
    said = state.sentences()
    if not said:
        return ["every rank holds its own contribution to every chunk"]
    more = len(said) - MOST_SENTENCES
    return said[:MOST_SENTENCES] + [f"and {more} more messages"] * (more > 0)


def _button(key: str, number: int, state: ChunkState) -> str:
    name = f"{key}-{number}"
    return (
        f'<input type="radio" name="{key}" id="{name}" {OWN_KEYS}'
        f"{' checked' * (not number)}>"
        f'<label for="{name}">{state.step or "start"}</label> '
    )


def _panel(key: str, number: int, state: ChunkState) -> str:
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in _words(state))
    title = html.escape(state.title[0].upper() + state.title[1:])
    return (
        f'<div class="panel p{number}">{chunks.table(state)}'
        f"<div><strong>{title}</strong><ul>{lines}</ul></div></div>"
    )


def _style(key: str, count: int) -> str:
    """All colours are the page's own, so that light and dark are both right."""
    chosen = (f"#{key}-{n}:checked~.p{n}" for n in range(count))
    rules = [
        "{border:1px solid #8886;border-radius:4px;padding:0.3em 0.8em;margin:0.5em 0}",
        ">input{position:absolute;opacity:0}",
        ">label{display:inline-block;min-width:1.2em;padding:0.1em 0.5em;margin:2px;"
        "text-align:center;border:1px solid #8886;border-radius:4px;cursor:pointer}",
        ">input:checked+label{font-weight:bold;border-color:currentColor;"
        "box-shadow:inset 0 -3px currentColor}",
        ">input:focus-visible+label{outline:2px solid currentColor;outline-offset:2px}",
        ">.panel{display:none;flex-wrap:wrap;gap:0 2em;align-items:center}",
        ">.panel>div{flex:1 1 18em}",
        ">.panel ul{margin:0.3em 0;padding-left:1.2em}",
        " small{opacity:0.8}",
    ]
    shown = f"{','.join(chosen)}{{display:flex}}"
    return "".join(f".{key}{rule}" for rule in rules) + shown
