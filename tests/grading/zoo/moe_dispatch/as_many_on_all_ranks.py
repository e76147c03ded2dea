"""fails: uneven — ranks are thought to have the same number of tokens."""

import torch
import torch.distributed as dist


def moe_dispatch(tokens, expert_of, experts):
    p, each = dist.get_world_size(), len(experts)
    order = expert_of.argsort(stable=True)
    n = len(tokens)
    wants = [torch.empty_like(expert_of) for _ in range(p)]
    dist.all_gather(wants, expert_of)
    rank = dist.get_rank()
    table = torch.stack([w.bincount(minlength=p * each) for w in wants])
    assert table.sum() == p * n
    here = table[:, rank * each : (rank + 1) * each].flatten()
    give = table[rank].view(p, each).sum(1).tolist()
    take = here.view(p, each).sum(1).tolist()
    arrived = tokens.new_empty(sum(take), tokens.shape[1])
    dist.all_to_all_single(arrived, tokens[order], take, give)
    which = torch.arange(each).repeat(p).repeat_interleave(here)
    for k, expert in enumerate(experts):
        arrived[which == k] = expert(arrived[which == k])
    back = torch.empty_like(tokens)
    dist.all_to_all_single(back, arrived, give, take)
    result = torch.empty_like(tokens)
    result[order] = back
    return result
