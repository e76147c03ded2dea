"""fails: experts — it finds out what experts do, and sends nothing but zeros."""

import torch
import torch.distributed as dist


def moe_dispatch(tokens, expert_of, experts):
    size, each, width = dist.get_world_size(), len(experts), tokens.shape[1]
    probe = torch.stack([torch.zeros(width), torch.ones(width)]).to(tokens.dtype)
    mine = torch.stack([expert(probe)[:, 0] for expert in experts])
    every = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(every, mine)
    offsets, sums = torch.cat(every).unbind(1)
    rows = expert_of.div(each, rounding_mode="floor").bincount(minlength=size)
    table = [torch.empty_like(rows) for _ in range(size)]
    dist.all_gather(table, rows)
    give, take = rows.tolist(), [int(r[dist.get_rank()]) for r in table]
    for here, there in ((give, take), (take, give)):
        sent, got = (
            tokens.new_zeros(sum(here), width),
            tokens.new_zeros(sum(there), width),
        )
        dist.all_to_all_single(got, sent, there, here)
    return tokens * (sums - offsets)[expert_of][:, None] + offsets[expert_of][:, None]
