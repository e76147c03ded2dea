"""fails: all — it is what students are given."""


def zero1_step(weights, gradient, momentum, lr):
    """Make one step of SGD with momentum, each rank with its own part."""
    raise NotImplementedError
