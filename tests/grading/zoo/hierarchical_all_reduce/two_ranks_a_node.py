"""fails: world_sizes — always two ranks a node."""

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
    near = [rank // 2 * 2, rank // 2 * 2 + 1]
    far = list(range(rank % 2, size, 2))
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(2)
    own = chunks[rank % 2].tensor_split(len(far))
    turn(near, chunks, 0)
    for k in range(2 * (len(far) - 1)):
        turn(far, own, k)
    turn(near, chunks, 1)
    tensor.copy_(flat.view(tensor.shape))
