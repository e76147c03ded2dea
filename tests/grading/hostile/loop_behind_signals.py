"""verdict: 0 — it did not end

Ignores every signal that can be ignored, SIGXCPU too.
"""

import contextlib
import signal

for number in signal.valid_signals():
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_IGN)


def ring_all_reduce(tensor):
    while True:
        tensor += 0
