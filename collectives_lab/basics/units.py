"""Parsing and formatting of bytes, seconds and bandwidths.

Inside the package everything is in SI units (bytes, seconds, bytes a second). Here you
can turn text into such numbers, `parse_bytes("64M")`, and numbers into text,
`format_bytes(3e6)`; nothing else in the package converts units.
"""

from __future__ import annotations

import re

_SCALES = {"": 1, "B": 1}
for _n, _letter in enumerate("KMGT", 1):
    _SCALES |= {_letter: 1024**_n, f"{_letter}IB": 1024**_n, f"{_letter}B": 1000**_n}
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
        scale = _SCALES.get(match[2].upper())
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
    """Write a duration with three digits and the unit that suits it: `"12.5 µs"`."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(seconds) >= scale:
            return f"{_three_digits(seconds / scale)} {unit}"
    return f"{_three_digits(seconds / 1e-9)} ns"


def format_bandwidth(bytes_per_second: float) -> str:
    """Write a one-way bandwidth in decimal units, as vendors do: `"50 GB/s"`."""
    for scale, unit in ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")):
        if abs(bytes_per_second) >= scale:
            return f"{_three_digits(bytes_per_second / scale)} {unit}"
    return f"{_three_digits(bytes_per_second)} B/s"


def _three_digits(value: float) -> str:
    """Write three digits, or all digits before the point; never an exponent."""
    return f"{value:.3g}" if 0.01 <= abs(value) < 999.5 or not value else f"{value:.0f}"
