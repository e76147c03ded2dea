"""`python -m collectives_lab doctor`."""

import os
import sys

from collectives_lab.doctor import main

if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # whoever read this, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)  # as a shell tells of SIGPIPE
