"""verdict: 0 — it did not end

Every rank computes for ever.
"""


def ring_all_reduce(tensor):
    while True:
        tensor += 0
