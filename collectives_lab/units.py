"""Bytes, seconds and bandwidths: read them, write them.

Inside the package everything is in SI units (bytes, seconds, bytes a second). Here you
can turn text into such numbers, `parse_bytes("64M")`, and numbers into text,
`format_bytes(3e6)`; nothing else in the package converts units.
"""

from __future__ import annotations

import re

_BINARY = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_DECIMAL = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(text: str | int) -> int:
    """Read a size: `4096`, `"64M"` and `"64MiB"` (powers of two), `"64MB"` (of ten).

    A bare K, M, G or T is a power of two, as in nccl-tests. Raises ValueError for
    anything else and for a size that is no whole number of bytes.
    """
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    match = _SIZE.fullmatch(str(text))
    if match:
        unit = match[2].upper().removesuffix("IB") if match[2] != "B" else ""
        scale = _BINARY.get(unit) or _DECIMAL.get(unit)
        if scale and (size := float(match[1]) * scale).is_integer():
            return int(size)
    raise ValueError(
        f"{text!r} is no size; write a whole number of bytes, or one with K, M, G, T "
        "(powers of 1024) or KB, MB, GB, TB (powers of 1000)"
    )


def format_bytes(nbytes: float) -> str:
    """Write a size in binary units, exact where it is short: `"1.5 KiB"`, `"48 B"`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(nbytes) < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.4g} TiB"


def format_seconds(seconds: float) -> str:
    """Write a duration with three digits and the unit that suits it: `"12.5 us"`."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(seconds) >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def format_bandwidth(bytes_per_second: float) -> str:
    """Write a one-way bandwidth in decimal units, as vendors do: `"50 GB/s"`."""
    for scale, unit in ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")):
        if abs(bytes_per_second) >= scale:
            return f"{bytes_per_second / scale:.3g} {unit}"
    return f"{bytes_per_second:.3g} B/s"
