"""verdict: 0 — not a function

A number has the function's name.
"""

ring_all_reduce = 20
