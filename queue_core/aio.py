"""The verbs of the queue as coroutines, and the one thread in which blocked leases wait."""

import asyncio
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from functools import partial, update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from queue_core.errors import LeaseLost, QueueError, StoreGone
from queue_core.queue import RECHECK, Queue
from queue_core.stores.base import Capabilities
from queue_core.task import Lease

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger("queue_core")

THREADS = 8  # verbs of one AsyncQueue that run at a time; callers of one process share their commits


class Waiter(Generic[T]):
    """A blocked lease: how to try again, what to give when its time is over, and where its result comes."""

    __slots__ = ("attempt", "future", "nothing")

    def __init__(self, attempt: Callable[[], T], nothing: T) -> None:
        self.attempt = attempt
        self.nothing = nothing
        self.future: Future[T] = Future()


class Waiters:
    """Blocked leases of one queue, first come, first served, however many, in one thread.

    The thread lives while somebody waits. It sleeps until a commit or the next moment of the store.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._lock = threading.Lock()
        self._line: deque[Waiter[Any]] = deque()
        self._running = False

    def enter(self, first: Callable[[], T], again: Callable[[], T]) -> T | Waiter[T]:
        """What ``first`` leased, or, when that is nothing, a place in the line, where ``again`` is tried.

        No commit between the two is missed: what it made eligible goes to the head of the line, or, when there
        is none, the thread starts anew and looks.
        """
        got = first()
        if got:
            return got
        waiter = Waiter(again, got)
        with self._lock:
            self._line.append(waiter)
            self._start()
        return waiter

    def wait(self, waiter: Waiter[T], timeout: float) -> T:
        """Block for the result of a waiter, at most ``timeout`` seconds; then it is nothing."""
        try:
            return waiter.future.result(min(timeout, threading.TIMEOUT_MAX))
        except NotInTime:
            self.dismiss(waiter)
            return waiter.future.result()

    async def wait_async(self, waiter: Waiter[T], timeout: float) -> T:
        """The same for a coroutine. Cancelled, it leaves the line; what it had won is released."""
        timer = asyncio.get_running_loop().call_later(timeout, self.dismiss, waiter)
        try:
            return await _result(waiter.future, self.disown)
        finally:
            timer.cancel()
            self._leave(waiter)

    def dismiss(self, waiter: Waiter[Any]) -> None:
        """End its wait with nothing, unless it has been served."""
        if self._leave(waiter) and waiter.future.set_running_or_notify_cancel():
            waiter.future.set_result(waiter.nothing)

    def dismiss_all(self) -> None:
        """End every wait with nothing."""
        with self._lock:
            line = tuple(self._line)
        for waiter in line:
            self.dismiss(waiter)

    def disown(self, done: Future[Any]) -> None:
        """A leasing call that nobody awaits any more has ended: what it leased is released uncounted."""
        if done.exception() is not None:
            _stands(done)
            return
        got = done.result()
        if isinstance(got, Waiter):
            self._leave(got)
            if not got.future.cancel():
                got.future.add_done_callback(self.disown)
        elif got:  # this may be the event loop's thread, where nothing may block
            threading.Thread(target=self._release, args=[got], name="queue_core-release").start()

    def _release(self, got: Lease | list[Lease] | None) -> None:
        for lease in [got] if isinstance(got, Lease) else got or ():
            try:
                self._queue.release(lease)
            except LeaseLost:
                log.debug("task %s was taken back before it could be released", lease.id)
            except QueueError as error:
                log.warning("task %s could not be released, its lease will run out: %s", lease.id, error)

    # --- the line

    def _start(self) -> None:
        if not self._running:
            self._running = True
            threading.Thread(target=self._serve, name="queue_core-waiters", daemon=True).start()

    def _leave(self, waiter: Waiter[Any]) -> bool:
        with self._lock:
            if waiter not in self._line:
                return False
            self._line.remove(waiter)
            return True

    def _head(self) -> Waiter[Any] | None:
        """Who is first in the line; the thread ends when nobody is."""
        with self._lock:
            while self._line and self._line[0].future.cancelled():
                self._line.popleft()
            self._running = bool(self._line)
            return self._line[0] if self._line else None

    def _serve(self) -> None:
        while (waiter := self._head()) is not None:
            try:
                mark = self._queue.mark()
                got = waiter.attempt()
                if got:
                    self._deliver(waiter, got)
                else:
                    self._queue.wait_for_change(mark, RECHECK)
            except Exception as error:  # noqa: BLE001 - it belongs to the caller, who gets it
                if self._leave(waiter) and waiter.future.set_running_or_notify_cancel():
                    waiter.future.set_exception(error)

    def _deliver(self, waiter: Waiter[Any], got: Any) -> None:
        if self._leave(waiter) and waiter.future.set_running_or_notify_cancel():
            waiter.future.set_result(got)
        else:
            self._release(got)


Verb = Callable[Concatenate["AsyncQueue", P], Coroutine[Any, Any, T]]


def _verb(method: Callable[Concatenate[Queue, P], T]) -> "Verb[P, T]":
    """The verb as a coroutine: same arguments, result and errors."""

    async def call(self: "AsyncQueue", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(partial(getattr(self._queue, method.__name__), *args, **kwargs), _stands)

    update_wrapper(call, method)
    return call


def _leasing(method: Callable[Concatenate[Queue, P], T]) -> "Verb[P, T]":
    """A verb that leases: ``wait`` is spent in the shared thread, and what a cancelled call wins is released."""

    async def call(self: "AsyncQueue", /, *args: P.args, **kwargs: P.kwargs) -> T:
        given: dict[str, Any] = dict(kwargs)
        wait, ack = given.pop("wait", 0.0), given.pop("ack", ())
        verb = partial(getattr(self._queue, method.__name__), *args)
        first: Callable[[], T] = partial(verb, **given, ack=ack)
        if not isinstance(wait, int | float) or not 0 < wait < math.inf:
            plain: Callable[[], T] = partial(verb, **given, ack=ack, wait=wait)  # which checks what it is given
            return await self._run(plain, self._waiters.disown)
        until = asyncio.get_running_loop().time() + wait
        entered = await self._run(partial(self._waiters.enter, first, partial(verb, **given)), self._waiters.disown)
        left = until - asyncio.get_running_loop().time()
        return await self._waiters.wait_async(entered, left) if isinstance(entered, Waiter) else entered

    update_wrapper(call, method)
    return call


class AsyncQueue:
    """A queue whose verbs are coroutines, with the arguments, results and errors of ``Queue``.

    Verbs run in a small thread pool; leases that wait share one thread. A cancelled call is withdrawn if it
    has not begun, else it stands: look before repeating it. A lease that it won is released uncounted.
    ``async with`` closes the queue at the end, as ``close()`` does.
    """

    def __init__(self, queue: Queue, *, threads: int = THREADS) -> None:
        self._queue = queue
        self._waiters = Waiters(queue)
        self._pool = ThreadPoolExecutor(threads, "queue_core-verb")

    @property
    def url(self) -> str:
        return self._queue.url

    @property
    def capabilities(self) -> Capabilities:
        """What the store can do."""
        return self._queue.capabilities

    push = _verb(Queue.push)
    push_many = _verb(Queue.push_many)

    lease = _leasing(Queue.lease)
    lease_many = _leasing(Queue.lease_many)
    heartbeat = _verb(Queue.heartbeat)
    ack = _verb(Queue.ack)
    ack_many = _verb(Queue.ack_many)
    nack = _verb(Queue.nack)
    release = _verb(Queue.release)
    defer = _verb(Queue.defer)

    dead_letter = _verb(Queue.dead_letter)
    requeue = _verb(Queue.requeue)
    redrive = _verb(Queue.redrive)
    cancel = _verb(Queue.cancel)
    purge = _verb(Queue.purge)
    restore = _verb(Queue.restore)
    expunge = _verb(Queue.expunge)
    extend = _verb(Queue.extend)
    replace = _verb(Queue.replace)

    requeue_inflight = _verb(Queue.requeue_inflight)
    dead_letter_inflight = _verb(Queue.dead_letter_inflight)
    configure = _verb(Queue.configure)
    report = _verb(Queue.report)

    get = _verb(Queue.get)
    tasks = _verb(Queue.tasks)
    snapshot = _verb(Queue.snapshot)
    counts = _verb(Queue.counts)
    explain = _verb(Queue.explain)
    journal = _verb(Queue.journal)
    series = _verb(Queue.series)
    storage = _verb(Queue.storage)
    check = _verb(Queue.check)

    async def close(self) -> None:
        """Close the queue and end the threads; leases that wait end with StoreGone."""
        await self._run(self._queue.close, _stands)
        self._pool.shutdown(wait=False)

    def detach(self) -> None:
        """End the threads, and all waits with nothing; the queue stays open."""
        self._waiters.dismiss_all()
        self._pool.shutdown(wait=False)

    async def __aenter__(self) -> "AsyncQueue":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncQueue({self.url!r})"

    async def _run(self, call: Callable[[], T], orphaned: Callable[[Future[Any]], None]) -> T:
        try:
            future = self._pool.submit(call)
        except RuntimeError:
            raise StoreGone(f"{self!r} was closed: open the queue again") from None
        return await _result(future, orphaned)


async def _result(future: Future[T], orphaned: Callable[[Future[Any]], None]) -> T:
    """Await it. Cancelled, it is withdrawn if it has not begun; else ``orphaned`` is told when it has ended."""
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        if not future.cancel():
            future.add_done_callback(orphaned)
        raise


def _stands(done: Future[Any]) -> None:
    """A call that was cancelled after it had begun has ended: only a failure is news."""
    if (error := done.exception()) is not None:
        log.warning("a cancelled call failed: %r", error)
