"""Traces: the communication of a run, or of a plan, in one data structure.

A `Trace` holds one `Event` for each communication call of each rank. Here you can count
its bytes, match sends with receives, save and load it, join the parts of a recording
(`join`) and write it for Perfetto (`perfetto`). Nothing here knows torch.
"""

from collectives_lab.trace.event import Event, Message, bound
from collectives_lab.trace.trace import Trace

__all__ = ["Event", "Message", "Trace", "bound"]
