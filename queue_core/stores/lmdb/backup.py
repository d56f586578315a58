"""What a backup needs of LMDB: a consistent copy while others write, a handle that only reads, and the new epoch."""

import os
import threading
from collections.abc import Callable

import lmdb

from queue_core.ledger import Meta
from queue_core.stores.engine import epoch
from queue_core.stores.lmdb import health
from queue_core.stores.lmdb.environment import Environment
from queue_core.stores.lmdb.records import LmdbRecords
from queue_core.stores.lmdb.store import LmdbStore

Told = Callable[[int, int], None]  # bytes done, and how many there will be
CHUNK = 1 << 20


class Still(Environment):
    """A handle that only reads. Without ``shared`` nothing is made beside the file: nobody may write it meanwhile."""

    writes = False

    def __init__(self, path: str, *, shared: bool) -> None:
        self._shared = shared
        super().__init__(path, "full", None, None, 10.0)

    def _open(self) -> None:
        self.pid = os.getpid()
        self._map(readonly=True, create=False, lock=self._shared)

    def close(self) -> None:
        self.closed = True
        self.lmdb.close()


def copy(store: LmdbStore, target: str, told: Told) -> None:
    """Write one commit of the store, without free pages, as a new file; not flushed. Others go on meanwhile.

    Reads all of it in one transaction: what is freed by others in that time is used again only after it. Raises
    StoreError when the store cannot be read, OSError when the file cannot be written.
    """
    environment = store._environment
    with environment.reading():  # in the gate: the map stays, and the handle
        stat = environment.lmdb.stat()
        pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] + 2
        source, sink = os.pipe()
        failed: list[lmdb.Error] = []

        def pump() -> None:
            try:
                environment.lmdb.copyfd(sink, compact=True)
            except lmdb.Error as error:
                failed.append(error)
            finally:
                os.close(sink)

        pumping = threading.Thread(target=pump, name="queue_core-backup", daemon=True)
        try:
            pumping.start()
            pour(source, target, pages * environment.page_size, told)
        finally:
            os.close(source)  # ends the other thread as well, when this one has failed or was interrupted
            if pumping.ident is not None:  # else an interrupt came before it had begun
                pumping.join()
        if failed:
            raise environment.translate(failed[0])


def pour(source: int, target: str, total: int, told: Told) -> None:
    """Write what comes from an open file or pipe into a new file; not flushed."""
    with open(target, "xb") as file:
        while data := os.read(source, CHUNK):
            file.write(data)
            told(file.tell(), max(file.tell(), total))


def facts(path: str) -> tuple[Meta, int]:
    """The queue's numbers in a copy that nobody writes, and how many tags there are."""
    environment = Still(path, shared=False)
    try:
        with environment.reading() as txn:
            records = LmdbRecords(txn, 0, {})
            return records.meta, sum(1 for _ in records.tags())
    finally:
        environment.close()


def forget_locks(path: str) -> None:
    """Remove what opening has made beside the file, which whoever opens it next makes again. Nobody has it open."""
    for name in (health.LOCK, health.READERS):
        os.unlink(os.path.join(path, name))


def begin_epoch(store: LmdbStore, **after: int) -> tuple[int, int]:
    """(the new epoch of a store that nobody else has open, how many tasks in flight went back to their places).

    ``after``: see ``engine.epoch.begin``.
    """
    number, requeued = store._write(lambda tx: epoch.begin(tx, **after)).result, 0
    while count := store._write(epoch.recall).result:
        requeued += count
    return number, requeued
