"""A slow network on a fast machine: transfers take the time that a fabric gives them.

`run(fn, fabric=Emulated(fabrics.ethernet(0.1, 4)))` makes ranks wait for their
transfers as long as `replay` has them take on that fabric, in real time, whoever calls:
the reader, DDP's reducer, a functional collective. No privilege is needed, since it is
the callers that are kept waiting and not the bytes.

What holds:

- A transfer takes its time on the fabric or its real time, whichever is longer; the
  fabric should be slow beside the machine.
- A message sets out when both its ends are posted. Ports, NICs and a spine serve first
  come first served, and what all calls have under way shares them.
- A collective is the plan of its usual algorithm (`replay.expand.USUAL`), not what Gloo
  does inside; those of a group run one after another.
- A rank that computes is as fast as the machine: the pace of a slow rank counts for its
  transfers only. A `monitored_barrier` takes its real time.
- A rank's clock on the network stands while it is in a call: what the call costs here,
  and a rank that is woken late, is made up for in the next wait, up to 20 ms.
- A call is never over before its end on the network, and an end that has passed stays.
  So a run takes no less than the replay does, counted from the first rank's start to
  the last one's end, except where ranks contend for a link in another order.
- A recv from any rank sets out when it is known whose message it took.
- Gloo on the CPU only: NCCL and CUDA tensors in collectives are not delayed.

The error against `replay` is measured by `python -m benchmarks --only emulation`, and
held in tests/ranks/test_slow_links.py: collectives and messages alone equal replay to
1e-4. Real runs add what the machine needs: on four ranks and two cores 2 to 4 ms a
step, however slow the links are. By so much ranks leave a barrier and the last wait one
after the other, and compute between two messages, which the replay of a fast run does
not know. Where a rank has all its messages under way at once, as in
`direct_all_to_all`, the time depends on who comes first to a port, in replay too: it
took up to twice as long as replayed with all ranks beginning together, and within 10 %
of the replay of its own trace with `compute=1`, which has the ranks begin as they did.
"""

from collectives_lab.emulation.emulated import Emulated

__all__ = ["Emulated"]
