"""fails: schedules — each ring posts a chunk before it has added what came to it."""

import torch
import torch.distributed as dist


def ring(ranks, chunks, first, last):
    n, place = len(ranks), ranks.index(dist.get_rank())
    left, right = ranks[place - 1], ranks[(place + 1) % n]
    work = dist.isend(chunks[(place - 1 - first) % n], right) if first < last else None
    for k in range(first, last):
        take = chunks[(place - 2 - k) % n]
        buffer = torch.empty_like(take)
        dist.recv(buffer, left)
        work.wait()
        if k + 1 < last:
            work = dist.isend(take, right)
        take.copy_(take + buffer if k < n - 1 else buffer)


def hierarchical_all_reduce(tensor, ranks_per_node):
    rank, size, node = dist.get_rank(), dist.get_world_size(), ranks_per_node
    near = list(range(rank // node * node, (rank // node + 1) * node))
    far = list(range(rank % node, size, node))
    flat = tensor.reshape(-1).clone()
    chunks = flat.tensor_split(node)
    own = chunks[rank % node].tensor_split(len(far))
    ring(near, chunks, 0, node - 1)
    ring(far, own, 0, 2 * (len(far) - 1))
    ring(near, chunks, node - 1, 2 * (node - 1))
    tensor.copy_(flat.view(tensor.shape))
