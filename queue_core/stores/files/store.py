"""The store: the engine's verbs over commits that a crash cannot tear, and reads under a shared lock."""

import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from queue_core.errors import InvalidArgument, StoreCorrupt, StoreGone, StoreVersion
from queue_core.ledger import FORMAT
from queue_core.snapshot import Storage
from queue_core.stores.base import Capabilities, Clock, Done, Inventory
from queue_core.stores.embedded import EmbeddedStore, Operation
from queue_core.stores.engine import deliver
from queue_core.stores.engine.records import Records
from queue_core.stores.engine.upgrade import upgrade
from queue_core.stores.files import names
from queue_core.stores.files.directory import Directory, open_directory, readme
from queue_core.stores.files.inventory import take
from queue_core.stores.files.records import FilesRecords
from queue_core.stores.files.tree import Tree

T = TypeVar("T")
POLL = 0.03  # seconds between two looks for commits of other processes
DURABILITY = ("full", "none")

_stores: "weakref.WeakSet[FilesStore]" = weakref.WeakSet()


class FilesStore(EmbeddedStore):
    """One handle on a directory."""

    def __init__(self, directory: Directory, clock: Clock, *, durable: bool) -> None:
        self.url = f"files://{directory.path}"
        self.capabilities = Capabilities(durable=durable, multi_process=True, journal=False, parallel_views=False)
        self._directory = directory
        self._clock = clock
        self._closed = False
        self._changed = threading.Condition()
        self._tags: dict[int, str] = {}  # directory names of tags that are stored
        _stores.add(self)

    def renew(self) -> None:
        """In a forked child: who held or awaited it is not there."""
        self._changed = threading.Condition()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreGone(f"{self.url} was closed: open the queue again")

    def _records(self, tree: Tree, *, writing: bool) -> FilesRecords:
        return FilesRecords(tree, self._clock(), self._tags, writing=writing)

    def _tree(self) -> Tree:
        return Tree(self._directory.path, self._directory.translate)

    def _write(self, operation: Operation[T], *, grows: int = 0) -> Done[T]:
        self._check_open()
        with self._directory.writing():
            tree = self._tree()
            self._present(tree)
            records = self._records(tree, writing=True)
            records.meta.age(records.now)
            deliver.tidy(records)
            result = operation(records)
            number = records.finish()
            self._directory.commit(number, tree.writes, grows=grows > 0)
            records.committed()
        with self._changed:
            self._changed.notify_all()
        return Done(result, records.logged)

    @contextmanager
    def _read(self) -> Iterator[Records]:
        self._check_open()
        with self._directory.reading():
            tree = self._tree()
            self._present(tree)
            yield self._records(tree, writing=False)

    def _present(self, tree: Tree) -> None:
        if tree.read(names.QUEUE) is None:
            self._directory.look()
            raise StoreCorrupt(f"{self._directory.path}/{names.QUEUE} is missing: restore it from a backup")

    def _inventory(self, records: Records) -> Inventory:
        assert isinstance(records, FilesRecords)
        return take(records, self._tree())

    def storage(self) -> Storage:
        self._check_open()
        return Storage(None, None, None)

    def mark(self) -> int:
        self._check_open()
        return self._directory.mark()

    def wait(self, mark: int, timeout: float) -> None:
        end = time.monotonic() + timeout
        while self.mark() == mark and (left := end - time.monotonic()) > 0:
            with self._changed:
                if not self._closed:
                    self._changed.wait(min(left, POLL))
        self._check_open()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._directory.close()
            with self._changed:
                self._changed.notify_all()


def _after_fork() -> None:
    for store in _stores:
        store.renew()


os.register_at_fork(after_in_child=_after_fork)


def open_files(
    path: str, clock: Clock, *, durability: str = "full", busy_timeout: float = 10.0, create: bool = True
) -> FilesStore:
    """Open, or with ``create`` make, the store in a directory.

    ``durability``: "full" (flushed when a verb returns), "none" (tests only). ``busy_timeout``: seconds to wait for the
    lock before StoreBusy. Raises InvalidArgument, StoreGone (with ``create=False``, nothing is there), StoreCorrupt,
    StoreVersion, StoreFull, StoreError.
    """
    if durability not in DURABILITY:
        raise InvalidArgument(f"durability is {durability!r}: it is one of {', '.join(DURABILITY)}")
    durable = durability != "none"
    directory = open_directory(path, create=create, flushes=durable, busy_timeout=busy_timeout)
    store = FilesStore(directory, clock, durable=durable)
    try:
        _prepare(directory, store, clock)
    except BaseException:
        store.close()
        raise
    return store


def _prepare(directory: Directory, store: FilesStore, clock: Clock) -> None:
    """A new store gets its first record, one of a newer format is refused, and what crashes have left is removed."""
    if not os.path.lexists(f"{directory.path}/{names.QUEUE}"):
        _begin(directory, store, clock)
    with store._read() as tx:
        found = tx.meta.format
    if found > FORMAT:
        raise StoreVersion(f"{directory.path} has format {found}; this queue_core knows {FORMAT}: upgrade queue_core")
    if found < FORMAT:
        store._write(upgrade)
    if directory.left():
        with directory.writing():
            directory.clear()


def _begin(directory: Directory, store: FilesStore, clock: Clock) -> None:
    with directory.writing():
        tree = store._tree()
        if tree.read(names.QUEUE) is not None:
            return  # another process was faster
        records = store._records(tree, writing=True)
        records.meta.created = clock()
        number = records.finish()  # its record comes first: by that a queue is known
        tree.put(names.README, readme())
        directory.commit(number, tree.writes, grows=True)
