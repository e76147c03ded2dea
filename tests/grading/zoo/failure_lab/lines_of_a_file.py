"""fails: A_place, B_place, C_place, D_place, E_place — a line is a whole number."""


def failure_lab(recordings):
    return {
        "A": {"kind": "skipped", "rank": 3, "step": 2, "line": "train.py:11"},
        "B": {"kind": "tag", "rank": 1, "step": 1, "line": "train.py:7"},
        "C": {"kind": "swapped", "rank": 3, "step": 2, "line": "train.py:11"},
        "D": {"kind": "root", "rank": 2, "step": 1, "line": "train.py:17"},
        "E": {"kind": "stopped", "rank": 1, "step": 2, "line": "train.py:5"},
    }
