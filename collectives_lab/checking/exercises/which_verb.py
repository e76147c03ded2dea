"""which_verb() -> {scenario: (verb, bytes)}: the verb of a scenario, and its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from collectives_lab.checking.plain_answers import is_near, why_no_number
from collectives_lab.checking.spec import (
    GOOD,
    Case,
    Exercise,
    Inputs,
    Judgement,
    Property,
    bad,
)
from collectives_lab.checking.tensors import kind_of
from collectives_lab.wire import Outcome

DOES = {
    "broadcast": "gives every rank all that the root has",
    "scatter": "deals out what the root has, to each rank another part",
    "gather": "brings a part from every rank to the root",
    "reduce": "merges what all ranks have, for the root alone",
    "all_gather": "brings a part from every rank to all ranks",
    "all_reduce": "merges what all ranks have, and gives all of it to each",
    "reduce_scatter": "merges what all ranks have, and gives each a part of it",
    "all_to_all": "brings something from every rank to every rank, each time another",
}
NEEDS = {
    "broadcast": "one rank has what all ranks need, the whole of it",
    "scatter": "one rank has it all, and each rank needs another part",
    "gather": "every rank has a part, and one rank needs all parts as they are",
    "reduce": "every rank has a term of one result, and only one rank needs it",
    "all_gather": "every rank has a part, and all ranks need all parts as they are",
    "all_reduce": "every rank has a term of one result, and all ranks need all of it",
    "reduce_scatter": "every rank has a term of one result, and needs a part of it",
    "all_to_all": "every rank has something for every rank, each time another",
}


class Answer(NamedTuple):
    """The right verb of a scenario, its world size, and its S in bytes."""

    verb: str
    world_size: int
    nbytes: float

    @property
    def cost(self) -> float:
        """The least bytes that the busiest rank sends or receives."""
        share = (self.world_size - 1) / self.world_size * self.nbytes
        by_verb = {"broadcast": self.nbytes, "reduce": self.nbytes}
        return (by_verb | {"all_reduce": 2 * share}).get(self.verb, share)


ANSWERS = {
    "checkpoint": Answer("broadcast", 8, 7e9 * 2),
    "predictions": Answer("gather", 8, 100_000 * 1000 * 4),
    "gradient": Answer("all_reduce", 64, 7e9 * 2),
    "embeddings": Answer("all_gather", 32, 32 * 1024 * 512 * 4),
    "batch": Answer("scatter", 16, 4096 * 3 * 224 * 224),
    "experts": Answer("all_to_all", 16, 8192 * 4096 * 2),
    "counts": Answer("reduce", 16, 1_000_000 * 8),
    "activations": Answer("reduce_scatter", 8, 4096 * 8192 * 2),
    "bucket": Answer("all_reduce", 64, 25 * 2**20),
    "largest_logit": Answer("all_reduce", 8, 2048 * 4),
}


def _cases(inputs: Inputs) -> Iterator[Case]:
    yield Case([()], list(ANSWERS), "your answers", about_ranks=False)


def _result(case: Case, outcome: Outcome) -> Judgement:
    (answers,) = outcome.results
    if isinstance(answers, dict):
        return GOOD
    return bad(f"which_verb() returns {kind_of(answers)}, not a dict of answers")


def _judge(name: str, case: Case, outcome: Outcome) -> Judgement:
    answers: dict[str, Any] = outcome.results[0]
    if name not in answers:
        return bad("there is no answer yet")
    if not isinstance(answers[name], tuple | list) or len(answers[name]) != 2:
        return bad(f"the answer is {kind_of(answers[name])}, not a pair (verb, bytes)")
    verb, nbytes = answers[name]
    right = ANSWERS[name]
    if not isinstance(verb, str):
        return bad(f"the verb is {kind_of(verb)}, not a name in quotation marks")
    if verb not in DOES:
        return bad(f"{verb[:40]!r} is none of the eight verbs: {', '.join(DOES)}")
    if verb != right.verb:
        return bad(f"{verb} {DOES[verb]}; here {NEEDS[right.verb]}")
    if wrong := why_no_number(nbytes):
        return bad(f"the verb is right; the bytes are {wrong}")
    return _judge_bytes(right, nbytes)


def _judge_bytes(right: Answer, nbytes: float) -> Judgement:
    if is_near(nbytes, right.cost):
        return Judgement(True, f"{right.verb}, {right.cost / right.nbytes:.3g} S")
    prefix = f"the verb is right, but {nbytes:.4g} bytes are not"
    for factor, mistake in _mistakes(right):
        if is_near(nbytes, factor * right.cost):
            return bad(f"{prefix}: {mistake}")
    return bad(
        f"{prefix}: what is S here, and which part of it passes the busiest rank?"
    )


def _mistakes(right: Answer) -> Iterator[tuple[float, str]]:
    """Yield known wrong answers as factors of the right bytes, and explanations."""
    p, full = right.world_size, right.nbytes / right.cost
    if right.verb in ("broadcast", "reduce"):
        yield (p - 1) / p, "every byte of S goes out of the root, or into it"
        yield (
            p - 1,
            "a rank can pass on what it got, or merge it, so nobody does it all",
        )
    elif right.verb == "all_reduce":
        yield 2 * full, "that is 2 S, but what a rank has already does not travel"
        yield full, "that is S; merge it, and bring the result to all ranks"
        yield 1 / 2, "it is enough for merging, but all ranks need the result too"
    else:
        yield full, "that is S, but what a rank has already does not travel"
    yield full / p, "that is one part, but there are more on their way"
    yield p, "that is for all ranks together; take the busiest one"
    yield 2, "that is out and in together; take the one that is more"
    for itemsize in (2, 4, 8):
        yield 1 / itemsize, f"are these numbers, of {itemsize} bytes each?"


EXERCISE = Exercise(
    "which_verb",
    "Which verb?",
    "easy",
    20,
    [
        Property("checkpoint", 2, "the weights that one rank has read, for all 8"),
        Property("predictions", 2, "the scores of 8 ranks, written by one"),
        Property("gradient", 2, "a gradient on 64 ranks, the same step on each"),
        Property("embeddings", 2, "the images of 32 ranks, compared on each"),
        Property("batch", 2, "images from one rank, 256 for each of 16"),
        Property("experts", 2, "tokens on their way to 16 experts"),
        Property("counts", 2, "the word counts of 16 ranks, printed by one"),
        Property("activations", 2, "the terms of a sum, 512 positions for each of 8"),
        Property("bucket", 2, "25 MiB of gradients on 64 ranks"),
        Property("largest_logit", 2, "for each position the largest of 8 numbers"),
    ],
    _cases,
    _result,
    {name: partial(_judge, name) for name in ANSWERS},
)
