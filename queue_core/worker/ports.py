"""How the loop of a worker blocks: in threads, or on an event loop."""

import asyncio
import inspect
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Protocol, TypeVar

from queue_core.aio import THREADS, Waiter, Waiters
from queue_core.task import Lease
from queue_core.worker.job import Job
from queue_core.worker.terms import Handler

T = TypeVar("T")


def runs_on_loop(handler: Handler) -> bool:
    """Whether it is a coroutine function, or an object with an async ``__call__``."""
    call = getattr(handler, "__call__", None)  # noqa: B004 - it is not asked whether there is one
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


class Port(Protocol):
    """How a runner blocks: in a thread of its own it does, on the event loop it awaits."""

    async def call(self, verb: Callable[[], T]) -> T:
        """Run a verb that blocks."""

    async def wait(self, waiter: Waiter[Lease | None], timeout: float) -> Lease | None:
        """Wait in the line."""

    async def handle(self, job: Job) -> BaseException | None:
        """Run the handler; what it raised."""


class Inline:
    """A runner that has a thread: nothing is awaited for real, so its coroutine never suspends."""

    def __init__(self, handler: Handler, waiters: Waiters) -> None:
        self._handler = handler
        self._waiters = waiters

    async def call(self, verb: Callable[[], T]) -> T:
        return verb()

    async def wait(self, waiter: Waiter[Lease | None], timeout: float) -> Lease | None:
        return self._waiters.wait(waiter, timeout)

    async def handle(self, job: Job) -> BaseException | None:
        try:
            result = self._handler(job)
        except BaseException as error:  # noqa: BLE001 - sys.exit() in a handler is a failure of its task
            return error
        if inspect.iscoroutine(result):
            result.close()
            return TypeError("the handler returned a coroutine that nobody awaits: make the handler `async def`")
        return None


class OnLoop:
    """A runner on the event loop; verbs run in a few threads."""

    def __init__(self, handler: Handler, waiters: Waiters) -> None:
        self._handler = handler
        self._waiters = waiters
        self._pool = ThreadPoolExecutor(THREADS, "queue_core-verb")

    async def call(self, verb: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, verb)

    async def wait(self, waiter: Waiter[Lease | None], timeout: float) -> Lease | None:
        return await self._waiters.wait_async(waiter, timeout)

    async def handle(self, job: Job) -> BaseException | None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._guarded(job))
        job.bind(lambda: loop.call_soon_threadsafe(task.cancel))
        await asyncio.wait([task])
        job.bind(None)
        return None if task.cancelled() else task.result()  # cancelled before it began: there is nobody to tell

    async def _guarded(self, job: Job) -> BaseException | None:
        try:
            await self._handler(job)
        except BaseException as error:  # noqa: BLE001 - as for threads; a cancelled one has lost its task
            return error
        return None

    def close(self) -> None:
        self._pool.shutdown(wait=False)


class FastSwitching:
    """A smaller thread switch interval while any worker with threads runs in this process.

    The store gives up the GIL at every call and must get it back from handlers that compute.
    """

    INTERVAL = 0.0005  # seconds
    _lock = threading.Lock()
    _users: ClassVar[int] = 0
    _before: ClassVar[float] = 0.0

    @classmethod
    def begin(cls) -> None:
        with cls._lock:
            if not cls._users:
                cls._before = sys.getswitchinterval()
                sys.setswitchinterval(min(cls.INTERVAL, cls._before))
            cls._users += 1

    @classmethod
    def end(cls) -> None:
        with cls._lock:
            cls._users -= 1
            if not cls._users:
                sys.setswitchinterval(cls._before)


def straight(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise RuntimeError("a runner in a thread was suspended")
