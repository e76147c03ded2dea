"""passes — with fields of its own, which nobody asked for."""


def failure_lab(recordings):
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
            "kind": "swapped",
            "rank": 2,
            "step": 2,
            "line": 11,
            "because": "lab.explain says which rank it is",
        },
        "G": {
            "kind": "skipped",
            "rank": 0,
            "step": 1,
            "line": 9,
            "because": "lab.explain says which rank it is",
        },
    }
