"""fails: time — one leader a node does everything; the other NICs idle."""

import torch
import torch.distributed as dist


def hierarchical_all_reduce(tensor, ranks_per_node):
    rank, size = dist.get_rank(), dist.get_world_size()
    leader = rank // ranks_per_node * ranks_per_node
    flat = tensor.contiguous().view(-1)
    if rank != leader:
        dist.send(flat, leader)
        dist.recv(flat, leader)
    else:
        members = range(leader + 1, leader + ranks_per_node)
        for peer in members:
            buffer = torch.empty_like(flat)
            dist.recv(buffer, peer)
            flat += buffer
        ring(flat, list(range(0, size, ranks_per_node)))
        for peer in members:
            dist.send(flat, peer)
    tensor.copy_(flat.view(tensor.shape))


def ring(flat, ranks):
    n, place = len(ranks), ranks.index(dist.get_rank())
    chunks = flat.tensor_split(n)
    for k in range(2 * (n - 1)):
        give, take = chunks[(place - k) % n], chunks[(place - k - 1) % n]
        buffer = torch.empty_like(take)
        work = dist.isend(give, ranks[(place + 1) % n])
        dist.recv(buffer, ranks[(place - 1) % n])
        work.wait()
        take.copy_(take + buffer if k < n - 1 else buffer)
