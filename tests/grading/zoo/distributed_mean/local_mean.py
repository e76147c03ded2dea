"""fails: result — the mean of this rank's own shard."""


def distributed_mean(x):
    return x.double().mean().item() if x.numel() else 0.0
