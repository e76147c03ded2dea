"""fails: A_rank, B_rank, C_rank, D_rank, E_rank — who waits longest is blamed."""


def failure_lab(recordings):
    found = {}
    for case, records in recordings.items():
        stuck = [r for r in records if r["waits"] is not None and r["ends"] is None]
        guess = min(stuck or records, key=lambda r: r["waits"] or 1.0)
        found[case] = {"kind": "skipped"} | {
            k: guess[k] for k in ("rank", "step", "line")
        }
    return found
