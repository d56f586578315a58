"""The verbs as coroutines: same results, one thread for all who wait, nothing lost by cancelling."""

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from queue_core import (
    InvalidArgument,
    Item,
    LeaseLost,
    Queue,
    QueueFull,
    StoreBusy,
    StoreGone,
    TaskNotFound,
    open_queue,
)
from queue_core.aio import THREADS, AsyncQueue
from queue_core.task import Lease


@pytest.fixture(params=["memory", "lmdb"])
def live(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Queue]:
    """A queue on the system's clock, sound at the end."""
    with open_queue("memory://" if request.param == "memory" else tmp_path / "queue") as queue:
        yield queue
        assert queue.check() == []


def run(queue: Queue, body: Callable[[AsyncQueue], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        aqueue = AsyncQueue(queue)
        try:
            await asyncio.wait_for(body(aqueue), 20)
        finally:
            aqueue.detach()

    asyncio.run(main())


async def until(condition: Callable[[], object], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.005)


def line(aqueue: AsyncQueue) -> int:
    """How many wait."""
    return len(aqueue._waiters._line)


def test_every_verb_but_view_is_offered_with_the_same_signature() -> None:
    verbs = {name for name in vars(Queue) if not name.startswith("_") and inspect.isfunction(vars(Queue)[name])}
    offered = {name for name in vars(AsyncQueue) if not name.startswith("_")}
    assert verbs - offered == {"view", "mark", "wait_for_change", "perform", "dump"}
    for name in verbs & offered - {"close"}:
        assert inspect.signature(getattr(AsyncQueue, name)) == inspect.signature(getattr(Queue, name)), name
        assert inspect.iscoroutinefunction(getattr(AsyncQueue, name)), name


def test_the_life_of_tasks(live: Queue) -> None:
    async def body(queue: AsyncQueue) -> None:
        first = await queue.push({"n": 1}, tag="a")
        await queue.push_many([Item({"n": 2}, "b"), ({"n": 3}, "c")])
        lease = await queue.lease(ttl=30, owner="w")
        assert lease is not None
        assert (lease.id, lease.owner) == (first.id, "w")
        lease = await queue.heartbeat(lease)
        second = await queue.lease(ack=lease, wait=5)
        assert second is not None
        assert second.payload == {"n": 2}
        assert (await queue.release(second)).attempts == 0
        both = await queue.lease_many(5)
        assert [lease.payload["n"] for lease in both] == [3, 2]
        await queue.nack(both[0], "no", retry_in=60)
        await queue.dead_letter(both[1], "bad")
        assert [task.reason for task in await queue.tasks("dead")] == ["bad"]
        await queue.redrive(both[1].id)
        await queue.configure("b", paused=True)
        assert (await queue.explain(both[1].id)).blocked_by == "paused"
        counts = await queue.counts()
        assert (counts.pending, counts.scheduled) == (1, 1)
        assert (await queue.snapshot()).ring.tags == ("a", "b", "c")
        assert [event.kind for event in await queue.journal(tag="a")] == ["push", "lease", "ack"]
        assert await queue.check() == []

    run(live, body)


def test_errors_are_those_of_the_verbs(live: Queue) -> None:
    async def body(queue: AsyncQueue) -> None:
        with pytest.raises(LeaseLost):
            await queue.ack("not a token")
        with pytest.raises(TaskNotFound):
            await queue.get("00000000-0000-0000-0000-000000000000")
        for wait in (float("nan"), -1, float("inf"), "long"):
            with pytest.raises(InvalidArgument, match="wait is"):
                await queue.lease(wait=wait)  # type: ignore[arg-type]
        with pytest.raises(LeaseLost):
            await queue.lease(wait=5, ack="not a token")
        await queue.configure(max_pending=0)
        with pytest.raises(QueueFull):
            await queue.push(1)

    run(live, body)


def test_ten_waiting_leases_share_one_thread_and_idle(live: Queue) -> None:
    async def body(queue: AsyncQueue) -> None:
        waiting = [asyncio.create_task(queue.lease(wait=60)) for _ in range(10)]
        await until(lambda: line(queue) == 10)
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("queue_core-waiters") == 1
        assert sum(name.startswith("queue_core-verb") for name in names) <= THREADS
        shares = []
        while not shares or (shares[-1] >= 0.01 and len(shares) < 5):  # of a core; other tests' threads may linger
            began, used = time.monotonic(), time.process_time()
            await asyncio.sleep(0.6)
            shares.append((time.process_time() - used) / (time.monotonic() - began))
        assert min(shares) < 0.01
        tasks = await queue.push_many(range(10))
        leases = await asyncio.wait_for(asyncio.gather(*waiting), 5)
        assert sorted(lease.id for lease in leases if lease) == sorted(task.id for task in tasks)
        await until(lambda: "queue_core-waiters" not in [thread.name for thread in threading.enumerate()])

    run(live, body)


def test_a_push_wakes_a_waiter_within_50_ms(live: Queue) -> None:
    async def body(queue: AsyncQueue) -> None:
        delays = []
        for number in range(10):
            waiting = asyncio.create_task(queue.lease(wait=10))
            await until(lambda: line(queue) == 1)
            began = time.monotonic()
            await queue.push(number)
            assert await waiting is not None
            delays.append(time.monotonic() - began)
        assert sorted(delays)[2] < 0.05  # most of them may be late: the machine may be busy

    run(live, body)


def test_a_wait_ends_in_time_with_nothing(live: Queue) -> None:
    async def body(queue: AsyncQueue) -> None:
        began = time.monotonic()
        assert await queue.lease(wait=0.1) is None
        assert await queue.lease_many(3, wait=0.1) == []
        assert time.monotonic() - began >= 0.2
        await queue.push(1)
        assert (await queue.counts()).pending == 1
        assert [lease.payload for lease in await queue.lease_many(3, wait=10)] == [1]

    run(live, body)


def test_a_waiter_sees_a_task_become_due(live: Queue) -> None:
    async def body(queue: AsyncQueue) -> None:
        await queue.push("later", delay=0.3)
        lease = await queue.lease(wait=10)
        assert lease is not None
        assert lease.payload == "later"

    run(live, body)


def test_waiting_commits_the_ack_first(live: Queue) -> None:
    async def body(queue: AsyncQueue) -> None:
        await queue.push(1)
        lease = await queue.lease()
        assert lease is not None
        waiting = asyncio.create_task(queue.lease(ack=lease, wait=10))
        await until(lambda: line(queue) == 1)
        assert (await queue.counts()).all == 0
        waiting.cancel()

    run(live, body)


def test_a_cancelled_wait_takes_nothing(live: Queue) -> None:
    async def body(queue: AsyncQueue) -> None:
        waiting = [asyncio.create_task(queue.lease(wait=60)) for _ in range(3)]
        await until(lambda: line(queue) == 3)
        waiting[1].cancel()
        await until(lambda: line(queue) == 2)
        waiting[0].cancel()
        await until(lambda: line(queue) == 1)
        await queue.push(1)
        lease = await waiting[2]
        assert lease is not None
        assert (lease.attempt, len(live.get(lease.id).history)) == (1, 0)

    run(live, body)


def test_a_lease_won_by_nobody_is_released_uncounted(live: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    leased, go = threading.Event(), threading.Event()
    verb = live.lease

    def slow(**options: Any) -> Lease | None:
        lease = verb(**options)
        if lease is not None and not go.is_set():
            leased.set()
            assert go.wait(10)
        return lease

    async def body(queue: AsyncQueue) -> None:
        for wait in (0.0, 60.0):
            leased.clear()
            go.clear()
            if wait:  # this time it wins in the line
                call = asyncio.create_task(queue.lease(wait=wait))
                await until(lambda: line(queue) == 1)
                await queue.push(wait)
            else:
                await queue.push(wait)
                call = asyncio.create_task(queue.lease(wait=wait))
            await until(leased.is_set)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert live.counts().inflight == 1
            go.set()
            await until(lambda: live.counts().pending == 1)
            lease = await queue.lease()
            assert lease is not None
            task = await queue.get(lease.id)
            assert (task.attempts, task.leases, task.history[0].outcome) == (1, 2, "released")
            await queue.ack(lease)

    monkeypatch.setattr(live, "lease", slow)
    run(live, body)


def test_a_cancelled_call_is_withdrawn_if_not_begun_else_it_stands(queue: Queue) -> None:
    begun, go = threading.Event(), threading.Event()

    class Slow:
        def dump(self, payload: Any) -> Any:
            begun.set()
            assert go.wait(10)
            return payload

        def load(self, value: Any) -> Any:
            return value

    async def body() -> None:
        live = open_queue("memory://", serializer=Slow())
        async with AsyncQueue(live, threads=1) as slow:
            first = asyncio.create_task(slow.push("stands"))
            await until(begun.is_set)
            second = asyncio.create_task(slow.push("withdrawn"))
            await asyncio.sleep(0)  # it is handed over
            first.cancel()
            second.cancel()
            await asyncio.gather(first, second, return_exceptions=True)
            go.set()
            assert (await slow.counts()).pending == 1
            assert [task.payload for task in await slow.tasks("pending")] == ["stands"]
            assert await slow.check() == []

    asyncio.run(body())


def test_an_error_in_the_line_reaches_its_own_caller(live: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    verb, failures = live.lease, [StoreBusy("busy")]

    async def body(queue: AsyncQueue) -> None:
        waiting = [asyncio.create_task(queue.lease(wait=60)) for _ in range(2)]
        await until(lambda: line(queue) == 2)
        await queue.push(1)
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == ["Lease", "StoreBusy"]

    def fails_once_in_the_line(**options: Any) -> Lease | None:
        if threading.current_thread().name == "queue_core-waiters" and live.counts().pending and failures:
            raise failures.pop()
        return verb(**options)

    monkeypatch.setattr(live, "lease", fails_once_in_the_line)
    run(live, body)


def test_closing_ends_waits_and_further_verbs(live: Queue) -> None:
    other = open_queue(live.url) if live.capabilities.multi_process else open_queue("memory://")

    async def body() -> None:
        async with AsyncQueue(other) as queue:
            waiting = [asyncio.create_task(queue.lease(wait=60)) for _ in range(2)]
            await until(lambda: line(queue) == 2)
        for call in waiting:
            with pytest.raises(StoreGone):
                await call
        with pytest.raises(StoreGone, match="closed"):
            await queue.push(1)

    asyncio.run(asyncio.wait_for(body(), 20))
