"""What a tool of measurement adds to the time of a call.

A bare call is launched long before its turn, so its launch is not in its time.
`nccl-tests` launches many calls after one another and takes the mean of their times: it
adds nothing. Only where one process drives several GPUs (`-g 8`), it launches a kernel
on each before the next call can begin. `all_reduce_bench.py` of ml-engineering waits at
a barrier, records an event, calls PyTorch and records another event, so the launch of
each call is in its time; it averages rates and not times.
"""

from __future__ import annotations

import re

LAUNCH = 4e-6
"""Seconds to launch a kernel, an assumption: 2 to 8 us are usual."""

CALL = 20e-6
"""Seconds from a call in PyTorch to its kernel, as NVIDIA measured it on a V100:
"Understanding the Visualization of Overhead and Latency in NVIDIA Nsight Systems"."""

TOOLS = ("nccl-tests", "all_reduce_bench.py")


def offset(tool: str | None) -> float:
    """Return the seconds that a tool adds; ValueError for one that is not known.

    tool: with its options, "nccl-tests -g 8"; None for the bare call.
    """
    if tool is None:
        return 0.0
    name, _, options = str(tool).partition(" ")
    if name not in TOOLS:
        raise ValueError(f"tool is {tool!r}; need {' or '.join(TOOLS)}, or None")
    if name == "all_reduce_bench.py":
        return CALL
    gpus = re.search(r"(?:^|\s)(?:-g|--ngpus)[ =]*(\d+)", options)
    count = int(gpus[1]) if gpus else 1
    return LAUNCH * count if count > 1 else 0.0
