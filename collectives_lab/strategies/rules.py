"""The rules of a strategy, each with the numbers that break it.

Here: `broken`, what does not fit, in a sentence each.
"""

from __future__ import annotations

from collections.abc import Iterator

from collectives_lab.strategies.settings import Settings

COUNTS = (
    *("batch", "sequence", "data", "tensor", "pipeline", "micro_batches"),
    *("interleave", "expert", "context", "copies"),
)
CHOICES = {
    "zero": (0, 1, 2, 3),
    "recompute": ("none", "selective", "alternate", "full"),
    "schedule": ("1f1b", "gpipe"),
    "attention": ("flash", "scores"),
}


def broken(s: Settings) -> Iterator[str]:
    """Yield what breaks a rule; only the first one is sure to make sense."""
    for rules in (_counts, _choices, _tensor, _data, _batch, _expert, _pipeline):
        yield from rules(s)


def _counts(s: Settings) -> Iterator[str]:
    for name in COUNTS:
        value = getattr(s, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            yield f"{name} is {value!r}; need a whole number, 1 or more"


def _choices(s: Settings) -> Iterator[str]:
    for name, allowed in CHOICES.items():
        if (value := getattr(s, name)) not in allowed:
            yield f"{name} is {value!r}; need one of {', '.join(map(repr, allowed))}"
    if s.unit not in ("parameter", "layer", "model") and (
        not isinstance(s.unit, int) or s.unit < 1
    ):
        yield (
            f"unit is {s.unit!r}; need 'parameter', 'layer', 'model', or the bytes of "
            "a bucket, 1 or more"
        )
    if sorted(s.order) != ["data", "pipeline", "tensor"]:
        yield f"order is {s.order}; need 'tensor', 'data' and 'pipeline' once each"


def _tensor(s: Settings) -> Iterator[str]:
    model = s.model
    shared = {
        "heads": model.heads,
        "kv_heads": model.key_heads,
        "ffn": model.ffn,
        "vocabulary": model.vocabulary,
        "positions": model.positions,
    }
    for name, count in shared.items():
        if count % s.tensor:
            yield (
                f"tensor={s.tensor} does not divide the {count} {name} of "
                f"{model.name}, of which each rank has as many"
            )
    if s.sequence_parallel and s.sequence % s.tensor:
        yield (
            f"tensor={s.tensor} does not divide the {s.sequence} tokens of an example, "
            "which sequence_parallel shares"
        )
    if s.regather and not s.sequence_parallel:
        yield "regather gathers what sequence_parallel has split; set both, or none"


def _data(s: Settings) -> Iterator[str]:
    for name in ("context", "copies"):
        if s.data % getattr(s, name):
            yield f"{name}={getattr(s, name)} does not divide data={s.data}"
    if s.sequence % (s.context * (s.tensor if s.sequence_parallel else 1)):
        yield (
            f"context={s.context} does not divide the {s.sequence} tokens of an example"
        )
    if s.copies > 1 and (s.expert > 1 or not s.zero):
        yield f"copies={s.copies} of what ZeRO cuts need zero, and no experts"
    known = ("pipeline", "data")
    if set(s.waits) - set(known):
        yield f"waits is {s.waits}; need some of {', '.join(map(repr, known))}"


def _batch(s: Settings) -> Iterator[str]:
    data = s.data // s.context
    if s.batch % (data * s.micro_batches):
        ranks = "data" if s.context == 1 else "data / context"
        yield (
            f"batch={s.batch} is no multiple of {ranks} x micro_batches, {data} x "
            f"{s.micro_batches}; a micro-batch has as many examples everywhere"
        )


def _expert(s: Settings) -> Iterator[str]:
    if s.expert > 1 and not s.model.experts:
        yield f"expert={s.expert}, but {s.model.name} has no experts"
    elif s.expert > 1 and s.model.experts % s.expert:
        yield f"expert={s.expert} does not divide the {s.model.experts} experts"
    if s.data % s.expert:
        yield (
            f"expert={s.expert} does not divide data={s.data}; the ranks that share "
            "experts are neighbours along data"
        )


def _pipeline(s: Settings) -> Iterator[str]:
    pieces, layers = s.pipeline * s.interleave, s.model.layers
    if layers % pieces and (layers + 2) % pieces:
        yield (
            f"{pieces} pieces of a pipeline divide neither {layers} layers nor "
            f"{layers + 2}, with the embedding and the head for one each"
        )
    if s.interleave > 1 and (s.pipeline == 1 or s.schedule != "1f1b"):
        yield (
            f"interleave={s.interleave} needs a pipeline of several stages under "
            "'1f1b'; set interleave=1"
        )
    if s.interleave > 1 and s.micro_batches % s.pipeline:
        yield (
            f"interleave={s.interleave}: micro_batches={s.micro_batches} go in rounds "
            f"of pipeline={s.pipeline}; need a multiple"
        )
