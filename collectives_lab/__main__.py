"""`python -m collectives_lab COMMAND`: what can be done from a shell."""

from __future__ import annotations

import runpy
import sys

COMMANDS = {
    "doctor": "what this machine can do, and what to do about what is missing",
    "bench": "any verb and algorithm, in the columns of nccl-tests",
    "check": "a solution, as the grader will check it",
}
"""Each is a module of its own too: `python -m collectives_lab.bench`."""

USAGE = "\n".join(
    [
        "usage: python -m collectives_lab COMMAND [OPTIONS]\n",
        *(f"  {name:<8} {purpose}" for name, purpose in COMMANDS.items()),
        "\n`python -m collectives_lab COMMAND --help` says more.",
    ]
)


def main() -> int:
    """Run the command, or list the commands that there are."""
    name, *rest = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        print(USAGE)
        return 0
    if name not in COMMANDS:
        print(f"no command {name!r}\n\n{USAGE}", file=sys.stderr)
        return 2
    if name != "doctor":
        try:
            getattr(sys.modules[__package__], name)  # which tells what it lacks
        except ImportError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
    sys.argv = [f"collectives_lab {name}", *rest]
    runpy.run_module(f"collectives_lab.{name}", run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
