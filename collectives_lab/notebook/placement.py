"""The placement of ranks: their backend, cluster and emulated network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from IPython.core.error import UsageError

from collectives_lab.fabrics import Fabric
from collectives_lab.notebook.options import check_word

_BACKENDS = ("auto", "gloo", "nccl")


@dataclass(frozen=True)
class Placement:
    """The placement that a line names, in the reader's words; None for no option."""

    backend: str | None = None
    cluster: str | None = None
    fabric: str | None = None

    @classmethod
    def of(cls, args: Any, command: str, variables: Mapping[str, Any]) -> Placement:
        """Return the placement that a line names; variables: the notebook's."""
        check_word(f"{command} --backend", args.backend, _BACKENDS)
        if args.fabric is not None:
            _check_fabric(f"{command} --fabric {args.fabric}", args.fabric, variables)
        if args.cluster in variables and variables[args.cluster] is None:
            raise UsageError(
                f"{command} --cluster {args.cluster}: {args.cluster} is None; need an "
                "ipyparallel Client, Cluster or view, or the name of a profile"
            )
        backend = None if args.backend == "auto" else args.backend
        return cls(backend, args.cluster, args.fabric)

    def or_else(self, other: Placement) -> Placement:
        """Return these options, with those of the other where this has none."""
        return replace(other, **self._options())

    def differences_from(self, other: Placement) -> Placement:
        """Return the options that differ from those of the other."""
        options = self._options().items()
        return Placement(
            **{name: x for name, x in options if x != getattr(other, name)}
        )

    def _options(self) -> dict[str, str]:
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: text for name, text in options.items() if text is not None}

    def __bool__(self) -> bool:
        return bool(self._options())

    def __str__(self) -> str:
        """Return the options as they are written in a line."""
        return " ".join(f"--{name} {text}" for name, text in self._options().items())


def _check_fabric(command: str, name: str, variables: Mapping[str, Any]) -> None:
    """Raise UsageError unless a name is that of a variable with a Fabric."""
    if name not in variables:
        complaint = "there is no such variable here"
    elif not isinstance(variables[name], Fabric):
        value = variables[name]
        kind = "None" if value is None else f"of type {type(value).__name__}"
        complaint = f"{name} is {kind}, and no Fabric"
    else:
        return
    remedy = "make one, as in net = lab.fabrics.ethernet(1, 4)"
    raise UsageError(f"{command}: {complaint}; {remedy}")


def are_equal(a: Fabric | None, b: Fabric | None) -> bool:
    """Return whether two fabrics have equal values; None equals None."""
    if a is None or b is None:
        return a is b
    names = [field.name for field in fields(Fabric)]
    values = [[_plain(getattr(one, name)) for name in names] for one in (a, b)]
    return values[0] == values[1]


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
