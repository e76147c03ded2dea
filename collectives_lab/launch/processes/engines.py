"""The engines of an ipyparallel cluster, before ranks start there.

Here `connected` finds them, `find` says where they are and whether they can have ranks
of ours, and `evaluate` and `answers` run a line in each, which is all that is asked of
ipyparallel.
"""

from __future__ import annotations

import contextlib
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from collectives_lab.basics.errors import LaunchError
from collectives_lab.launch.processes.handles import START_DEADLINE

COMING = 20.0
"""Seconds in which the engines of a Cluster that has just begun register."""

Places = list[dict[str, Any]]
"""The description of each engine (`engine_agent.describe`); `id` is its number."""

_DESCRIBE = """
try:
    from collectives_lab.launch.processes import engine_agent
    description = engine_agent.describe()
except ModuleNotFoundError as error:
    import socket
    missing = error.name.partition(".")[0]
    description = {"host": socket.gethostname(), "missing": missing}
"""


@contextlib.contextmanager
def connected(
    cluster: Any, count: int | None = None
) -> Iterator[tuple[Any, list[int]]]:
    """Yield a client of a cluster and the numbers of its engines, for a moment.

    cluster: an ipyparallel Client, Cluster or DirectView, or the name of a profile.
    wanted: how many engines are worth waiting for, of a Cluster that has just begun;
    None: all that it was asked to have.
    """
    try:
        import ipyparallel as ipp  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise LaunchError(
            f"cluster={cluster!r} needs ipyparallel, and {error.name} is not here: "
            "pip install ipyparallel, in this environment and in that of the engines"
        ) from None
    if isinstance(cluster, ipp.DirectView):
        targets = cluster.targets
        ids = [targets] if isinstance(targets, int) else targets
        yield cluster.client, list(cluster.client.ids if ids == "all" else ids)
        return
    if isinstance(cluster, ipp.Client):
        yield cluster, list(cluster.ids)
        return
    try:
        client = _client_of(cluster, count, ipp)
    except LaunchError:
        raise
    except Exception as error:
        raise LaunchError(
            f"cluster={cluster!r}: nobody answers there ({error}); is it running? "
            "`ipcluster start --profile NAME` starts one"
        ) from error
    try:
        yield client, list(client.ids)
    finally:
        client.close()


def _client_of(cluster: Any, count: int | None, ipp: Any) -> Any:
    """Return a client of our own."""
    if isinstance(cluster, str):
        return ipp.Client(profile=cluster, timeout=10)
    if not isinstance(cluster, ipp.Cluster):
        raise LaunchError(
            f"cluster={cluster!r}; it is an ipyparallel Client, Cluster or DirectView, "
            "or the name of a profile"
        )
    if cluster.controller is None:
        raise LaunchError(f"{cluster} is not running; start_cluster_sync() starts it")
    client = cluster.connect_client_sync(timeout=10)
    until = time.monotonic() + COMING
    while len(client.ids) < (count or cluster.n or 1) and time.monotonic() < until:
        time.sleep(0.05)  # its engines are still coming
    return client


# -- before ranks start ----------------------------------------------------------------


def need(world_size: int, ids: Sequence[int]) -> None:
    """Raise LaunchError if a cluster has too few engines."""
    if len(ids) < world_size:
        have = f"{len(ids) or 'no'} engine{'s' * (len(ids) != 1)}"
        raise LaunchError(
            f"world_size={world_size}, and the cluster has {have}: each rank needs one"
        )


def evaluate(client: Any, ids: Sequence[int], expressions: Sequence[str]) -> list[Any]:
    """Have each engine evaluate an expression, all at once; does not wait.

    Raises LaunchError if the client has been closed.
    """
    try:
        return [
            client[number].apply_async(eval, expression)
            for number, expression in zip(ids, expressions, strict=True)
        ]
    except RuntimeError as error:
        raise LaunchError(
            f"the engines cannot be asked ({error}); make another client, as with "
            "ipyparallel.Client()"
        ) from error


def answers(ids: Sequence[int], evaluations: Sequence[Any]) -> list[Any]:
    """Return what engines answer; LaunchError if one cannot or does not."""
    until, answers = time.monotonic() + START_DEADLINE, []
    for number, one in zip(ids, evaluations, strict=True):
        one.wait(max(0.0, until - time.monotonic()))
        if not one.ready():
            raise LaunchError(
                f"engine {number} has not answered in {START_DEADLINE:g} s: it is busy "
                "with something else, or gone; see client.queue_status()"
            )
        try:
            answers.append(one.get())
        except Exception as error:
            raise LaunchError(f"engine {number} has no rank for us: {error}") from error
    return answers


def find(client: Any, ids: Sequence[int]) -> Places:
    """Ask engines where they are; LaunchError if they cannot have ranks of ours."""
    code = f"(lambda names: exec({_DESCRIBE!r}, names) or names['description'])({{}})"
    places = answers(ids, evaluate(client, ids, [code] * len(ids)))
    for number, one in zip(ids, places, strict=True):
        one["id"] = number
        name = f"engine {number} on {one['host']}"
        if "missing" in one:
            raise LaunchError(
                f"{name} has no {one['missing']}: install what is installed here in "
                "the environment in which the engines run"
            )
        for what, here in (
            ("Python", platform.python_version()),
            ("torch", torch.__version__),
            ("collectives_lab", sys.modules["collectives_lab"].__version__),
        ):
            there = one.get(what.lower(), "(older)")
            if _release(what, there) != _release(what, here):
                raise LaunchError(
                    f"{name} has {what} {there}, and here is {here}: ranks and "
                    "notebook need the same, or they do not understand each other"
                )
    return places


def _release(what: str, version: str) -> str:
    """Return what must be the same of a version: 3.11 of 3.11.2, 2.13.0 of
    2.13.0+cpu.
    """
    if what == "Python":
        return ".".join(version.split(".")[:2])
    return version.partition("+")[0]


def hosts(places: Places) -> dict[str, list[int]]:
    """Return the ranks on each host."""
    by_host: dict[str, list[int]] = {}
    for rank, one in enumerate(places):
        by_host.setdefault(one["network"], []).append(rank)
    return by_host
