"""fails: two_ranks, identical — returns at once."""


def ring_all_reduce(tensor):
    pass
