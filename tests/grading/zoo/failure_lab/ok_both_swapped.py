"""passes — the later one of the two swapped lines, and an order of its own."""


def failure_lab(recordings, dumps):
    return {
        "E": {"kind": "stopped", "rank": 1, "step": 2, "line": 5},
        "D": {"kind": "root", "rank": 2, "step": 1, "line": 17},
        "C": {"kind": "swapped", "rank": 3, "step": 2, "line": 13},
        "B": {"kind": "tag", "rank": 1, "step": 1, "line": 7},
        "A": {"kind": "skipped", "rank": 3, "step": 2, "line": 11},
        "F": {"kind": "skipped", "rank": 6, "line": 6, "group": "5", "number": 30},
        "G": {"kind": "dtype", "rank": 1, "line": 8, "group": "0", "number": 23},
    }
