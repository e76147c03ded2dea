"""verdict: 0 — SIGABRT

Aborts.
"""

import os


def ring_all_reduce(tensor):
    os.abort()
