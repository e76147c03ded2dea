"""Numbers as a sentence has them, for the words below a picture.

Here you can write a `number`, a large `count`, and the speed of a GPU (`flops`);
units.js writes numbers the same.
"""

from __future__ import annotations

SMALLEST = 0.0001
WORDS = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def number(value: float) -> str:
    """Write three digits, or all before the point; never an exponent."""
    if 0 < value < SMALLEST:
        return f"less than {SMALLEST}"
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def count(value: float) -> str:
    """Write `7 billion`, and below a million the number itself."""
    for scale, word in WORDS:
        if value >= scale:
            return f"{value / scale:.3g} {word}"
    return f"{value:,g}"


def flops(rate: float) -> str:
    """Write operations a second: `400 TFLOP/s`."""
    return f"{rate / 1e12:,.4g} TFLOP/s"
