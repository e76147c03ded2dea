"""The standard input of a rank: there is nobody to type."""

from __future__ import annotations

import io


class NoKeyboard(io.TextIOBase):
    """A `sys.stdin` that refuses to be read, and says what to do instead.

    So `input()` and `breakpoint()` fail in the reader's line.
    """

    def read(self, size: int | None = -1, /) -> str:
        raise io.UnsupportedOperation(
            "a rank has no keyboard, and nothing to read; ask where the ranks are "
            "started from, and give them the answer (--push, push or args)"
        )

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        return self.read(size)
