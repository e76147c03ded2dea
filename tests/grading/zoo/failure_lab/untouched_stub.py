"""fails: all — it is what students are given."""


def failure_lab(recordings):
    """Return what was wrong in each recording."""
    raise NotImplementedError
