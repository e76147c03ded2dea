"""Names in a profile: of verbs as NCCL and c10d have them, of dtypes as C++ has them.

Here `verb_of` and `dtype_of` give torch's names for them, and `itemsize` the bytes of
an element.
"""

from __future__ import annotations

import re

OPS = {
    "allreduce": "all_reduce",
    "allreducesparse": "all_reduce",
    "allreducecoalesced": "all_reduce",
    "broadcast": "broadcast",
    "broadcastoop": "broadcast",
    "reduce": "reduce",
    "reduceoop": "reduce",
    "allgather": "all_gather",
    "allgatherbase": "all_gather",
    "allgathercoalesced": "all_gather",
    "allgatherintotensor": "all_gather",
    "allgatherintotensorcoalesced": "all_gather",
    "reducescatter": "reduce_scatter",
    "reducescatterbase": "reduce_scatter",
    "reducescattertensor": "reduce_scatter",
    "reducescattertensorcoalesced": "reduce_scatter",
    "gather": "gather",
    "scatter": "scatter",
    "alltoall": "all_to_all",
    "alltoallbase": "all_to_all",
    "alltoallv": "all_to_all",
    "barrier": "barrier",
    "monitoredbarrier": "barrier",
    "send": "send",
    "recv": "recv",
    "recvanysource": "recv",
}
"""The verb of each call, by its name in a profile without its underscores."""

_DTYPES = {
    "float": ("float32", 4),
    "double": ("float64", 8),
    "half": ("float16", 2),
    "bfloat16": ("bfloat16", 2),
    "long": ("int64", 8),
    "longint": ("int64", 8),
    "int": ("int32", 4),
    "short": ("int16", 2),
    "shortint": ("int16", 2),
    "byte": ("uint8", 1),
    "unsignedchar": ("uint8", 1),
    "char": ("int8", 1),
    "signedchar": ("int8", 1),
    "bool": ("bool", 1),
    "complexfloat": ("complex64", 8),
    "complexdouble": ("complex128", 16),
}


def verb_of(name: str) -> str:
    """Return the verb of a call by its name in a profile; empty for what is none."""
    return OPS.get(re.sub(r"[^a-z]", "", name.rpartition(":")[2].lower()), "")


def dtype_of(name: str) -> str:
    """Return torch's name of a dtype by C++'s; empty for an unknown one, and a list."""
    key = re.sub(r"c10::|[^a-z0-9_]", "", name.lower())
    return key if key.startswith("float8") else _DTYPES.get(key, ("", 1))[0]


def itemsize(dtype: str) -> int:
    """Return the bytes of an element."""
    return dict(_DTYPES.values()).get(dtype, 1)
