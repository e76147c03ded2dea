"""Things a reader moves: steppers and explorers for notebooks.

Here you can go through an algorithm chunk by chunk (`step_through`), which works in a
page without a kernel too, and turn the knobs of the cost formulas (`explore_costs`)
and of a training step (`explore_ratio`), which need one and without it show the picture
they began with.
"""

from collectives_lab.widgets.explorer import CostExplorer, explore_costs
from collectives_lab.widgets.ratio import RatioExplorer, explore_ratio
from collectives_lab.widgets.stepper import Stepper, step_through

__all__ = [
    "step_through",
    "Stepper",
    "explore_costs",
    "CostExplorer",
    "explore_ratio",
    "RatioExplorer",
]
