"""Calls as code: a call of a dump as a line of Python, on small tensors.

Here `Shapes` makes sizes small that stay different, and `lines` writes a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from collectives_lab.diagnosis.job import elements
from collectives_lab.formats.flight_recorder import Call

LONGEST = 72
"""Characters of a call in one line."""

LARGEST = 16
"""The largest side of a tensor that is left as it is."""

DTYPES = {
    "Float": "",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}
"""By dtype as a dump names it, torch's name; "" for the one that goes without."""

Shape = tuple[int, ...]


class Unwritten(Exception):
    """Says in a sentence why there is no program for a hang."""


class Shapes:
    """Small shapes for those of some calls, as alike and as different as they are."""

    def __init__(self, shapes: Iterable[Shape]):
        kept = [shape for shape in shapes if 0 not in shape]
        self._sides = _smaller({side for shape in kept for side in shape})
        counts = {(_count(s), _count(self._small(s))) for s in kept}
        olds, news = zip(*counts, strict=True) if counts else ((), ())
        self._is_flat = len({*olds}) != len(counts) or len({*news}) != len(counts)
        if self._is_flat:  # 4x16 may be as many as 8x8 only before
            self._sides = _smaller({*olds})

    def __call__(self, shape: Shape) -> Shape:
        """Return a small shape; 0 sides stay."""
        if 0 in shape:
            return shape
        return self._small((_count(shape),) if self._is_flat else shape)

    def _small(self, shape: Shape) -> Shape:
        return tuple(self._sides.get(side, side) for side in shape)


def _count(shape: Shape) -> int:
    return elements((shape,))


def _smaller(sides: set[int]) -> dict[int, int]:
    """Return small sides in the same order; those that are small stay."""
    divisor = max(1, -(-max(sides, default=1) // LARGEST))
    small_sides, last = {}, 0
    for side in sorted(sides):
        small = side if side <= LARGEST else max(side // divisor, LARGEST // 2)
        small_sides[side] = last = max(last + 1, small)
    return small_sides


def part(call: Call, members: int) -> Shape:
    """Return the shape of what one rank of a call has, or its share of it."""
    sizes = call.inputs or call.outputs
    if call.verb in ("reduce_scatter", "scatter", "recv", "irecv"):
        sizes = call.outputs or call.inputs
    elif call.verb == "all_to_all":
        return (max(1, elements(call.inputs) // members),)
    return sizes[0] if sizes else (1,)


def lines(
    call: Call, members: Sequence[int], peer: int, group: str, shape: Shape
) -> list[str]:
    """Return the line that makes a call, or two lines where it would be long.

    members: the ranks of its group, in the program. peer: of a message, the other rank;
    else the root. group: the name of a variable, or "" for all ranks. shape: of what
    one rank has. Raises Unwritten for a verb or dtype that Gloo does not have.
    """
    n, more = len(members), f", group={group}" if group else ""
    whole = (n * shape[0], *shape[1:]) if shape else (n,)
    x, out = _tensor("ones", call, shape), _tensor("empty", call, shape)
    line = _line(
        *(call, n, peer, more, x, out),
        *(_tensor("ones", call, whole), _tensor("empty", call, whole)),
    )
    if len(line) <= LONGEST:
        return [line]
    all_of = f"torch.cat([x] * {n})"
    line = _line(call, n, peer, more, "x", "torch.empty_like(x)", all_of, all_of)
    return [f"x = {x}", line]


def _line(
    call: Call,
    n: int,
    peer: int,
    more: str,
    x: str,
    out: str,
    all_in: str,
    all_out: str,
) -> str:
    """Return a call: of one rank's tensors and of all's, to go in and to come out."""
    at_root = f" if rank == {peer} else None"
    one_each = f"[{out} for _ in range({n})]"
    into = "_base" in call.name or "_into_" in call.name or "tensor" in call.name
    made = {
        "all_reduce": f"all_reduce({x}{more})",
        "broadcast": f"broadcast({x}, {peer}{more})",
        "reduce": f"reduce({x}, {peer}{more})",
        "all_gather": f"all_gather({one_each}, {x}{more})",
        "reduce_scatter": f"reduce_scatter({out}, [{x}] * {n}{more})",
        "all_to_all": f"all_to_all_single({all_out}, {all_in}{more})",
        "gather": f"gather({x}, {one_each}{at_root}, {peer}{more})",
        "scatter": f"scatter({out}, [{x}] * {n}{at_root}, {peer}{more})",
        "barrier": f"barrier({more[2:]})",
        "send": f"send({x}, {peer}{more})",
        "isend": f"isend({x}, {peer}{more})",
        "recv": f"recv({out}, {peer}{more})",
        "irecv": f"irecv({out}, {peer}{more})",
    }
    if into:
        made["all_gather"] = f"all_gather_into_tensor({all_out}, {x}{more})"
        made["reduce_scatter"] = f"reduce_scatter_tensor({out}, {all_in}{more})"
    if call.verb not in made:
        raise Unwritten(f"no program of the lab calls {call.verb}")
    return f"dist.{made[call.verb]}"


def tensors(call: Call, group: str, shapes: Sequence[Shape]) -> list[str]:
    """Return lines that reduce the tensors of one call, each by a call of its own."""
    if call.verb != "all_reduce":
        raise Unwritten(f"no program of the lab calls {call.verb} with several tensors")
    more = f", group={group}" if group else ""
    return [
        f"for shape in {[*shapes]}:",
        f"    dist.all_reduce(torch.ones(shape{_dtype(call)}){more})",
    ]


def message(call: Call, peer: int, group: str, shape: Shape) -> str:
    """Return a send or recv as one operation of a batch."""
    fill = "ones" if call.verb == "send" else "empty"
    more = f", {group}" if group else ""
    return f"dist.P2POp(dist.i{call.verb}, {_tensor(fill, call, shape)}, {peer}{more})"


def comment(call: Call, shape: Shape, small: Shape) -> str:
    """Return the line of a call in the job, and its shape there if it differs."""
    parts = [f"{'x'.join(map(str, shape))} elements"] if shape != small else []
    if call.where:
        parts.append(f"at {place(call.where)}")
    return " ".join(parts).removeprefix("at ")


def place(where: str) -> str:
    """Return a line without the folders of its file."""
    file, _, number = where.rpartition(":")
    return f"{PurePath(file).name}:{number}"


def _tensor(fill: str, call: Call, shape: Shape) -> str:
    sides = ", ".join(f"{side:_}" for side in shape) or "()"
    return f"torch.{fill}({sides}{_dtype(call)})"


def _dtype(call: Call) -> str:
    named = (call.dtypes or call.out_dtypes or ("Float",))[0]
    if "recv" in call.verb:
        named = (call.out_dtypes or call.dtypes or ("Float",))[0]
    if named not in DTYPES:
        raise Unwritten(f"Gloo has no tensors of {named}")
    return f", dtype=torch.{DTYPES[named]}" if DTYPES[named] else ""
