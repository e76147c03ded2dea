"""passes — read from notes that are kept as a text."""

NOTES = """\
A skipped 3 2 11
B tag 1 1 7
C swapped 3 2 11
D root 2 1 17
E stopped 1 2 5
F swapped 2 2 11
G skipped 0 1 9
"""


def failure_lab(recordings):
    found = {}
    for case, kind, *numbers in map(str.split, NOTES.splitlines()):
        rank, step, line = map(int, numbers)
        found[case] = {"kind": kind, "rank": rank, "step": step, "line": line}
    return found
