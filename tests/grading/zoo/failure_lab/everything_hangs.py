"""fails: A_kind, B_kind, C_kind, D_kind, E_kind — that is what one sees."""


def failure_lab(recordings):
    return {
        "A": {"kind": "deadlock", "rank": 3, "step": 2, "line": 11},
        "B": {"kind": "deadlock", "rank": 1, "step": 1, "line": 7},
        "C": {"kind": "deadlock", "rank": 3, "step": 2, "line": 11},
        "D": {"kind": "deadlock", "rank": 2, "step": 1, "line": 17},
        "E": {"kind": "deadlock", "rank": 1, "step": 2, "line": 5},
    }
