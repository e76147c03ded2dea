"""fails: all — it is what students are given."""


def moe_dispatch(tokens, expert_of, experts):
    """Send each token through its expert, wherever that is."""
    raise NotImplementedError
