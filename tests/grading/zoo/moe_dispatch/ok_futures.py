"""passes — what an expert makes of its tokens is chained to their arrival."""

import torch
import torch.distributed as dist


def moe_dispatch(tokens, expert_of, experts):
    p, each = dist.get_world_size(), len(experts)
    order = expert_of.argsort(stable=True)
    counts = expert_of.bincount(minlength=p * each)
    here = torch.empty_like(counts)
    told = dist.all_to_all_single(here, counts, async_op=True).get_future()
    torch.futures.wait_all([told])
    give, take = (n.view(p, each).sum(1).tolist() for n in (counts, here))
    arrived = tokens.new_empty(sum(take), tokens.shape[1])

    def answered(done):
        found = done.value()[0].clone()
        which = torch.arange(each).repeat(p).repeat_interleave(here)
        for k, expert in enumerate(experts):
            found[which == k] = expert(found[which == k])
        return found

    sent = dist.all_to_all_single(arrived, tokens[order], take, give, async_op=True)
    answers = torch.futures.collect_all([sent.get_future().then(answered)])
    back, result = torch.empty_like(tokens), torch.empty_like(tokens)
    dist.all_to_all_single(back, answers.wait()[0].value(), give, take)
    result[order] = back
    return result
