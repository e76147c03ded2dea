"""The IPython extension: it registers `%%ranks`, and ends its ranks later.

Here you can run a cell on standing ranks (`%%ranks 4`), whose variables stay from cell
to cell, and see, restart or stop them (`%ranks`), on this machine or on an ipyparallel
cluster (`%%ranks --cluster c`). The `Run` of the last such cell is `_run`.
"""

from __future__ import annotations

import atexit
from typing import Any

from collectives_lab.launch import warm
from collectives_lab.notebook.magics import RanksMagics


def load(shell: Any) -> None:
    """Register the magics and warm the fork server, ending ranks loaded before."""
    unload(shell)
    magics = RanksMagics(shell)
    shell.register_magics(magics)
    magics.names.attach()
    atexit.register(magics.close)
    warm()


def unload(shell: Any) -> None:
    """Remove the magics and end their ranks."""
    manager = shell.magics_manager
    magics = manager.registry.pop(RanksMagics.__name__, None)
    if magics is None:
        return
    for kind in ("line", "cell"):
        manager.magics[kind].pop("ranks", None)
    atexit.unregister(magics.close)
    magics.names.detach()
    magics.close()
