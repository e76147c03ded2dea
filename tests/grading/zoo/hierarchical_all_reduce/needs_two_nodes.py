"""fails: world_sizes — with a single node nobody is across, and it raises."""

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
    rank, size, node = dist.get_rank(), dist.get_world_size(), ranks_per_node
    near = list(range(rank // node * node, (rank // node + 1) * node))
    far = list(range(rank % node, size, node))
    across = far[1] - far[0]
    assert across == node
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(node)
    own = chunks[rank % node].tensor_split(len(far))
    for k in range(node - 1):
        turn(near, chunks, k)
    for k in range(2 * (len(far) - 1)):
        turn(far, own, k)
    for k in range(node - 1, 2 * (node - 1)):
        turn(near, chunks, k)
    tensor.copy_(flat.view(tensor.shape))
