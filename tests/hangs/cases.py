"""What each job does, and what an answer about it must say.

The answers stand here before anything has been tried on them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A failure or a healthy job, and the answers that are right.

    Args:
        name: Of the program in `jobs/` or of the function in `generated`.
        what: What its ranks do.
        culprits: The ranks that are at fault.
        kinds: What may be said of the failure.
        also: Other culprits that are as right, where files cannot decide.
        provable: False where the files show what is likely and no more.
    """

    name: str
    what: str
    culprits: tuple[int, ...]
    kinds: tuple[str, ...]
    also: tuple[tuple[int, ...], ...] = ()
    provable: bool = True

    @property
    def is_healthy(self) -> bool:
        return self.kinds == ("healthy",)


HEALTHY = ((), ("healthy",))

REAL = [
    # In Gloo the rank that gets more than it expects aborts, without a dump.
    Case("shapes_last_batch", "rank 2 of 4 gathers half a batch, and aborts",
         (2,), ("shape",), provable=False),
    Case("shapes_vocabulary", "rank 1 of 4 reduces a row more: a neighbour aborts",
         (1,), ("shape",)),
    Case("dtypes_autocast", "rank 1 of 4 reduces bfloat16; torch compares and raises",
         (1,), ("dtype",)),
    Case("dtypes_labels", "rank 5 of a group of 4 gathers int64: a neighbour aborts",
         (5,), ("dtype",)),
    Case("order_logging", "rank 2 of 4 logs (reduce) before it saves (broadcast)",
         (2,), ("order",)),
    Case("order_uneven_data", "rank 1 of 3 is at the barrier, others in DDP's backward",
         (1,), ("order",)),
    Case("busy_loader", "the data loader of rank 2 of 4 waits; rings of 8 entries",
         (2,), ("busy",)),
    Case("busy_checkpoint", "rank 1 of 6 writes a checkpoint, others are at a barrier",
         (1,), ("busy",)),
    Case("exception_caught", "rank 1 of 4 prints an exception and sits there",
         (1,), ("exception",)),
    Case("exception_unused", "DDP of rank 1 of 4 raises; others in backward lose it",
         (1,), ("exception",)),
    Case("died_memory", "rank 2 of 5 is killed; torchrun says so",
         (2,), ("died",)),
    Case("died_extension", "rank 1 of 4 writes to address 0",
         (1,), ("died",)),
    Case("straggler_clock", "rank 1 of 4 is late at each call, and the job goes on",
         (1,), ("straggler",)),
    Case("circle_three_groups", "ranks 1, 2, 3 of 5 wait for each other in pairs",
         (1, 2, 3), ("deadlock",)),
    # That rank 2 did it the other way round before can be seen, too.
    Case("circle_rows_columns", "rank 1 in rows, rank 2 in columns, both in both",
         (1, 2), ("deadlock", "order"), also=((2,),)),
    # Gloo records no message. What rank 1 waits for is in its log, that rank 0 has sent
    # it in rank 0's numbers; that nobody holds it, only the program would prove.
    Case("forgotten_isend", "rank 0 of 3 drops an isend that rank 1 receives",
         (0,), ("forgotten_wait",), provable=False),
    Case("healthy_training", "3 ranks train with DDP to the end", *HEALTHY),
    Case("healthy_groups", "5 ranks, groups of unequal use, a harmless traceback",
         *HEALTHY),
    Case("healthy_running", "4 ranks dump a step apart; rings of 10 entries", *HEALTHY),
]  # fmt: skip

GENERATED = [
    Case("pipeline_checkpoint", "stage 2 of 4 writes a checkpoint; batches of messages",
         (2,), ("busy",)),
    Case("pipeline_circle", "stages 1 and 2 of 4 both send before they receive",
         (1, 2), ("deadlock",)),
    # Two disagree; only the messages before show which of them is the odd one.
    Case("pipeline_last_micro_batch", "stage 1 of 4 sends 4 rows, stage 2 wants 8",
         (1,), ("shape",), also=((1, 2),)),
    Case("sharded_precision", "rank 6 of 8 reduces bfloat16 within its shard",
         (6,), ("dtype",)),
    Case("coalesced_order", "rank 3 of 5 has its tensors in another order",
         (3,), ("order", "shape")),
    Case("straggler_gpu", "the GPU of rank 5 of 8 computes longer, the job goes on",
         (5,), ("straggler",)),
    Case("straggler_host", "rank 2 of 4 calls 0.4 s after the others, all is over",
         (2,), ("straggler",)),
    Case("slow_network_all", "the same call takes 160 ms instead of 4 on all 8 ranks",
         (), ("slow_network",), also=(tuple(range(8)),), provable=False),
    Case("slow_network_link", "messages from rank 2 to rank 3 take 300 ms, others 3",
         (), ("slow_network",), also=((2, 3),), provable=False),
    # NCCL RAS, or the counters of the network cards, would tell.
    Case("network_dead", "all 4 ranks stand in one call that does not end",
         (), ("unknown", "slow_network"), also=(tuple(range(4)),), provable=False),
    Case("forgotten_wait_streams", "rank 2 of 4 does not wait and takes its own GPU",
         (2,), ("forgotten_wait", "order")),
    Case("healthy_pipeline", "4 stages, batches whose messages stay \"scheduled\"",
         *HEALTHY),
    Case("healthy_sharded", "8 ranks in shards dump some steps apart; rings of 12",
         *HEALTHY),
]  # fmt: skip

ON_NCCL = [
    Case("missed_call", "the data loader of rank 2 of 3 waits",
         (2,), ("busy",)),
    Case("other_verb", "rank 0 of 2 gathers, rank 1 reduces",
         (0, 1), ("order",)),
    Case("died", "rank 1 of 3 is killed",
         (1,), ("died",)),
    Case("raised", "rank 1 of 3 raises and leaves",
         (1,), ("exception",)),
    Case("circle_groups", "rank 0 of 3 in rows, ranks 1 and 2 in columns; RAS and "
         "logs only",
         (), ("deadlock",)),
]  # fmt: skip
"""Jobs of `on_nccl/job.py`, by NCCL 2.28.9 and torch 2.11: dumps, logs, RAS."""


@dataclass(frozen=True)
class Job:
    """A program, how many ranks run it, and what they leave.

    Args:
        buffer: Entries of the flight recorder; 0 for torch's own 2000.
        detail: Whether torch compares what ranks call, and raises where it differs.
        patience: Seconds from the dumps to the end, in which time-outs may be logged.
        json: Ranks whose dump is JSON.
        launcher: Whether the launcher's log is kept.
        watched: Ranks that py-spy looks at, if it is there.
    """

    name: str
    world_size: int
    buffer: int = 0
    detail: bool = False
    patience: float = 0.0
    json: tuple[int, ...] = ()
    launcher: bool = False
    watched: tuple[int, ...] = ()


JOBS = [
    Job("shapes_last_batch", 4),
    Job("shapes_vocabulary", 4, json=(1,)),
    Job("dtypes_autocast", 4, detail=True),
    Job("dtypes_labels", 6, json=(0, 3)),
    Job("order_logging", 4, patience=4),
    Job("order_uneven_data", 3),
    Job("busy_loader", 4, buffer=8, json=(0,), watched=(2,)),
    Job("busy_checkpoint", 6, watched=(0, 1)),
    Job("exception_caught", 4, patience=4),
    Job("exception_unused", 4, json=(0,)),
    Job("died_memory", 5, launcher=True),
    Job("died_extension", 4),
    Job("straggler_clock", 4, buffer=30),
    Job("circle_three_groups", 5),
    Job("circle_rows_columns", 4, json=(3,)),
    Job("forgotten_isend", 3, patience=4, watched=(0, 1)),
    Job("healthy_training", 3),
    Job("healthy_groups", 5, json=(2,)),
    Job("healthy_running", 4, buffer=10),
]

JOBS_BY_NAME = {job.name: job for job in JOBS}
