"""passes — everything is imported in the function; a runner under __main__."""


def ring_all_reduce(tensor):
    import itertools

    import torch
    from torch.distributed import get_rank, get_world_size, irecv, isend

    rank, size = get_rank(), get_world_size()
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(size)
    phases = itertools.chain([True] * (size - 1), [False] * (size - 1))
    for k, adding in enumerate(phases):
        give, take = chunks[(rank - k) % size], chunks[(rank - k - 1) % size]
        buffer = torch.empty_like(take)
        works = isend(give, (rank + 1) % size), irecv(buffer, (rank - 1) % size)
        for work in works:
            work.wait()
        take.copy_(take + buffer if adding else buffer)
    tensor.copy_(flat.view(tensor.shape))


if __name__ == "__main__":
    import torch
    import torch.distributed

    torch.distributed.init_process_group("gloo")
    example = torch.ones(5)
    ring_all_reduce(example)
    print(example)
