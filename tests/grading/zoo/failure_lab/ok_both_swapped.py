"""passes — the later one of the two swapped lines, and an order of its own."""


def failure_lab(recordings):
    return {
        "G": {"kind": "skipped", "rank": 0, "step": 1, "line": 9},
        "F": {"kind": "swapped", "rank": 2, "step": 2, "line": 13},
        "E": {"kind": "stopped", "rank": 1, "step": 2, "line": 5},
        "D": {"kind": "root", "rank": 2, "step": 1, "line": 17},
        "C": {"kind": "swapped", "rank": 3, "step": 2, "line": 13},
        "B": {"kind": "tag", "rank": 1, "step": 1, "line": 7},
        "A": {"kind": "skipped", "rank": 3, "step": 2, "line": 11},
    }
