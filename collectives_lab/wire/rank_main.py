"""A rank in the box: it runs the student's program and the calls of the checker.

From here on nothing is to be believed: the program shares this process. What a rank
says reaches the checker as frames, which it reads as hostile bytes.
"""

from __future__ import annotations

import inspect
import linecache
import pickle
import socket
import sys
import traceback
from types import ModuleType
from typing import Any

import torch

from collectives_lab.wire import cells, frames, futures, group, student_package
from collectives_lab.wire.codec import Strided, decode, encode
from collectives_lab.wire.frames import Kind
from collectives_lab.wire.group import connect
from collectives_lab.wire.program import INSTALLED, Program
from collectives_lab.wire.rank_client import Wire, student_line

MOST_LINES = 12
"""Lines of a traceback that are reported."""


def main(sock: socket.socket, rank: int, world_size: int) -> None:
    """Serve the switch until it closes the wire."""
    torch.set_num_threads(1)
    wire = Wire(sock, rank, world_size)
    namespace: dict[str, Any] = {}
    try:
        while True:
            frame = wire.command()
            if frame.kind == Kind.LOAD:
                namespace = _guarded(wire, Kind.LOADED, _load, wire, frame.body)
                continue
            name, args = decode(frame.body)
            strict = bool(frame.a)
            _guarded(wire, Kind.RETURNED, _call, wire, strict, namespace, name, args)
    except (EOFError, OSError):
        return


def _guarded(wire: Wire, kind: Kind, step: Any, *args: Any) -> Any:
    """Do a step and report how it ended, whatever it raises."""
    try:
        value, body = step(*args)
        wire.send_frame(kind, body=body)
        return value
    except BaseException as error:  # where the wire is closed, telling fails
        wire.send_frame(
            Kind.RAISED, where=student_line(), body=encode(_error_parts(error))
        )
        return {}


def _load(wire: Wire, body: bytes) -> tuple[dict[str, Any], bytes]:
    """Run the program; the names that it defines, and what a notebook's cells did.

    A notebook's cells run before there is a group, as they do in its kernel.
    """
    program = Program.from_bytes(body)
    for name, text in program.texts:
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    module = ModuleType("__main__" if program.is_notebook else "submission")
    sys.modules[module.__name__] = module
    if program.is_notebook:
        ran = cells.run(program.texts, module.__dict__, _step(wire))
        connect(wire)
        return module.__dict__, encode(ran)
    connect(wire)
    for name, text in program.texts:
        exec(compile(text, name, "exec", dont_inherit=True), module.__dict__)
    if program.pickled:
        vars(module).update(pickle.loads(program.pickled))
    return module.__dict__, encode([])


def _step(wire: Wire) -> cells.OnStep:
    """Return what reports each statement: a rank alone tries a notebook, and more
    ranks run what was tried.
    """
    if wire.world_size > 1:
        return lambda cell, number: None
    return lambda cell, number: wire.send_frame(Kind.STEP, 0, number, where=cell)


def _call(
    wire: Wire, strict: bool, namespace: dict[str, Any], name: str, args: Any
) -> tuple[None, bytes]:
    """Call a function of the program, or read a value of it where args is None.

    strict: whether to refuse a tensor that is written to while it is sent or received.
    Tells what it returned and what the tensors among its arguments hold now; of a
    Strided one, its whole storage.
    """
    if name not in namespace:
        raise NameError(f"{name!r} is not defined by what was handed in")
    function = namespace[name]
    if args is None:
        return None, encode((function, ()))
    if not callable(function):
        raise TypeError(f"{name!r} is {type(function).__name__}, not a function")
    tensors = [a.view if isinstance(a, Strided) else a for a in args]
    wire.strict, wire.is_called = strict, True
    try:
        result = function(*tensors)
        wire.refuse_overwritten()
    finally:
        wire.leave()
    if inspect.isawaitable(result) or inspect.isgenerator(result):
        raise TypeError(f"{name!r} must be a plain function: no async, no yield")
    after = [a.storage if isinstance(a, Strided) else a for a in args]
    return None, encode((result, tuple(after)))


def _error_parts(error: BaseException) -> tuple[str, str, tuple]:
    """Return a type, a message and the student's frames (file, line, function)."""
    stack = traceback.extract_tb(error.__traceback__)
    places = [(f.filename, f.lineno or 0, f.name) for f in stack]
    own = [p for p in places if not p[0].startswith(("<frozen", *INSTALLED))]
    if isinstance(error, SyntaxError) and error.lineno:
        own.append((error.filename or "", error.lineno, ""))
    return type(error).__name__, _message(error)[:2000], tuple(own[-MOST_LINES:])


def _message(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return str(error.msg)
    try:
        return str(error)
    except BaseException:
        return "(its message cannot be shown)"


def prepare() -> None:
    """Make what all ranks share, before any is forked: each would take milliseconds.

    The package that students see is in the place of ours, torch asks the wire, and what
    happens for the first time has happened.
    """
    student_package.put_on()
    futures.put_on()
    group.put_on()
    here, there = socket.socketpair()
    wire = Wire(here, 0, 1)
    connect(wire)
    tensor = torch.ones(2)
    assert isinstance(decode(encode((tensor, 1.0, "text"))), tuple)
    there.sendall(frames.pack(frames.Frame(Kind.DONE, 1, body=encode(None))))
    torch.distributed.isend(tensor, 0)
    torch.distributed.destroy_process_group()
    del wire
