"""The collectives of whole tensors under the names of PyTorch 2.13, in older ones too.

Here: `all_gather_single`, before 2.13 `all_gather_into_tensor`, with the same
arguments; and `reduce_scatter_single`,
before 2.13 `reduce_scatter_tensor`. The newer PyTorch warns of the older names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist


def _newest(*names: str) -> Callable[..., Any]:
    """Return the first of these functions that this version of torch has."""
    return next(getattr(dist, name) for name in names if hasattr(dist, name))


all_gather_single = _newest("all_gather_single", "all_gather_into_tensor")
reduce_scatter_single = _newest("reduce_scatter_single", "reduce_scatter_tensor")
