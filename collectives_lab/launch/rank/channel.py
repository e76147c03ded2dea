"""Messages between the launcher and a rank: pickles over a Unix socket.

A small message travels in the socket; a large one in an anonymous file whose descriptor
travels, so that a gigabyte is written once and mapped, not copied. Here you can pack
values (`pack`, `unpack`) so that tensors arrive on the CPU from any device, and `send`
and `recv` messages together with file descriptors.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import cloudpickle
import torch

from collectives_lab.deadlock.status_board import anonymous_file

INLINE = 48 * 1024
"""Messages up to this many bytes go through the socket itself."""

HEADER = struct.Struct("<IQ")
"""Of a message: twice its descriptors, one more if one is its body; its size."""

_LENGTH = struct.Struct("<Q")
_ALIGN = 64

Parts = list[Any]
"""A pickle and the buffers beside it."""


class ChannelClosed(Exception):
    """The other end has gone."""


def _tensor(
    data: Any, dtype: torch.dtype, shape: tuple[int, ...], requires_grad: bool
) -> torch.Tensor:
    # An empty buffer is none that torch would take.
    flat = torch.frombuffer(data, dtype=dtype) if len(data) else torch.empty(0)
    return flat.to(dtype).reshape(shape).requires_grad_(requires_grad)


def _parameter(tensor: torch.Tensor, requires_grad: bool) -> torch.nn.Parameter:
    return torch.nn.Parameter(tensor, requires_grad)


def _is_plain(obj: Any) -> bool:
    """Return whether its bytes, dtype and shape say all there is to a value."""
    if type(obj) is not torch.Tensor or obj.layout is not torch.strided:
        return False
    return not (obj.is_quantized or obj.is_meta or obj.is_nested)


class _Pickler(cloudpickle.Pickler):
    """Functions by value; plain tensors as bytes on the CPU, views without base."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is torch.nn.Parameter:
            return _parameter, (obj.detach(), obj.requires_grad)
        if _is_plain(obj):
            flat = obj.detach().resolve_conj().resolve_neg().cpu().contiguous()
            # An empty one may have strides that cannot be viewed as bytes.
            contiguous = flat.reshape(-1) if flat.numel() else torch.empty(0)
            raw: Any = contiguous.view(torch.uint8).numpy()
            keeps_grad = obj.requires_grad and obj.is_leaf
            buffer = pickle.PickleBuffer(raw)
            return _tensor, (buffer, obj.dtype, tuple(obj.shape), keeps_grad)
        return super().reducer_override(obj)


def pack(obj: Any) -> Parts:
    """Pickle a value; functions and classes of a notebook travel by value.

    Tensors arrive on the CPU, detached from their graph.
    """
    buffers: Parts = []
    file = io.BytesIO()
    _Pickler(file, protocol=5, buffer_callback=buffers.append).dump(obj)
    return [file.getvalue(), *(buffer.raw() for buffer in buffers)]


def unpack(parts: Sequence[Any]) -> Any:
    """Return the value that `pack` packed; tensors are writable and share `parts`."""
    return pickle.loads(parts[0], buffers=parts[1:])


def nbytes(parts: Sequence[Any]) -> int:
    """Return the size of a packed value."""
    return sum(memoryview(part).nbytes for part in parts)


def lay_out(parts: Sequence[Any]) -> Iterator[Any]:
    """Yield a table of lengths, then the parts, each on a boundary that suits any
    dtype.
    """
    lengths = [memoryview(part).nbytes for part in parts]
    table = b"".join(map(_LENGTH.pack, [len(lengths), *lengths]))
    for piece in (table, *parts):
        yield piece
        yield bytes(-memoryview(piece).nbytes % _ALIGN)


def _write_file(pieces: Sequence[Any], total: int) -> int:
    fd = anonymous_file("collectives_lab-message")
    try:
        os.ftruncate(fd, total)
        with mmap.mmap(fd, total) as area:
            for piece in pieces:
                area.write(piece)
    except BaseException:
        os.close(fd)
        raise
    return fd


class Channel:
    """One end of a conversation. Any thread may send; one thread receives."""

    def __init__(self, sock: socket.socket):
        self.sock = sock
        self._lock = threading.Lock()

    def fileno(self) -> int:
        return self.sock.fileno()

    def close(self) -> None:
        self.sock.close()

    def send(
        self, message: Any, parts: Parts | None = None, fds: Sequence[int] = ()
    ) -> None:
        """Send a small message, the parts of a packed value, and descriptors.

        Raises ChannelClosed when the other end has gone.
        """
        pieces = list(lay_out([pickle.dumps(message), *(parts or ())]))
        total = nbytes(pieces)
        file = None if total <= INLINE else _write_file(pieces, total)
        try:
            sent_fds = [*fds] if file is None else [file, *fds]
            body = b"".join(pieces) if file is None else b""
            frame = HEADER.pack(len(sent_fds) * 2 + (file is not None), total) + body
            with self._lock:
                rest = memoryview(frame)[
                    socket.send_fds(self.sock, [frame], sent_fds) :
                ]
                if rest:
                    self.sock.sendall(rest)
        except (OSError, ValueError) as error:
            raise ChannelClosed(str(error)) from None
        finally:
            if file is not None:
                os.close(file)

    def recv(self) -> tuple[Any, Parts, list[int]]:
        """Wait for a message; return it with its parts and its descriptors."""
        head, fds = self._read_head()
        code, total = HEADER.unpack(head)
        if code % 2:
            body = _map_file(fds.pop(0), total)
        else:
            body = memoryview(bytearray(self._read(total)))
        message, *parts = _cut(body)
        return pickle.loads(message), parts, fds

    def _read_head(self) -> tuple[bytes, list[int]]:
        try:
            head, fds, _, _ = socket.recv_fds(self.sock, HEADER.size, 16)
        except OSError as error:
            raise ChannelClosed(str(error)) from None
        if not head:
            raise ChannelClosed("end of messages")
        return head + self._read(HEADER.size - len(head)), list(fds)

    def _read(self, count: int) -> bytes:
        data = bytearray(count)
        view = memoryview(data)
        while view:
            try:
                got = self.sock.recv_into(view)
            except OSError as error:
                raise ChannelClosed(str(error)) from None
            if not got:
                raise ChannelClosed("end of messages")
            view = view[got:]
        return bytes(data)


def _map_file(fd: int, total: int) -> memoryview:
    """Map a message, private to this process: it may be written to.

    By torch, which keeps no descriptor open for it as mmap does: readers keep many
    Runs.
    """
    try:
        path = f"/dev/fd/{fd}"
        mapped = torch.from_file(path, shared=False, size=total, dtype=torch.uint8)
        area: Any = mapped.numpy()
        return memoryview(area)
    finally:
        os.close(fd)


def _cut(body: memoryview) -> list[memoryview]:
    (count,) = _LENGTH.unpack_from(body)
    start = _LENGTH.size * (count + 1)
    cut = []
    for i in range(count):
        start += -start % _ALIGN
        (length,) = _LENGTH.unpack_from(body, _LENGTH.size * (i + 1))
        cut.append(body[start : start + length])
        start += length
    return cut
