"""The worker in this process: handlers, heartbeats, lost leases, settling, stopping."""

import asyncio
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import worker_handlers
from waiting import until

from queue_core import InvalidArgument, Lease, LeaseLost, OutcomeUnknown, Queue, StoreBusy, StoreFull, StoreGone
from queue_core import open_queue as open_any
from queue_core.worker import Defer, Job, Reject, Retry, Summary, Worker


@pytest.fixture
def queue() -> Iterator[Queue]:
    """A queue on the system's clock, sound at the end."""
    with open_any("memory://") as queue:
        yield queue
        assert queue.check() == []


@pytest.fixture(autouse=True)
def soon_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle before the first backoff, of half a second at least, is over."""
    monkeypatch.setattr("queue_core.worker.crew.IDLE", 0.1)


@contextmanager
def running(worker: Worker) -> Iterator[list[Summary]]:
    """The worker at work in a thread; stopped at the end, when its summary is in the list."""
    summaries: list[Summary] = []
    thread = threading.Thread(target=lambda: summaries.append(worker.run()))
    thread.start()
    try:
        yield summaries
    finally:
        worker.stop()
        thread.join(10)
        assert not thread.is_alive()


def drain(queue: Queue, handler: Callable[[Job], Any], **options: Any) -> Summary:
    return Worker(queue, handler, stop_when_idle=True, **options).run()


# --- handlers


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_sync_handler_runs_in_threads(queue: Queue, concurrency: int) -> None:
    queue.push_many([(number, f"tag {number % 3}") for number in range(12)])
    threads: set[int] = set()
    together = threading.Barrier(concurrency)

    def handler(job: Job) -> None:
        together.wait(10)
        threads.add(threading.get_ident())

    assert drain(queue, handler, concurrency=concurrency) == Summary(done=12)
    assert len(threads) == concurrency
    assert queue.counts().all == 0


def test_an_async_handler_runs_on_one_loop(queue: Queue) -> None:
    queue.push_many(range(60))
    threads: set[int] = set()
    inside = most = 0

    async def handler(job: Job) -> None:
        nonlocal inside, most
        threads.add(threading.get_ident())
        inside += 1
        most = max(most, inside)
        end = time.monotonic() + 10
        while most < 20 and time.monotonic() < end:
            await asyncio.sleep(0.005)
        inside -= 1

    before = threading.active_count()
    assert drain(queue, handler, concurrency=20) == Summary(done=60)
    assert (len(threads), most) == (1, 20)
    until(lambda: threading.active_count() <= before)


def test_an_object_with_an_async_call_is_async(queue: Queue) -> None:
    class Handler:
        seen: list[Any] = []  # noqa: RUF012

        async def __call__(self, job: Job) -> None:
            await asyncio.sleep(0)
            self.seen.append(job.payload)

    queue.push_many(["a", "b"])
    assert drain(queue, Handler()) == Summary(done=2)
    assert Handler.seen == ["a", "b"]


def test_what_a_handler_is_given(queue: Queue) -> None:
    task = queue.push({"n": 1}, tag="a")
    seen: list[Any] = []

    def handler(job: Job) -> None:
        seen.append((job.id, job.tag, job.payload, job.attempt, job.fence, job.lost, job.stopping))
        token = job.lease.token
        job.heartbeat()
        assert job.lease.token != token
        jobs.append(job)

    jobs: list[Job] = []
    assert drain(queue, handler, owner="me").done == 1
    assert seen == [(task.id, "a", {"n": 1}, 1, 1, False, False)]
    assert jobs[0].lease.owner.startswith("me:")
    with pytest.raises(LeaseLost):  # a late beat changes nothing
        jobs[0].heartbeat()


def test_a_failure_is_a_nack_with_the_traceback(queue: Queue) -> None:
    task = queue.push(1)

    def handler(job: Job) -> None:
        raise ValueError("no good \ud800\0")

    assert drain(queue, handler) == Summary(failed=1)
    task = queue.get(task.id)
    assert task.error is not None
    lines = task.error.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert f'File "{__file__}"' in lines[1]  # the handler's own frame comes first
    assert lines[-1].startswith("ValueError: no good")
    assert (task.state, task.attempts, task.history[0].outcome) == ("scheduled", 1, "nacked")


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_would_end_a_process_fails_only_the_task(queue: Queue, kind: str) -> None:
    queue.push_many(["exit", "interrupt", "cancelled", "good"])
    errors = {"exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "cancelled": asyncio.CancelledError()}

    def handler(job: Job) -> None:
        if job.payload in errors:
            raise errors[job.payload]

    async def async_handler(job: Job) -> None:
        handler(job)

    assert drain(queue, handler if kind == "sync" else async_handler) == Summary(done=1, failed=3)
    found = [(task.error or "").splitlines()[-1] for task in queue.tasks("scheduled")]
    assert sorted(error.split(":")[0].split(".")[-1] for error in found) == [
        "CancelledError", "KeyboardInterrupt", "SystemExit",
    ]  # fmt: skip


def test_a_sync_handler_that_returns_a_coroutine_fails(queue: Queue) -> None:
    task = queue.push(1)

    async def work() -> None:
        raise AssertionError("never awaited")

    assert drain(queue, lambda job: work()) == Summary(failed=1)
    assert "make the handler `async def`" in (queue.get(task.id).error or "")


def test_retry_defer_and_reject(queue: Queue) -> None:
    retried, deferred, rejected = queue.push_many(["retry", "defer", "reject"])

    def handler(job: Job) -> None:
        match job.payload:
            case "retry":
                raise Retry(timedelta(minutes=10), "not there yet") from OSError("refused")
            case "defer":
                raise Defer(600)
            case _:
                raise Reject("makes no sense")

    assert drain(queue, handler) == Summary(failed=2, deferred=1)
    task = queue.get(retried.id)
    assert (task.state, task.attempts) == ("scheduled", 1)
    assert task.due_at is not None
    assert 590 < (task.due_at - task.history[0].ended_at).total_seconds() < 610
    assert "OSError: refused" in (task.error or "")
    assert "not there yet" in (task.error or "")
    task = queue.get(deferred.id)
    assert (task.state, task.attempts, task.defers) == ("scheduled", 0, 1)
    task = queue.get(rejected.id)
    assert (task.state, task.reason) == ("dead", "makes no sense")


@pytest.mark.parametrize("delay", [-1, float("nan"), "soon", True, 1e12])
def test_a_delay_that_cannot_be_meant_is_refused(delay: Any) -> None:
    for kind in (Retry, Defer):
        with pytest.raises(InvalidArgument, match="it is a number of seconds"):
            kind(delay)


def test_deferrals_are_counted_apart_and_use_no_attempts(queue: Queue) -> None:
    task = queue.push(1, max_attempts=3)
    runs: list[int] = []

    def handler(job: Job) -> None:
        runs.append(job.attempt)
        raise Defer(0) if len(runs) <= 5 else Retry(0)

    assert drain(queue, handler) == Summary(failed=3, deferred=5)
    task = queue.get(task.id)
    assert (task.state, task.attempts, task.defers, task.max_attempts) == ("dead", 3, 5, 3)
    assert runs == [1, 1, 1, 1, 1, 1, 2, 3]


# --- settling


def test_a_task_costs_one_commit(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.push_many(range(20))
    store = queue._store
    leased: list[int] = []
    settled: list[int] = []
    lease, settle = store.lease, store.settle

    def spy_lease(n: int, ttl: int, owner: str, tokens: Sequence[Any]) -> Any:
        leased.append(len(tokens))
        return lease(n, ttl, owner, tokens)

    def spy_settle(tokens: Sequence[Any], ending: Any) -> Any:
        settled.append(len(tokens))
        return settle(tokens, ending)

    monkeypatch.setattr(store, "lease", spy_lease)
    monkeypatch.setattr(store, "settle", spy_settle)
    before = queue.mark()
    assert drain(queue, lambda job: None).done == 20
    assert settled == []
    assert leased[:21] == [0] + [1] * 20  # every ack rides on the lease of the next, the last on an empty one
    assert sum(leased) == 20
    assert queue.mark() - before == 21 + 2  # and two reports


def test_a_finished_task_is_settled_while_its_worker_waits(queue: Queue) -> None:
    queue.push(1)
    with running(Worker(queue, lambda job: None)) as summaries:
        until(lambda: queue.counts().all == 0)
        assert not summaries
    assert summaries == [Summary(done=1)]


def test_a_stale_ack_is_dropped_and_the_worker_goes_on(queue: Queue) -> None:
    first, _ = queue.push_many(["taken away", "mine"])
    runs: list[Any] = []

    def handler(job: Job) -> None:
        runs.append(job.payload)
        if len(runs) == 1:
            queue.cancel(queue.requeue(first.id).id)

    assert drain(queue, handler) == Summary(done=1, lost=1)
    assert runs == ["taken away", "mine"]
    assert queue.get(first.id).state == "trash"


@pytest.mark.parametrize("error", [StoreBusy("busy"), StoreFull("full"), OutcomeUnknown("lost")])
def test_a_store_that_cannot_now_is_tried_again(
    queue: Queue, error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    queue.push_many(["good", "bad"])
    failures = {"lease": [error], "nack": [error]}

    def handler(job: Job) -> None:
        if job.payload == "bad":
            raise ValueError

    for name, left in failures.items():
        verb = getattr(queue, name)

        def flaky(*args: Any, verb: Any = verb, left: list[Exception] = left, **options: Any) -> Any:
            if left and (args or options.get("ack")):  # the lease that carries an ack; any nack
                raise left.pop()
            return verb(*args, **options)

        monkeypatch.setattr(queue, name, flaky)
    with caplog.at_level(logging.WARNING, "queue_core.worker"):
        assert drain(queue, handler) == Summary(done=1, failed=1)
    assert failures == {"lease": [], "nack": []}
    assert [getattr(record, "event", None) for record in caplog.records].count("store") == 2


def test_a_store_that_is_gone_ends_the_worker_with_the_error(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(**options: Any) -> None:
        raise StoreGone("removed")

    monkeypatch.setattr(queue, "lease", gone)
    with pytest.raises(StoreGone, match="removed"):
        Worker(queue, print, concurrency=2).run()


# --- heartbeats


@pytest.mark.parametrize(("ttl", "interval"), [(1.0, 1.0), (3.0, 1.1), (0.3, 0.2)])
def test_a_heartbeat_interval_above_a_third_of_the_ttl_is_refused(queue: Queue, ttl: float, interval: float) -> None:
    with pytest.raises(InvalidArgument, match="at most a third of the ttl"):
        Worker(queue, print, ttl=ttl, heartbeat_interval=interval)
    Worker(queue, print, ttl=ttl, heartbeat_interval=ttl / 3)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_heartbeats_keep_a_short_lease_for_a_long_handler(queue: Queue, kind: str) -> None:
    queue.push(1)
    runs: list[int] = []

    def handler(job: Job) -> None:
        runs.append(job.attempt)
        assert queue.lease(wait=1.2) is None  # nobody else gets it

    async def async_handler(job: Job) -> None:
        await asyncio.to_thread(handler, job)

    assert drain(queue, handler if kind == "sync" else async_handler, ttl=0.5) == Summary(done=1)
    assert runs == [1]


def test_settling_waits_for_a_heartbeat_under_way(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.push(1)
    beaten, settled = threading.Event(), threading.Event()
    early: list[bool] = []
    heartbeat, lease = queue.heartbeat, queue.lease

    def slow_heartbeat(*args: Any) -> Lease:
        fresh = heartbeat(*args)  # committed: the old token is dead
        if not beaten.is_set():
            beaten.set()
            early.append(settled.wait(0.2))
        return fresh

    def spy_lease(**options: Any) -> Lease | None:
        if options["ack"]:
            settled.set()
        return lease(**options)

    monkeypatch.setattr(queue, "heartbeat", slow_heartbeat)
    monkeypatch.setattr(queue, "lease", spy_lease)
    assert drain(queue, lambda job: beaten.wait(10), ttl=0.3) == Summary(done=1)
    assert early == [False]


def test_a_heartbeat_whose_answer_was_lost_costs_one_redelivery(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    task = queue.push(1)
    beaten = threading.Event()
    attempts: list[int] = []
    heartbeat = queue.heartbeat

    def lossy(*args: Any) -> Lease:
        fresh = heartbeat(*args)
        if not beaten.is_set():
            beaten.set()
            raise OutcomeUnknown("the answer was lost")
        return fresh

    monkeypatch.setattr(queue, "heartbeat", lossy)

    def handler(job: Job) -> None:
        attempts.append(job.attempt)
        assert beaten.wait(10)

    with running(Worker(queue, handler, ttl=0.3)) as summaries:
        until(lambda: queue.counts().all == 0)
    assert summaries == [Summary(done=1, lost=1)]
    assert attempts == [1, 2]
    assert [event.kind for event in queue.journal() if event.task_id == task.id] == [
        "push", "lease", "expire", "lease", "ack",
    ]  # fmt: skip


def test_max_runtime_lets_the_lease_of_a_hung_handler_run_out(queue: Queue) -> None:
    queue.push(1)
    go = threading.Event()
    seen: list[Job] = []

    def handler(job: Job) -> None:
        seen.append(job)
        assert go.wait(10)

    with running(Worker(queue, handler, ttl=0.3, max_runtime=0.5)) as summaries:
        until(lambda: seen)
        began = time.monotonic()
        again = queue.lease(wait=10)
        assert again is not None
        assert time.monotonic() - began > 0.4
        assert (again.attempt, again.task.history[0].outcome) == (2, "expired")
        until(lambda: seen[0].lost)
        with pytest.raises(LeaseLost):
            seen[0].heartbeat()
        go.set()
    assert summaries == [Summary(lost=1)]
    queue.ack(again)


# --- lost leases


def test_a_worker_drops_an_async_handler_whose_lease_is_lost(queue: Queue) -> None:
    task = queue.push(1)
    events: list[str] = []

    async def handler(job: Job) -> None:
        events.append(f"began {job.attempt}")
        if job.attempt == 1:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                events.append("cancelled")
                raise

    with running(Worker(queue, handler, ttl=0.3)) as summaries:
        until(lambda: events)
        queue.requeue(task.id)
        until(lambda: queue.counts().all == 0)
    assert events == ["began 1", "cancelled", "began 2"]
    assert summaries == [Summary(done=1, lost=1)]


def test_a_worker_drops_a_handler_whose_lease_is_lost(queue: Queue) -> None:
    task = queue.push(1)
    seen: list[Job] = []

    def handler(job: Job) -> None:
        seen.append(job)
        until(lambda: job.lost)
        raise Reject("this would dead-letter somebody else's task")

    with running(Worker(queue, handler, ttl=0.3)) as summaries:
        until(lambda: seen)
        queue.requeue(task.id)
        mine = queue.lease(ttl=60)  # before the worker, whose only thread is busy
        assert mine is not None
        until(lambda: seen[0].lost)
    assert summaries == [Summary(lost=1)]
    assert queue.get(task.id).record.hold == mine.hold
    queue.ack(mine)


# --- the end


def test_stopping_lets_a_running_handler_finish(queue: Queue) -> None:
    queue.push_many(["running", "waiting"])
    jobs: list[Job] = []

    def handler(job: Job) -> None:
        jobs.append(job)
        until(lambda: job.stopping)

    worker = Worker(queue, handler, grace=10)
    with running(worker) as summaries:
        until(lambda: jobs)
        worker.stop()
        worker.stop()  # twice is not "at once"
    assert summaries == [Summary(done=1)]
    assert [task.payload for task in queue.tasks("pending")] == ["waiting"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_is_left_after_the_grace_is_given_back_uncounted(queue: Queue, kind: str) -> None:
    first, second = queue.push_many(range(2))
    task = queue.push("mine", max_attempts=1, tag="a")
    queue.cancel(first.id)
    queue.cancel(second.id)
    began, go, ended = threading.Event(), threading.Event(), threading.Event()

    def handler(job: Job) -> None:
        began.set()
        go.wait(10)
        ended.set()

    async def async_handler(job: Job) -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    worker = Worker(queue, handler if kind == "sync" else async_handler, grace=0.2)
    with running(worker) as summaries:
        assert began.wait(10)
        told = time.monotonic()
        worker.stop()
        until(lambda: summaries)
        assert 0.15 < time.monotonic() - told < 5
    assert summaries == [Summary(released=1)]
    go.set()
    assert ended.wait(10)
    task = queue.get(task.id)
    assert (task.state, task.attempts, task.history[0].outcome) == ("pending", 0, "released")


def test_a_handler_over_its_time_is_not_given_back_uncounted(queue: Queue) -> None:
    task = queue.push(1)
    go = threading.Event()
    worker = Worker(queue, lambda job: go.wait(10), ttl=0.3, max_runtime=0.1, grace=0)
    with running(worker) as summaries:
        until(lambda: [job for job in worker._crew._pulse.jobs() if job.overtime])  # type: ignore[attr-defined]
        worker.stop(now=True)
    assert summaries == [Summary()]
    go.set()
    lease = queue.lease(wait=10)
    assert lease is not None
    assert (lease.id, lease.attempt) == (task.id, 2)
    queue.ack(lease)


def test_stops_when_idle_and_does_not_wait_for_what_cannot_be_leased(queue: Queue) -> None:
    queue.push_many([(1, "a"), (2, "paused")])
    queue.push(3, tag="a", delay=3600)
    queue.configure("paused", paused=True)
    assert drain(queue, lambda job: None, concurrency=3) == Summary(done=1)


def test_is_not_idle_while_a_handler_runs(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.push(1)
    empty_handed: list[float] = []
    real = queue.lease

    def lease(**given: Any) -> Lease | None:
        found = real(**given)
        if found is None:
            empty_handed.append(time.monotonic())
        return found

    monkeypatch.setattr(queue, "lease", lease)

    def handler(job: Job) -> None:
        if job.payload == 1:
            until(lambda: len(empty_handed) >= 4)  # the other runner has found nothing, again and again
            queue.push(2)

    assert drain(queue, handler, concurrency=2) == Summary(done=2)


def test_the_switch_interval_is_small_meanwhile_and_restored(queue: Queue) -> None:
    before = sys.getswitchinterval()
    seen: list[float] = []

    def nested(job: Job) -> None:
        seen.append(sys.getswitchinterval())
        with open_any("memory://") as other:
            Worker(other, print, stop_when_idle=True).run()
        seen.append(sys.getswitchinterval())

    queue.push(1)
    drain(queue, nested)
    assert seen == pytest.approx([0.0005, 0.0005])
    assert sys.getswitchinterval() == before


def test_signals_are_handled_meanwhile_and_restored(queue: Queue) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    queue.push_many(range(2))

    def handler(job: Job) -> None:
        signal.raise_signal(signal.SIGTERM)
        until(lambda: job.stopping)

    assert Worker(queue, handler).run() == Summary(done=1)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
    assert queue.counts().pending == 1


def test_an_interrupted_run_leaves_nobody_working(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.push_many(range(2))
    go = threading.Event()
    worker = Worker(queue, lambda job: go.wait(10))

    def interrupted() -> None:
        until(lambda: queue.counts().inflight)
        raise KeyboardInterrupt

    monkeypatch.setattr(worker, "_attend", interrupted)
    with pytest.raises(KeyboardInterrupt):
        worker.run(signals=False)
    go.set()
    until(lambda: not any(thread.name.startswith("queue_core-runner") for thread in threading.enumerate()))
    assert [task.attempts for task in queue.tasks("pending")] == [0, 0]


def test_a_worker_tells_of_itself(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    queue.push_many(["good", "bad"])

    def handler(job: Job) -> None:
        (worker,) = queue.snapshot().workers
        assert worker.stopped_at is None
        assert job.lease.owner == worker.id
        if job.payload == "bad":
            raise ValueError("no good")

    with caplog.at_level(logging.DEBUG, "queue_core.worker"):
        drain(queue, handler, concurrency=1)
    (worker,) = queue.snapshot().workers
    assert (worker.done, worker.failed, worker.concurrency) == (1, 1, 1)
    assert worker.stopped_at is not None
    assert worker.id.startswith(f"{worker.host}:{worker.pid}:")
    records = {record.__dict__["event"]: record for record in caplog.records}
    assert set(records) == {"started", "done", "failed", "stopping", "stopped"}
    assert {record.__dict__["worker"] for record in caplog.records} == {worker.id}
    assert "ValueError('no good')" in records["failed"].getMessage()
    assert records["failed"].__dict__["attempt"] == 1
    assert records["failed"].__dict__["seconds"] >= 0


def test_a_worker_reports_again_while_it_runs(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_core.worker.pulse.REPORT_INTERVAL", 0.05)
    seen: list[int] = []
    report = queue.report
    monkeypatch.setattr(queue, "report", lambda record: (seen.append(record.seen), report(record)))
    with running(Worker(queue, print, ttl=0.3)):
        until(lambda: len(seen) >= 3)
    assert seen == sorted(set(seen))


# --- what is refused


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"concurrency": 0}, "concurrency is 0"),
        ({"concurrency": True}, "concurrency is True"),
        ({"processes": -1}, "processes is -1"),
        ({"ttl": 0}, "ttl is 0 seconds"),
        ({"ttl": "long"}, "ttl is 'long'"),
        ({"max_runtime": float("nan")}, "max_runtime is nan"),
        ({"grace": -1}, "grace is -1"),
        ({"owner": 3}, "owner is 3"),
        ({"owner": "🙂" * 51}, "it is text of at most 200 bytes"),
        ({"processes": 2}, "no other process can open"),
    ],
)
def test_arguments_that_cannot_be_meant(queue: Queue, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        Worker(queue, worker_handlers.fail, **options)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("worker_handlers", 'name it as "module:function"'),
        ("worker_handlers:", 'name it as "module:function"'),
        ("no_such_module:work", "cannot be imported: No module named"),
        ("worker_handlers:no_such", "cannot be imported: .*has no attribute 'no_such'"),
        ("worker_handlers:__name__", "it is a function of one argument"),
        (3, "it is a function of one argument"),
    ],
)
def test_handlers_that_are_none(queue: Queue, name: Any, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        Worker(queue, name)


def made_in_a_cell(job: Job) -> None:
    """Stands for a function of a notebook once its module is called that."""


def test_a_handler_that_only_this_process_has_is_refused_for_processes(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made_in_a_cell, "__module__", "__main__")
    for handler in (made_in_a_cell, lambda job: None, worker_handlers.machine.run):
        with pytest.raises(InvalidArgument, match="worker processes"):
            Worker(tmp_path / "queue", handler, processes=2)
    with open_any(tmp_path / "queue", payload_type=int) as typed, pytest.raises(InvalidArgument, match="payload_type"):
        Worker(typed, worker_handlers.compute, processes=2)


def test_a_worker_runs_once(queue: Queue) -> None:
    worker = Worker(queue, print, stop_when_idle=True)
    worker.run()
    with pytest.raises(InvalidArgument, match="make another one"):
        worker.run()
