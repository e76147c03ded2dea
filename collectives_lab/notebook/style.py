"""The style of all output in a notebook: one style sheet, in JupyterLab's colours.

Here you can put content into a `box`, which brings the sheet, and style a small output
by its elements alone (`DIM`, `GRID`, `PRE`), for which the sheet would be too long.
"""

from __future__ import annotations

# Colab has none of JupyterLab's colours: there it is the page's own, light or dark.
_DIM = (
    "var(--jp-content-font-color2, color-mix(in srgb, currentColor 70%, transparent))"
)
_CODE = "var(--jp-code-font-family, monospace)"

DIM = f"color: {_DIM}"
PRE = (
    "margin: 0; padding: 0; white-space: pre-wrap; overflow-wrap: anywhere; "
    "font-size: inherit; line-height: inherit; background: transparent; border: 0; "
    f"font-family: {_CODE}"
)
GRID = (
    "display: grid; grid-template-columns: max-content minmax(0, 1fr); "
    "gap: 0.15em 1.2em; font-size: var(--jp-code-font-size, 13px); line-height: 1.3; "
    "padding: 0.4em 0 0 8px"  # beside what JupyterLab prints
)

_VARIABLES = (
    f".clab {{ --clab-dim: {_DIM}; --clab-code: {_CODE};"
    " --clab-text: var(--jp-content-font-color1, currentColor);"
    " --clab-pale: var(--jp-layout-color2, #8882);"
    " --clab-line: 1px solid var(--jp-border-color2, #8886);"
    " --clab-right: #0072b2; --clab-wrong: #d55e00; }"
)
_SHEET = """
.clab { font-size: var(--jp-content-font-size1, 14px); color: var(--clab-text); }
.clab p { margin: 0 0 0.5em; }
.clab .clab-dim, .clab figcaption { color: var(--clab-dim); }
.clab .clab-right { color: var(--clab-right); font-weight: 700; }
.clab .clab-wrong { color: var(--clab-wrong); font-weight: 700; }
.clab .clab-output pre, .clab li pre { border: 0; color: inherit; overflow: auto;
  background: var(--clab-pale); font-family: var(--clab-code); }

.clab table.clab-table { border-collapse: collapse; margin: 0 0 0.7em;
  font-size: inherit; display: block; overflow-x: auto; }
.clab .clab-table th, .clab .clab-table td { text-align: left !important;
  padding: 0.2em 1.2em 0.2em 0; vertical-align: top; border: 0;
  background: transparent; white-space: nowrap; max-width: none; }
.clab .clab-table thead th { font-weight: normal; color: var(--clab-dim);
  border-bottom: var(--clab-line); }
.clab .clab-table .clab-number { text-align: right !important; }
.clab .clab-table code { background: transparent; white-space: pre-wrap;
  font-family: var(--clab-code); }
.clab .clab-output { display: grid; gap: 0.25em 1.2em; margin: 0 0 0.7em;
  grid-template-columns: max-content minmax(0, 1fr); align-items: baseline; }
.clab .clab-output pre { margin: 0; padding: 0.1em 0.6em; max-height: 16em;
  white-space: pre; font-size: inherit; }

.clab-card { max-width: 60em; }
.clab-card ul { list-style: none; margin: 0 0 0.8em; padding: 0;
  border-top: var(--clab-line); }
.clab-card li { display: grid; gap: 0 0.8em; padding: 0.35em 0; margin: 0;
  grid-template-columns: 1.2em 9em minmax(0, 1fr) max-content;
  border-bottom: var(--clab-line); }
.clab-card li > b { font-family: var(--clab-code); font-weight: 600;
  overflow-wrap: anywhere; }
.clab-card li pre { grid-column: 3; margin: 0.2em 0 0; padding: 0.3em 0.6em;
  white-space: pre-wrap; word-break: normal; overflow-wrap: break-word;
  font-size: 0.93em; line-height: 1.35; max-height: 22em; }
.clab-card .clab-bars { grid-column: 3; display: grid; gap: 2px 0.7em;
  grid-template-columns: max-content minmax(0, 1fr) max-content; margin-top: 0.4em;
  align-items: center; font-size: 0.9em; }
.clab-card .clab-bar { position: relative; height: 0.75em;
  background: var(--clab-pale); }
.clab-card .clab-bar span { position: absolute; inset: 0 auto 0 0; opacity: 0.8;
  background: var(--clab-right); }
.clab-card .clab-over span { background: var(--clab-wrong); }
.clab-card .clab-bar i { position: absolute; top: -2px; bottom: -2px; width: 2px;
  background: var(--clab-text); }
"""


def box(kind: str, *content: str) -> str:
    """Return content as HTML under the style sheet; kind: `run` or `card`."""
    sheet = f"<style>{_VARIABLES}{_SHEET}</style>"
    return f'<div class="clab clab-{kind}">{sheet}{"".join(content)}</div>'
