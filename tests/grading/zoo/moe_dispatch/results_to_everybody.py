"""fails: traffic — an owner tells all ranks, not the one that asked."""

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
    arrived = tokens.new_empty(sum(take), tokens.shape[1])
    dist.all_to_all_single(arrived, tokens[order], take, give)
    which = torch.arange(each).repeat(p).repeat_interleave(here)
    for k, expert in enumerate(experts):
        arrived[which == k] = expert(arrived[which == k])
    lengths = [None] * p
    dist.all_gather_object(lengths, take)
    whole = [tokens.new_empty(sum(n), tokens.shape[1]) for n in lengths]
    dist.all_gather(whole, arrived)
    rank = dist.get_rank()
    rows = zip(whole, lengths, strict=True)
    back = torch.cat([rows.split(n)[rank] for rows, n in rows])
    result = torch.empty_like(tokens)
    result[order] = back
    return result
