"""Files as torch.profiler writes them, made anew: what was read in public ones.

Their forms are those of the test data of HolisticTraceAnalysis, and of torch 2.13 with
Gloo. Times are microseconds.
"""

import gzip
import json
from pathlib import Path

BASE = 4_458_676_422_880.181
"""Microseconds at which a file begins: large, as they are there."""

MAIN, AUTOGRAD, WORKER = 783658, 785244, 10843
COMPUTE, COMM = 7, 40


class File:
    """The events of one rank's profile."""

    def __init__(self, rank=0, world_size=2, **head):
        """Be the file of a rank; head: more keys, None to leave one out."""
        info = {"backend": "nccl", "rank": rank, "world_size": world_size}
        ranks = [*range(world_size)]
        info["pg_count"] = 1
        info["pg_config"] = [
            {"pg_name": "0", "pg_desc": "default_pg", "pg_size": world_size}
            | {"backend_config": "cuda:nccl", "ranks": ranks}
        ]
        self.head = {"schemaVersion": 1, "deviceProperties": []}
        self.head |= {"distributedInfo": info, "host_name": "vm"}
        self.head |= {"baseTimeNanoseconds": 1790857026000000000} | head
        self.events = []
        self.number = 0
        self.add("PyTorch Profiler (0)", "Trace", 0, 1e6, tid="PyTorch Profiler")

    def add(self, name, cat, ts, dur, tid=MAIN, **args):
        """Add an event with a duration."""
        event = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid}
        self.events.append(event | {"ts": BASE + ts, "dur": dur, "args": args})

    def op(self, name, ts, dur, tid=MAIN, **args):
        """Add an op of the CPU."""
        self.number += 1
        self.add(name, "cpu_op", ts, dur, tid, **{"External id": self.number} | args)

    def kernel(self, name, ts, dur, stream, launch, tid=MAIN, **args):
        """Add a kernel, and its launch at another time, with the number of both."""
        self.number += 1
        number = {"correlation": self.number}
        self.add("cudaLaunchKernel", "cuda_runtime", launch, 3, tid, cbid=211, **number)
        place = {"device": 0, "context": 1, "stream": stream} | number
        self.add(name, "kernel", ts, dur, stream, **place | args)

    def write(self, path):
        """Write the file, gzipped where its name says so; events in no order."""
        events = [{"ph": "M", "name": "process_name", "pid": 1, "ts": BASE, "tid": 0}]
        events += self.events[::-1]
        events.append({"ph": "i", "s": "g", "name": "Record Window End", "ts": BASE})
        known = {k: v for k, v in self.head.items() if v is not None}
        text = json.dumps(
            known | {"traceEvents": events, "traceName": str(path)}, indent=1
        )
        is_gzipped = str(path).endswith(".gz")
        data = text.encode()
        Path(path).write_bytes(gzip.compress(data) if is_gzipped else data)
        return path


def parameters(name, given, got, dtype="Float", group="0", ranks=(0, 1), **more):
    """What `record_param_comms` says of a call of NCCL since torch 2.2."""
    return {
        "Collective name": name,
        "dtype": dtype,
        "In msg nelems": given,
        "Out msg nelems": got,
        "In split size": "[]",
        "Out split size": "[]",
        "Global rank start": ranks[0],
        "Global rank stride": 1,
        "Group size": len(ranks),
        "Process Group Name": group,
        "Process Group Ranks": str([*ranks]),
    } | more


def nccl(file, ts, parameters, kernel=None, c10d="c10d::allreduce_", tid=MAIN):
    """Add a call of NCCL as torch 2.2 to 2.13 record it; kernel: (begin, duration)."""
    file.op(c10d, ts, 20, tid)
    file.op("record_param_comms", ts + 1, 18, tid, **parameters)
    note = f"nccl:{parameters['Collective name']}"
    file.add(note, "user_annotation", ts + 2, 16, tid)
    if kernel:
        name = (
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        )
        file.kernel(name, *kernel, COMM, ts + 5, tid, **parameters)


def gloo(file, ts, op, dims, types, values=(), ended=None, note=None, tid=MAIN):
    """Add a call of Gloo as torch 2.13 records it, and its annotation, if it ends."""
    shapes = {"Input Dims": dims, "Input type": types, "Concrete Inputs": [*values]}
    file.op(f"c10d::{op}", ts, 10, tid, **shapes)
    if ended is not None:
        name, shape, dtype = note
        args = {"Input Dims": [shape], "Input type": [dtype]} if dtype else {}
        file.add(
            f"gloo:{name}", "user_annotation", ts + 5, ended - ts - 5, WORKER, **args
        )
