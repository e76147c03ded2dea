"""A Slurm cluster of hosts in namespaces, for tests.

    with hosts(2) as some, slurm(some, folder) as cluster:
        cluster.run(0, "srun", "-N2", "-n4", "hostname")

The controller runs on the first host, a daemon on each, all with files in one folder;
they end with their hosts. Needs Debian's slurmctld, slurmd, slurm-client and munge, and
root.
"""

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hosts import DEADLINE, Host

PROGRAMS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "srun": "slurm-client",
    "munged": "munge",
}
"""What runs, and the package that has it."""

CORES = 4
"""That each host says it has, whatever the machine has."""

CONFIG = """
ClusterName=lab
SlurmctldHost=host0
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/spool_%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName={names} CPUs={cores}
PartitionName=all Nodes=ALL Default=YES
"""


class Cluster:
    """Hosts with Slurm on them."""

    def __init__(self, hosts: Sequence[Host], folder: Path):
        self.hosts, self.folder = hosts, folder
        config = folder / "slurm.conf"
        names = ",".join(host.name for host in hosts)
        config.write_text(CONFIG.format(folder=folder, names=names, cores=CORES))
        self.conf = {"SLURM_CONF": str(config)}
        self._log = (folder / "slurm.log").open("w")
        self._start(hosts[0], "munged", "--foreground", "--force", *_munge(folder))
        self._until(lambda: (folder / "munge.socket").exists())
        self._start(hosts[0], "slurmctld", "-D")
        for host in hosts:
            (folder / f"spool_{host.name}").mkdir()
            self._start(host, "slurmd", "-D", "-N", host.name)
        self._until(lambda: self.run(0, "sinfo", "-h", "-o", "%t %D") == self.ready)

    @property
    def ready(self) -> str:
        return f"idle {len(self.hosts)}\n"

    def _start(self, host: Host, *command: str) -> None:
        host.popen(
            command, env=os.environ | self.conf, stdout=self._log, stderr=self._log
        )

    def _until(self, true: Any) -> None:
        deadline = time.monotonic() + 3 * DEADLINE
        while not true():
            if time.monotonic() > deadline:
                log = (self.folder / "slurm.log").read_text()
                raise AssertionError(f"Slurm does not come up:\n{log}")
            time.sleep(0.2)

    def run(self, host: int, *command: str, **options: Any) -> str:
        """What a command prints on a host, once it has ended."""
        options = {
            "env": os.environ | self.conf,
            "text": True,
            "stdout": subprocess.PIPE,
        } | options
        process = self.hosts[host].popen(command, stderr=subprocess.STDOUT, **options)
        return process.communicate(timeout=100)[0]

    def close(self) -> None:
        self._log.close()


def _munge(folder: Path) -> list[str]:
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(64))
    key.chmod(0o400)
    files = {"key": key.name, "socket": "munge.socket", "pid": "munge.pid"}
    files |= {"log": "munge.log", "seed": "munge.seed"}
    names = {kind: "socket" if kind == "socket" else f"{kind}-file" for kind in files}
    return [f"--{names[kind]}={folder / file}" for kind, file in files.items()]


@contextmanager
def slurm(hosts: Sequence[Host], folder: Path) -> Iterator[Cluster]:
    """Slurm on these hosts, with its files in `folder`, for as long as the block lasts.

    Skips the test where there can be none, with the reason.
    """
    if missing := [PROGRAMS[name] for name in PROGRAMS if shutil.which(name) is None]:
        pytest.skip(
            f"no Slurm: {', '.join(missing)} is not installed (apt-get install)"
        )
    if os.geteuid():
        pytest.skip("no Slurm: its daemons want root, and these tests have none")
    cluster = Cluster(hosts, folder)
    try:
        yield cluster
    finally:
        cluster.close()
