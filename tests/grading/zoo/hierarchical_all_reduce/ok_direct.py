"""passes — no rings: in a group every chunk goes straight to its owner and back."""

import torch
import torch.distributed as dist


def swap(ranks, give, take):
    """Send give[i] to the i-th of the ranks, and receive take[i] from it."""
    me = dist.get_rank()
    others = [(i, r) for i, r in enumerate(ranks) if r != me]
    works = [dist.irecv(take[i], r) for i, r in others]
    works += [dist.isend(give[i], r) for i, r in others]
    for work in works:
        work.wait()


def reduce_scatter(ranks, chunks):
    place = ranks.index(dist.get_rank())
    found = [torch.empty_like(chunks[place]) for _ in ranks]
    swap(ranks, chunks, found)
    found[place].copy_(chunks[place])
    chunks[place].copy_(sum(found[1:], start=found[0]))


def all_gather(ranks, chunks):
    place = ranks.index(dist.get_rank())
    swap(ranks, [chunks[place]] * len(ranks), chunks)


def hierarchical_all_reduce(tensor, ranks_per_node):
    rank, size, node = dist.get_rank(), dist.get_world_size(), ranks_per_node
    near = [r for r in range(size) if r // node == rank // node]
    far = [r for r in range(size) if r % node == rank % node]
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(node)
    own = chunks[rank % node].tensor_split(size // node)
    reduce_scatter(near, chunks)
    reduce_scatter(far, own)
    all_gather(far, own)
    all_gather(near, chunks)
    tensor.copy_(flat.view(tensor.shape))
