"""verdict: 0 — SystemExit

Raises SystemExit while it is loaded.
"""

import sys

sys.exit(0)
