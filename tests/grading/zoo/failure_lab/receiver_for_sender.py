"""fails: B_rank, B_place — the end of the message that has the right tag."""


def failure_lab(recordings):
    return {
        "A": {"kind": "skipped", "rank": 3, "step": 2, "line": 11},
        "B": {"kind": "tag", "rank": 2, "step": 1, "line": 4},
        "C": {"kind": "swapped", "rank": 3, "step": 2, "line": 11},
        "D": {"kind": "root", "rank": 2, "step": 1, "line": 17},
        "E": {"kind": "stopped", "rank": 1, "step": 2, "line": 5},
    }
