"""fails: A_kind, B_rank, E_rank — who comes last to a wait is blamed."""


def failure_lab(recordings):
    found = {}
    for case, records in recordings.items():
        stuck = [r for r in records if r["waits"] is not None and r["ends"] is None]
        guess = max(stuck or records, key=lambda r: r["waits"] or 0.0)
        found[case] = {"kind": "slow"} | {k: guess[k] for k in ("rank", "step", "line")}
    return found
