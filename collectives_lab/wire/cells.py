"""A notebook's cells, run in a rank statement by statement, as in its kernel.

A statement that fails costs only itself: in a notebook it may call what is not in the
box, as `lab.run`. What it prints is dropped. A rank alone reports each statement to the
switch, so that one that never ends, or ends the process, is known.
"""

from __future__ import annotations

import ast
import codeop
import contextlib
import inspect
import os
import random
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from time import monotonic, process_time  # a cell may replace those of the module
from types import CodeType
from typing import Any

import numpy.random  # else numpy loads it in every rank, when it is first used

from collectives_lab.wire.frames import MOST_REPORTED, Ran

LONGEST_MESSAGE = 300
WORTH_REPORTING = 1e-3
"""Seconds of a statement that ended well."""

SUBSTITUTES = {"display": lambda *_, **__: None, "get_ipython": lambda: None}
"""What a notebook's kernel has and Python has not."""

OnStep = Callable[[str, int], None]


def run(
    texts: Sequence[tuple[str, str]], namespace: dict[str, Any], on_step: OnStep
) -> list[Ran]:
    """Run cells in a namespace; on_step(cell, number) is called before each statement.

    Returns those that failed or took time, the first of them where there are too many.
    """
    namespace |= SUBSTITUTES
    random.seed(0)  # so the same on each rank, as torch's are
    numpy.random.seed(0)
    compiled = codeop.Compile()  # a future import holds for later cells
    compiled.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    results: list[Ran] = []
    cells = [(name, ast.parse(text, name).body) for name, text in texts]
    with _silent():
        for name, body in cells:
            for number, node in enumerate(body):
                on_step(name, number)
                cpu, wall = process_time(), monotonic()
                problem = _run(compiled, node, name, namespace)
                cpu, wall = process_time() - cpu, monotonic() - wall
                if problem or wall > WORTH_REPORTING:
                    results.append((name, number, cpu, wall, problem))
    return results[:MOST_REPORTED]


def _run(
    compiled: codeop.Compile, node: ast.stmt, name: str, namespace: dict[str, Any]
) -> str:
    """Run a statement; the error that it ends with, in words."""
    try:
        module: Any = ast.Module([node], [])
        code: CodeType = compiled(module, name, "exec")
        awaited = eval(code, namespace)
        if code.co_flags & inspect.CO_COROUTINE:
            _await(awaited)
    except BaseException as error:
        return _words(error)
    return ""


def _await(coroutine: Coroutine) -> None:
    """Run it to its end; asyncio would need a socket, which the seal refuses."""
    with contextlib.suppress(StopIteration):
        while True:
            coroutine.send(None)


def _words(error: BaseException) -> str:
    try:
        message = str(error).partition("\n")[0]
    except BaseException:
        message = "(its message cannot be shown)"
    sentence = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return sentence[:LONGEST_MESSAGE]


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Drop what is written meanwhile: it is not what the solution prints."""
    streams = sys.stdout, sys.stderr
    saved = [os.dup(fd) for fd in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)
    try:
        yield
    finally:
        for stream, fd, old in zip(streams, (1, 2), saved, strict=True):
            with contextlib.suppress(Exception):  # a cell may have closed it
                stream.flush()
            os.dup2(old, fd)
            os.close(old)
