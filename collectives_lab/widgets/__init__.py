"""Things a reader moves: steppers and explorers for notebooks.

Here you can go through an algorithm, a run or a replay step by step (`step_through`),
and turn the knobs of one message (`explore_message`), of the eight verbs
(`explore_verbs`), of a sum and its rounding (`explore_sums`), of the cost formulas
(`explore_costs`), of NCCL's choice (`explore_choice`), of a training step
(`explore_ratio`), of one that is sharded (`explore_sharding`), of experts of limited
capacity (`explore_capacity`), of a server whose workers run ahead
(`explore_staleness`), of ring attention (`explore_attention`) and of sums in fewer
bytes (`explore_packing`). All of them are pages with a script of their own: they need
no kernel, work in an exported book, and show a picture where no script runs.
"""

from collectives_lab.widgets.attention import AttentionExplorer, explore_attention
from collectives_lab.widgets.capacity import CapacityExplorer, explore_capacity
from collectives_lab.widgets.choice import ChoiceExplorer, explore_choice
from collectives_lab.widgets.explorer import CostExplorer, explore_costs
from collectives_lab.widgets.message import MessageExplorer, explore_message
from collectives_lab.widgets.packing import PackingExplorer, explore_packing
from collectives_lab.widgets.ratio import RatioExplorer, explore_ratio
from collectives_lab.widgets.scrubber import Scrubber
from collectives_lab.widgets.sharding import ShardingExplorer, explore_sharding
from collectives_lab.widgets.staleness import StalenessExplorer, explore_staleness
from collectives_lab.widgets.stepper import Stepper
from collectives_lab.widgets.sums import SumExplorer, explore_sums
from collectives_lab.widgets.verbs import VerbExplorer, explore_verbs
from collectives_lab.widgets.walk import step_through

__all__ = [
    "step_through",
    "Stepper",
    "Scrubber",
    "explore_message",
    "MessageExplorer",
    "explore_costs",
    "CostExplorer",
    "explore_choice",
    "ChoiceExplorer",
    "explore_ratio",
    "explore_attention",
    "AttentionExplorer",
    "explore_packing",
    "PackingExplorer",
    "explore_sharding",
    "ShardingExplorer",
    "explore_capacity",
    "CapacityExplorer",
    "explore_staleness",
    "StalenessExplorer",
    "explore_sums",
    "SumExplorer",
    "explore_verbs",
    "VerbExplorer",
    "RatioExplorer",
]
