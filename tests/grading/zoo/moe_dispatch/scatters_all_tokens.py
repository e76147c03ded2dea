"""fails: traffic — all tokens and results to everybody, by scatters of uneven parts."""

import torch
import torch.distributed as dist


def everybodys(x):
    size, rank, found = dist.get_world_size(), dist.get_rank(), []
    lengths = torch.zeros(size, dtype=torch.int64)
    dist.all_gather_into_tensor(lengths, torch.tensor([len(x)]))
    for root, length in enumerate(lengths.tolist()):
        taken = x.new_empty(0 if rank == root else length, *x.shape[1:])
        parts = [x[: len(x) * (r != root)] for r in range(size)]
        dist.scatter(taken, parts if rank == root else None, src=root)
        found.append(x if rank == root else taken)
    return found


def moe_dispatch(tokens, expert_of, experts):
    rank, k = dist.get_rank(), len(experts)
    inputs = torch.cat(everybodys(tokens))
    wants = torch.cat(everybodys(expert_of))
    results = torch.zeros_like(inputs)
    for number, expert in enumerate(experts):
        mine = wants == rank * k + number
        results[mine] = expert(inputs[mine])
    before = sum(len(part) for part in everybodys(tokens)[:rank])
    whole = sum(everybodys(results))
    return whole[before : before + len(tokens)]
