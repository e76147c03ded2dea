"""Places in code: what a rank is doing, by the functions on its stack."""

from __future__ import annotations

from collectives_lab.formats.stacks import Stack

P2P = ("recv", "irecv", "send", "isend", "batch_isend_irecv")

COLLECTIVES = (
    *("all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter"),
    *("reduce_scatter_tensor", "all_to_all", "all_to_all_single", "broadcast"),
    *("barrier", "reduce", "gather", "scatter", "monitored_barrier", "new_group"),
    *("all_gather_object", "broadcast_object_list", "gather_object"),
)

WRAPPERS = ("distributed_c10d", "_functional_collectives")
"""Files of torch in which the user's calls of torch.distributed arrive."""

OTHER = (
    ("torch/utils/data", "in data loading"),
    ("dataloader", "in data loading"),
    ("distributed/checkpoint", "in a checkpoint"),
    ("torch/serialization", "in a checkpoint"),
    ("safetensors", "in a checkpoint"),
    ("checkpoint", "in a checkpoint"),
    ("pdb.py", "in a debugger"),
    ("bdb.py", "in a debugger"),
    ("_inductor", "in torch.compile"),
    ("_dynamo", "in torch.compile"),
)
"""Parts of a path or function, and what a rank is at there."""


EXITS = ("_shutdown", "_python_exit", "_exit_function", "_run_exitfuncs", "_exitfunc")

EXIT_FILES = ("threading.py", "thread.py", "process.py", "util.py", "weakref.py")
"""Functions and files of Python in which a main thread is when its program is over."""


def communication(stack: Stack) -> str:
    """Return the function of torch.distributed that a stack is in, or ""."""
    for frame in stack.frames:
        is_torch = any(name in frame.file for name in WRAPPERS)
        if is_torch and frame.function in (*P2P, *COLLECTIVES):
            return frame.function
        if frame.function == "wait" and "torch/distributed" in frame.file:
            return "wait"
    return ""


def is_elsewhere(stack: Stack) -> bool:
    """Return whether a stack is surely in no communication.

    A wait for a call is C++, so a stack that ends in the user's own line may be one.
    """
    return not communication(stack) and any(place(stack) == words for _, words in OTHER)


def has_ended(stack: Stack) -> bool:
    """Return whether a main thread is at the exit of Python: its program is over."""
    return any(
        frame.function in EXITS and frame.file.endswith(EXIT_FILES)
        for frame in stack.frames
    )


def place(stack: Stack) -> str:
    """Say what code a stack is in: `in data loading`, or `in load (train.py:12)`."""
    for frame in stack.frames:
        text = f"{frame.file} {frame.function}".lower().replace("\\", "/")
        for part, words in OTHER:
            if part in text:
                return words
    return f"in {stack.frames[0].function}" if stack.frames else "in other code"
