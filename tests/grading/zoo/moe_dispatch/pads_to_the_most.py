"""fails: traffic — every pair of ranks exchanges as much as the busiest."""

import torch
import torch.distributed as dist


def moe_dispatch(tokens, expert_of, experts):
    p, each = dist.get_world_size(), len(experts)
    order = expert_of.argsort(stable=True)
    counts = expert_of.bincount(minlength=p * each)
    here = torch.empty_like(counts)
    dist.all_to_all_single(here, counts)
    give = counts.view(p, each).sum(1).tolist()
    take = here.view(p, each).sum(1).tolist()
    most = torch.tensor(max(give))
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    out = tokens.new_zeros(p, int(most), tokens.shape[1])
    for dst, part in enumerate(tokens[order].split(give)):
        out[dst, : len(part)] = part
    there = torch.empty_like(out)
    dist.all_to_all_single(there, out)
    arrived = torch.cat([rows[:n] for rows, n in zip(there, take, strict=True)])
    which = torch.arange(each).repeat(p).repeat_interleave(here)
    for k, expert in enumerate(experts):
        arrived[which == k] = expert(arrived[which == k])
    for src, part in enumerate(arrived.split(take)):
        there[src, : len(part)] = part
    dist.all_to_all_single(out, there)
    back = torch.cat([rows[:n] for rows, n in zip(out, give, strict=True)])
    result = torch.empty_like(tokens)
    result[order] = back
    return result
