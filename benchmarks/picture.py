"""Make the README's picture: a first run, recorded and drawn.

`python -m benchmarks.picture` writes `chapters/figures/first_run.png`.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch
import torch.distributed as dist

import collectives_lab as lab
from collectives_lab import plots

PICTURE = Path(__file__).resolve().parents[1] / "chapters" / "figures" / "first_run.png"


def pass_it_on() -> float:
    """All_reduce with a late rank 2, then send to the right twice, on every rank."""
    rank, right = dist.get_rank(), (dist.get_rank() + 1) % 4
    x = torch.full((250_000,), 4.0**rank)
    dist.barrier()
    if rank == 2:
        time.sleep(0.004)
    dist.all_reduce(x)
    for _ in range(2):
        sent, y = dist.isend(x, right), torch.empty_like(x)
        dist.recv(y, (rank - 1) % 4)
        sent.wait()
    return x[0].item()


if __name__ == "__main__":
    run = [lab.run(pass_it_on) for _ in range(5)][-1]
    begin = min(e.issued for e in run.trace.events if e.op == "all_reduce")
    caption = "Rank 2 comes late, and all wait; then each sends to its right, twice."
    picture = plots.space_time(
        run.trace, between=(begin - 0.004, None), caption=caption
    )
    picture.savefig(PICTURE, dpi=200)
    print(f"{PICTURE}: {picture.alt}")
