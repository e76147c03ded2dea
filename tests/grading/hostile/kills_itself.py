"""verdict: 0 — SIGKILL

Kills its own process.
"""

import os
import signal


def ring_all_reduce(tensor):
    os.kill(os.getpid(), signal.SIGKILL)
