"""A JSON object of any size, one value at a time.

Here `items` yields the keys and values of the outermost object as they come, and the
elements of its long lists one by one, so that a file of gigabytes needs the memory of
one element.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any, TextIO

CHUNK = 1 << 20

BEYOND = 4
"""Characters behind a value that show its end: `12` may go on as `12.5` or `12e+3`."""

LONGEST = 1 << 26
"""Characters of the longest value."""


class Broken(ValueError):
    """Error for text that is no JSON object, or no whole one."""


def items(file: TextIO, lists: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of a JSON object, and (key, element) for each list in `lists`.

    Raises Broken where the text ends early or is no object; what came before has been
    yielded.
    """
    text = _Text(file)
    text.expect("{")
    if text.peek() == "}":
        return
    while True:
        key = text.value()
        text.expect(":")
        if key in lists and text.peek() == "[":
            yield from ((key, element) for element in _elements(text))
        else:
            yield key, text.value()
        if text.expect(",}") == "}":
            return


def _elements(text: _Text) -> Iterator[Any]:
    text.expect("[")
    if text.peek() == "]":
        text.expect("]")
        return
    while True:
        yield text.value()
        if text.expect(",]") == "]":
            return


class _Text:
    """The text that is still to be read, as much of it as one value needs."""

    def __init__(self, file: TextIO):
        self.file = file
        self.buffer = ""
        self.at = 0
        self.ended = False
        self.decoder = json.JSONDecoder()

    def grow(self) -> None:
        """Read on, or note that the file has ended."""
        chunk = "" if self.ended else self.file.read(CHUNK)
        self.ended = not chunk
        self.buffer = self.buffer[self.at :] + chunk
        self.at = 0

    def peek(self) -> str:
        """Return the next character that is no space."""
        while True:
            while self.at < len(self.buffer) and self.buffer[self.at].isspace():
                self.at += 1
            if self.at < len(self.buffer):
                return self.buffer[self.at]
            if self.ended:
                raise Broken("the text ends before the object does")
            self.grow()

    def expect(self, characters: str) -> str:
        """Return the next character, which must be one of these."""
        character = self.peek()
        if character not in characters:
            raise Broken(f"{character!r} where JSON has one of {' '.join(characters)}")
        self.at += 1
        return character

    def value(self) -> Any:
        """Return the next value, however many chunks it needs."""
        self.peek()
        while True:
            try:
                value, end = self.decoder.raw_decode(self.buffer, self.at)
                if end + BEYOND <= len(self.buffer) or self.ended:
                    self.at = end
                    return value
            except json.JSONDecodeError as error:
                unread = len(self.buffer) - self.at
                if self.ended or unread > LONGEST or _is_wrong(error, self.buffer):
                    raise Broken(f"no JSON: {error.msg}") from None
            except RecursionError:
                raise Broken("JSON that is nested too deeply") from None
            self.grow()


def _is_wrong(error: json.JSONDecodeError, text: str) -> bool:
    """Return whether more text cannot mend this."""
    broken_string = error.msg.startswith(("Unterminated string", "Invalid \\"))
    return not broken_string and error.pos < len(text) - 16
