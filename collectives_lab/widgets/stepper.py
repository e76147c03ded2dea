"""A stepper: the chunks of all ranks, one step of an algorithm at a time.

It is HTML with a radio button a step, so that it works without a kernel and where no
script runs, and obeys the arrow keys; the script adds Home and End. Where a page drops
its style too, all steps are shown below each other.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from uuid import uuid4

from collectives_lab.plans.chunks import ChunkState
from collectives_lab.widgets import chunk_page
from collectives_lab.widgets.page import OWN_KEYS

MOST_SENTENCES = 8
LEGEND = (
    "A dot is a rank whose contribution is in the chunk. Framed, in the colour of its "
    "sender: received in this step. Shaded: whole."
)
MOVED_LEGEND = (
    "A dot is the rank that the chunk comes from. Framed, in the colour of its sender: "
    "received in this step."
)
ENDS = """
const root = document.getElementById("%s");
root.addEventListener("keydown", (event) => {
  const buttons = [...root.querySelectorAll("input")];
  const goal = { Home: buttons[0], End: buttons.at(-1) }[event.key];
  if (!goal) return;
  event.preventDefault();
  goal.click();
  goal.focus();
});
"""


@dataclass(frozen=True)
class Stepper:
    """The states of an algorithm, which a notebook shows one at a time.

    is_sum: whether chunks are added up, and not only moved. notes: by number of a
    state, what else to say of it.
    """

    states: tuple[ChunkState, ...]
    is_sum: bool = True
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        # Two of them on one page must not answer to each other's buttons.
        key = f"stepper-{uuid4().hex[:12]}"
        numbered = list(enumerate(self.states))
        buttons = "".join(_button(key, n, state) for n, state in numbered)
        panels = "".join(self._panel(n, state) for n, state in numbered)
        style = _style(key, len(numbered)) + chunk_page.style(
            key, self.states[0].world_size
        )
        return (
            f'<style>{style}</style><fieldset class="{key}" id="{key}">'
            f"<legend>step (click, or arrow keys)</legend>{buttons}"
            f'<div class="panels" aria-live="polite">{panels}</div>'
            f"<small>{LEGEND if self.is_sum else MOVED_LEGEND}</small></fieldset>"
            f"<script>(() => {{{ENDS % key}}})();</script>"
        )

    def __repr__(self) -> str:
        return "\n".join(
            f"{self._title(n)}: {'; '.join(self._words(state))}"
            for n, state in enumerate(self.states)
        )

    def _title(self, number: int) -> str:
        title = self.states[number].title
        return f"{title}, {self.notes[number]}" if self.notes[number:] else title

    def _words(self, state: ChunkState) -> list[str]:
        sentences = state.sentences()
        if not sentences:
            own = "rank holds its own contribution to every chunk"
            return [f"every {own}"] if self.is_sum else ["what each rank has"]
        if not self.is_sum:
            sentences = [sentence.split(", which ")[0] for sentence in sentences]
        if len(state.holds[0]) == 1:
            sentences = [
                sentence.replace("chunk 0", "the tensor") for sentence in sentences
            ]
        more = len(sentences) - MOST_SENTENCES
        return sentences[:MOST_SENTENCES] + [f"and {more} more messages"] * (more > 0)

    def _panel(self, number: int, state: ChunkState) -> str:
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in self._words(state))
        title = html.escape(self._title(number))
        return (
            f'<div class="panel p{number}">{chunk_page.table(state)}<div>'
            f"<strong>{title[0].upper()}{title[1:]}</strong><ul>{lines}</ul></div></div>"
        )


def _button(key: str, number: int, state: ChunkState) -> str:
    name = f"{key}-{number}"
    what = f"step {state.step}" if state.step else "start"
    return (
        f'<input type="radio" name="{key}" id="{name}" aria-label="{what}" {OWN_KEYS}'
        f"{' checked' * (not number)}>"
        f'<label for="{name}">{state.step or "start"}</label> '
    )


def _style(key: str, count: int) -> str:
    """Return the style, in the page's own colours: right in light and in dark."""
    chosen = (f"#{key}-{n}:checked~.panels>.p{n}" for n in range(count))
    rules = [
        "{border:1px solid #8886;border-radius:4px;padding:0.3em 0.8em;margin:0.5em 0}",
        ">input{position:absolute;opacity:0}",
        ">label{display:inline-block;min-width:1.2em;padding:0.1em 0.5em;margin:2px;"
        "text-align:center;border:1px solid #8886;border-radius:4px;cursor:pointer}",
        ">input:checked+label{font-weight:bold;border-color:currentColor;"
        "box-shadow:inset 0 -3px currentColor}",
        ">input:focus-visible+label{outline:2px solid currentColor;outline-offset:2px}",
        ">.panels>.panel{display:none;flex-wrap:wrap;gap:0 2em;align-items:center}",
        ">.panels>.panel>div{flex:1 1 18em}",
        ">.panels ul{margin:0.3em 0;padding-left:1.2em}",
        " small{opacity:0.8}",
    ]
    shown = f"{','.join(chosen)}{{display:flex}}"
    return "".join(f".{key}{rule}" for rule in rules) + shown
