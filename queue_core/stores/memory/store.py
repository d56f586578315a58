"""Handles on records behind one lock, private or shared in the process by name."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from queue_core.errors import InvalidArgument, StoreGone
from queue_core.snapshot import Storage
from queue_core.stores.base import Capabilities, Clock, Done, Inventory
from queue_core.stores.embedded import EmbeddedStore, Operation
from queue_core.stores.engine import deliver
from queue_core.stores.engine.records import Records
from queue_core.stores.memory.records import MemoryRecords

T = TypeVar("T")


class _Core:
    """The records of one store with their lock, and how many handles there are on it."""

    def __init__(self) -> None:
        self.records = MemoryRecords()
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.commits = 0
        self.users = 0


_shared: dict[str, _Core] = {}  # named stores of this process
_shared_lock = threading.Lock()


class MemoryStore(EmbeddedStore):
    """One handle. A private store is gone with it, a named one with the last of its handles."""

    capabilities = Capabilities(durable=False, multi_process=False, journal=True, history=True, plans=True)

    def __init__(self, url: str, clock: Clock, core: _Core) -> None:
        self.url = url
        self.clock = clock
        self._core = core
        self._closed = False

    def _write(self, operation: Operation[T], *, grows: int = 0) -> Done[T]:
        with self._core.lock:
            self._check_open()
            records = self._core.records
            records.begin(self.clock())
            try:
                records.meta.age(records.now)
                deliver.tidy(records)
                result = operation(records)
            except BaseException:
                records.undo()
                raise
            records.commit()
            self._core.commits += 1
            self._core.changed.notify_all()
            return Done(result, records.logged)

    @contextmanager
    def _read(self) -> Iterator[Records]:
        with self._core.lock:
            self._check_open()
            records = self._core.records
            records.begin(self.clock())
            yield records

    def _inventory(self, records: Records) -> Inventory:
        return self._core.records.inventory()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreGone(f"{self.url} was closed: open the queue again")

    def storage(self) -> Storage:
        return Storage(None, None, None)

    def mark(self) -> int:
        self._check_open()
        return self._core.commits

    def wait(self, mark: int, timeout: float) -> None:
        end = time.monotonic() + timeout
        with self._core.changed:
            while self._core.commits == mark and not self._closed and (left := end - time.monotonic()) > 0:
                self._core.changed.wait(left)
            self._check_open()

    def close(self) -> None:
        with _shared_lock, self._core.changed:
            if not self._closed:
                self._closed = True
                self._core.users -= 1
                if not self._core.users and _shared.get(self.url) is self._core:
                    del _shared[self.url]
                self._core.changed.notify_all()


def open_memory(name: str, clock: Clock, **options: object) -> MemoryStore:
    """``memory://`` is private, ``memory://name`` is shared in the process."""
    if options:
        raise InvalidArgument(f"the memory store has no option {', '.join(sorted(options))}")
    url = f"memory://{name}"
    with _shared_lock:
        core = _shared.setdefault(url, _Core()) if name else _Core()
        core.users += 1
        return MemoryStore(url, clock, core)
