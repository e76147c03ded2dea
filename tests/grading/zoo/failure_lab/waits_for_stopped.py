"""fails: D_kind — who waits for ever is thought to have ended."""


def failure_lab(recordings):
    return {
        "A": {"kind": "skipped", "rank": 3, "step": 2, "line": 11},
        "B": {"kind": "tag", "rank": 1, "step": 1, "line": 7},
        "C": {"kind": "swapped", "rank": 3, "step": 2, "line": 11},
        "D": {"kind": "stopped", "rank": 2, "step": 1, "line": 17},
        "E": {"kind": "stopped", "rank": 1, "step": 2, "line": 5},
    }
