"""Jobs that hang under NCCL, for a machine with a GPU: `python job.py FOLDER`.

All ranks share one GPU, as if each were on a host of its own, and talk by sockets. All
jobs run at once, for less than a minute, and each leaves in a folder of its name what
such a job does: the logs of its ranks, the dumps of those whose watchdog could still
write one, and two answers of RAS as text and one as JSON. The folders beside this file
are of NCCL 2.28.9 and torch 2.11 on an H200.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

TIMEOUT = 9
"""Seconds after which a rank's watchdog gives a call up, and dumps."""


def missed_call(rank, x, rows, columns):
    for step in range(3):
        if rank == 2 and step == 2:
            load_data()
        dist.all_reduce(x)
        torch.cuda.synchronize()


def load_data():
    time.sleep(100)


def other_verb(rank, x, rows, columns):
    if rank == 0:
        dist.all_gather_into_tensor(torch.empty(2 * len(x), device="cuda"), x)
    else:
        dist.all_reduce(x)


def circle_groups(rank, x, rows, columns):
    for group in (rows, columns) if rank == 0 else (columns, rows):
        dist.all_reduce(x, group=group)
        torch.cuda.synchronize()


def circle_recv(rank, x, rows, columns):
    dist.recv(torch.empty_like(x), 1 - rank)
    torch.cuda.synchronize()
    dist.send(x, 1 - rank)


def died(rank, x, rows, columns):
    for step in range(3):
        if rank == 1 and step == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(x)
        torch.cuda.synchronize()


def raised(rank, x, rows, columns):
    for step in range(3):
        if rank == 1 and step == 1:
            raise ValueError("a sample without a label")
        dist.all_reduce(x)
        torch.cuda.synchronize()


WORLD_SIZES = {
    missed_call: 3,
    other_verb: 2,
    circle_groups: 3,
    circle_recv: 2,
    died: 3,
    raised: 3,
}


def as_rank(job, folder):
    """Be one rank: all groups are used once before the job begins."""
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", timeout=timedelta(seconds=TIMEOUT))
    x = torch.ones(1000, device="cuda")
    rows, columns = (dist.new_group() for _ in range(2))
    for group in (None, rows, columns):
        dist.all_reduce(x, group=group)
    torch.cuda.synchronize()
    (folder / f"ready{rank}").touch()
    job(rank, x, rows, columns)
    torch.cuda.synchronize()
    dist.destroy_process_group()


def run(job, folder, port):
    """Run a job until its watchdogs have spoken, and ask RAS meanwhile."""
    folder.mkdir(parents=True)
    world_size, ranks = WORLD_SIZES[job], []
    env = os.environ | {
        "WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_IB_DISABLE": "1",
        "NCCL_RAS_ADDR": f"localhost:{port + 1}",
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_ENABLE_TIMING": "1",
        "TORCH_FR_DUMP_TEMP_FILE": str(folder / "trace_rank_"),
    }
    command = [sys.executable, __file__, str(folder.parent), job.__name__]
    for rank in range(world_size):
        own = {"RANK": str(rank), "NCCL_HOSTID": f"host-{rank}"}
        with open(folder / f"rank{rank}.log", "w") as log:
            ranks.append(
                subprocess.Popen(command, env=env | own, stdout=log, stderr=log)
            )
    try:
        until(lambda: len(list(folder.glob("ready*"))) == world_size, 40)
        for form, name in (("text", "txt"), ("text", "txt"), ("json", "json")):
            time.sleep(2)
            with open(folder / f"ras.{name}", "a") as report:
                report.write(asked(port + 1, form))
        until(lambda: all(r.poll() is not None for r in ranks), TIMEOUT + 14)
    finally:
        for process in ranks:
            process.kill()
        for process in ranks:
            process.wait()
    for file in folder.glob("ready*"):
        file.unlink()


def until(holds, seconds):
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.1)


def asked(port, form):
    """What RAS answers, as `ncclras -v` asks it."""
    with socket.create_connection(("localhost", port), 3) as connection:
        connection.settimeout(10)
        talk = connection.makefile("rw")
        asks = ["CLIENT PROTOCOL 2", "TIMEOUT 4"]
        for line in [*asks, "SET FORMAT json"] if form == "json" else asks:
            talk.write(f"{line}\n")
            talk.flush()
            talk.readline()
        talk.write("VERBOSE STATUS\n")
        talk.flush()
        return talk.read()


def main(folder, name=""):
    jobs = {job.__name__: job for job in WORLD_SIZES}
    if name:
        as_rank(jobs[name], folder / name)
        return
    with ThreadPoolExecutor(len(jobs)) as pool:
        folders, ports = [folder / name for name in jobs], range(29600, 30000, 10)
        list(pool.map(run, jobs.values(), folders, ports))  # raises what a job raised


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
