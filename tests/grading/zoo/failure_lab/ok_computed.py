"""passes — found by a program, in anybody's recordings and dumps."""


def failure_lab(
    recordings: dict[str, list[dict]], dumps: dict[str, list[dict]]
) -> dict[str, dict]:
    """Return what was wrong in each job, by its letter.

    {"A": {"kind": "slow", "rank": 7, "step": 9, "line": 8}, ...} has the right form,
    and of the dumps, whose list is by rank,
    {"F": {"kind": "size", "rank": 13, "line": 5, "group": "2", "number": 8}, ...}.
    """

    # Finds the faults of every student; what a student has read and typed is as good.
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

    lines = {
        ("nccl:_all_gather_base", "row"): 2,
        ("nccl:_reduce_scatter_base", "row"): 5,
        ("nccl:all_reduce", "column"): 6,
        ("nccl:all_reduce", "default_pg"): 8,
    }

    def line(entry):
        return lines[entry["profiling_name"], entry["process_group"][1]]

    def odd_calls(dumps):
        calls, last = {}, {}  # by group and number; the last number by rank and group
        for rank, entry in ((r, e) for r, d in enumerate(dumps) for e in d["entries"]):
            group, number = entry["process_group"][0], entry["collective_seq_id"]
            calls.setdefault((group, number), {})[rank] = entry
            last[rank, group] = number
        for (group, number), entries in calls.items():
            first = min(entries.values(), key=lambda entry: entry["time_created_ns"])
            begun = first["time_created_ns"]
            for rank in [r for r, g in last if g == group and number > last[r, g]]:
                end = dumps[rank]["entries"][-1]["time_created_ns"]
                kind = "skipped" if end > begun else "stopped"
                yield begun, rank, kind, line(first), group, number
            for kind, read in (
                ("skipped", line),
                ("size", lambda entry: str(entry["input_sizes"])),
                ("dtype", lambda entry: str(entry["input_dtypes"])),
            ):
                values = {rank: read(entry) for rank, entry in entries.items()}
                for rank, value in values.items():
                    others = [v for r, v in values.items() if r != rank]
                    if value not in others and len(set(others)) == 1 < len(others):
                        usual = next(e for r, e in entries.items() if r != rank)
                        yield begun, rank, kind, line(usual), group, number

    found = {}
    for case, records in recordings.items():
        kind, record = next(suspects(records))
        fields = ("rank", "step", "line")
        found[case] = {"kind": kind} | {name: record[name] for name in fields}
    for case, files in dumps.items():
        first = min(odd_calls(files), key=lambda odd: odd[0])
        fields = ("rank", "kind", "line", "group", "number")
        found[case] = dict(zip(fields, first[1:], strict=True))
    return found
