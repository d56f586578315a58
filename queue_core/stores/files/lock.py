"""One lock for all processes, with a time limit: shared by readers, exclusive for who writes.

``flock`` belongs to the open file, so each use opens its own: threads shut each other out as processes do, and the
kernel frees what a dead process held. Who waits for the lock holds ``lock.turn`` meanwhile, so that readers who come
one after the other cannot keep a writer out for ever.
"""

import fcntl
import os
import time
import weakref

from queue_core.errors import StoreBusy

NAP, LONGEST_NAP = 0.0002, 0.002  # seconds between two looks

_held: "weakref.WeakSet[Lock]" = weakref.WeakSet()  # of this process


class Lock:
    """A lock that is held. ``release`` may be called from any thread, and twice."""

    def __init__(self, path: str, exclusive: bool, until: float) -> None:
        """Raises StoreBusy when it is not free until then (``time.monotonic``), FileNotFoundError."""
        self._file = -1
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        _held.add(self)
        try:
            self._wait(path, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH, until)
        except BaseException:
            self.release()
            raise

    def _wait(self, path: str, kind: int, until: float) -> None:
        nap = NAP
        while True:
            try:
                fcntl.flock(self._file, kind | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise StoreBusy(
                        f"{path} has been locked by others for too long: nothing was done; look for a stopped process "
                        "or a view() that stays open, and try again"
                    ) from None
            time.sleep(nap)
            nap = min(nap * 1.5, LONGEST_NAP)

    def __del__(self) -> None:
        """An interrupt may come before whoever asked for it has it in hand."""
        self.release()

    def identity(self) -> tuple[int, int]:
        status = os.fstat(self._file)
        return status.st_dev, status.st_ino

    def release(self) -> None:
        _held.discard(self)
        file, self._file = self._file, -1
        if file >= 0:
            fcntl.flock(file, fcntl.LOCK_UN)  # a child forked meanwhile has the file open, too
            os.close(file)

    def _forget(self) -> None:
        """In a forked child: the lock is the parent's."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def acquire(path: str, turn: str, *, exclusive: bool, until: float) -> Lock:
    """The lock at ``path``, waiting for it in line. Raises StoreBusy, FileNotFoundError."""
    first = Lock(turn, True, until)
    try:
        return Lock(path, exclusive, until)
    finally:
        first.release()


def _after_fork() -> None:
    for lock in list(_held):
        lock._forget()
    _held.clear()


os.register_at_fork(after_in_child=_after_fork)
