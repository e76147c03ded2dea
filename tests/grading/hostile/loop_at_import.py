"""verdict: 0 — it did not end

The program itself never ends.
"""

while True:
    pass
