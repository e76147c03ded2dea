"""A launch on the engines of a cluster: checked before anything starts there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from collectives_lab.basics.errors import LaunchError
from collectives_lab.launch.group import Group
from collectives_lab.launch.launch_spec import (
    LaunchSpec,
    checked_env,
    checked_size,
    checked_timeout,
    refuse_on_a_rank,
)
from collectives_lab.launch.processes import engines
from collectives_lab.launch.processes.engine_ranks import EngineRanks
from collectives_lab.launch.processes.engines import Places


@dataclass(frozen=True)
class ClusterSpec(LaunchSpec):
    """A launch on a cluster that has been checked; `cluster` as `Ranks` takes it."""

    cluster: Any = None

    @classmethod
    def on(
        cls, cluster: Any, world_size: Any, backend: str, timeout: Any, env: Any
    ) -> ClusterSpec:
        """Check what is asked for, on the engines too; LaunchError says what is wrong.

        world_size: None for as many ranks as there are engines.
        """
        refuse_on_a_rank()
        seconds, more = checked_timeout(timeout), checked_env(env)
        size = None if world_size is None else checked_size(world_size)
        with engines.connected(cluster, size) as (client, ids):
            size = size or max(1, len(ids))
            engines.need(size, ids)
            places = engines.find(client, ids[:size])
        chosen, reason = _choose(backend, places)
        return cls(size, chosen, reason, seconds, more, "cluster", cluster=cluster)

    def start(self, parts: Iterable[Any] = ()) -> Group:
        """Start the ranks beside their engines, where nothing imports for them."""
        ranks = EngineRanks(self.cluster, self.world_size)
        return Group(ranks, self.backend, self.env)


def count_engines(cluster: Any) -> int:
    """Return how many engines a cluster has; LaunchError if it has none, or is none."""
    with engines.connected(cluster) as (_, ids):
        engines.need(1, ids)
        return len(ids)


def _choose(backend: str, places: Places) -> tuple[str, str]:
    """Return the backend to use, and why, with where the ranks are."""
    lacking = _without_gpu(places)
    where = _in_words(places)
    if backend == "auto":
        why = f"{lacking} no GPU of its own" if lacking else "a GPU for each rank"
        if not any(engine["gpus"] for engine in places):
            why = "no GPU there"
        return "gloo" if lacking else "nccl", f"{where}; {why}"
    if backend == "nccl" and lacking:
        raise LaunchError(
            f'backend="nccl" wants a GPU for each rank, and {lacking} none; '
            'backend="gloo" runs on the CPU'
        )
    if backend not in ("gloo", "nccl"):
        raise LaunchError(f'backend={backend!r}; it is "auto", "gloo" or "nccl"')
    return backend, f"{where}; asked for"


def _without_gpu(places: Places) -> str:
    """Return which engine has no GPU of its own, in words; empty if each has one.

    Engines of one host that see the same GPUs share them.
    """
    for ranks in engines.hosts(places).values():
        for engine in (places[rank] for rank in ranks):
            sharing = [r for r in ranks if places[r]["visible"] == engine["visible"]]
            if engine["gpus"] < len(sharing):
                return f"engine {engine['id']} on {engine['host']} has"
    return ""


def _in_words(places: Places) -> str:
    """Say where the ranks are: `4 engines on a and b`."""
    names = list(dict.fromkeys(is_one["host"] for is_one in places))
    count = len(engines.hosts(places))
    engine = "1 engine" if len(places) == 1 else f"{len(places)} engines"
    if len(names) < count:  # in containers they may have the same name
        return f"{engine} on {count} hosts"
    names = names if count < 4 else [*names[:2], f"{count - 2} more hosts"]
    *first, last = names
    return f"{engine} on {', '.join(first) + ' and ' if first else ''}{last}"
