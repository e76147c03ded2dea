"""passes — every ring turns the other way; batches and tags."""

import torch
import torch.distributed as dist


def turn(ranks, chunks, k, tag):
    n = len(ranks)
    place = ranks.index(dist.get_rank())
    give, take = chunks[(place + 1 + k) % n], chunks[(place + 2 + k) % n]
    buffer = torch.empty_like(take)
    batch = [
        dist.P2POp(dist.irecv, buffer, ranks[(place + 1) % n], tag=tag),
        dist.P2POp(dist.isend, give, ranks[(place - 1) % n], tag=tag),
    ]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    take.copy_(take + buffer if k < n - 1 else buffer)


def hierarchical_all_reduce(tensor, ranks_per_node):
    rank, size, node = dist.get_rank(), dist.get_world_size(), ranks_per_node
    near = list(range(rank // node * node, (rank // node + 1) * node))
    far = list(range(rank % node, size, node))
    flat = tensor.reshape(-1).clone()
    chunks = flat.tensor_split(node)
    own = chunks[rank % node].tensor_split(len(far))
    for k in range(node - 1):
        turn(near, chunks, k, 1)
    for k in range(2 * (len(far) - 1)):
        turn(far, own, k, 2)
    for k in range(node - 1, 2 * (node - 1)):
        turn(near, chunks, k, 3)
    tensor.copy_(flat.view(tensor.shape))
