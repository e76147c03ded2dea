"""`python -m collectives_lab doctor`."""

import sys

from collectives_lab.basics import pipes
from collectives_lab.doctor import main

if __name__ == "__main__":
    sys.exit(pipes.run(main))
