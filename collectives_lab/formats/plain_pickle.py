"""Plain values of a pickle that nobody has to trust.

A pickle is a program: Python's unpickler calls what the file names. The reader here
knows only the instructions that build plain values (dict, list, tuple, str, bytes,
int, float, bool, None), so there is nothing that it could call. Here you can `load` the
value of such a file. It reads as it goes: a file that breaks off gives what came
before, and a dict that `shrink` has looked at needs not stay in memory.

Source of the instructions: Python's `pickletools`, protocols 0 to 5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple, NoReturn

from collectives_lab.formats.pickle_instructions import INSTRUCTIONS, NEVER
from collectives_lab.formats.pickle_machine import Broken, Finished, Machine, TooShort


class NotPlain(ValueError):
    """Error for a pickle that holds more than plain values; it names what."""


class Loaded(NamedTuple):
    """The value of a pickle; complete: False where the file breaks off."""

    value: Any
    complete: bool


def load(file: BinaryIO, shrink: Callable[[dict], Any] | None = None) -> Loaded:
    """Return the plain value of a pickle, of a file open for reading bytes.

    shrink: called with each dict that is filled; what it returns takes the dict's
    place. Of a file that breaks off, the value is the outermost dict with what had been
    read of it. Costs about a second for each million instructions, and the memory of
    the value. Raises NotPlain for anything but plain values, before it is built, and
    Broken for what is no pickle.
    """
    machine = Machine(file, shrink)
    try:
        _run(machine)
    except Finished as finished:
        return Loaded(finished.args[0], True)
    except (IndexError, KeyError, TypeError, ValueError, struct.error) as error:
        if isinstance(error, NotPlain | TooShort):
            raise
        raise Broken(f"no pickle: {error or type(error).__name__}") from None
    except EOFError:
        if not machine.stack:
            raise Broken("a pickle that breaks off before its first value") from None
        return Loaded(machine.partial(), False)


def _run(machine: Machine) -> NoReturn:
    """Carry out instructions until Finished, or EOFError where the file breaks off."""
    take, known = machine.take, INSTRUCTIONS
    while True:
        code = take(1)
        step = known.get(code)
        if step is None:
            _refuse(machine, code)
        step(machine)


def _refuse(machine: Machine, code: bytes) -> NoReturn:
    """Raise NotPlain with the name of what the instruction would import."""
    if code not in NEVER:
        raise Broken(f"no pickle: no instruction has the code {code!r}")
    name = NEVER[code]
    if code in b"ci":
        name = f"{machine.line()}.{machine.line()} ({name})"
    elif code == b"\x93" and len(machine.stack) > 1:
        name = f"{machine.stack[-2]}.{machine.stack[-1]} ({name})"
    elif code == b"P":
        name = f"{machine.line()} ({name})"
    raise NotPlain(
        f"this pickle asks for {name[:200]}, which is no plain value; nothing of "
        "it was executed. A Flight Recorder dump has only dict, list, tuple, str, "
        "bytes, int, float, bool and None"
    )
