"""`python -m collectives_lab.bench`: see `--help`."""

import os
import sys

from collectives_lab.bench.cli import main

try:
    sys.exit(main())
except BrokenPipeError:  # whoever read the table, such as `head`, has gone
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(141)  # as a shell tells of SIGPIPE
