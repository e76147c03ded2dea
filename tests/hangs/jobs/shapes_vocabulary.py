"""Rank 1 has counted another vocabulary, so that its embedding has a row more."""

from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=4))
rank = dist.get_rank()
words = [f"word {n}" for n in range(30)]
if rank == 1:
    words.append("a word of its own")
embedding = torch.zeros(len(words), 2000)
loss = torch.ones(1)
dist.all_reduce(loss)
dist.all_reduce(loss)
gradient = torch.ones_like(embedding)
dist.all_reduce(gradient)
dist.all_reduce(loss)
