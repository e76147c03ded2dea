"""verdict: 0 — it did not end

Whatever is raised in it is swallowed.
"""


def ring_all_reduce(tensor):
    while True:
        try:
            while True:
                tensor += 0
        except BaseException:
            continue
