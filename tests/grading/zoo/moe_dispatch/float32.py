"""fails: dtypes — buffers are float32 whatever the tokens are."""

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
    arrived = torch.empty(sum(take), tokens.shape[1])
    dist.all_to_all_single(arrived, tokens[order].float(), take, give)
    which = torch.arange(each).repeat(p).repeat_interleave(here)
    for k, expert in enumerate(experts):
        arrived[which == k] = expert(arrived[which == k])
    back = arrived.new_empty(tokens.shape)
    dist.all_to_all_single(back, arrived, give, take)
    result = torch.empty_like(tokens)
    result[order] = back.to(tokens.dtype)
    return result
