"""Proofs: whether a program leaves in every buffer what its verb must leave.

Here `prove` plays a program on sets of contributions and compares what the output of
every rank holds with the verb's rule. A `Proof` that holds is one for all inputs and
all orders in which thread blocks may run; one that does not says which chunk of which
rank lacks what, or who waits for whom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from collectives_lab.basics.rank_sets import name_ranks
from collectives_lab.formats.buffers import MOST_PROBLEMS, Place, Value, alias
from collectives_lab.formats.program_run import Play
from collectives_lab.formats.stuck import reasons
from collectives_lab.formats.thread_blocks import BUFFERS, Program, Range

SUMS = ("all_reduce", "reduce", "reduce_scatter")
SHARED = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
"""Verbs whose tensor is cut into a share for every rank."""

PROVABLE = ("broadcast", "reduce", "all_reduce", *SHARED)


@dataclass(frozen=True)
class Proof:
    """What came out: `holds`, or the problems as sentences.

    text: the file's name and what was proved. problems: at most 20 sentences.
    """

    subject: str
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Return whether the plan is right for all inputs and in all orders."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        if self.holds:
            return f"{self.subject}: correct, in every order of its thread blocks"
        return "\n".join([f"{self.subject}: wrong", *self.problems])

    __repr__ = __str__


def prove(program: Program, root: int = 0) -> Proof:
    """Play a program in each way that it has, and compare with its verb's rule.

    root: of a broadcast, reduce, gather or scatter, which the files do not name.
    Raises ValueError for a verb without a rule, and for chunks that its ranks cannot
    share.
    """
    _check(program, root)
    problems: list[str] = []
    for in_place in program.ways:
        play = played(program, in_place, root)
        complaints = [*play.memory.problems, *reasons(play), *_differences(play, root)]
        way = " (in place)" if in_place else " (out of place)"
        problems += [s + way * (len(program.ways) > 1) for s in complaints]
    ways = " and ".join("in place" if way else "out of place" for way in program.ways)
    subject = f"{program.name}, {program.verb} of {program.world_size} ranks, {ways}"
    return Proof(subject, tuple(dict.fromkeys(problems))[:MOST_PROBLEMS])


def _check(program: Program, root: int) -> None:
    if program.verb not in PROVABLE:
        raise ValueError(
            f"{program.source}: {program.name} has a verb of its own, for which there "
            f"is no rule; need one of {', '.join(PROVABLE)}"
        )
    if program.verb in SHARED and program.chunks % program.world_size:
        raise ValueError(
            f"{program.source}: {program.chunks // program.grain} chunks for "
            f"{program.world_size} ranks; {program.verb} needs the same number for each"
        )
    if not 0 <= root < program.world_size:
        raise ValueError(
            f"root is rank {root} of {program.world_size}; need 0 <= root < world_size"
        )


def played(program: Program, in_place: bool, root: int = 0) -> Play:
    """Return a run of the program, with the inputs that its verb has."""
    inputs = {
        alias(program, rank, "i", index, in_place): value
        for rank in range(program.world_size)
        for index, value in _inputs(program, rank, root)
    }
    play = Play(program, inputs, in_place)
    play.run()
    return play


def _inputs(program: Program, rank: int, root: int) -> Iterator[tuple[int, Value]]:
    """Yield the chunks of a rank's input; a contribution is `(rank, chunk)`."""
    verb, chunks = program.verb, program.chunks
    if verb in ("all_gather", "gather"):
        chunks //= program.world_size
    if verb in ("broadcast", "scatter") and rank != root:
        return
    if not verb:
        chunks = program.sizes[rank]["i"]
    for index in range(chunks):
        yield index, ((rank, index),)


def _outputs(program: Program, rank: int, root: int) -> Iterator[tuple[int, Value]]:
    """Yield the chunks that the output of a rank must hold in the end."""
    verb, n, p = program.verb, program.chunks, program.world_size
    share = n // p
    if verb in ("reduce", "gather") and rank != root:
        return
    if verb in ("reduce_scatter", "scatter"):
        n = share
    for k in range(n):
        chunk = k + rank * share if verb in ("reduce_scatter", "scatter") else k
        if verb in SUMS:
            yield k, tuple((r, chunk) for r in range(p))
        elif verb in ("broadcast", "scatter"):
            yield k, ((root, chunk),)
        elif verb == "all_to_all":
            yield k, ((k // share, rank * share + k % share),)
        else:
            yield k, ((k // share, k % share),)


# -- what is missing where ------------------------------------------------------------


def _differences(play: Play, root: int) -> Iterator[str]:
    program = play.program
    for rank in range(program.world_size):
        for index, due in _outputs(program, rank, root):
            (place,) = play.memory.places(Range(rank, "o", index, 1))
            held = play.memory.values.get(place, ())
            if held != due:
                yield _difference(program, rank, index, place, held, due)


def _difference(
    program: Program, rank: int, index: int, place: Place, held: Value, due: Value
) -> str:
    """Write `rank 2: output chunk 3 lacks rank 1; it has ranks 0 and 2`."""
    counted, needed = Counter(held), Counter(due)
    name = f"rank {rank}: output chunk {index // program.grain}"
    if place[1] != "o":
        name += f" ({BUFFERS[place[1]]} chunk {place[2] // program.grain})"
    wrong = [_lacks(program, place, needed - counted, needed)]
    twice = [c for c in counted if c in needed and counted[c] > 1]
    others = [c for c in counted if c not in needed]
    if twice:
        wrong.append(f"has {_terms(program, twice, needed)} {max(counted.values())} "
                     "times")  # fmt: skip
    if others:
        wrong.append(f"has {_terms(program, others, needed)}, which is of no use there")
    held_text = "" if held else "; nothing has been put there"
    return f"{name} {' and '.join(filter(None, wrong))}{held_text}"


def _lacks(program: Program, place: Place, missing: Counter, due: Counter) -> str:
    return f"lacks {_terms(program, missing, due)}" if missing else ""


def _terms(
    program: Program, terms: Iterable[tuple[int, int]], due: Counter[tuple[int, int]]
) -> str:
    """Write `chunk 3 of ranks 0 and 2`, chunk by chunk."""
    ranks: dict[int, list[int]] = {}
    for rank, chunk in sorted(terms):
        ranks.setdefault(chunk // program.grain, []).append(rank)
    return ", ".join(f"chunk {c} of {name_ranks(r)}" for c, r in ranks.items())
