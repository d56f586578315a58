"""Lets transactions in, and shuts them out while the map changes or the process forks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from queue_core.errors import StoreBusy


class Gate:
    """Lets transactions in, and shuts them out while the map changes or the process forks.

    Who enters shows a ticket and gives it back when leaving, from whatever thread: a generator may be ended by
    another thread than began it. Leaving without having entered does nothing, so that an interrupt does no harm.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """At the start, and in a forked child, where nobody is inside."""
        self._changed = threading.Condition(threading.Lock())
        self._inside: dict[object, int] = {}  # ticket -> thread
        self._shut_by: int | None = None

    def enter(self, ticket: object) -> None:
        me = threading.get_ident()
        with self._changed:
            # A thread that is inside already is waited for: let it through.
            while self._shut_by is not None and me not in self._inside.values():
                self._changed.wait()
            self._inside[ticket] = me

    def leave(self, ticket: object) -> None:
        with self._changed:
            self._inside.pop(ticket, None)
            if self._shut_by is not None:
                self._changed.notify_all()

    def inside(self) -> bool:
        """Whether this thread is."""
        with self._changed:
            return threading.get_ident() in self._inside.values()

    @contextmanager
    def shut(self, timeout: float) -> Iterator[None]:
        """Wait until no other thread is inside, and keep them out meanwhile. Raises StoreBusy."""
        try:
            self.close(timeout)
            yield
        finally:
            self.open()

    def close(self, timeout: float) -> None:
        me = threading.get_ident()
        with self._changed:
            if not self._changed.wait_for(lambda: self._shut_by is None, timeout):
                raise StoreBusy("the store's map is being changed by another thread that does not end")
            self._shut_by, empty = me, False
            try:
                empty = self._changed.wait_for(lambda: all(one == me for one in self._inside.values()), timeout)
            finally:
                if not empty:
                    self._shut_by = None
                    self._changed.notify_all()
            if not empty:
                raise StoreBusy(
                    "a view() of this process has stayed open and the store has to grow: leave views quickly"
                )

    def open(self) -> None:
        """Let them in again, if it was this thread that shut them out."""
        with self._changed:
            if self._shut_by == threading.get_ident():
                self._shut_by = None
                self._changed.notify_all()
