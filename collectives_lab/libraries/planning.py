"""What a library does for a call: its algorithm, the plan, and a closed form.

Here you can `plan` a call as NCCL, Gloo or MPI would do it, `pick` the algorithm that
the library takes by itself, and compute the `seconds` of the plan on a simple fabric.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collectives_lab.basics.verbs import VERBS
from collectives_lab.fabrics import Fabric
from collectives_lab.libraries import gloo, nccl_plans, openmpi
from collectives_lab.libraries.calls import ROOTED, Algorithm, Call
from collectives_lab.libraries.nccl import version_of
from collectives_lab.plans.steps import check, check_root, equal_share
from collectives_lab.trace import Trace

_WITHOUT_VERSION: dict[str, Any] = {"gloo": gloo, "mpi": openmpi}

EVEN = ("all_gather", "all_to_all", "gather", "reduce_scatter", "scatter")
"""Verbs whose tensor is equal shares."""


def plan(
    library: str,
    verb: str,
    fabric: Fabric,
    nbytes: int,
    itemsize: int = 1,
    root: int | None = None,
    algorithm: str | None = None,
    ranks: Sequence[int] | None = None,
) -> Trace:
    """Plan a call of a verb as a library does it on a fabric.

    library: "gloo", "mpi", or "nccl", with its version where that matters
    ("nccl 2.27"). nbytes: of the full logical tensor (S); of all_to_all, of a rank's
    buffer. root: 0 if it is not given. algorithm: the library's own name of one, to
    force it. ranks: those of the fabric that take part, None for all; the plan numbers
    them from 0 in this order.
    Raises ValueError for a library, version, verb or algorithm that is not known, for
    one that no plan of messages can express (sums in a switch), and for sizes that no
    tensor has.
    """
    call = _call(verb, fabric, nbytes, itemsize, root, ranks)
    return _algorithm(library, call, algorithm)[1].plan(call)


def seconds(
    library: str,
    verb: str,
    fabric: Fabric,
    nbytes: int,
    itemsize: int = 1,
    root: int | None = None,
    algorithm: str | None = None,
    ranks: Sequence[int] | None = None,
) -> float:
    """Return the seconds that `plan` takes in a replay, as a closed form.

    Arguments are those of `plan`. Exact for even chunks on links of an alpha and a beta
    that are alike, as of `fabrics.uniform`; NCCL's rings also where links inside of
    nodes differ from those across. A double tree is exact as in `costs`.
    Raises ValueError as `plan` does, and for a fabric that has no closed form.
    """
    call = _call(verb, fabric, nbytes, itemsize, root, ranks)
    links = (fabric.inside, fabric.across)
    if fabric.slow or fabric.spine or any(x.gap is not None for x in links):
        raise ValueError(
            f"{fabric!r} has gaps, a spine or slow links, for which there is no closed "
            "form; replay the plan"
        )
    chosen = _algorithm(library, call, algorithm)[1]
    return chosen.seconds(call) if nbytes and call.world_size > 1 else 0.0


def pick(
    library: str,
    verb: str,
    fabric: Fabric,
    nbytes: int,
    itemsize: int = 1,
    root: int | None = None,
    ranks: Sequence[int] | None = None,
) -> str:
    """Return the name of the algorithm that `plan` takes if none is forced."""
    call = _call(verb, fabric, nbytes, itemsize, root, ranks)
    return _algorithm(library, call, None)[0]


def _call(
    verb: str,
    fabric: Fabric,
    nbytes: int,
    itemsize: int,
    root: int | None,
    ranks: Sequence[int] | None,
) -> Call:
    if verb not in VERBS:
        raise ValueError(f"verb is {verb!r}; need one of {', '.join(VERBS)}")
    members = tuple(range(fabric.world_size) if ranks is None else ranks)
    (equal_share if verb in EVEN else check)(len(members), nbytes, itemsize)
    of = (root or 0) if verb in ROOTED else 0
    check_root(len(members), of)
    return Call(verb, int(nbytes), itemsize, of, fabric, members)


def _algorithm(library: str, call: Call, name: str | None) -> tuple[str, Algorithm]:
    """Return the algorithm that a library picks, or that of a name, with its name."""
    name, library = name and str(name).lower(), str(library).lower()
    if library in _WITHOUT_VERSION:
        module = _WITHOUT_VERSION[library]
        known, picked = module.ALGORITHMS[call.verb], module.pick(call)
    elif library.split()[:1] == ["nccl"]:
        version = version_of(library)
        nccl_plans.check(call, name, version)
        known, picked = nccl_plans.ALGORITHMS[call.verb], nccl_plans.pick(call, version)
    else:
        raise ValueError(
            f"library is {library!r}; need nccl, or with its version: nccl 2.27, gloo "
            "or mpi"
        )
    chosen = name or picked
    if chosen not in known:
        raise ValueError(
            f"{library} has no {chosen!r} for {call.verb}; it has {', '.join(known)}"
        )
    return chosen, known[chosen]
