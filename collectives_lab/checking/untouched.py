"""A judge of arguments that a solution must not write to (`untouched`)."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from collectives_lab.checking.spec import GOOD, Case, Judge, Judgement, bad
from collectives_lab.checking.tensors import same_bits
from collectives_lab.wire import Outcome


def untouched(complaints: Mapping[int, str]) -> Judge:
    """Make a judge: these arguments of every rank are as they were, to the last bit.

    complaints: by place among the arguments, what to say of one that is not.
    """

    def judge(case: Case, outcome: Outcome) -> Judgement:
        for rank, (arguments, after) in enumerate(
            zip(case.args, outcome.after, strict=True)
        ):
            for place, complaint in complaints.items():
                before, now = arguments[place], after[place] if after else None  # type: ignore[index]
                if not isinstance(now, torch.Tensor) or not same_bits(now, before):
                    return bad(f"rank {rank}: {complaint}")
        return GOOD

    return judge
