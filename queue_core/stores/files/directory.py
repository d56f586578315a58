"""The directory of a store: opened, locked, committed to, and mended after a crash.

A commit: new files are written under ``new/`` and flushed, then the redo record; from here on it stands. Its steps are
taken, the directories flushed, and the record marked as done. Files are flushed before directories, and all of it
before the verb returns.
"""

import errno
import os
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files as package_files

from queue_core.errors import (
    InvalidArgument,
    OutcomeUnknown,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreGone,
)
from queue_core.stores.files import names, redo
from queue_core.stores.files.flush import flush, flush_all
from queue_core.stores.files.lock import Lock, acquire
from queue_core.stores.files.redo import Apply, Step
from queue_core.stores.files.tree import Link

RESERVE = 1 << 20  # bytes that stay allocated, so that a full disk can still be drained
MAKING = 10.0  # seconds that another process may take to make the same directory
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
WRITE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC

_open: "weakref.WeakSet[Directory]" = weakref.WeakSet()


class Directory:
    """One handle. Every use opens the files it needs, so that threads and forked children need no care."""

    def __init__(self, path: str, flushes: bool, busy_timeout: float) -> None:
        self.path = path
        self._flushes = flushes
        self._busy_timeout = busy_timeout
        self._writer = threading.Lock()  # threads of this process wait here, and only one of them in the line of all
        self._readers = threading.local()
        # It stays open so that no other file can get its number: by that a replaced directory is known.
        self._pin = os.open(f"{path}/{names.LOCK}", os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        status = os.fstat(self._pin)
        self._identity = status.st_dev, status.st_ino
        _open.add(self)

    def close(self) -> None:
        pin, self._pin = self._pin, -1
        if pin >= 0:
            os.close(pin)

    def renew(self) -> None:
        """In a forked child: the threads that held these are not there."""
        self._writer = threading.Lock()
        self._readers = threading.local()

    # --- locks

    def _gone(self) -> StoreGone:
        return StoreGone(f"{self.path} was removed or replaced since it was opened: open the queue again")

    def look(self) -> None:
        """Raises StoreGone when the directory is not the one that was opened."""
        try:
            status = os.stat(f"{self.path}/{names.LOCK}")
        except (FileNotFoundError, NotADirectoryError):
            raise self._gone() from None
        if (status.st_dev, status.st_ino) != self._identity:
            raise self._gone()

    def _lock(self, *, exclusive: bool, until: float) -> Lock:
        self.look()
        try:
            lock = acquire(
                f"{self.path}/{names.LOCK}", f"{self.path}/{names.TURN}", exclusive=exclusive, until=until
            )  # fmt: skip
        except OSError as error:
            raise self.translate(error) from error
        if lock.identity() != self._identity:
            lock.release()
            raise self._gone()
        return lock

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Nobody commits meanwhile. Inside another one of the same thread it is the same."""
        held: list[Lock] = self._readers.__dict__.setdefault("held", [])  # another thread may end a generator
        if held:
            yield
            return
        lock = self._shared(time.monotonic() + self._busy_timeout)
        held.append(lock)
        try:
            yield
        finally:
            held.remove(lock)
            lock.release()

    def _shared(self, until: float) -> Lock:
        """The lock of a reader, once nothing is left unfinished."""
        while True:
            lock = self._lock(exclusive=False, until=until)
            try:
                if self._unfinished() is None:
                    return lock
            except OSError as error:
                lock.release()
                raise self.translate(error) from error
            lock.release()
            with self.writing():
                pass  # which finishes it

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Alone in the store, and nothing is left unfinished. Raises StoreBusy."""
        until = time.monotonic() + self._busy_timeout
        writer = self._writer
        if not writer.acquire(timeout=self._busy_timeout):
            raise StoreBusy(f"another thread has been writing to {self.path} for too long: nothing was done; try again")
        try:
            lock = self._lock(exclusive=True, until=until)
            try:
                self.finish()
                yield
            except OSError as error:
                raise self.translate(error) from error
            finally:
                lock.release()
        finally:
            writer.release()

    def translate(self, error: OSError) -> StoreError:
        """A failure of the file system as an error of the store."""
        try:
            self.look()
        except StoreGone as gone:
            return gone
        if error.errno in NO_ROOM:
            return StoreFull(
                f"{self.path}: the disk has no room ({error.strerror}): nothing was changed; work off tasks or free "
                "space"
            )
        return StoreError(f"{self.path}: {error}")

    # --- commits

    def _redo(self, size: int, offset: int) -> bytes:
        try:
            file = os.open(f"{self.path}/{names.REDO}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            return os.pread(file, size, offset)
        finally:
            os.close(file)

    def mark(self) -> int:
        """The number of the last commit of any process."""
        self.look()
        return redo.commit_of(self._redo(redo.HEAD, 0))

    def _unfinished(self) -> list[Step] | None:
        return redo.unfinished(self._redo)

    def finish(self) -> None:
        """Finish the commit that a crash has interrupted. By who is alone in the store."""
        steps = self._unfinished()
        if steps is not None:
            self._apply(steps)
            self.clear()

    def left(self) -> list[str]:
        """Files of commits that never stood, or of the one that is under way."""
        try:
            return [name for name in os.listdir(f"{self.path}/{names.NEW}") if names.STAGED.fullmatch(name)]
        except FileNotFoundError:  # somebody has removed it while it was empty
            return []

    def clear(self) -> None:
        """Remove what commits that never stood have left. By who is alone in the store."""
        for name in self.left():
            os.unlink(f"{self.path}/{names.NEW}/{name}")

    def commit(self, number: int, writes: Mapping[str, bytes | Link | None], *, grows: bool) -> None:
        """Make the writes so, all or none. By who is alone in the store; ``number`` is that of the commit.

        Raises StoreFull when the disk is. What ``grows`` the store is refused earlier than what does not: for that,
        the reserve is given up.
        """
        if grows:
            self._keep_reserve()
        try:
            steps = self._prepare(number, writes)
        except OSError as error:
            if error.errno not in NO_ROOM or grows or not self._give_up_reserve():
                raise
            steps = self._prepare(number, writes)
        try:
            self._apply(steps)
        except OSError:
            self._give_up_reserve()
            self._apply_again(steps)

    def _apply_again(self, steps: list[Step]) -> None:
        try:
            self._apply(steps)
        except OSError as error:
            self.look()
            raise OutcomeUnknown(
                f"{self.path}: the commit stands and could not be finished ({error}): the next use finishes it when "
                "it can; free space, or see what is in the way"
            ) from error

    def _prepare(self, number: int, writes: Mapping[str, bytes | Link | None]) -> list[Step]:
        """Write and flush the new files and the redo record; when this has returned, the commit stands."""
        steps: list[Step] = []
        sources: list[str] = []
        try:
            self._make_new()
            for path, value in writes.items():
                if isinstance(value, Link):
                    steps.append(Step(path, target=value.target))
                elif value is None:
                    steps.append(Step(path))
                else:
                    sources.append(names.new(number, len(sources)))
                    steps.append(Step(path, source=sources[-1]))
                    self._write_file(sources[-1], value)
            self._flush([*sources, names.NEW])
            self._write_redo(redo.encode(number, steps))
        except BaseException:
            self._mark_done()  # before what it would need is removed
            for source in sources:
                try:
                    os.unlink(f"{self.path}/{source}")
                except FileNotFoundError:
                    pass
            raise
        return steps

    def _make_new(self) -> None:
        """It is there, unless somebody has removed it while it was empty."""
        try:
            os.mkdir(f"{self.path}/{names.NEW}")
        except FileExistsError:
            return
        self._flush(["."])

    def _apply(self, steps: list[Step]) -> None:
        self._flush(Apply(self.path).run(steps))
        self._mark_done()

    def _write_file(self, path: str, data: bytes) -> None:
        file = os.open(f"{self.path}/{path}", WRITE | os.O_TRUNC, 0o644)
        try:
            while data:
                data = data[os.write(file, data) :]
        finally:
            os.close(file)

    def _flush(self, paths: Sequence[str]) -> None:
        if self._flushes:
            flush_all([f"{self.path}/{path}" for path in paths])

    def _write_redo(self, data: bytes) -> None:
        known = os.path.exists(f"{self.path}/{names.REDO}")
        file = os.open(f"{self.path}/{names.REDO}", WRITE, 0o644)
        try:
            at = 0
            while at < len(data):
                at += os.pwrite(file, data[at:], at)
            if self._flushes:
                os.fdatasync(file)
        finally:
            os.close(file)
        if not known:
            self._flush(["."])

    def _mark_done(self) -> None:
        """Not flushed: taking the steps of the last commit again does no harm."""
        file = os.open(f"{self.path}/{names.REDO}", WRITE, 0o644)
        try:
            os.pwrite(file, b"D", 0)
            if os.fstat(file).st_size > redo.LARGEST:
                os.ftruncate(file, redo.KEPT)
        finally:
            os.close(file)

    # --- room

    def _keep_reserve(self) -> None:
        """Raises OSError when the disk has no room for it."""
        path = f"{self.path}/{names.RESERVE}"
        try:
            if os.stat(path).st_size >= RESERVE:
                return
        except FileNotFoundError:
            pass
        file = os.open(path, WRITE, 0o644)
        try:
            os.posix_fallocate(file, 0, RESERVE)
        finally:
            os.close(file)

    def _give_up_reserve(self) -> bool:
        """Whether there was one."""
        path = f"{self.path}/{names.RESERVE}"
        if not os.path.exists(path) or not os.stat(path).st_size:
            return False
        os.truncate(path, 0)
        return True


def _after_fork() -> None:
    for directory in _open:
        directory.renew()


os.register_at_fork(after_in_child=_after_fork)


# --- opening --------------------------------------------------------------------------------------


def open_directory(path: str, *, create: bool, flushes: bool, busy_timeout: float) -> Directory:
    """The directory of a queue, or of one that is about to be made. Whether it is one, its ``queue.json`` tells.

    Raises StoreGone (with ``create=False``, nothing is there), InvalidArgument, StoreCorrupt, StoreError.
    """
    real = os.path.realpath(path)
    if not os.path.lexists(f"{real}/{names.QUEUE}"):
        if not create:
            raise StoreGone(f"there is no store at {real}: push a task to make one, or check the path")
        _make(real, flushes)
    return Directory(real, flushes, busy_timeout)


def _make(real: str, flushes: bool) -> None:
    """A directory that has all but the queue's record; another process may be making the same."""
    try:
        os.makedirs(real, exist_ok=True)
        strange = sorted(set(os.listdir(real)) - names.OURS)
        if strange and names.QUEUE not in strange:
            raise StoreCorrupt(f"{real} holds {strange[0]!r} and no queue: choose another directory, or an empty one")
        lock = Lock(f"{real}/{names.LOCK}", True, time.monotonic() + MAKING)
        try:
            os.makedirs(f"{real}/{names.NEW}", exist_ok=True)
            file = os.open(f"{real}/{names.REDO}", WRITE, 0o644)
            try:
                if not os.fstat(file).st_size:
                    os.pwrite(file, b" " * redo.KEPT, 0)
                if flushes:
                    os.fsync(file)
            finally:
                os.close(file)
            if flushes:
                flush(real)
                flush(os.path.dirname(real))
        finally:
            lock.release()
    except (FileExistsError, NotADirectoryError):
        raise InvalidArgument(f"{real} is a file: a queue is a directory, name another path") from None
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StoreFull(f"{real} cannot be made: the disk has no room ({error.strerror})") from None
        raise StoreError(f"{real} cannot be made ({error.strerror}): name a path that can be written") from None


def readme() -> bytes:
    """What stands in the directory for who looks around."""
    return package_files("queue_core.stores.files").joinpath("README.txt").read_bytes()
