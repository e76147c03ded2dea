"""fails: A_kind, B_kind, C_kind, D_kind, E_kind — each is one too late."""


def failure_lab(recordings):
    return {
        "A": {"kind": "stopped", "rank": 1, "step": 2, "line": 5},
        "B": {"kind": "skipped", "rank": 3, "step": 2, "line": 11},
        "C": {"kind": "tag", "rank": 1, "step": 1, "line": 7},
        "D": {"kind": "swapped", "rank": 3, "step": 2, "line": 11},
        "E": {"kind": "root", "rank": 2, "step": 1, "line": 17},
    }
