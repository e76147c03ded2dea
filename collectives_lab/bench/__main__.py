"""`python -m collectives_lab.bench`: see `--help`."""

import sys

from collectives_lab.basics import pipes
from collectives_lab.bench.cli import main

sys.exit(pipes.run(main))
