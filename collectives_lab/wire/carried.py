"""The bytes that a collective carries between ranks, by all its members' calls.

A rank's own call does not say it: at the root of a scatter the own part may be empty
while all others are not. Here you can lay a meeting out as a matrix (`cells`), compare
its parts (`unequal_parts`) and note what each rank has sent and received (`note`).
"""

from __future__ import annotations

from collections.abc import Sequence

from collectives_lab.wire.posted import Posted, size_of


def cells(ops: Sequence[Posted]) -> list[list[int]]:
    """Return bytes that each member has for each, `[giver][taker]`, its own part
    included.

    Empty for a verb whose members all work on one tensor, as in an all_reduce: what it
    costs is the bound that `event.bound` has for it.
    """
    sent_sizes, received_sizes = (
        [size_of(op.sides[side]) for op in ops] for side in (0, 1)
    )
    at_root = [op.rank == op.root for op in ops]
    match ops[0].verb:
        case "all_gather":
            return [[n] * len(ops) for n in sent_sizes]
        case "reduce_scatter":
            return [received_sizes] * len(ops)
        case "gather":
            return [[n * here for here in at_root] for n in sent_sizes]
        case "scatter":
            return [[n * here for n in received_sizes] for here in at_root]
        case "all_to_all":
            return [[n for _, n in op.sides[0]] for op in ops]
    return []


def note(ops: Sequence[Posted]) -> None:
    """Write into the operations of a collective what it carries, and its S."""
    between = cells(ops)
    for i, op in enumerate(ops if between else ()):
        op.sent = sum(between[i]) - between[i][i]
        op.received = sum(row[i] for row in between) - between[i][i]
        if op.verb in ("scatter", "gather"):
            op.whole = sum(map(sum, between))


def unequal_parts(ops: Sequence[Posted]) -> str:
    """Return why the parts of an all_to_all do not fit together; empty if they do."""
    for op in ops:
        for what, side in zip(("gives", "takes"), op.sides, strict=True):
            if len(side) != len(ops):
                return (
                    f"rank {op.rank} {what} {len(side)} parts in all_to_all "
                    f"({op.where}); need one for each of {len(ops)} ranks"
                )
    between = cells(ops)
    for i, op in enumerate(ops):
        for giver, row, (_, expected) in zip(ops, between, op.sides[1], strict=True):
            if row[i] != expected:
                return (
                    f"rank {op.rank} takes {expected} bytes of rank {giver.rank} in "
                    f"all_to_all ({op.where}), which has {row[i]} for it "
                    f"({giver.where}); sizes must fit"
                )
    return ""
