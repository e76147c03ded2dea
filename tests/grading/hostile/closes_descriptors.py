"""verdict: 0 — rank

Closes every descriptor that it has.
"""

import os


def ring_all_reduce(tensor):
    os.closerange(0, 4096)
