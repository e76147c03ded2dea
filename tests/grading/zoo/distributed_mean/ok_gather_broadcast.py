"""passes — rank 0 gathers, divides and tells."""

import torch
import torch.distributed as dist


def distributed_mean(x):
    size, root = dist.get_world_size(), dist.get_world_size() - 1
    mine = torch.tensor([x.double().sum().item(), x.numel()], dtype=torch.float64)
    answer = torch.zeros(1, dtype=torch.float64)
    if dist.get_rank() == root:
        pairs = [torch.empty_like(mine) for _ in range(size)]
        dist.gather(mine, pairs, dst=root)
        total, count = torch.stack(pairs).sum(0)
        answer[0] = total / count
    else:
        dist.gather(mine, dst=root)
    dist.broadcast(answer, src=root)
    return answer.item()
