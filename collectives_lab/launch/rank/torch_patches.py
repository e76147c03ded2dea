"""The patches of torch's functions, and of os._exit, in a rank's process.

A rank has its group before the reader's code begins, and the launcher must know of
groups that form and of a process that leaves without a word. Here `put_in_place` puts
them in, and `real_init` is torch's own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from collectives_lab import recorder
from collectives_lab.launch.rank import this_rank
from collectives_lab.recorder import torch_ops

real_init = dist.init_process_group
_real_new_group = dist.new_group


def put_in_place(leaving: Callable[[int, str], None]) -> None:
    """Stand in for torch's functions and os._exit in this process, which is a rank.

    leaving: called with the status and the line of an `os._exit`.
    """
    for module in (dist, dist.distributed_c10d):
        vars(module).update(init_process_group=init_process_group, new_group=new_group)
    _note_exits(leaving)


def init_process_group(
    backend: Any = None, init_method: Any = None, *args: Any, **kwargs: Any
) -> None:
    """Do as torch's `init_process_group`, content with the group a rank already has.

    So the body of a function may begin as a script for torchrun does. A group that
    differs from ours (another backend, a store, an address) is made as asked for
    instead.
    """
    membership = this_rank.membership
    if membership is not None and backend is None and kwargs.get("device_id") is None:
        backend = membership.backend  # torch's choice is NCCL wherever there is a GPU
    if membership is None or not membership.prepared:
        real_init(backend, init_method, *args, **kwargs)
        return
    membership.prepared = False
    backends = (
        None,
        membership.settings["backend"],
        membership.backend,
        "cpu:gloo,cuda:nccl",
    )
    same = backend in backends and init_method in (None, "env://") and not args
    if not dist.is_initialized() or not same or kwargs.get("store") is not None:
        if dist.is_initialized():
            dist.destroy_process_group()
        real_init(backend, init_method, *args, **kwargs)


def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Make a group as torch does, seen by the wait-for graph: all members must come.

    Members find each other by the number of the group, counted alike on all ranks; in a
    group that only its members make, by their ranks.
    """
    recording = recorder.current()
    go = functools.partial(_real_new_group, ranks, *args, **kwargs)
    if recording is None or not dist.is_initialized():
        return go()
    members = tuple(sorted(range(dist.get_world_size()) if ranks is None else ranks))
    if recording.rank not in members:
        return go()
    is_numbered = not kwargs.get("use_local_synchronization")
    number = torch_ops.group_number() if is_numbered else 0
    if number and len(members) > 1:
        _check_members(recording.rank, number, members)
    return recording.meet("new_group", members, go, number)


def _check_members(rank: int, number: int, members: tuple[int, ...]) -> None:
    """Raise ValueError if another rank makes this group of other members.

    They would be connected, and compute with each other's numbers.
    """
    own, store = str(list(members)), torch_ops.store_of_world()
    try:
        first = store.compare_set(f"members of group {number}", "", f"{rank}:{own}")
    except RuntimeError:  # a store of the reader's need not have this
        return
    other, _, theirs = first.decode().partition(":")
    if theirs != own:
        raise ValueError(
            f"new_group: group {number} is {own} on rank {rank}, but {theirs} on rank "
            f"{other}: every rank must make every group, in the same order, also the "
            "groups that it is not in"
        )


def _note_exits(leaving: Callable[[int, str], None]) -> None:
    """Let os._exit say its line before it ends the process without a word."""
    leave, process = os._exit, os.getpid()

    def noted(code: int) -> None:
        if os.getpid() == process:
            with contextlib.suppress(Exception):
                frame = sys._getframe(1)
                leaving(code, f"{frame.f_code.co_filename}:{frame.f_lineno}")
        leave(code)

    os._exit = noted  # type: ignore[assignment]
