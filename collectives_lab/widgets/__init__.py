"""Things a reader moves: steppers and explorers for notebooks.

Here you can go through an algorithm, a run or a replay step by step (`step_through`),
and put one model of the book under sliders: each `explore_...` is named after it. All
of them are pages with a script of their own: they need no kernel, work in an exported
book, and show a picture where no script runs.
"""

from collectives_lab.widgets.attention import AttentionExplorer, explore_attention
from collectives_lab.widgets.buckets import BucketExplorer, explore_buckets
from collectives_lab.widgets.capacity import CapacityExplorer, explore_capacity
from collectives_lab.widgets.checkpoints import CheckpointExplorer, explore_checkpoints
from collectives_lab.widgets.choice import ChoiceExplorer, explore_choice
from collectives_lab.widgets.explorer import CostExplorer, explore_costs
from collectives_lab.widgets.groups import GroupExplorer, explore_groups
from collectives_lab.widgets.memory import MemoryExplorer, explore_memory
from collectives_lab.widgets.message import MessageExplorer, explore_message
from collectives_lab.widgets.packing import PackingExplorer, explore_packing
from collectives_lab.widgets.pipeline import PipelineExplorer, explore_pipeline
from collectives_lab.widgets.ratio import RatioExplorer, explore_ratio
from collectives_lab.widgets.scrubber import Scrubber
from collectives_lab.widgets.sharding import ShardingExplorer, explore_sharding
from collectives_lab.widgets.staleness import StalenessExplorer, explore_staleness
from collectives_lab.widgets.stepper import Stepper
from collectives_lab.widgets.sums import SumExplorer, explore_sums
from collectives_lab.widgets.trace_stepper import step_through
from collectives_lab.widgets.verbs import VerbExplorer, explore_verbs

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
    "explore_buckets",
    "BucketExplorer",
    "explore_packing",
    "PackingExplorer",
    "explore_sharding",
    "ShardingExplorer",
    "explore_groups",
    "GroupExplorer",
    "explore_capacity",
    "CapacityExplorer",
    "explore_checkpoints",
    "CheckpointExplorer",
    "explore_pipeline",
    "PipelineExplorer",
    "explore_memory",
    "MemoryExplorer",
    "explore_staleness",
    "StalenessExplorer",
    "explore_sums",
    "SumExplorer",
    "explore_verbs",
    "VerbExplorer",
    "RatioExplorer",
]
