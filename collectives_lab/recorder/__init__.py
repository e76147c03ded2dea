"""The recorder: every torch.distributed call of a process becomes an event of a Trace.

`install` puts the interposer under torch, `start` lets a `Recorder` take what this
process calls from then on, and `script.record` does both for a script of the reader's.
"""

from collectives_lab.recorder.call_record import Record, now
from collectives_lab.recorder.interposer import (
    Mismatched,
    Recorder,
    absent,
    current,
    install,
    start,
)

__all__ = [
    "Mismatched",
    "Record",
    "Recorder",
    "absent",
    "current",
    "install",
    "now",
    "start",
]
