"""fails: experts — an expert takes twice its share, and the rest stays as it is."""

import torch
import torch.distributed as dist


def moe_dispatch(tokens, expert_of, experts):
    p, each = dist.get_world_size(), len(experts)
    room = -(-2 * len(tokens) // (p * each))
    kept = [(expert_of == e).nonzero()[:room, 0] for e in range(p * each)]
    order = torch.cat(kept)
    counts = expert_of[order].bincount(minlength=p * each)
    here = torch.empty_like(counts)
    dist.all_to_all_single(here, counts)
    give = counts.view(p, each).sum(1).tolist()
    take = here.view(p, each).sum(1).tolist()
    arrived = tokens.new_empty(sum(take), tokens.shape[1])
    dist.all_to_all_single(arrived, tokens[order], take, give)
    which = torch.arange(each).repeat(p).repeat_interleave(here)
    for k, expert in enumerate(experts):
        arrived[which == k] = expert(arrived[which == k])
    back = tokens.new_empty(len(order), tokens.shape[1])
    dist.all_to_all_single(back, arrived, give, take)
    result = tokens.clone()
    result[order] = back
    return result
