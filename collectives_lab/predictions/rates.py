"""What links attain, beside what their data sheets say.

Here you can see both for the links of a cluster: `rates(fabrics.dgx_h100())`.
"""

from __future__ import annotations

from collections.abc import Iterator

from collectives_lab.basics.tables import Table, table
from collectives_lab.basics.units import format_bandwidth
from collectives_lab.fabrics import Fabric
from collectives_lab.fabrics.machines import NVLINK
from collectives_lab.predictions.fitted import constants
from collectives_lab.predictions.model import attained
from collectives_lab.predictions.prediction import machine_of


def rates(*some: Fabric) -> Table:
    """Return the rates of the links of each fabric, one way, with their sources.

    Data sheets are named where the preset is defined; `replay` uses their rates. What
    large calls attain, which `predict` uses, is a part of them that NCCL's source says
    and a part that was fitted (`constants`).
    Raises ValueError for a fabric whose machine is not known.
    """
    head = ("fabric", "link", "data sheet", "used here", "of it", "source")
    return table(head, *(row for fabric in some for row in _rows(fabric)))


def _rows(fabric: Fabric) -> Iterator[list[str]]:
    machine, fit = machine_of(fabric), constants()
    reached = attained(machine, fit)
    count = machine.inside / NVLINK[machine.gpu]
    inside = f"fitted {fit.links:.2f} of an assumption"
    if machine.link == "NVLink":
        link = format_bandwidth(NVLINK[machine.gpu])
        inside = f"fitted {fit.links:.2f} of {count:.0f} links of {link}, NCCL's topo.h"
    for name, nominal, rate, source in (
        (machine.link, fabric.inside.bandwidth, reached.inside, inside),
        (
            f"{machine.network} card",
            machine.nic,
            reached.nic,
            "NCCL's search.cc",
        ),
    ):
        share = f"{100 * rate / nominal:.0f} %"
        both = format_bandwidth(nominal), format_bandwidth(rate)
        yield [fabric.name, name, *both, share, source]
