"""The worker as one runs it: arguments, signals, and an orderly end."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Protocol

from queue_core.errors import InvalidArgument
from queue_core.queue import Queue, open_queue
from queue_core.worker.crew import Crew
from queue_core.worker.processes import Processes
from queue_core.worker.terms import GRACE, Handler, Message, Summary, Terms, reference, resolve, whole

GLANCE = 0.5  # seconds: a signal that hits another thread does not wake the main one, which alone runs its handler
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class _Crew(Protocol):
    """Those who do the work; each of ``size`` posts "ended" once."""

    size: int

    def start(self) -> None: ...

    def stop(self) -> float:
        """Lease no more; how many seconds are left to the handlers."""

    def hurry(self) -> float:
        """Stop at once; how many seconds that takes at most."""

    def abandon(self) -> None:
        """The time is over: let go of what is left."""

    def close(self) -> Summary: ...


class Worker:
    """Leases tasks and gives each to ``handler(job)``: returning acknowledges it, raising fails it.

    ``queue`` is a queue or its URL (closed at the end). ``handler`` is a function or "module:function"; an
    ``async def`` runs on one event loop, any other in threads, ``concurrency`` at a time. It may raise ``Retry``,
    ``Defer`` or ``Reject``; any other exception is a nack with the traceback as error. What it is given: see ``Job``.

    ``ttl``: seconds of a lease, kept alive every ``heartbeat_interval`` (a third of it, which is also the most).
    ``max_runtime``: seconds after which heartbeats stop, so that the lease of a handler that hangs runs out.
    ``processes``: this many processes, each with ``concurrency`` handlers, for handlers that compute; each opens the
    queue by its URL with default options, and one that dies is replaced. ``stop_when_idle``: end when nothing could
    be leased for half a second and no handler runs; tasks scheduled for later, paused, or held by others are not
    waited for. ``owner``: a name to recognise it by; host and pid unless given, a random part is always added.

    ``run()`` ends on SIGTERM, SIGINT or ``stop()``: no more leases, ``grace`` seconds for running handlers, then what
    is left is given back uncounted. A second signal does that at once. A task whose heartbeat was committed but not
    answered cannot be settled any more: its lease runs out, and it is delivered again.

    Raises InvalidArgument, and what ``open_queue`` raises.
    """

    def __init__(
        self, queue: Queue | str | os.PathLike[str], handler: Handler | str, *, concurrency: int = 1,
        ttl: float = 30.0, max_runtime: float | None = None, heartbeat_interval: float | None = None,
        grace: float = GRACE, processes: int = 0, stop_when_idle: bool = False, owner: str | None = None,
    ) -> None:  # fmt: skip
        terms = Terms(concurrency, ttl, max_runtime, heartbeat_interval, grace, stop_when_idle, owner)
        whole(processes, "processes", 0)
        name = reference(handler) if processes else ""
        function = resolve(handler)
        self._inbox: SimpleQueue[Message] = SimpleQueue()  # its put() may be called in a signal handler
        self._opened = None if isinstance(queue, Queue) else open_queue(queue)
        used = queue if isinstance(queue, Queue) else self._opened
        assert used is not None
        self._begun = False
        self._error: Exception | None = None
        self._crew: _Crew
        try:
            if processes:
                self._crew = Processes(used, name, terms, processes, self._inbox.put)
            else:
                self._crew = Crew(used, function, terms, self._inbox.put)
        except InvalidArgument:
            self._close()
            raise

    def stop(self, *, now: bool = False) -> None:
        """End as on SIGTERM; ``now``: as on the second. From any thread."""
        self._inbox.put(Message("now" if now else "stop"))

    def run(self, *, signals: bool = True) -> Summary:
        """Work until stopped, or idle if so asked; what was done. Once.

        ``signals``: handle SIGTERM and SIGINT meanwhile, if this is the main thread. Raises StoreGone and whatever
        else makes going on impossible, after the running handlers were given their time.
        """
        if self._begun:
            raise InvalidArgument("this worker has run: make another one")
        self._begun = True
        try:
            with self._signals(signals and threading.current_thread() is threading.main_thread()):
                try:
                    self._crew.start()
                    self._attend()
                except BaseException:  # such as Ctrl-C with signals=False: nobody must go on leasing
                    self._crew.hurry()
                    self._crew.abandon()
                    raise
                finally:
                    summary = self._crew.close()
        finally:
            self._close()
        if self._error is not None:
            raise self._error
        return summary

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _attend(self) -> None:
        """Until all of the crew have ended, or their time is over."""
        left, until = self._crew.size, float("inf")
        while left:
            try:
                message = self._inbox.get(timeout=min(max(until - time.monotonic(), 0), GLANCE))
            except Empty:
                if time.monotonic() < until:
                    continue
                self._crew.abandon()
                return
            if message.error is not None and self._error is None:
                self._error = message.error
            if message.kind == "ended":
                left -= 1
            if message.kind == "now":
                until = min(until, time.monotonic() + self._crew.hurry())
            elif message.kind != "ended" or message.error is not None:
                until = min(until, time.monotonic() + self._crew.stop())

    @contextmanager
    def _signals(self, wanted: bool) -> Iterator[None]:
        if not wanted:
            yield
            return
        before = {number: signal.getsignal(number) or signal.SIG_DFL for number in SIGNALS}
        received = 0

        def handle(number: int, frame: FrameType | None) -> None:
            nonlocal received
            received += 1
            self._inbox.put(Message("stop" if received == 1 else "now"))
            if received == 2:  # if even that takes too long, the third has its usual effect
                restore()

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        for number in SIGNALS:
            signal.signal(number, handle)
        try:
            yield
        finally:
            restore()
