"""Sphinx's configuration: nothing is loaded from another host, maths least of all."""

import sys
from pathlib import Path

BOOK = Path(__file__).parent
sys.path.insert(0, str(BOOK.parent))  # Sphinx runs this file, not the package

project = html_title = "Collectives Lab"
author = "the Collectives Lab contributors"
project_copyright = f"{author}; MIT licence"
language = "en"

extensions = ["myst_nb", "book.lexer", "book.mathml"]
html_math_renderer = "mathml"
exclude_patterns: list[str] = []
nitpicky = True

# A chapter reads here as it does in JupyterLab, which knows none of these.
myst_disable_syntax = [
    *("myst_block_break", "myst_line_comment", "myst_role", "myst_target"),
]
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = True

nb_execution_mode = "off"  # the chapters are executed before, by book.execution
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
nb_merge_streams = True
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"

html_theme = "furo"
html_static_path = [str(BOOK / "static")]
html_favicon = str(BOOK / "static" / "icon.svg")
html_css_files = ["book.css"]
html_js_files = ["book.js"]
html_use_index = html_copy_source = False
html_show_sphinx = False
LIGHT, DARK = "#005a8c", "#7cc4ee"
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {
        f"color-brand-{of}": LIGHT for of in ("primary", "content")
    },
    "dark_css_variables": {f"color-brand-{of}": DARK for of in ("primary", "content")},
}
pygments_style = "a11y-light"
pygments_dark_style = "a11y-dark"
