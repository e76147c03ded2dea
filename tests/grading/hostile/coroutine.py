"""verdict: 0 — async

Is asynchronous, so that a call does nothing.
"""


async def ring_all_reduce(tensor):
    return None
