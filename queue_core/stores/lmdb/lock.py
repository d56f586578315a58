"""A host-wide write lock with a time limit, in front of LMDB's own, which has none.

A POSIX record lock: the kernel frees it when its process dies. Taking it when it is free costs one
system call. When another process holds it, the caller looks again for a moment, and only then lets a
helper thread wait in the kernel, so that it can give up. Record locks belong to the process: within
it, one thread at a time asks.
"""

import errno
import fcntl
import os
import threading
import time

from queue_core.errors import StoreBusy, StoreGone

BRIEFLY, PAUSE = 0.01, 0.0002  # seconds; shorter pauses cost more than they win: measured


class WriteLock:
    """Held by one thread of one process of the host. Not re-entrant."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._changed = threading.Condition(threading.Lock())
        self._waiting = False  # a helper thread waits in the kernel
        self._granted = False  # it has got the lock for the caller that waits for it
        self._wanted = False  # a caller waits for it still
        self._held = False
        self._closed = False

    def acquire(self, timeout: float) -> None:
        """Raises StoreBusy when another process has kept the lock for ``timeout`` seconds, StoreGone when closed.

        The caller releases it in any case: an interrupt may come when it has been taken, before this returns.
        """
        if self._try(min(timeout, BRIEFLY)):
            return
        with self._changed:
            try:
                self._wanted = True
                if not self._waiting:
                    threading.Thread(target=self._wait_in_kernel, name="queue_core-lock", daemon=True).start()
                    self._waiting = True
                self._changed.wait_for(lambda: self._granted, timeout)
            finally:
                self._held, self._wanted, self._granted = self._granted, False, False
            if not self._held:
                raise StoreBusy(
                    f"another process has held the write lock of {os.path.dirname(self._path)} for "
                    f"{round(timeout, 2):g} s: the operation was withdrawn; look for a stopped process "
                    "(kill -CONT it, or end it) and try again"
                )

    def _try(self, seconds: float) -> bool:
        """Take it when it is free, or becomes free soon: others hold it for well under a millisecond."""
        until = 0.0
        while True:
            with self._changed:
                if self._waiting:  # the lock would be the helper's too, who gives it back
                    return False
                if self._closed:
                    raise StoreGone(f"lmdb://{os.path.dirname(self._path)} was closed: open the queue again")
                try:
                    fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._held = True
                    return True
                except OSError:
                    now = time.monotonic()
                    until = until or now + seconds
            if now >= until:
                return False
            time.sleep(PAUSE)

    def _wait_in_kernel(self) -> None:
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX)
                break
            except OSError as error:
                # To the kernel a process is one waiter: two of them, at work on two stores in threads, look deadlocked.
                if error.errno != errno.EDEADLK:
                    raise
                time.sleep(PAUSE)
        with self._changed:
            self._waiting = False
            if self._wanted:
                self._granted = True
                self._changed.notify()
            else:
                self._give_back()

    def _give_back(self) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN)
        self._held = False
        if self._closed:
            os.close(self._file)
            self._file = -1

    def release(self) -> None:
        """By its holder, or by who could not get it; closes the file when that was put off."""
        with self._changed:
            if not self._waiting and self._file >= 0:
                self._give_back()

    def hold_still(self) -> None:
        """Before a fork: no thread is inside."""
        self._changed.acquire()

    def go_on(self) -> None:
        self._changed.release()

    def forget(self) -> None:
        """In a forked child: record locks are not inherited, threads neither."""
        os.close(self._file)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            if not (self._waiting or self._held):  # else the helper closes the file, or who holds the lock
                self._give_back()
