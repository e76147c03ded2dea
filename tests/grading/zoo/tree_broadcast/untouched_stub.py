"""fails: all — the stub as it is released."""


def tree_broadcast(tensor, root):
    raise NotImplementedError("tree_broadcast")
