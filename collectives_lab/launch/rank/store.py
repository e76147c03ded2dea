"""The store of a group: where its ranks find each other.

Ranks of one machine share a file, those of several hosts a server of the launcher's;
`open_store` opens either. torch's FileStore sleeps 10 ms when a key is not there yet,
and the ranks of a new group ask for each other's addresses all at once: a `QuickStore`
looks every half millisecond, which halves the time that a group needs to form.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence

import torch.distributed as dist

POLL = 0.0005
"""Seconds between two looks at a key that is not there yet."""

PATIENCE = datetime.timedelta(minutes=5)
"""How long a key may take where the caller names no time; torch's default."""


class QuickStore(dist.Store):
    """A FileStore at `path` for `world_size` ranks; the ranks must keep a reference."""

    def __init__(self, path: str, world_size: int):
        super().__init__()
        self._file = dist.FileStore(path, world_size)
        self._patience = PATIENCE

    def set(self, key: str, value: str) -> None:
        self._file.set(key, value)

    def get(self, key: str) -> bytes:
        self.wait([key])
        return self._file.get(key)

    def wait(
        self, keys: Sequence[str], timeout: datetime.timedelta | None = None
    ) -> None:
        """Wait until all keys are there; raises DistStoreError after the timeout."""
        patience = timeout or self._patience
        deadline = time.monotonic() + patience.total_seconds()
        while not self._file.check(list(keys)):
            if time.monotonic() > deadline:
                raise dist.DistStoreError(f"{list(keys)} not set within {patience}")
            time.sleep(POLL)

    def check(self, keys: Sequence[str]) -> bool:
        return self._file.check(list(keys))

    def add(self, key: str, amount: int) -> int:
        return self._file.add(key, amount)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        return self._file.compare_set(key, expected, desired)

    def delete_key(self, key: str) -> bool:
        return self._file.delete_key(key)

    def num_keys(self) -> int:
        return self._file.num_keys()

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        self._patience = timeout

    def clone(self) -> QuickStore:
        """Return this store, which threads may share.

        Groups that torch splits ask for it.
        """
        return self

    def has_extended_api(self) -> bool:
        return False


def open_store(place: str | tuple[str, int], world_size: int) -> dist.Store:
    """Return the store at a path, or behind an address and a port."""
    if isinstance(place, str):
        return QuickStore(place, world_size)
    address, port = place
    return dist.TCPStore(address, port, is_master=False, timeout=PATIENCE)
