"""Program text: a hang of few ranks and calls as a short program for `lab.run`.

Here `program` writes the one that shows a verdict; `reproduction` tries it.
"""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Sequence
from itertools import groupby

from collectives_lab.basics.rank_sets import name_ranks
from collectives_lab.diagnosis import call_code, minimal_hang, stragglers
from collectives_lab.diagnosis.call_code import Shapes, Unwritten
from collectives_lab.diagnosis.job import DEFAULT, Job
from collectives_lab.diagnosis.minimal_hang import MinimalHang
from collectives_lab.diagnosis.mismatch import peer_of
from collectives_lab.diagnosis.verdict import Offer, Verdict
from collectives_lab.formats.flight_recorder import Call

WIDTH = 88

FRAME = '''\
"""{title}"""

{imports}
import torch
import torch.distributed as dist

import collectives_lab as lab


def job():
{body}


if __name__ == "__main__":
{slow}    run = lab.run(job, world_size={world}, timeout={timeout}{options})
    print("Seconds by rank:", run.results)
'''

SLOW = 100_000
"""Elements of a call that a slow network makes slow."""


def program(job: Job, verdict: Verdict) -> Offer:
    """Return a program for a verdict; raises Unwritten where there is none to write."""
    if verdict.kind in ("healthy", "unknown"):
        raise Unwritten("the files do not say what it would show")
    slow = options = ""
    if verdict.kind in ("straggler", "slow_network"):
        shown, body = _repeated(job, verdict)
        if verdict.kind == "slow_network":
            fabric = f"lab.fabrics.ethernet(0.01, {len(shown.ranks)})"
            slow = f"    slow = lab.emulation.Emulated({fabric})\n"
            options = ", fabric=slow"
    else:
        shown = minimal_hang.of(job, verdict)
        body = _branches(shown, _Writer(job, shown))
    lines = [*_notes(job, shown), "rank = dist.get_rank()", *_groups(job, shown), *body]
    text = "\n".join(f"    {line}" for line in lines)
    if "rank" not in "\n".join(body):
        text = text.replace("    rank = dist.get_rank()\n", "")
    used = [name for name in ("os", "signal", "time") if f"{name}." in text]
    text = FRAME.format(
        title=_title(verdict),
        imports="".join(f"import {name}\n" for name in used),
        body=text,
        world=len(shown.ranks),
        timeout=4 if verdict.kind == "busy" else 20,
        slow=slow,
        options=options,
    ).replace('"""\n\n\n', '"""\n\n')
    culprits = tuple(n for n, r in enumerate(shown.ranks) if r in verdict.culprits)
    return Offer(text, kind=verdict.kind, culprits=culprits)


# -- the text --------------------------------------------------------------------------


def _title(verdict: Verdict) -> str:
    text = re.sub(r"[^\s(]*/(?=[\w.-]+:\d)", "", verdict.answer)
    text = text.replace("\\", "/").replace('"', "'")
    return "\n".join(textwrap.wrap(f"In the job: {text}", WIDTH - 6))


def _notes(job: Job, shown: MinimalHang) -> list[str]:
    """Say whom the ranks stand for, and what was made up."""
    notes = list(shown.notes)
    if shown.ranks != [*job.world]:
        here = [*range(len(shown.ranks))]
        stand = f"{name_ranks(here)} here stand for {name_ranks(shown.ranks)} of"
        stand = f"these are {name_ranks(here)} of" if here == shown.ranks else stand
        text = f"{stand} the job's {len(job.world)}, in this order."
        notes.insert(0, text[0].upper() + text[1:])
    width = WIDTH - 6
    return [f"# {line}" for note in notes for line in textwrap.wrap(note, width)]


def _groups(job: Job, shown: MinimalHang) -> list[str]:
    """Return the lines that make the groups, which all ranks do."""
    lines = []
    for group, name in _variables(job, shown).items():
        ranks = [shown.ranks.index(rank) for rank in shown.members[group]]
        named = f"group {job.group_name(group)} of the job"
        lines.append(f"{name} = dist.new_group({ranks})  # {named}")
    return lines


def _variables(job: Job, shown: MinimalHang) -> dict[str, str]:
    """Return a variable for each group but that of all ranks."""
    names: dict[str, str] = {}
    for n, group in enumerate(sorted(set(shown.members) - {DEFAULT}), 1):
        name = re.sub(r"\W+", "_", job.description(group)).strip("_").lower()
        if not name.isidentifier() or keyword.iskeyword(name) or len(name) > 15:
            name = "group"
        used = {*names.values(), "rank", "torch", "dist", "lab", "group", "x"}
        suffix = group if group.isdigit() else str(n)
        names[group] = f"{name}_{suffix}" if name in used else name
    return names


class _Writer:
    """Writes the calls of a minimal hang."""

    def __init__(self, job: Job, shown: MinimalHang):
        self.job, self.shown = job, shown
        self.variables = _variables(job, shown)
        calls = shown.calls()
        shapes = [call_code.part(call, self._members_in_job(call)) for _, call in calls]
        shapes += [s for _, c in calls if _is_several(c) for s in c.inputs]
        self.small = Shapes(shapes)

    def lines(self, rank: int) -> list[str]:
        """Return the lines of a rank of the job."""
        lines: list[str] = []
        for batch, group in groupby(self.shown.steps.get(rank, ()), _batch_of):
            steps = [*group]
            calls = [step for step in steps if isinstance(step, Call)]
            if batch and len(calls) > 1:
                lines += self._batch(calls)
                continue
            for step in steps:
                lines += [step] if isinstance(step, str) else self._call(step)
        return lines

    def _members_in_job(self, call: Call) -> int:
        return max(1, len(self.job.ranks_of(call.group)[0]))

    def _call(self, call: Call) -> list[str]:
        variable = self.variables.get(call.group, "")
        if _is_several(call):
            lines = call_code.tensors(call, variable, [*map(self.small, call.inputs)])
            return [f"{lines[0]}{_note(call, (), ())}", *lines[1:]]
        members = [self.shown.ranks.index(r) for r in self.shown.members[call.group]]
        shape = call_code.part(call, self._members_in_job(call))
        small = self.small(shape)
        lines = call_code.lines(call, members, self._peer(call), variable, small)
        note = _note(call, shape, small) if call.verb != "barrier" else _note(call)
        if call.verb in ("isend", "irecv"):
            note = "  # nobody keeps it, nobody waits"
        lines[0] += note if len(lines[0] + note) <= WIDTH - 8 else ""
        return lines

    def _peer(self, call: Call) -> int:
        """Return the other rank of a message, or the root, as it is in the program."""
        if (peer := peer_of(self.job, call)) is not None:
            return self.shown.ranks.index(peer)
        members = self.shown.members[call.group]
        made = [(r, c) for r, c in self.shown.calls() if c.verb == call.verb]
        roots = [r for r, c in made if c.verb == "gather" and c.outputs]
        roots += [r for r, c in made if c.verb == "scatter" and c.inputs]
        return self.shown.ranks.index((roots or members)[0])

    def _batch(self, calls: Sequence[Call]) -> list[str]:
        lines = ["works = dist.batch_isend_irecv(["]
        for call in calls:
            variable = self.variables.get(call.group, "")
            shape = call_code.part(call, 1)
            small = self.small(shape)
            text = call_code.message(call, self._peer(call), variable, small)
            lines.append(f"    {text},{_note(call, shape, small)}")
        return [*lines, "])", "for work in works:", "    work.wait()"]


def _is_several(call: Call) -> bool:
    return call.verb == "all_reduce" and len(call.inputs) > 1


def _batch_of(step: Call | str) -> int:
    return step.batch if isinstance(step, Call) else 0


def _note(call: Call, shape: Sequence[int] = (), small: Sequence[int] = ()) -> str:
    text = call_code.comment(call, tuple(shape), tuple(small))
    return f"  # {text}" if text else ""


def _branches(shown: MinimalHang, writer: _Writer) -> list[str]:
    """Return the lines of all ranks: a branch for those that do the same."""
    scripts = {n: writer.lines(rank) for n, rank in enumerate(shown.ranks)}
    tail: list[str] = []
    while all(scripts.values()) and len({_code(s[-1]) for s in scripts.values()}) == 1:
        last = max((script[-1] for script in scripts.values()), key=len)
        if last.startswith((" ", "])")):
            break  # of a block
        tail.insert(0, last)
        scripts = {rank: script[:-1] for rank, script in scripts.items()}
    alike: dict[tuple[str, ...], list[int]] = {}
    for rank, script in scripts.items():
        if script:
            alike.setdefault(tuple(map(_code, script)), []).append(rank)
    ordered = sorted(alike.values(), key=lambda ranks: (len(ranks), ranks))
    lines: list[str] = []
    for n, ranks in enumerate(ordered):
        script = max((scripts[rank] for rank in ranks), key=lambda s: len("".join(s)))
        is_last = n == len(ordered) - 1 and all(scripts.values())
        test = f"rank == {ranks[0]}" if len(ranks) == 1 else f"rank in {tuple(ranks)}"
        head = f"{'elif' if n else 'if'} {test}:"
        if is_last:
            head = "else:" if n else ""
        if script[0].startswith("raise "):
            script = script[:1]
        lines += [head, *(f"    {line}" for line in script)] if head else script
    return lines + tail


def _code(line: str) -> str:
    """Return a line without its comment, which only some ranks' dumps have."""
    return line.partition("  # ")[0]


def _repeated(job: Job, verdict: Verdict) -> tuple[MinimalHang, list[str]]:
    """Return a call that is slow, or to which a rank comes late each time."""
    late = stragglers.straggler(job)
    rank, call = _slow_call(job, verdict)
    if call.is_p2p:
        peer = peer_of(job, call) or 0
        shown = MinimalHang(sorted({rank, peer}))
        shown.steps = {rank: [call], peer: [minimal_hang.other_side(job, call, rank)]}
    else:
        members = job.ranks_of(call.group)[0]
        shown = MinimalHang(minimal_hang.chosen(job, verdict.culprits, members))
        shown.steps = {r: [call] for r in shown.ranks if r in members}
    minimal_hang.name_members(job, shown)
    writer = _Writer(job, shown)
    if verdict.kind == "slow_network":
        writer.small = lambda shape: (SLOW,)  # type: ignore[assignment]
        return shown, [
            "start = time.perf_counter()",
            *_branches(shown, writer),
            "return round(time.perf_counter() - start, 2)",
        ]
    seconds = min(max(late.seconds if late else 0.1, 0.1), 0.3)
    here = shown.ranks.index(rank)
    where = f"  # {late.seconds * 1e3:.0f} ms in the job" if late else ""
    return shown, [
        *("waited = 0.0", "for _ in range(10):"),
        f"    time.sleep({seconds:.2g} if rank == {here} else 0.01){where}",
        "    start = time.perf_counter()",
        *(f"    {line}" for line in _branches(shown, writer)),
        *("    waited += time.perf_counter() - start", "return round(waited, 2)"),
    ]


def _slow_call(job: Job, verdict: Verdict) -> tuple[int, Call]:
    """Return a call: of the culprit the last one, else one that is open or slow."""
    ranks = verdict.culprits or [*job.calls]
    if verdict.kind == "straggler":
        last = [(r, c) for r in ranks for c in job.calls.get(r, ()) if not c.is_p2p]
    else:
        last = [(r, c) for r in ranks for c in job.pending(r)[:1]]
        every = [(r, c) for r in ranks for c in job.calls[r]]
        last = last or sorted(every, key=lambda pair: pair[1].duration or 0.0)
    if not last:
        raise Unwritten("no dump holds the call")
    return last[-1]
