"""verdict: 0 — it did not end

Prints for ever.
"""


def ring_all_reduce(tensor):
    while True:
        print("all work and no play makes jack a dull boy" * 100)
