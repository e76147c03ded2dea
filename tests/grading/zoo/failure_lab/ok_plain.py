"""passes — typed in."""


def failure_lab(recordings):
    return {
        "A": {"kind": "skipped", "rank": 3, "step": 2, "line": 11},
        "B": {"kind": "tag", "rank": 1, "step": 1, "line": 7},
        "C": {"kind": "swapped", "rank": 3, "step": 2, "line": 11},
        "D": {"kind": "root", "rank": 2, "step": 1, "line": 17},
        "E": {"kind": "stopped", "rank": 1, "step": 2, "line": 5},
        "F": {"kind": "swapped", "rank": 2, "step": 2, "line": 11},
        "G": {"kind": "skipped", "rank": 0, "step": 1, "line": 9},
    }
