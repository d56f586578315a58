"""A task in the hands of a handler, and what a handler raises to say how it ended."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from queue_core.errors import InvalidArgument, LeaseLost
from queue_core.queue import LONGEST, Queue
from queue_core.task import Lease


def _seconds(value: Any, name: str) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST:
        raise InvalidArgument(f"{name} is {value!r:.100}: it is a number of seconds from 0 to {LONGEST:,}")
    return seconds


class Retry(Exception):
    """Raised by a handler: this attempt failed, and the next comes in ``in_`` seconds instead of after the backoff."""

    def __init__(self, in_: float | timedelta, error: object = "the handler asked to be tried again") -> None:
        self.delay = _seconds(in_, "in_")
        super().__init__(error)


class Defer(Exception):
    """Raised by a handler: not now, but in ``delay`` seconds. The attempt is not counted."""

    def __init__(self, delay: float | timedelta) -> None:
        self.delay = _seconds(delay, "delay")
        super().__init__(f"deferred for {self.delay:g} s")


class Reject(Exception):
    """Raised by a handler: no further attempt will help. The task is dead-lettered with the reason."""

    def __init__(self, reason: object) -> None:
        self.reason = reason
        super().__init__(reason)


class Job:
    """What a handler is given: the task's payload, and the state of the lease that it works under.

    The worker keeps the lease alive. A handler that takes long looks at ``lost`` (its result will be discarded)
    and at ``stopping`` (the worker waits for it a few seconds more) and returns early.
    """

    __slots__ = ("_cancel", "_lease", "_lock", "_lost", "_on_lost", "_queue", "_stopping", "_taken",
                 "beat_due", "overtime", "started")  # fmt: skip

    def __init__(self, queue: Queue, lease: Lease, stopping: threading.Event, on_lost: Callable[["Job"], None]) -> None:
        self._queue = queue
        self._lease = lease
        self._stopping = stopping
        self._on_lost = on_lost
        self._lock = threading.Lock()  # held while a beat is under way: settling waits, and carries the newest token
        self._taken = False
        self._lost = False
        self._cancel: Callable[[], object] | None = None
        self.overtime = False
        self.started = time.monotonic()
        self.beat_due = self.started

    @property
    def payload(self) -> Any:
        return self._lease.payload

    @property
    def tag(self) -> str:
        return self._lease.tag

    @property
    def id(self) -> str:
        return self._lease.id

    @property
    def attempt(self) -> int:
        """Which counted attempt this is, from 1."""
        return self._lease.attempt

    @property
    def fence(self) -> int:
        """A store-wide growing number: outside systems refuse a smaller one than they have seen."""
        return self._lease.fence

    @property
    def lease(self) -> Lease:
        """The lease with its newest token."""
        return self._lease

    @property
    def lost(self) -> bool:
        """Whether the task is no longer this handler's."""
        return self._lost

    @property
    def stopping(self) -> bool:
        """Whether the worker was told to stop."""
        return self._stopping.is_set()

    @property
    def seconds(self) -> float:
        """Since the handler got it."""
        return time.monotonic() - self.started

    def heartbeat(self) -> None:
        """Beat now, between the worker's own beats; it blocks for a commit.

        Raises LeaseLost when the task is no longer this handler's, or it has run longer than ``max_runtime``.
        """
        with self._lock:
            if self._lost or self._taken or self.overtime:
                raise LeaseLost([self._lease.token])
            try:
                self._lease = self._queue.heartbeat(self._lease)
            except LeaseLost:
                self._lose()
                raise

    def __repr__(self) -> str:
        return f"Job({self.id}, tag={self.tag[:60]!r}, attempt={self.attempt})"

    # --- the worker's side

    def take(self) -> Lease | None:
        """The newest lease, to settle it: no beat comes after this. Once; None when lost, or taken before."""
        with self._lock:
            if self._lost or self._taken:
                return None
            self._taken = True
            return self._lease

    def lose(self) -> None:
        """The task is somebody else's: mark it, and cancel an async handler."""
        with self._lock:
            self._lose()

    def bind(self, cancel: Callable[[], object] | None) -> None:
        """How to cancel the handler, from now on; None when it has ended."""
        with self._lock:
            self._cancel = cancel
            if self._lost or self._taken:
                self._interrupt()

    def interrupt(self) -> None:
        """Cancel the handler if it can be."""
        with self._lock:
            self._interrupt()

    def _lose(self) -> None:
        if not self._lost and not self._taken:
            self._lost = True
            self._interrupt()
            self._on_lost(self)

    def _interrupt(self) -> None:
        if self._cancel is not None:
            self._cancel()
