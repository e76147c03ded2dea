"""fails: A_kind, B_kind, C_kind, D_kind, E_kind — all is put down to slowness."""


def failure_lab(recordings):
    return {
        "A": {"kind": "slow", "rank": 3, "step": 2, "line": 11},
        "B": {"kind": "slow", "rank": 1, "step": 1, "line": 7},
        "C": {"kind": "slow", "rank": 3, "step": 2, "line": 11},
        "D": {"kind": "slow", "rank": 2, "step": 1, "line": 17},
        "E": {"kind": "slow", "rank": 1, "step": 2, "line": 5},
    }
