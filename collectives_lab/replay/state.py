"""Times of a replay: begin and end of phases and messages, in quanta."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Times(NamedTuple):
    """Times of phases and messages as columns; -1 for events that never happen.

    begun[phase]: its beginning. ready[message]: send and recv are posted. end[message]:
    its last byte has arrived. entered[stage][message]: it took its link of this stage.
    """

    begun: np.ndarray
    ready: np.ndarray
    end: np.ndarray
    entered: list[np.ndarray]
