"""fails: result — the softmax of this rank's logits alone."""


def distributed_softmax(x):
    return x.softmax(0)
