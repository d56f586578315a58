"""One counted LMDB handle per process and real path, and the care that its files need.

LMDB must be opened once per process, its map may only change size while no transaction is open, its
handle is of no use after a fork, and its write lock has no time limit. All of that is dealt with here.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import lmdb

from queue_core.errors import InvalidArgument, StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreGone, StoreVersion
from queue_core.stores.lmdb import health
from queue_core.stores.lmdb.gate import Gate
from queue_core.stores.lmdb.lock import WriteLock

DEFAULT_MAP = 1 << 40  # address space, not disk
READERS = 1_024
HEADROOM_SHARE, HEADROOM_LEAST, HEADROOM_MOST = 8, 32 * 4096, 64 << 20
RESERVE = 256 << 10  # bytes of the file, allocated beyond the pages in use
FORK_PATIENCE = 0.1  # seconds
READER_CHECK_COMMITS, READER_CHECK_SECONDS = 64, 5.0
# LMDB reports a write that the disk took only in part as an input/output error.
FULL = ("No space left", "File too large", "quota exceeded", "Input/output error")
DURABILITY = {
    "full": {"sync": True, "metasync": True},
    "relaxed": {"sync": True, "metasync": False},
    "none": {"sync": False, "metasync": False},
}

_registry: dict[str, "Environment"] = {}
_registry_lock = threading.RLock()


class MapFull(StoreFull):
    """The map, not the disk: it may grow."""


class Environment:
    """The shared handle. ``users`` counts the stores that have it open."""

    writes = True

    def __init__(
        self, path: str, durability: str, map_size: int | None, max_size: int | None, busy_timeout: float
    ) -> None:
        self.path = path
        self.file = os.path.join(path, health.FILE)
        self.durability = durability
        self.max_size = max_size or DEFAULT_MAP
        self.map_size = min(map_size or self.max_size, self.max_size)
        self.busy_timeout = busy_timeout
        self.users = 0
        self.closed = False
        self.committer: Any = None  # set by the first store; here because it is shared like the handle
        self.in_child: list[Callable[[], None]] = []  # called after a fork, in the child
        self.names: dict[str, int] = {}  # committed tag numbers, filled only after a commit
        self.gate = Gate()
        self.carried: Any = None  # what the last commit of this process wrote; None while one is under way
        health.look(path, write=self.writes)
        self._open()
        try:
            with self.reading():  # which keeps what is looked at from being used again
                health.examine(self.file, self.page_size)
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Open the files. Only this part is done again after a fork."""
        self.pid = os.getpid()
        self._map(max_readers=READERS, **DURABILITY[self.durability])
        self.lock = WriteLock(os.path.join(self.path, health.LOCK))
        self._allocated = os.stat(self.file).st_size
        self._commits = 0
        self._checked = time.monotonic()
        self.lmdb.reader_check()

    def _map(self, **options: Any) -> None:
        size = self.map_size
        while True:
            try:  # without spare transactions: the slot of one would be freed by a forked child
                self.lmdb = lmdb.open(self.path, map_size=size, max_dbs=0, max_spare_txns=0, **options)
                break
            except (lmdb.CorruptedError, lmdb.InvalidError) as error:
                raise StoreCorrupt(f"{self.path} is not a readable LMDB file ({error}): {health.WAY_OUT}") from None
            except lmdb.VersionMismatchError as error:
                raise StoreVersion(f"{self.path} was written by another LMDB format ({error})") from None
            except (lmdb.MemoryError, MemoryError) as error:
                if size <= 1 << 30:
                    raise StoreFull(f"{self.path}: no address space for a map of {size:,} bytes ({error})") from None
                size //= 2
            except lmdb.Error as error:
                raise self.translate(error) from error
        self.map_size = size
        self.page_size = self.lmdb.stat()["psize"]
        status = os.stat(self.file)
        self._identity = (status.st_dev, status.st_ino)

    def close(self) -> None:
        """Close the files once no other thread is in a transaction; whoever comes later gets StoreGone."""
        with self.gate.shut(self.busy_timeout):
            self.closed = True
            self.lock.close()
            self.lmdb.close()

    def reopen_in_child(self) -> None:
        """After a fork the parent's handle is of no use here: close the copy, open another."""
        self.lmdb.close()
        self.lock.forget()
        self.gate.renew()
        self._open()
        for renew in self.in_child:
            renew()

    # --- transactions

    @contextmanager
    def reading(self) -> Iterator[lmdb.Transaction]:
        """A read transaction; short, and never open while anything is drawn."""
        with self._transaction(write=False) as txn:
            try:
                yield txn
            except lmdb.Error as error:
                raise self.translate(error) from error

    def writing(self) -> AbstractContextManager[lmdb.Transaction]:
        """A write transaction, by the holder of the write lock; the caller commits, else it is aborted."""
        return self._transaction(write=True)

    @contextmanager
    def _transaction(self, write: bool) -> Iterator[lmdb.Transaction]:
        ticket = object()
        txn: lmdb.Transaction | None = None
        try:
            txn = self._begin(ticket, write)
            yield txn
        finally:
            try:
                if txn is not None:
                    txn.abort()  # does nothing after a commit
            finally:
                self.gate.leave(ticket)

    def _begin(self, ticket: object, write: bool) -> lmdb.Transaction:
        """A transaction, inside the gate."""
        cleared = False
        while True:
            self._enter(ticket)
            try:
                return self.lmdb.begin(write=write)
            except lmdb.MapResizedError:
                self.gate.leave(ticket)
                self._adopt()
            except lmdb.ReadersFullError:
                if cleared or not self.lmdb.reader_check():
                    raise StoreBusy(
                        f"all {READERS} reader slots of {self.path} are taken: close idle readers"
                    ) from None
                cleared = True
            except lmdb.Error as error:
                raise self.translate(error) from error

    def _enter(self, ticket: object, look: bool = True) -> None:
        """Into the gate; the caller leaves it, in any case."""
        self.gate.enter(ticket)
        if self.closed:
            raise StoreGone(f"lmdb://{self.path} was closed: open the queue again")
        if not look:
            return
        try:
            status = os.stat(self.file)
            same = (status.st_dev, status.st_ino) == self._identity
        except FileNotFoundError:
            same = False
        if not same:
            raise self._removed()

    def _removed(self) -> StoreGone:
        return StoreGone(f"{self.path} was removed or replaced since it was opened: open the queue again")

    def _adopt(self) -> None:
        """Take over the size that another process has given the map."""
        if self.gate.inside():
            raise StoreBusy("the store has grown since this view() was opened: leave the view first")
        with self.gate.shut(self.busy_timeout):
            self.lmdb.set_mapsize(0)
            self.map_size = self.lmdb.info()["map_size"]

    def grow(self) -> bool:
        """Double the map, up to ``max_size``; whether it grew. Called by the writer, outside its transaction."""
        if self.map_size >= self.max_size:
            return False
        with self.gate.shut(self.busy_timeout):
            self.lmdb.set_mapsize(min(self.map_size * 2, self.max_size))
            self.map_size = self.lmdb.info()["map_size"]
        return True

    def make_room(self, size: int) -> None:
        """Before ``size`` bytes are added: raises StoreFull when what is left would not do for draining the store.

        LMDB copies each page that it changes, so that even a deletion needs room. A share of ``max_size`` is
        kept free in the map, and a reserve of the file is allocated on the disk ahead of its use.
        """
        end = (self.lmdb.info()["last_pgno"] + 1) * self.page_size
        limit = self.max_size - max(min(self.max_size // HEADROOM_SHARE, HEADROOM_MOST), HEADROOM_LEAST)
        if end > limit and (used := self._used()) > limit:
            raise StoreFull(
                f"{self.path} uses {used:,} of {self.max_size:,} bytes and keeps the rest for draining it: "
                "work off tasks, expunge trash, or open it with a larger max_size"
            )
        reserve = RESERVE + 3 * size
        if end + reserve <= self._allocated or self._allocate(end + reserve):
            return
        if self._allocated - self._used() < reserve:  # what was freed inside the file counts as well
            raise StoreFull(
                f"{self.path}: the disk has no room for {size:,} bytes and the {RESERVE:,} that draining the store may "
                "need: nothing was changed; work off tasks or free space"
            )

    def short(self) -> bool:
        """Whether a push would be refused."""
        try:
            self.make_room(0)
        except StoreFull:
            return True
        return False

    def room(self) -> tuple[int, int, int]:
        """Bytes of the pages that hold something, of the file, and the most that the disk and the map allow."""
        self.last_txnid()  # a directory that is gone has no room to tell of
        try:
            disk = os.statvfs(self.path)
            file = os.stat(self.file).st_size
        except FileNotFoundError:  # it went just now
            raise self._removed() from None
        return self._used(), file, min(self.max_size, file + disk.f_bavail * disk.f_frsize)

    def _used(self) -> int:
        """Bytes of the pages that hold something."""
        stat = self.lmdb.stat()
        return (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]) * self.page_size

    def _allocate(self, wanted: int) -> bool:
        """Have the disk promise the first ``wanted`` bytes of the file, better some more; whether it did."""
        file = os.open(self.file, os.O_RDWR | os.O_CLOEXEC)
        try:
            for step in (max(RESERVE, min(wanted // 8, 64 << 20)), 0):
                target = min(wanted + step, max(self.map_size, wanted))
                try:
                    os.posix_fallocate(file, 0, target)
                except OSError:  # refused: less may do, and the caller says what follows
                    continue
                self._allocated = target
                return True
            return False
        finally:
            os.close(file)

    def last_txnid(self, *, look: bool = True) -> int:
        """The number of the last commit of any process; ``look``: whether the directory is still there, too."""
        ticket = object()
        try:
            self._enter(ticket, look)
            number: int = self.lmdb.info()["last_txnid"]
            return number
        finally:
            self.gate.leave(ticket)

    def committed(self) -> None:
        """Clear the slots of dead readers now and then: each pins the pages that it was reading."""
        self._commits += 1
        if self._commits >= READER_CHECK_COMMITS or time.monotonic() - self._checked > READER_CHECK_SECONDS:
            self._commits = 0
            self._checked = time.monotonic()
            self.lmdb.reader_check()

    def translate(self, error: lmdb.Error) -> StoreError:
        """LMDB's error as ours."""
        text = str(error)
        if isinstance(error, lmdb.MapFullError):
            return MapFull(
                f"{self.path} has used its {self.map_size:,} bytes ({text}): nothing was changed; raise max_size, or "
                "lease and settle to make room, in smaller batches where large ones fail"
            )
        if isinstance(error, lmdb.DiskError) or any(part in text for part in FULL):
            return StoreFull(
                f"{self.path} has no room ({text}): nothing was changed; free disk space or raise max_size"
            )
        if isinstance(error, lmdb.CorruptedError | lmdb.PageNotFoundError | lmdb.InvalidError):
            return StoreCorrupt(f"{self.path} is damaged ({text}): {health.WAY_OUT}")
        return StoreError(f"{self.path}: {text}")


# --- the registry ---------------------------------------------------------------------------------


def acquire(path: str, create: bool, options: dict[str, Any]) -> Environment:
    """The process's handle on a directory, opened if it is the first. Give it back with ``release``."""
    real = os.path.realpath(path)
    if create:
        try:
            os.makedirs(real, exist_ok=True)
        except FileExistsError:
            raise InvalidArgument(f"{real} is a file: a queue is a directory, name another path") from None
        except OSError as error:
            raise StoreError(f"{real} cannot be made ({error.strerror}): name a path that can be written") from None
    elif not os.path.exists(os.path.join(real, health.FILE)):
        raise StoreGone(f"there is no store at {real}: push a task to make one, or check the path")
    with _registry_lock:
        found = _registry.get(real)
        if found is not None and _is_gone(found):
            found = None  # its users find out by themselves; the new directory gets a handle of its own
        if found is None:
            health.refuse_backup(real)
            found = _registry[real] = Environment(real, **options)
        elif options["durability"] != found.durability:
            raise InvalidArgument(f"{real} is open in this process with durability={found.durability!r}: use the same")
        found.users += 1
        return found


def release(environment: Environment) -> None:
    with _registry_lock:
        environment.users -= 1
        if environment.users == 0:
            environment.close()
            if _registry.get(environment.path) is environment:
                del _registry[environment.path]


def _is_gone(environment: Environment) -> bool:
    try:
        environment.last_txnid()
    except StoreGone:
        return True
    return False


def _before_fork() -> None:
    """Wait until no thread is in a transaction; one may be in two stores, so none is kept shut for long."""
    _registry_lock.acquire()
    while True:
        still: list[Environment] = []
        try:
            for environment in _registry.values():
                environment.lock.hold_still()
                still.append(environment)
                environment.gate.close(FORK_PATIENCE)
            return
        except StoreBusy:
            _let_go(still)


def _after_in_parent() -> None:
    _let_go(_registry.values())
    _registry_lock.release()


def _let_go(environments: Iterable[Environment]) -> None:
    for environment in environments:
        environment.gate.open()
        environment.lock.go_on()


def _after_in_child() -> None:
    global _registry_lock
    _registry_lock = threading.RLock()
    for environment in _registry.values():
        environment.reopen_in_child()


os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
