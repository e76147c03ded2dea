"""verdict: 0 — it did not end

Whoever asks for the text of its error waits for ever.
"""


class Endless(Exception):
    def __str__(self):
        while True:
            pass


def ring_all_reduce(tensor):
    raise Endless
