"""Pictures for light and dark notebooks, each with words beside it.

Of a trace, or of a Run or a Timeline that has one, here you can draw who waited for
whom (`space_time`), when each rank computes (`computing`), who sends to whom
(`traffic_matrix`) and how much each rank sends (`bytes_by_rank`). Of an algorithm: what
all ranks hold before and after it (`before_after`), step by step which ranks are in
which chunk (`chunk_table` of `chunk_states` or `bruck_states`), the `ring` with its
messages, and `trees`. Of a Fabric: its nodes with their GPUs, switches and cards
(`cluster`), and the groups in the `domains` of a fast link. Of a server: what lies
between GPUs and cards (`server`), the rings through it (`channels`), and what passes
its one card (`through_cards`). Of a network of rails: its switches, and the ways
through them (`rails`). Of NCCL: what its `protocols` write. Of libraries: who makes
which of their `decisions`. Of a kernel that reads other GPUs' memory: which parts move
(`moved_parts`). Of what nobody recorded: who is busy and who waits (`timetable` of
`Span` and `Arrow`). Of a hang: who waits for whom (`waits_for`), and in which order to
ask (`questions`).

Of matrices: who has which block (`product` of `Matrix`), which verb is which
(`verb_matrices`), what is sent around divided layers (`copy_and_sum`, `layer_stack`),
which gradients a sum of ranks has (`losses_of_sum`), and what an all_to_all moves
(`rows_for_columns`). Of a merge: which item survives
(`merge_trees`), and how sums come to one scale (`rescaled`). Of attention with a causal
mask: who computes how much (`causal_work`). Of a mesh: its ranks and their groups
(`mesh`), which dimension of a large one lies on which link (`nested`), and where the
members of a `group` are. Of memory: the parts that ranks keep (`shards`,
`hybrid_shards`), bars against what a GPU has (`memory`), and the bytes that a GPU has
`allocated` in the course of a step. Of experts: where tokens
go (`expert_layer`), what each rank receives when (`arrivals`), and the ways between two
nodes (`routes`).

Of times: what they are by size (`message_time`, `cost_curves`), who is fastest where
(`winner_map`), and how far a prediction is off (`predicted_measured`), or those of many
machines (`ratios`), or published runs from their bounds (`gaps`). Of a step: its calls
in their order, layer by layer (`call_order`), which of them meet (`meeting_calls`), and
what they hide behind computing (`overlap`).
Of a GPU: what it computes by tokens (`roofline`), and what its `streams` did, as a
profile has it. Of several ways to train: a step of all ranks (`data_parallel_step`),
the parts of steps (`step_parts`, `step_groups`), both halves in turn and side by side
(`serial_and_overlapped`), what came out by seed (`by_seed`) and in which time
(`loss_by_time`), and the `paths` of weights that ranks train apart. Of anything
else: `lines`.

Every function gives a `Diagram`: a matplotlib Figure that shows itself once at the end
of a cell, with or without `%matplotlib inline`, and carries a caption and alternative
text; some of them go `side_by_side`. A rank has the same colour in all of them
(`rank_color`) and is labelled as well.

For a picture of your own: a figure with one axes (`diagram`) or without (`blank`) under
`mpl.rc_context(STYLE)`, the neutral `INK`, a look for each series (`series_look`), and
a key above the data (`key_above`).
"""

try:
    import matplotlib as _matplotlib  # noqa: F401
except ImportError as _error:
    raise ImportError(
        f"collectives_lab.plots needs matplotlib, which cannot be imported here "
        f"({_error}): `pip install matplotlib`, or collectives-lab[notebooks], which "
        "brings JupyterLab too",
        name="matplotlib",
    ) from None

from collectives_lab.plans.chunks import (
    ChunkState,
    Move,
    bruck_states,
    chunk_states,
    halving_doubling_steps,
    ring_steps,
)
from collectives_lab.plots.allocation_picture import allocated
from collectives_lab.plots.arrivals import arrivals
from collectives_lab.plots.attention_picture import causal_work
from collectives_lab.plots.buffers import before_after, ranks_in
from collectives_lab.plots.call_picture import call_order, meeting_calls
from collectives_lab.plots.card_picture import through_cards
from collectives_lab.plots.channel_picture import channels
from collectives_lab.plots.chunk_table import chunk_table
from collectives_lab.plots.cluster_picture import cluster
from collectives_lab.plots.computing import computing
from collectives_lab.plots.conjugate_picture import copy_and_sum, losses_of_sum
from collectives_lab.plots.cost_curves import cost_curves
from collectives_lab.plots.data_parallel_picture import data_parallel_step
from collectives_lab.plots.decision_picture import decisions
from collectives_lab.plots.domain_picture import domains
from collectives_lab.plots.exchange_picture import rows_for_columns
from collectives_lab.plots.expert_picture import expert_layer
from collectives_lab.plots.feedback_picture import feedback_loop
from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    blank,
    diagram,
    key_above,
    on_color,
    rank_color,
    side_by_side,
)
from collectives_lab.plots.gap_picture import gaps
from collectives_lab.plots.group_picture import group
from collectives_lab.plots.lines import lines
from collectives_lab.plots.matrices import Matrix, product
from collectives_lab.plots.memory_picture import hybrid_shards, memory, shards
from collectives_lab.plots.merge_picture import merge_trees
from collectives_lab.plots.mesh_picture import mesh
from collectives_lab.plots.message_picture import message_time
from collectives_lab.plots.moved_parts import moved_parts
from collectives_lab.plots.nested_picture import nested
from collectives_lab.plots.overlap_picture import overlap
from collectives_lab.plots.path_picture import paths
from collectives_lab.plots.predictions import predicted_measured
from collectives_lab.plots.protocol_picture import protocols
from collectives_lab.plots.question_picture import questions
from collectives_lab.plots.rail_picture import rails
from collectives_lab.plots.ratios import ratios
from collectives_lab.plots.ring_picture import ring, states_of_sums
from collectives_lab.plots.roofline import roofline
from collectives_lab.plots.route_picture import routes
from collectives_lab.plots.scale_picture import rescaled
from collectives_lab.plots.seeds_picture import by_seed, loss_by_time
from collectives_lab.plots.series import series_look
from collectives_lab.plots.server_picture import server
from collectives_lab.plots.spacetime import space_time
from collectives_lab.plots.stack_picture import Layer, layer_stack
from collectives_lab.plots.step_picture import (
    serial_and_overlapped,
    step_groups,
    step_parts,
)
from collectives_lab.plots.stream_picture import streams
from collectives_lab.plots.timetable import Arrow, Span, timetable
from collectives_lab.plots.traffic import bytes_by_rank, traffic_matrix
from collectives_lab.plots.tree_picture import trees
from collectives_lab.plots.verb_matrices import verb_matrices
from collectives_lab.plots.wait_picture import waits_for
from collectives_lab.plots.winner_map import winner_map

__all__ = [
    "Diagram",
    "rank_color",
    "side_by_side",
    "space_time",
    "computing",
    "traffic_matrix",
    "bytes_by_rank",
    "before_after",
    "ranks_in",
    "chunk_table",
    "chunk_states",
    "ring_steps",
    "halving_doubling_steps",
    "bruck_states",
    "ring",
    "states_of_sums",
    "trees",
    "expert_layer",
    "feedback_loop",
    "arrivals",
    "routes",
    "moved_parts",
    "data_parallel_step",
    "step_groups",
    "step_parts",
    "serial_and_overlapped",
    "by_seed",
    "paths",
    "timetable",
    "Span",
    "Arrow",
    "streams",
    "protocols",
    "questions",
    "message_time",
    "call_order",
    "meeting_calls",
    "memory",
    "overlap",
    "shards",
    "cluster",
    "domains",
    "server",
    "channels",
    "through_cards",
    "rails",
    "product",
    "verb_matrices",
    "copy_and_sum",
    "losses_of_sum",
    "layer_stack",
    "Layer",
    "rows_for_columns",
    "causal_work",
    "rescaled",
    "merge_trees",
    "Matrix",
    "mesh",
    "nested",
    "gaps",
    "group",
    "hybrid_shards",
    "allocated",
    "ChunkState",
    "Move",
    "cost_curves",
    "decisions",
    "waits_for",
    "winner_map",
    "predicted_measured",
    "ratios",
    "lines",
    "loss_by_time",
    "roofline",
    "STYLE",
    "INK",
    "diagram",
    "blank",
    "key_above",
    "on_color",
    "series_look",
]
