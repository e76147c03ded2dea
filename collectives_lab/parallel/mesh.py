"""Products of strategies: ranks in a grid, one strategy along each of its levels.

Here: `grid`, the ranks as a DeviceMesh; `train`, data times tensor parallel on it, and
`train_3d`, a pipeline of such grids; `two_level_all_reduce`, nodes of ranks;
`bytes_by_level`, what a trace says was sent along each level.

    who owns what  of the model the part that a rank's place in `tensor` names, which
                   all along `data` have; of the batch the share that its place in
                   `data` names, which all along `tensor` have
    forward        along `tensor` what `tensor` or `sequence` says, for a share of the
                   batch only: 1/D of the bytes
    backward       the same; then along `data` an all_reduce of the gradients of the own
                   part, 1/T of the bytes
    update         nothing
    pipe           outside of both, a rank has only the layers of its stage, and x and
                   its gradient go along `pipe`, from each rank to its like: 1/D of the
                   bytes, T times

The last level has neighbours: put there what sends most, and most often. Sources:
Narayanan et al., Efficient large-scale language model training on GPU clusters, SC
2021, sections 2 and 3; for two levels Goyal et al. 2017, section 4.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from collectives_lab.basics import devices
from collectives_lab.parallel import (
    data,
    pipeline,
    problem,
    sequence,
    tensor,
    vocabulary,
)
from collectives_lab.parallel.schedules import one_f_one_b
from collectives_lab.trace import Event, Trace

Layers = Callable[[torch.Tensor], torch.Tensor]


def grid(**levels: int) -> DeviceMesh:
    """Return all ranks as a grid, row by row: `grid(data=2, tensor=4)` of 8 ranks.

    levels: name and size, the outermost first; a size of 1 is a level, too. All ranks
    call it. `mesh.get_group(name)` is the group along a level that this rank is in.
    Raises ValueError where the sizes do not multiply to the world size.
    """
    world_size = dist.get_world_size()
    if math.prod(levels.values()) != world_size or min(levels.values(), default=1) < 1:
        raise ValueError(
            f"rank {dist.get_rank()}: levels {levels} are "
            f"{math.prod(levels.values())} ranks; the world has {world_size}"
        )
    names, sizes = tuple(levels), tuple(levels.values())
    kind = devices.own().type
    if kind == "cuda" and not devices.runs_on_nccl():
        return of_gloo(kind, names, sizes)
    return init_device_mesh(kind, sizes, mesh_dim_names=names)


def of_gloo(kind: str, names: Sequence[str], sizes: Sequence[int]) -> DeviceMesh:
    """Return the same grid of Gloo's groups, for tensors of a kind of device.

    Where there is a GPU, torch before 2.13 lets NCCL have a level of all ranks.
    """
    ranks, me = torch.arange(math.prod(sizes)).view(*sizes), dist.get_rank()
    groups = []
    for level, size in enumerate(sizes):
        rows = ranks.movedim(level, -1).reshape(-1, size).tolist()
        made = [dist.new_group(row, backend="gloo") for row in rows]
        groups += [group for row, group in zip(rows, made, strict=True) if me in row]
    if len(groups) == 1:
        return DeviceMesh.from_group(groups[0], kind, mesh_dim_names=tuple(names))
    return DeviceMesh.from_group(groups, kind, ranks, mesh_dim_names=tuple(names))


def train(
    data_ranks: int,
    tensor_ranks: int,
    by_sequence: bool = False,
    steps: int = 100,
    batch_size: int = 32,
    model: nn.Sequential | None = None,
    rate: float = problem.RATE,
) -> list[float]:
    """Train by Adam on a grid of data x tensor ranks; the loss of this rank's share.

    It is the same along `tensor`: `problem.added_up(results[::tensor_ranks])` is the
    loss of the batch. by_sequence: with sequence parallelism.
    """
    mesh = grid(data=data_ranks, tensor=tensor_ranks)
    replicas, parts = mesh.get_group("data"), mesh.get_group("tensor")
    split = sequence.sequence_parallel if by_sequence else tensor.tensor_parallel
    own_part = split(problem.new_model() if model is None else model, parts)
    optimizer = torch.optim.Adam(own_part.parameters(), lr=rate)

    def loss(step: int) -> torch.Tensor:
        examples = problem.batch(step, batch_size)
        share = examples.share(mesh.get_local_rank("data"), data_ranks)
        return vocabulary.loss(own_part, share, whole=batch_size, group=parts)

    def sum_up() -> None:
        if by_sequence:
            sequence.add_up_norms(own_part, parts)
        data.all_reduce_each(own_part, replicas)

    return problem.descend(optimizer, loss, steps, sum_up)


def train_3d(
    pipe_ranks: int,
    data_ranks: int,
    tensor_ranks: int,
    micro: int = 2,
    steps: int = 100,
    batch_size: int = 32,
    model: nn.Sequential | None = None,
    rate: float = problem.RATE,
) -> list[float]:
    """Train by Adam on a grid of pipe x data x tensor ranks.

    Each share of a batch goes through the pipeline by 1F1B, in `micro` micro-batches.
    The losses of this rank's share on the last stage, the same along `tensor`; 0 on
    other stages, so that here, too, `results[::tensor_ranks]` add up.
    """
    mesh = grid(pipe=pipe_ranks, data=data_ranks, tensor=tensor_ranks)
    stages, replicas, parts = map(mesh.get_group, ("pipe", "data", "tensor"))
    model = problem.new_model() if model is None else model
    shape = problem.LENGTH, model.get_parameter("0.tokens.weight").shape[1]
    own_part = tensor.tensor_parallel(model, parts)
    stage = pipeline.cut(own_part, pipe_ranks, mesh.get_local_rank("pipe"))
    schedule = one_f_one_b(pipe_ranks, micro)
    optimizer = torch.optim.Adam(stage.parameters(), lr=rate)

    def loss(stage: Layers, examples: problem.Batch, _: int) -> torch.Tensor:
        return vocabulary.loss(stage, examples, whole=batch_size, group=parts)

    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        examples = problem.batch(step, batch_size)
        share = examples.share(mesh.get_local_rank("data"), data_ranks)
        done = pipeline.step(stage, share, schedule, shape, loss, stages)
        data.all_reduce_each(stage, replicas)
        optimizer.step()
        losses.append(done.loss or 0.0)
    return losses


def two_level_all_reduce(
    x: torch.Tensor, inner: dist.ProcessGroup, outer: dist.ProcessGroup
) -> None:
    """Add x up over a grid in place: within a node, across nodes, within again.

    inner: the G ranks of this node. outer: one rank of each of M nodes, those at the
    same place. reduce_scatter leaves a G-th of the node's sum with each rank;
    all_reduce adds that up over nodes; all_gather puts the parts together. With x of S
    bytes each rank sends 2 S (G-1)/G within its node and 2 S (M-1)/M / G across. What
    fills up the last part, at most G - 1 numbers, travels too.
    """
    ranks = dist.get_world_size(inner)
    part = -(-x.numel() // ranks)
    flat = x.new_zeros(ranks * part)
    flat[: x.numel()] = x.flatten()
    parts = list(flat.split(part)) if part else [flat] * ranks
    own = torch.empty_like(parts[0])
    dist.reduce_scatter(own, parts, group=inner)
    dist.all_reduce(own, group=outer)
    dist.all_gather(parts, own, group=inner)
    x.copy_(flat[: x.numel()].view_as(x))


def bytes_by_level(trace: Trace, **levels: int) -> dict[str, list[int | float]]:
    """Return bytes that each rank sent along each level of a grid, as the calls say.

    levels: as for `grid`. A call belongs to the levels along which its ranks differ;
    one among ranks that differ along several counts for `"data+tensor"`.
    """
    sizes = list(levels.values())
    if math.prod(sizes) != trace.world_size:
        raise ValueError(f"levels {levels}; the trace has {trace.world_size} ranks")
    sorted_out: dict[str, list[Event]] = {name: [] for name in levels}
    events_of = defaultdict(list, sorted_out)
    for event in trace.events:
        ranks = trace.groups[event.group]
        if event.peer is not None:
            ranks = (event.rank, event.peer)
        # Of each level, where the ranks are along it; the last level counts fastest.
        places = np.unravel_index(ranks, sizes) if sizes else ()
        differ = [n for n, at in zip(levels, places, strict=True) if np.ptp(at)]
        if differ:
            events_of["+".join(differ)].append(event)
    return {
        name: Trace.from_events(events, trace.world_size, trace.groups).bytes_sent()
        for name, events in events_of.items()
    }
