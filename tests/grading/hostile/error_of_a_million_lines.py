"""verdict: 0 — ValueError

A message of a million lines, and a chain of ten thousand causes.
"""


def ring_all_reduce(tensor):
    error = ValueError("no\n" * 10**6)
    cause = error
    for _ in range(10_000):
        cause.__context__ = KeyError("no " * 100)
        cause = cause.__context__
    raise error
