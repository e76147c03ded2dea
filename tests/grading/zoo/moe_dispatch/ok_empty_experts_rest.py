"""passes — an expert that nobody wants is not called; masks instead of a sort."""

import torch
import torch.distributed as dist


def moe_dispatch(tokens, expert_of, experts):
    p, each = dist.get_world_size(), len(experts)
    order = torch.cat([(expert_of == e).nonzero()[:, 0] for e in range(p * each)])
    counts = expert_of.bincount(minlength=p * each)
    here = torch.empty_like(counts)
    dist.all_to_all_single(here, counts)
    give = counts.view(p, each).sum(1).tolist()
    take = here.view(p, each).sum(1).tolist()
    arrived = tokens.new_empty(sum(take), tokens.shape[1])
    dist.all_to_all_single(arrived, tokens[order], take, give)
    which = torch.arange(each).repeat(p).repeat_interleave(here)
    results = torch.empty_like(arrived)
    for k in which.unique().tolist():
        results[which == k] = experts[k](arrived[which == k])
    arrived = results
    back = torch.empty_like(tokens)
    dist.all_to_all_single(back, arrived, give, take)
    result = torch.empty_like(tokens)
    result[order] = back
    return result
