"""A cluster of one's own: plausible numbers that follow from a student's id.

Here you can look one up (`constants`), for a derivation that nobody can copy.
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
"""What an accelerator of 2020 to 2025 sustains behind one NIC of 100 to 400 Gb/s."""


NOBODY = "nobody"
"""Whose cluster it is where the student is not known."""


def constants(student: str) -> dict[str, float]:
    """Return the cluster of a student, by SHA-256 of the id: the same at every call.

    flop_rate: operations a second that an accelerator sustains. bandwidth: bytes a
    second, one way, for each rank. global_batch: tokens of all ranks together. alpha:
    seconds a message. Case and spaces around the id do not count; an empty one has a
    cluster too, nobody's.
    """
    name = student.strip().casefold() or NOBODY
    digest = hashlib.sha256(f"collectives-lab cluster {name}".encode()).digest()
    return {
        key: choices[int.from_bytes(digest[4 * i : 4 * i + 4]) % len(choices)]
        for i, (key, choices) in enumerate(CHOICES.items())
    }
