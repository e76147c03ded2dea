"""Things a reader moves: steppers and explorers for notebooks.

Here you can go through an algorithm chunk by chunk (`step_through`), which works in a
page without a kernel too, and turn the knobs of the cost formulas (`explore_costs`),
which needs one and without it shows the picture it began with.
"""

from collectives_lab.widgets.explorer import CostExplorer, explore_costs
from collectives_lab.widgets.stepper import Stepper, step_through

__all__ = ["step_through", "Stepper", "explore_costs", "CostExplorer"]
