"""What measuring costs: history on against off, a scrape, a day of series, and the file after many operations."""

import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from queue_core import Queue, open_queue
from queue_core.frames import series_frame
from queue_core.prometheus import QueueCollector
from queue_core.task import SECOND

PAYLOAD = {"url": "https://example.org/some/path", "n": 12345}
BATCH = [(PAYLOAD, f"t{index % 10}") for index in range(1_000)]


def timed(work: Callable[[], object]) -> float:
    """Milliseconds."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def on_and_off(directory: Path, rounds: int) -> None:
    """Batches of 1,000, durable, interleaved: the same with series and journal written, and not."""
    queues = {on: open_queue(directory / f"history-{on}") for on in (True, False)}
    for on, queue in queues.items():
        queue.configure(history=on)
    work: dict[str, Callable[[Queue], object]] = {
        "push_many of 1,000": lambda queue: queue.push_many(BATCH),
        "lease_many + ack_many of 1,000": lambda queue: queue.ack_many(queue.lease_many(1_000)),
    }
    times: dict[tuple[str, bool], list[float]] = {(name, on): [] for name in work for on in queues}
    for _ in range(rounds):
        for name, verb in work.items():
            for on, queue in queues.items():
                times[name, on].append(timed(lambda queue=queue, verb=verb: verb(queue)))  # type: ignore[misc]
    print(f"\n{'time with history and without':<34}{'with':>11}{'without':>12}{'more':>8}  reach")
    for name in work:
        with_ms, without_ms = (statistics.median(times[name, on]) for on in (True, False))
        print(f"{name:<34}{with_ms:>8.1f} ms{without_ms:>9.1f} ms{with_ms / without_ms - 1:>7.0%}  ≤ 35%")
    for queue in queues.values():
        assert queue.check() == []
        queue.close()


def scrape(directory: Path, tags: int, rounds: int) -> None:
    """One scrape by Prometheus of a queue in which all tags have tasks waiting."""
    with open_queue(directory / "scrape", durability="none") as queue:
        for begin in range(0, tags, 5_000):
            queue.push_many([(0, f"tag {number}") for number in range(begin, min(begin + 5_000, tags))] * 2)
        for _ in range(0, tags // 2, 5_000):
            queue.ack_many(queue.lease_many(min(tags // 2, 5_000)))
        registry = CollectorRegistry()
        registry.register(QueueCollector(queue))
        took = statistics.median(timed(lambda: generate_latest(registry)) for _ in range(rounds))
        print(f"\nscrape of {tags:,} tags: {took:.0f} ms (≤ 100 ms)")


def day(directory: Path, tags: int, rounds: int) -> None:
    """A day in which every tag was busy in every bucket: buckets of 10 s for two hours, of a minute before."""
    now = 1_750_000_000 * SECOND
    with open_queue(directory / "day", clock=lambda: now, durability="none") as queue:
        for step, times in ((60, 22 * 60), (10, 720)):
            for _ in range(times):
                queue.push_many([("x", f"tag {number}") for number in range(tags)])
                now += step * SECOND // 2
                queue.ack_many(queue.lease_many(tags))
                now += step * SECOND // 2
        since = queue.snapshot().at - timedelta(days=1)
        read = statistics.median(timed(lambda: queue.series(since=since)) for _ in range(rounds))
        both = statistics.median(timed(lambda: series_frame(queue.series(since=since))) for _ in range(rounds))
        rows = len(series_frame(queue.series(since=since)))
        print(f"a day of series for {tags:,} tags: {read:.0f} ms to read, {both:.0f} ms with a frame of {rows:,} rows "
              "(≤ 100 ms)")  # fmt: skip


def size(directory: Path, operations: int) -> None:
    """The file after a tenth of the operations, and after all of them, at a backlog of 1,000."""
    path = directory / "size"
    with open_queue(path, durability="none") as queue:
        queue.push_many(BATCH)
        sizes = []
        for cycle in range(1, operations // 3_000 + 1):
            queue.push_many(BATCH)
            queue.ack_many(queue.lease_many(1_000))
            if cycle in (operations // 30_000, operations // 3_000):
                sizes.append((path / "data.mdb").stat().st_blocks * 512)
        early, late = sizes
        print(f"\nstore after {operations // 10:,} operations: {early / 1e6:.1f} MB on the disk, after {operations:,}: "
              f"{late / 1e6:.1f} MB; ratio {late / early:.2f} (≤ 2)")  # fmt: skip
        assert queue.check() == []
