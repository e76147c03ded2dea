"""The battery of systems that train: each equals one process, and sends its formula."""

from functools import cache

import pytest
import test_parallel_async_local
import test_parallel_compression
import test_parallel_data
import test_parallel_experts
import test_parallel_local
import test_parallel_mesh
import test_parallel_pipeline
import test_parallel_server
import test_parallel_tensor
import test_parallel_zero
from conftest import Standing
from parallel_battery import System

import collectives_lab as lab

SYSTEMS: dict[str, System] = (
    test_parallel_data.SYSTEMS
    | test_parallel_zero.SYSTEMS
    | test_parallel_tensor.SYSTEMS
    | test_parallel_mesh.SYSTEMS
    | test_parallel_pipeline.SYSTEMS
    | test_parallel_experts.SYSTEMS
    | test_parallel_server.SYSTEMS
    | test_parallel_compression.SYSTEMS
    | test_parallel_local.SYSTEMS
    | test_parallel_async_local.SYSTEMS
)


def row(name: str, what: object) -> object:
    """Slow are the systems that say so, and worlds beyond five ranks."""
    slow = SYSTEMS[name].slow or (isinstance(what, int) and what > 5)
    marks = [pytest.mark.slow] if slow else []
    return pytest.param(name, what, marks=marks, id=f"{name}-{what}")


@cache
def trained(standing: Standing, name: str, world_size: int) -> lab.Run:
    return standing(world_size).run(SYSTEMS[name].train, timeout=60)


@pytest.mark.parametrize(
    "name, world_size", [row(n, p) for n, s in SYSTEMS.items() for p in s.world_sizes]
)
def test_ranks_train_as_one_process(
    name: str, world_size: int, standing: Standing
) -> None:
    """Losses and parameters to rounding, and all ranks' parameters in every bit."""
    assert SYSTEMS[name].agrees(trained(standing, name, world_size).results)


@pytest.mark.parametrize(
    "name, world_size",
    [row(n, p) for n, s in SYSTEMS.items() if s.sent for p in s.world_sizes],
)
def test_bytes_are_predicted(name: str, world_size: int, standing: Standing) -> None:
    """What each rank sends, as recorded, is what the formula says."""
    sent = trained(standing, name, world_size).trace.bytes_sent()
    assert sent == pytest.approx(SYSTEMS[name].sent(world_size), rel=1e-12)


@pytest.mark.parametrize(
    "name, wrong", [row(n, wrong) for n, s in SYSTEMS.items() for wrong in s.wrong]
)
def test_a_wrong_training_is_found(name: str, wrong: str, standing: Standing) -> None:
    """The test of equality fails where it should."""
    system = SYSTEMS[name]
    run = standing(system.wrong_on).run(system.wrong[wrong], timeout=60)
    assert not system.agrees(run.results)
