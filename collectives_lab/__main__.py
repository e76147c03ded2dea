"""Commands of a shell: `python -m collectives_lab COMMAND`."""

from __future__ import annotations

import os
import sys
from importlib import import_module

COMMANDS = {
    "doctor": ("doctor", "what this machine can do, and what to do about the rest"),
    "bench": ("bench.cli", "any verb and algorithm, in the columns of nccl-tests"),
    "truth": ("truth.cli", "published measurements beside what is predicted for them"),
    "explain": ("diagnosis.cli", "why a job hangs, from the files that it has left"),
    "check": ("checking.cli", "a solution, as the grader will check it"),
}
"""By command, the module whose `main` gets the arguments, and the purpose."""

USAGE = "\n".join(
    [
        "usage: python -m collectives_lab COMMAND [OPTIONS]\n",
        *(f"  {name:<8} {purpose}" for name, (_, purpose) in COMMANDS.items()),
        "\n`python -m collectives_lab COMMAND --help` says more.",
    ]
)

SIGPIPE_EXIT = 141
"""The exit code of a process that SIGPIPE has ended, as a shell reports it."""


def main() -> int:
    """Run the command, or list the commands."""
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        print(USAGE)
        return 0
    if name not in COMMANDS:
        print(f"no command {name!r}\n\n{USAGE}", file=sys.stderr)
        return 2
    module = COMMANDS[name][0]
    try:
        if name != "doctor":
            getattr(sys.modules[__package__], module.partition(".")[0])
        command = import_module(f"collectives_lab.{module}")
    except ImportError as error:  # its message names the missing package
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    try:
        return int(command.main(arguments))
    except BrokenPipeError:  # the reader, such as `head`, may close early
        # Python flushes at its end again, and must not fail then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SIGPIPE_EXIT


if __name__ == "__main__":
    sys.exit(main())
