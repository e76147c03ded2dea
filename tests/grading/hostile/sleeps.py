"""verdict: 0 — it did not end

Sleeps for a fortnight.
"""

import time


def ring_all_reduce(tensor):
    time.sleep(1e6)
