"""fails: crossing, time — takes rank % M for the node, so that nearly all is far."""

import torch
import torch.distributed as dist


def turn(ranks, chunks, k):
    n = len(ranks)
    place = ranks.index(dist.get_rank())
    give, take = chunks[(place - 1 - k) % n], chunks[(place - 2 - k) % n]
    buffer = torch.empty_like(take)
    work = dist.isend(give, ranks[(place + 1) % n])
    dist.recv(buffer, ranks[(place - 1) % n])
    work.wait()
    take.copy_(take + buffer if k < n - 1 else buffer)


def hierarchical_all_reduce(tensor, ranks_per_node):
    rank, size = dist.get_rank(), dist.get_world_size()
    nodes = size // ranks_per_node
    near = list(range(rank % nodes, size, nodes))
    far = list(range(rank // nodes * nodes, (rank // nodes + 1) * nodes))
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(ranks_per_node)
    own = chunks[near.index(rank)].tensor_split(nodes)
    for k in range(ranks_per_node - 1):
        turn(near, chunks, k)
    for k in range(2 * (nodes - 1)):
        turn(far, own, k)
    for k in range(ranks_per_node - 1, 2 * (ranks_per_node - 1)):
        turn(near, chunks, k)
    tensor.copy_(flat.view(tensor.shape))
