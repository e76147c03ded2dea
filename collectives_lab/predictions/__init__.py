"""Predictions: how long a verb takes on a cluster, and how sure that is.

Here you can `predict` the time of a call of NCCL on a fabric whose machine is known,
read what the model says with other `Constants` (`estimate`), and see what links attain
beside their data sheets (`rates`). The model is NCCL's own (`libraries`), with four
constants that were fitted to published measurements; `truth` holds it against them.
"""

from collectives_lab.predictions.fitted import Constants, Ranges, constants, ranges
from collectives_lab.predictions.model import Estimate, attained, estimate, shape_of
from collectives_lab.predictions.prediction import Prediction, predict
from collectives_lab.predictions.rates import rates
from collectives_lab.predictions.tools import TOOLS

__all__ = [
    "TOOLS",
    "Constants",
    "Estimate",
    "Prediction",
    "Ranges",
    "attained",
    "constants",
    "estimate",
    "predict",
    "ranges",
    "rates",
    "shape_of",
]
