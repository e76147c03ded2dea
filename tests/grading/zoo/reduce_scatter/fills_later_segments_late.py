"""fails: schedules — of long tensors, pieces beyond the first are filled when sent."""

import torch
import torch.distributed as dist

PIECE = 256


def reduce_scatter(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    rows, result = input.view(size, -1), output.view(-1)
    for begin in range(0, len(result), PIECE):
        part = slice(begin, begin + PIECE)
        total = rows[left, part].clone()
        if begin and size > 1:
            total.zero_()
        for k in range(1, size):
            coming = torch.empty_like(total)
            work = dist.isend(total, right)
            if begin and k == 1:
                total.copy_(rows[left, part])
            dist.recv(coming, left)
            work.wait()
            total = coming + rows[(rank - k - 1) % size, part]
        result[part] = total if size > 1 else rows[rank, part]
