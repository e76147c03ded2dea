"""Files of other people's tools: their plans, traces and dumps, read and written.

What a job leaves is read by modules of their own, which `diagnosis` puts together:
`flight_recorder` (torch's dumps), `job_logs`, `ras` (NCCL's reports) and `stacks`.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "Program": "thread_blocks",
    **dict.fromkeys(("Proof", "prove"), "proofs"),
    "trace_of": "planned",
    **dict.fromkeys(("read_chakra", "write_chakra"), "chakra"),
    **dict.fromkeys(("read_plan", "msccl_of", "mscclpp_of"), "plan_files"),
}
"""The module that defines each name."""

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
