"""fails: traffic — all tokens to all ranks, results too."""

import torch
import torch.distributed as dist


def moe_dispatch(tokens, expert_of, experts):
    p, each, rank = dist.get_world_size(), len(experts), dist.get_rank()
    lengths = [None] * p
    dist.all_gather_object(lengths, len(tokens))
    rows = [tokens.new_empty(n, tokens.shape[1]) for n in lengths]
    wants = [expert_of.new_empty(n) for n in lengths]
    dist.all_gather(rows, tokens)
    dist.all_gather(wants, expert_of)
    rows, wants = torch.cat(rows), torch.cat(wants)
    results = torch.zeros_like(rows)
    for k, expert in enumerate(experts):
        mine = wants == rank * each + k
        results[mine] = expert(rows[mine])
    dist.all_reduce(results)
    return results.split(lengths)[rank]
