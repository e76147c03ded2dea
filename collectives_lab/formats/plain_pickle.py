"""Plain values of a pickle that nobody has to trust.

A pickle is a program: Python's unpickler calls what the file names. The reader here
knows only the instructions that build plain values (dict, list, tuple, str, bytes,
int, float, bool, None), so there is nothing that it could call. Here you can `load` the
value of such a file. It reads as it goes: a file that breaks off gives what came
before, and a dict that `shrink` has looked at needs not stay in memory.

`pickletools` says what instructions there are, in protocols 0 to 5, and reads their
arguments.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple, NoReturn, cast

from collectives_lab.formats.pickle_machine import INSTRUCTIONS, Broken, Machine

CODES = {instruction.code: instruction for instruction in pickletools.opcodes}

LONGEST = 1 << 26
"""Bytes of the longest text that is read; a dump has no longer one."""


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
    machine = Machine(shrink)
    try:
        return Loaded(_run(machine, _Bounded(file)), True)
    except (IndexError, KeyError, TypeError, ValueError, struct.error) as error:
        if isinstance(error, NotPlain | Broken):
            raise
        raise Broken(f"no pickle: {error or type(error).__name__}") from None
    except EOFError:
        if not machine.stack:
            raise Broken("a pickle that breaks off before its first value") from None
        return Loaded(machine.partial(), False)


def _run(machine: Machine, file: _Bounded) -> Any:
    """Carry out all instructions; EOFError where the file breaks off."""
    while True:
        code = file.read(1)
        instruction = CODES.get(code.decode("latin-1"))
        if instruction is None:
            raise Broken(f"no pickle: no instruction has the code {code!r}")
        if instruction.name == "STOP":
            return machine.whole()
        step, form = INSTRUCTIONS.get(instruction.name), instruction.arg
        if step is None:
            _refuse(machine, instruction.name, file)
        step(machine, form.reader(cast(Any, file)) if form else None)


class _Bounded:
    """A file that gives no more at once than a plain value has, and never less."""

    def __init__(self, file: BinaryIO):
        self.file = file

    def read(self, n: int) -> bytes:
        if n > LONGEST:
            raise Broken(f"it claims a value of {n:,} bytes")
        data = self.file.read(n)
        if len(data) < n:
            raise EOFError
        return data

    def readline(self) -> bytes:
        line = self.file.readline(LONGEST)
        if len(line) == LONGEST:
            raise Broken("it claims a line without an end")
        if not line.endswith(b"\n"):
            raise EOFError
        return line

    def line(self) -> str:
        return self.readline()[:-1].decode("latin-1")


def _refuse(machine: Machine, name: str, file: _Bounded) -> NoReturn:
    """Raise NotPlain with the name of what the instruction would import."""
    if name in ("GLOBAL", "INST"):
        name = f"{file.line()}.{file.line()} ({name})"
    elif name == "STACK_GLOBAL" and len(machine.stack) > 1:
        name = f"{machine.stack[-2]}.{machine.stack[-1]} ({name})"
    elif name == "PERSID":
        name = f"{file.line()} ({name})"
    raise NotPlain(
        f"this pickle asks for {name[:200]}, which is no plain value; nothing of "
        "it was executed. A Flight Recorder dump has only dict, list, tuple, str, "
        "bytes, int, float, bool and None"
    )
