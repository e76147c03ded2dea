"""fails: all — the stub as it is released."""


def reduce_scatter(output, input):
    raise NotImplementedError("reduce_scatter")
