"""verdict: 0 — SIGSEGV

Reads address 0.
"""

import ctypes


def ring_all_reduce(tensor):
    ctypes.string_at(0)
