"""A student's own cluster: plausible constants computed from the student's id.

Here you can look them up (`constants`), for a derivation that cannot be copied.
"""

from __future__ import annotations

import hashlib

CHOICES: dict[str, list[float]] = {
    "flop_rate": [n * 1e12 for n in range(150, 601, 25)],
    "bandwidth": [n * 1e9 for n in range(10, 51, 5)],
    "global_batch": [n * 2.0**18 for n in range(1, 17)],
    "bytes_per_parameter": [2.0, 4.0],
    "alpha": [n / 1e6 for n in range(2, 21)],
}
"""Values of accelerators of 2020 to 2025 behind one NIC of 100 to 400 Gb/s."""


NOBODY = "nobody"
"""The id that stands for an unknown student."""


def constants(student: str) -> dict[str, float]:
    """Return the cluster of a student, by SHA-256 of the id: the same at every call.

    flop_rate: operations a second that an accelerator sustains. bandwidth: bytes a
    second, one way, for each rank. global_batch: tokens of all ranks together. alpha:
    seconds a message. Case and spaces around the id do not count; an empty id has the
    cluster of NOBODY.
    """
    name = student.strip().casefold() or NOBODY
    digest = hashlib.sha256(f"collectives-lab cluster {name}".encode()).digest()
    return {
        key: choices[int.from_bytes(digest[4 * i : 4 * i + 4]) % len(choices)]
        for i, (key, choices) in enumerate(CHOICES.items())
    }
