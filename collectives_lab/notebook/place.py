"""Where the ranks of a cell are, or are to be: backend, cluster, emulated network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from IPython.core.error import UsageError

from collectives_lab.fabrics import Fabric
from collectives_lab.notebook.options import known

_BACKENDS = ("auto", "gloo", "nccl")


@dataclass(frozen=True)
class Place:
    """What a line says of the place, by the reader's words; None where it is silent."""

    backend: str | None = None
    cluster: str | None = None
    fabric: str | None = None

    @classmethod
    def of(cls, args: Any, asker: str, variables: Mapping[str, Any]) -> Place:
        """What the options of a line say; variables: those of the notebook."""
        known(f"{asker} --backend", args.backend, _BACKENDS)
        if args.fabric is not None:
            _check_fabric(f"{asker} --fabric {args.fabric}", args.fabric, variables)
        if args.cluster in variables and variables[args.cluster] is None:
            raise UsageError(
                f"{asker} --cluster {args.cluster}: {args.cluster} is None; need an "
                "ipyparallel Client, Cluster or view, or the name of a profile"
            )
        backend = None if args.backend == "auto" else args.backend
        return cls(backend, args.cluster, args.fabric)

    def over(self, other: Place) -> Place:
        """This one, and what the other says where this is silent."""
        return replace(other, **self._said())

    def beyond(self, other: Place) -> Place:
        """What this one says that is not so there."""
        said = self._said().items()
        return Place(**{name: x for name, x in said if x != getattr(other, name)})

    def _said(self) -> dict[str, str]:
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: text for name, text in said.items() if text is not None}

    def __bool__(self) -> bool:
        return bool(self._said())

    def __str__(self) -> str:
        """As it is written in a line."""
        return " ".join(f"--{name} {text}" for name, text in self._said().items())


def _check_fabric(asker: str, name: str, variables: Mapping[str, Any]) -> None:
    """Raise UsageError if a name is not that of a variable with a Fabric."""
    if name not in variables:
        wrong = "there is no such variable here"
    elif not isinstance(variables[name], Fabric):
        value = variables[name]
        kind = "None" if value is None else f"of type {type(value).__name__}"
        wrong = f"{name} is {kind}, and no Fabric"
    else:
        return
    cure = "make one, as in net = lab.fabrics.ethernet(1, 4)"
    raise UsageError(f"{asker}: {wrong}; {cure}")


def are_alike(a: Fabric | None, b: Fabric | None) -> bool:
    """Whether two fabrics are the same in all that they say; None is like None."""
    if a is None or b is None:
        return a is b
    told = [[_plain(value) for value in vars(one).values()] for one in (a, b)]
    return told[0] == told[1]


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
