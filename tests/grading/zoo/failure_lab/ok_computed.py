"""passes — found by a program, in anybody's recordings."""


def failure_lab(recordings: dict[str, list[dict]]) -> dict[str, dict]:
    """Return what was wrong in each recording.

    {"A": {"kind": "slow", "rank": 7, "step": 9, "line": 8}, ...} has the right form.
    """

    # Finds the faults of every student; what a student has read and typed is as good.
    def with_steps(records):
        step = {}
        for record in records:  # of a dump: in it line 2 begins a step
            rank = record["rank"]
            step[rank] = step.get(rank, -1) + (record["line"] == 2)
            times = {"ends": 1 if record["state"] == "completed" else None}
            same = {"bytes": record["elements"], "tag": step[rank], "root": None}
            yield record | times | same | {"begins": 0, "step": step[rank]}

    def place(record):
        return record["step"], record["line"]

    def duration(record):
        return (record["ends"] or record["begins"]) - record["begins"]

    def suspects(records):
        world_size = 1 + max(record["rank"] for record in records)
        for rank in range(world_size):
            mine = [record for record in records if record["rank"] == rank]
            if mine[-1]["op"] == "compute" and mine[-1]["ends"] is None:
                yield "stopped", mine[-1]
            places = [place(record) for record in mine]
            for found, right in zip(places, sorted(places), strict=True):
                if found != right:
                    step, line = found
                    yield "swapped", {"rank": rank, "step": step, "line": line}
            lines = {2, 4, 5, 7, 8, 9, 10, 11, 12, 13, 16, 17}
            lines -= {5, 8, 10, 12, 16} if "state" in mine[0] else set()
            lines -= {4} if rank == 0 else {7} if rank == world_size - 1 else set()
            for step in range(mine[-1]["step"] + 1):
                for line in lines:
                    if max(places) > (step, line) not in places:
                        yield "skipped", {"rank": rank, "step": step, "line": line}
        for record in records:
            same = [r for r in records if place(r) == place(record) and r is not record]
            if record["op"] in ("send", "recv"):
                if record["tag"] != record["step"]:
                    yield "tag", record
            elif record["op"] == "compute":
                usual = sorted(map(duration, same))[len(same) // 2] if same else 1.0
                if duration(record) > 1.3 * usual > 0:
                    yield "slow", record
            elif len(same) > 1:
                for kind, name in (("size", "bytes"), ("root", "root")):
                    if record[name] not in {other[name] for other in same}:
                        yield kind, record

    found = {}
    for case, records in recordings.items():
        if "state" in records[0]:
            records = list(with_steps(records))
        kind, record = next(suspects(records))
        fields = ("rank", "step", "line")
        found[case] = {"kind": kind} | {name: record[name] for name in fields}
    return found
