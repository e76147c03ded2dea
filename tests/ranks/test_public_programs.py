"""Programs of public libraries from PyPI run on ranks as they do without."""

import json
import os
import subprocess
import sys
from pathlib import Path

import public_programs
import pytest

import collectives_lab as lab

pytestmark = pytest.mark.slow

PACKAGES = {
    "accelerate": ("accelerate", "huggingface_hub", "safetensors"),
    "fabric": ("lightning-fabric", "lightning-utilities"),
}
DEADLINE = 240


@pytest.fixture(scope="module", params=PACKAGES)
def program(request, tmp_path_factory):
    """A program's name, when its packages are there; none of them brings a torch."""
    folder = str(tmp_path_factory.mktemp("packages"))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
    done = subprocess.run(
        [*pip, "--target", folder, *PACKAGES[request.param]],
        capture_output=True,
        timeout=DEADLINE,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"its packages are not to be had: {done.stderr[-200:]}")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", folder, prepend=os.pathsep)
        # Lightning asks mpi4py, and Open MPI leaves its shared memory lying about.
        patch.setenv("OMPI_MCA_btl", "tcp,self")
        yield request.param


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_a_public_program_trains_as_without_us(program, world_size) -> None:
    """The same losses as in plain processes, in a run and again on standing ranks."""
    script = str(Path(public_programs.__file__))
    plain = subprocess.run(
        [sys.executable, script, program, str(world_size)],
        capture_output=True,
        timeout=DEADLINE,
        text=True,
    )
    assert plain.returncode == 0, plain.stderr[-2000:]
    right = json.loads(plain.stdout.splitlines()[-1])
    assert len(right) == 12 / world_size and right[-1] != right[0]
    train = public_programs.PROGRAMS[program]
    run = lab.run(train, world_size, timeout=DEADLINE)
    assert run.results[0] == right
    assert "all_reduce" in run.trace.ops()
    with lab.Ranks(world_size, timeout=DEADLINE) as ranks:
        for _ in range(2):
            assert ranks.run(train).results[0] == right
