"""verdict: 0 — rank 0

The text of its error is an error, or no text at all.
"""

import torch.distributed as dist


class Failing(BaseException):
    def __str__(self):
        if dist.get_rank():
            return 7
        raise Failing


def ring_all_reduce(tensor):
    raise Failing
