"""The mean of numbers that lie on several ranks, by one all_reduce.

    torchrun --nproc-per-node 4 distributed_mean.py

Rank r holds four numbers around 4**r, so that each rank's own mean is 4**r and the mean
of all numbers on four ranks is (1 + 4 + 16 + 64) / 4 = 21.25. Then the same is done to
a gradient: of the mean loss over all numbers, from those of the ranks' own mean losses.
All shards have the same length; that the mean of means is the mean depends on it. It
runs on Gloo, or on NCCL if there is a GPU for each rank.
"""

import os
import sys
from typing import Any

import torch
import torch.distributed as dist


def average(x: torch.Tensor) -> torch.Tensor:
    """Replace x by its mean over the ranks, the same on all of them."""
    dist.all_reduce(x)
    x /= dist.get_world_size()
    return x


def slope(w: torch.Tensor, shard: torch.Tensor) -> torch.Tensor:
    """Return the gradient, at w, of the mean of (w - number)**2 over a shard."""
    w = w.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((w - shard).square().mean(), w)
    return gradient


def show(
    title: str, own: torch.Tensor, mean: torch.Tensor, reference: torch.Tensor
) -> None:
    """Print on rank 0 each rank's value before and after, and one process's result."""
    row = own.item(), mean.item()
    is_first, world_size = dist.get_rank() == 0, dist.get_world_size()
    rows: list[Any] | None = [None] * world_size if is_first else None
    dist.gather_object(row, rows, dst=0)
    if rows:
        print(f"\n{title}; one process with all numbers: {reference.item():g}")
        for rank, (before, after) in enumerate(rows):
            print(f"  rank {rank}  {before:8g}  ->  {after:g}")


def main() -> None:
    """Average a mean and a gradient; call it on every rank, where RANK is set."""
    local_rank = int(os.environ["LOCAL_RANK"])
    on_gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    offsets = torch.tensor([-0.75, -0.25, 0.25, 0.75], device=device).double()
    all_numbers = torch.cat([4.0**r + offsets for r in range(dist.get_world_size())])
    shard = all_numbers.chunk(dist.get_world_size())[dist.get_rank()]
    own = shard.mean()
    show("mean", own, average(own.clone()), all_numbers.mean())
    w = torch.zeros((), dtype=torch.float64, device=device)
    own = slope(w, shard)
    show("gradient", own, average(own.clone()), slope(w, all_numbers))
    dist.destroy_process_group()


if __name__ == "__main__":
    if "LOCAL_RANK" not in os.environ:
        print("LOCAL_RANK is not set: this runs on ranks. Start it by", file=sys.stderr)
        print(f"    torchrun --nproc-per-node 4 {__file__}", file=sys.stderr)
        sys.exit(2)
    main()
