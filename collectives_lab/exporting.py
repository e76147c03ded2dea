"""A function of a notebook as a script for torchrun and Slurm.

`export(fn, "script.py")` writes what `run(fn)` would do as a plain script: the source
of `fn` and of what it needs, a process group from the environment, a recording and the
results by rank. The script is the reader's from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from collectives_lab.sources import Sources, literal

SCRIPT = '''\
"""`{name}` on the ranks of torchrun or of Slurm, recorded.

One host, 4 ranks:

    torchrun --nproc-per-node 4 {script}

Two hosts with 4 ranks each; on both of them, R = 0 on FIRST and R = 1 on the other:

    torchrun --nnodes 2 --nproc-per-node 4 --node-rank R --master-addr FIRST {script}

The same by Slurm, at once or as a job that waits for its turn:

    srun --nodes 2 --ntasks-per-node 4 python {script}
    sbatch --nodes 2 --ntasks-per-node 4 --wrap "srun python {script}"

Every rank writes its part of the recording to traces/{stem}; where hosts do not share
this folder, copy the parts together. `lab.Trace.load("traces/{stem}")` reads them. On
hosts with several networks, GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME say which one.
"""

from __future__ import annotations

{imports}

TIMEOUT = datetime.timedelta(seconds={seconds:g})
"""How long a rank waits for the others in one call."""

SLURM = ["PROCID", "LOCALID", "STEP_NUM_TASKS", "STEP_NODELIST", "JOB_ID", "STEP_ID"]
"""What srun tells its tasks, behind SLURM_."""


{source}


def read_slurm() -> None:
    """Say in torchrun's names what srun has told this task."""
    job = {{name: os.environ[f"SLURM_{{name}}"] for name in SLURM}}
    expand = ["scontrol", "show", "hostnames", job["STEP_NODELIST"]]
    hosts = subprocess.check_output(expand, text=True).split()
    known = {{
        "RANK": job["PROCID"],
        "WORLD_SIZE": job["STEP_NUM_TASKS"],
        "LOCAL_RANK": job["LOCALID"],
        "LOCAL_WORLD_SIZE": str(-(-int(job["STEP_NUM_TASKS"]) // len(hosts))),
        "MASTER_ADDR": hosts[0],
        "MASTER_PORT": str(20000 + (int(job["JOB_ID"]) + int(job["STEP_ID"])) % 10000),
    }}
    os.environ.update(known)


def join() -> None:
    """Make the group: NCCL if there is a GPU for each rank of this host, else Gloo."""
    if "RANK" not in os.environ:
        read_slurm()
    on_gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=TIMEOUT)


def main() -> None:
    """Call it on every rank; rank 0 prints what each returns."""
    join()
    with lab.record("traces/{stem}"):
        result = {call}
    rank, world_size = dist.get_rank(), dist.get_world_size()
    results = [None] * world_size if rank == 0 else None
    dist.gather_object(result, results)
    for number, value in enumerate(results or []):
        print(f"rank {{number}}: {{value}}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    if not os.environ.keys() & {{"RANK", "SLURM_PROCID"}}:
        print("this runs on ranks: its first lines say how it starts", file=sys.stderr)
        sys.exit(2)
    main()
'''


def export(
    fn: Callable[..., Any],
    path: str | Path,
    args: Sequence[Any] = (),
    timeout: float = 300.0,
) -> Path:
    """Write a script that runs `fn(*args)` on the ranks of torchrun or of Slurm.

    fn: a function as for `run`, from a cell or a file. What it uses comes along:
    functions and classes of the same notebook or file by their source, others and
    modules by import, numbers, text and collections of them by value. timeout: seconds
    that a rank waits for the others in one call. The script's first lines say how it is
    started; it records into `traces/NAME` for `Trace.load`, and runs on NCCL if there
    is a GPU for each rank of a host, else on Gloo. Returns the path. Raises LabError,
    and writes nothing, for what cannot be written as source.
    """
    path = Path(path)
    values = [literal(f"args[{i}]", value) for i, value in enumerate(args)]
    sources = Sources(fn)
    text = SCRIPT.format(
        name=fn.__name__,
        script=path.name,
        stem=path.stem,
        seconds=timeout,
        imports=sources.imports(),
        source=sources.text(),
        call=f"{fn.__name__}({', '.join(values)})",
    )
    path.write_text(text)
    return path
