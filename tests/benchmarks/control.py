"""What plans cost: freezing, each action and its undo, what workers feel of it, and a death with its error group."""

import multiprocessing
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from uuid_utils import uuid7

from queue_core import Queue, State, open_queue
from queue_core.control import Operator
from queue_core.plans import Plan
from queue_core.stores.base import Adopted
from queue_core.task import Record

TAGS = 10
PAYLOAD = b'{"url":"https://example.org/some/path","n":12345}'
BATCH = 10_000
Latency = tuple[float, float]  # when the call began, on the clock that all processes share, and how long it took


def dead_letters(queue: Queue, number: int) -> None:
    """So many, over ten tags, taken in as an import does it: ids in the order of their deaths."""
    for first in range(0, number, BATCH):
        items = [
            Adopted(f"t{at % TAGS}", dead_letter(queue.clock())) for at in range(first, min(first + BATCH, number))
        ]
        queue.perform(lambda store, items=items: store.adopt(items))  # type: ignore[misc]


def dead_letter(now: int) -> Record:
    return Record(
        uuid7().bytes, 0, 0, State.DEAD, 0, PAYLOAD, now, now, 0, reason="timeout after 30 s", entered=now
    )  # fmt: skip


def actions(directory: Path, tasks: int) -> None:
    """One plan after the other over the same tasks, durable, with nobody else at work."""
    with open_queue(directory / "plans") as queue:
        dead_letters(queue, tasks)
        operator = Operator(queue, "bench", "admin", origin="bench")

        def made(action: str) -> Plan:
            return operator.plan(action, where="", reason="bench")

        began = time.perf_counter()
        plan = made("redrive")
        took = time.perf_counter() - began
        print(f"\na plan of {tasks:,} dead letters was frozen in {took:.2f} s (≤ 2 s)")
        print(f"{'plans without a rate':<34}{'per second':>12}{'tasks a commit':>16}{'reach':>10}")
        report("redrive", *timed(operator, plan), "≥ 20,000")
        report("undo of it", *timed(operator, operator.undo(plan.number)))
        timed(operator, made("redrive"))
        report("dead_letter", *timed(operator, made("dead_letter")))
        plan = made("purge")
        report("purge", *timed(operator, plan))
        report("undo of it", *timed(operator, operator.undo(plan.number)))
        assert queue.check() == []


def timed(operator: Operator, plan: Plan) -> tuple[float, float]:
    """Tasks a second, and tasks in a piece, of a plan that is run to its end."""
    pieces: list[int] = []
    began = time.perf_counter()
    done = operator.run(plan.number, progress=lambda now: pieces.append(now.done))
    took = time.perf_counter() - began
    assert done.moved == done.selected, done.outcome
    return done.moved / took, done.moved / len(set(pieces) - {0})


def report(name: str, rate: float, piece: float, reach: str = "") -> None:
    print(f"{name:<34}{rate:>12,.0f}{piece:>16,.0f}{reach:>10}")


# --- workers meanwhile ------------------------------------------------------------------------------


def work(path: str, ready: Any, stop: Any, found: Any) -> None:
    """A worker whose tasks take no time: acknowledge the last, lease the next, in one commit."""
    latencies: list[Latency] = []
    with open_queue(path) as queue:
        held = queue.lease()
        ready.release()
        while not stop.is_set():
            began = time.monotonic()
            held = queue.lease(ack=held or ())
            latencies.append((began, time.monotonic() - began))
            assert held is not None, "the workers have run out of tasks"
    found.put(latencies)


@contextmanager
def workers(path: Path, number: int, latencies: list[Latency]) -> Iterator[None]:
    """Processes that lease meanwhile; how long each call took is there afterwards."""
    context = multiprocessing.get_context("spawn")
    ready, stop, found = context.Semaphore(0), context.Event(), context.Queue()
    children = [context.Process(target=work, args=(str(path), ready, stop, found)) for _ in range(number)]
    for child in children:
        child.start()
    for _ in children:
        ready.acquire()
    yield
    stop.set()
    for _ in children:
        latencies += found.get()
    for child in children:
        child.join()


def latency(directory: Path, tasks: int, seconds: float) -> None:
    """How long two processes wait for a lease, before a plan is run and while it is."""
    path = directory / "latency"
    with open_queue(path) as queue:
        dead_letters(queue, tasks)
        for _ in range(0, 100_000, BATCH):
            queue.push_many([({"n": index}, f"t{index % TAGS}") for index in range(BATCH)])
        operator = Operator(queue, "bench", "admin", origin="bench")
        plan = operator.plan("redrive", where="")
        latencies: list[Latency] = []
        with workers(path, 2, latencies):
            time.sleep(seconds)  # what is measured: workers alone
            begin = time.monotonic()
            rate, piece = timed(operator, plan)
            end = time.monotonic()
        assert queue.check() == []
    quiet = sorted(took for at, took in latencies if at < begin)
    during = sorted(took for at, took in latencies if begin <= at < end)
    print(f"\n{'lease(ack=) in 2 processes':<34}{'per second':>12}{'p50':>10}{'p95':>10}{'p99':>10}  reach")
    for name, took, span in (("alone", quiet, seconds), ("while a plan runs", during, end - begin)):
        shown = "".join(f"{quantile(took, share) * 1e3:>7.2f} ms" for share in (0.5, 0.95, 0.99))
        print(f"{name:<34}{len(took) / span:>12,.0f}{shown}  {'p95 ≤ 50 ms' if took is during else ''}")
    print(f"the plan meanwhile: {rate:,.0f} tasks a second, {piece:,.0f} in a commit")


def quantile(ordered: list[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


# --- a death ----------------------------------------------------------------------------------------


def death(directory: Path, number: int) -> None:
    """A nack that ends in a death, with its error group, against one that ends in a retry; no flushes, interleaved."""
    with open_queue(directory / "death", durability="none") as queue:
        took: dict[int, list[float]] = {1: [], 2: []}  # by the attempts that a task has
        for index in range(number):
            for attempts, times in took.items():
                queue.push(index, tag=f"t{index % TAGS}", max_attempts=attempts)
                lease = queue.lease()
                assert lease is not None
                began = time.perf_counter()
                queue.nack(lease, f"Timeout: no answer after {index} s", retry_in=3_600)
                times.append(time.perf_counter() - began)
        assert (queue.counts().dead, queue.counts().scheduled) == (number, number)
        assert queue.check() == []
    dead, retry = (statistics.median(times) * 1e6 for times in took.values())
    print(f"\na nack took {retry:.0f} µs before a retry, {dead:.0f} µs with a death and its error group; "
          f"ratio {dead / retry:.2f}")  # fmt: skip
