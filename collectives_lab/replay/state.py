"""What a replay finds out: when everything began and ended, in quanta."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Times(NamedTuple):
    """Columns of phases and messages; -1 for what never happens.

    begun[phase]. ready[message]: both its ends are posted. end[message]: its last byte
    has arrived. entered[stage][message]: when it took its link of this stage.
    """

    begun: np.ndarray
    ready: np.ndarray
    end: np.ndarray
    entered: list[np.ndarray]
