"""A function of a notebook as a script for torchrun and Slurm.

`export(fn, "script.py")` writes what `run(fn)` would do as a plain script: the source
of `fn` and of what it needs, a process group from the environment, a recording and the
results by rank. The script is the reader's from then on.
"""

from __future__ import annotations

import inspect
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from collectives_lab.launch.errors import LabError
from collectives_lab.sources import Sources

SCRIPT = '''\
"""`{name}` on the ranks of torchrun or of Slurm, recorded.

One host, 4 ranks:

    torchrun --nproc-per-node 4 {script}

Two hosts with 4 ranks each; on both of them, R = 0 on FIRST and R = 1 on the other:

    torchrun --nnodes 2 --nproc-per-node 4 --node-rank R --master-addr FIRST {script}

The same by Slurm, at once or as a job that waits for its turn:

    srun --nodes 2 --ntasks-per-node 4 python {script}
    sbatch --nodes 2 --ntasks-per-node 4 --wrap {wrapped}

Every rank writes its part of the recording to traces/{stem}; where hosts do not share
this folder, copy the parts together. `lab.Trace.load("traces/{stem}")` reads them. On
hosts with several networks, GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME say which one,
and under Slurm MASTER_ADDR and MASTER_PORT where the ranks meet.
"""

from __future__ import annotations

{imports}

TIMEOUT = datetime.timedelta(seconds={seconds:.12g})
"""How long a rank waits for the others in one call."""

SLURM = ["PROCID", "LOCALID", "STEP_NUM_TASKS", "STEP_NODELIST", "JOB_ID", "STEP_ID"]
"""What srun tells its tasks, behind SLURM_."""


{source}


def read_slurm() -> None:
    """Say in torchrun's names what srun has told this task."""
    job = {{name: os.environ[f"SLURM_{{name}}"] for name in SLURM}}
    expand = ["scontrol", "show", "hostnames", job["STEP_NODELIST"]]
    hosts = subprocess.check_output(expand, text=True).split()
    port = str(20000 + (int(job["JOB_ID"]) + int(job["STEP_ID"])) % 10000)
    known = {{
        "RANK": job["PROCID"],
        "WORLD_SIZE": job["STEP_NUM_TASKS"],
        "LOCAL_RANK": job["LOCALID"],
        "LOCAL_WORLD_SIZE": str(-(-int(job["STEP_NUM_TASKS"]) // len(hosts))),
        "MASTER_ADDR": os.environ.get("MASTER_ADDR", hosts[0]),
        "MASTER_PORT": os.environ.get("MASTER_PORT", port),
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
    if not os.environ.keys() & {{"RANK", "SLURM_STEP_ID"}}:  # a batch has no step
        print("this runs on ranks: its first lines say how it starts", file=sys.stderr)
        sys.exit(2)
    main()
'''

NO_RESULT = (
    inspect.isgeneratorfunction,
    inspect.iscoroutinefunction,
    inspect.isasyncgenfunction,
)
"""What a function may be that does nothing when it is called."""


def export(
    fn: Callable[..., Any],
    path: str | Path,
    args: Sequence[Any] = (),
    timeout: float = 300.0,
) -> Path:
    """Write a script that runs `fn(*args)` on the ranks of torchrun or of Slurm.

    fn: a function as for `run`, from a cell or a file. What it uses comes along:
    functions and classes of the same notebook or file by their source, others and
    modules by import; by value numbers, text, collections, and what is plainly made
    again, as a device, a dataclass or a logger, but no tensors. timeout: seconds
    that a rank waits for the others in one call. The script's first lines say how it is
    started; it records into `traces/NAME` for `Trace.load`, and runs on NCCL if there
    is a GPU for each rank of a host, else on Gloo. Returns the path. Raises LabError,
    and writes nothing, for what cannot be written as source or called so, and for a
    path where code of this program is or that hides a module.
    """
    path, script = Path(path), shlex.quote(Path(path).name)
    sources = Sources(fn)
    call = _call(fn, args, sources)
    sources.try_out()
    _check_timeout(timeout)
    _check_path(path, fn, sources)
    text = SCRIPT.format(
        name=fn.__name__,
        script=_quoted(script),
        wrapped=_quoted(shlex.quote(f"srun python {script}")),
        stem=_quoted(path.stem),
        seconds=timeout,
        imports=sources.imports(),
        source=sources.text(),
        call=call,
    )
    path.write_text(text, encoding="utf-8")
    return path


def _quoted(text: str) -> str:
    """A text as it stands between double quotes."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _call(fn: Callable[..., Any], args: Sequence[Any], sources: Sources) -> str:
    """The call as source; LabError where it would fail on every rank."""
    if any(is_such(fn) for is_such in NO_RESULT):
        raise LabError(
            f"{fn.__name__} is a generator or a coroutine: a call runs nothing of it; "
            "export a plain function that uses it up"
        )
    if not isinstance(args, Sequence) or isinstance(args, (str, bytes)):
        raise LabError(f"args={args!r}; it is the arguments in a list, as args=[3]")
    values = [sources.literal(f"args[{i}]", value) for i, value in enumerate(args)]
    call = f"{fn.__name__}({', '.join(values)})"
    signature = inspect.signature(fn, follow_wrapped=False)
    try:
        signature.bind(*args)
    except TypeError as error:
        raise LabError(
            f"{call} does not fit `def {fn.__name__}{signature}`: {error}"
        ) from None
    return call


def _check_timeout(timeout: float) -> None:
    number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if not number or not 0 < timeout < 10**8:
        raise LabError(
            f"timeout={timeout!r}; it is the seconds that a rank waits for the others "
            "in one call, more than 0"
        )


def _check_path(path: Path, fn: Callable[..., Any], sources: Sources) -> None:
    """Refuse a script in the place of what is loaded here, or of a module."""
    loaded = dict(sys.modules)
    # Not by getattr, at which a lazy module would begin to import.
    names = [getattr(module, "__dict__", {}) for module in loaded.values()]
    files = [known["__file__"] for known in names if known.get("__file__")]
    files += [inspect.getfile(inspect.unwrap(fn))]
    # The name first: to resolve thousands of paths takes its time.
    same = [Path(file) for file in files if Path(file).name == path.name]
    if path.resolve() in [file.resolve() for file in same]:
        raise LabError(
            f"{path} would be overwritten, and this code is from it; give the script "
            "a name of its own"
        )
    roots = {name.split(".")[0] for name in loaded} - {sources.home}
    modules = roots | sys.stdlib_module_names | sources.modules()
    if path.suffix == ".py" and path.stem in modules:
        raise LabError(
            f"a script called {path.name} hides the module {path.stem} from all that "
            "imports it; give it another name"
        )
