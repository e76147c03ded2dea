"""fails: result — tokens stay where they are."""

import torch


def moe_dispatch(tokens, expert_of, experts):
    result = torch.empty_like(tokens)
    for k, expert in enumerate(experts):
        mine = expert_of % len(experts) == k
        result[mine] = expert(tokens[mine])
    return result
