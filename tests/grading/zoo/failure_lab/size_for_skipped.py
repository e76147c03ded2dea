"""fails: A_kind, A_place — two sizes meet, and both are right."""


def failure_lab(recordings):
    return {
        "A": {"kind": "size", "rank": 3, "step": 2, "line": 13},
        "B": {"kind": "tag", "rank": 1, "step": 1, "line": 7},
        "C": {"kind": "swapped", "rank": 3, "step": 2, "line": 11},
        "D": {"kind": "root", "rank": 2, "step": 1, "line": 17},
        "E": {"kind": "stopped", "rank": 1, "step": 2, "line": 5},
    }
