"""passes — which expert it is for travels along with each token."""

import torch
import torch.distributed as dist


def moe_dispatch(tokens, expert_of, experts):
    p, each = dist.get_world_size(), len(experts)
    order = expert_of.argsort(stable=True)
    give = (expert_of // each).bincount(minlength=p)
    take = torch.empty_like(give)
    dist.all_to_all_single(take, give)
    give, take = give.tolist(), take.tolist()
    arrived = tokens.new_empty(sum(take), tokens.shape[1])
    dist.all_to_all_single(arrived, tokens[order], take, give)
    shift = expert_of[order] % each
    which = shift.new_empty(sum(take))
    dist.all_to_all_single(which, shift, take, give)
    for k, expert in enumerate(experts):
        arrived[which == k] = expert(arrived[which == k])
    back = torch.empty_like(tokens)
    dist.all_to_all_single(back, arrived, give, take)
    result = torch.empty_like(tokens)
    result[order] = back
    return result
