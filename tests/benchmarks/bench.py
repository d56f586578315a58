"""Speed as ratios to a bare LMDB put-and-commit of the same bytes, taken in one run, interleaved, as medians.

    make bench              everything
    python tests/benchmarks/bench.py --quick --only rates

Absolute figures belong to the machine; the ratios travel better. A number to reach stands beside each.
"""

import argparse
import multiprocessing
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import lmdb

from queue_core import Queue, open_queue

PAYLOAD = {"url": "https://example.org/some/path", "n": 12345}
BYTES = b"x" * 200  # about what a task of this payload takes
TAGS = 10


def per_second(operations: int, work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return operations / (time.perf_counter() - start)


def in_threads(number: int, work: Callable[[], object]) -> None:
    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Bare:
    """What the disk and LMDB give: one put, one commit."""

    def __init__(self, path: Path) -> None:
        self.env = lmdb.open(str(path), map_size=1 << 34)
        self.next = 0

    def put(self, number: int) -> None:
        for _ in range(number):
            self.next += 1
            with self.env.begin(write=True) as txn:
                txn.put(self.next.to_bytes(8), BYTES)


def push(queue: Queue, number: int) -> None:
    for index in range(number):
        queue.push(PAYLOAD, tag=f"t{index % TAGS}")


def loop(queue: Queue, number: int) -> None:
    """A worker's loop: acknowledge the last, lease the next, in one commit."""
    lease = queue.lease()
    for _ in range(number - 1):
        assert lease is not None
        lease = queue.lease(ack=lease)
    assert lease is not None
    queue.ack(lease)


def push_in_process(path: str, number: int, go: "multiprocessing.synchronize.Event", ready) -> None:  # type: ignore[no-untyped-def]
    queue = open_queue(path)
    queue.counts()
    ready.release()
    go.wait()
    push(queue, number)


def processes_pushing(path: Path, number: int, processes: int = 4) -> float:
    context = multiprocessing.get_context("spawn")
    go, ready = context.Event(), context.Semaphore(0)
    children = [
        context.Process(target=push_in_process, args=(str(path), number // processes, go, ready))
        for _ in range(processes)
    ]
    for child in children:
        child.start()
    for _ in children:
        ready.acquire()

    def run() -> None:
        go.set()
        for child in children:
            child.join()

    return per_second(number, run)


@contextmanager
def busy_thread():  # type: ignore[no-untyped-def]
    """Another thread of this process that computes in Python."""
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=spin)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)  # as a worker sets it
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


def loop_beside_a_busy_thread(queue: Queue, number: int) -> None:
    with busy_thread():
        loop(queue, number)


def many(queue: Queue) -> None:
    queue.ack_many(queue.lease_many(1000))


def rates(directory: Path, rounds: int, number: int) -> None:
    queue = open_queue(directory / "rates")
    bare = Bare(directory / "bare")
    batch = [(PAYLOAD, f"t{index % TAGS}") for index in range(1000)]
    measures: dict[str, tuple[float, Callable[[], float]]] = {
        "bare put and commit": (1, lambda: per_second(number, lambda: bare.put(number))),
        "push, one thread": (0.65, lambda: per_second(number, lambda: push(queue, number))),
        "push, 8 threads": (
            1.8, lambda: per_second(number * 2, lambda: in_threads(8, lambda: push(queue, number // 4))),
        ),
        "push, 32 threads": (
            3.5, lambda: per_second(number * 4, lambda: in_threads(32, lambda: push(queue, number // 8))),
        ),
        "push, 4 processes": (0.75, lambda: processes_pushing(directory / "rates", number)),
        "worker loop, lease(ack=)": (0.55, lambda: per_second(number, lambda: loop(queue, number))),
        "the same beside a busy thread": (
            0.1, lambda: per_second(number // 4, lambda: loop_beside_a_busy_thread(queue, number // 4)),
        ),
        "push_many of 1,000": (20, lambda: per_second(1000, lambda: queue.push_many(batch))),
        "lease_many + ack_many of 1,000": (9, lambda: per_second(1000, lambda: many(queue))),
    }  # fmt: skip
    found: dict[str, list[float]] = {name: [] for name in measures}
    for round in range(rounds + 1):
        for name, (_, measure) in measures.items():
            rate = measure()
            if round:  # the first round warms up
                found[name].append(rate)
    base = statistics.median(found["bare put and commit"])
    print(f"\n{'rates (medians of ' + str(rounds) + ' rounds)':<34}{'per second':>12}{'ratio':>9}{'reach':>8}")
    for name, (reach, _) in measures.items():
        rate = statistics.median(found[name])
        print(f"{name:<34}{rate:>12,.0f}{rate / base:>9.2f}{'≥ ' + str(reach) if reach != 1 else '':>8}")
    assert queue.check() == []
    queue.close()


def fill(queue: Queue, tasks: int, tags: int) -> None:
    names = [f"tag-{index}" for index in range(tags)]
    for start in range(0, tasks, 10_000):
        queue.push_many([(PAYLOAD, names[index % tags]) for index in range(start, min(start + 10_000, tasks))])


def one_task(queue: Queue) -> float:
    start = time.perf_counter()
    lease = queue.lease()
    assert lease is not None
    queue.ack(lease)
    return time.perf_counter() - start


def compare(name: str, large: Queue, small: Queue, rounds: int, reach: float) -> None:
    times: dict[str, list[float]] = {"large": [], "small": []}
    for _ in range(rounds):
        times["large"].append(one_task(large))
        times["small"].append(one_task(small))
    large_ms, small_ms = (statistics.median(times[key]) * 1e3 for key in ("large", "small"))
    print(f"{name:<52}{large_ms:>8.3f} ms{small_ms:>9.3f} ms{large_ms / small_ms:>8.2f}  ≤ {reach}")


def scale(directory: Path, tasks: int, tags: int, rounds: int) -> None:
    print(f"\n{'lease + ack: time with many against few':<52}{'many':>11}{'few':>12}{'ratio':>8}  reach")
    many_tasks, few = (open_queue(directory / name, durability="relaxed") for name in ("many", "few"))
    fill(many_tasks, tasks, TAGS)
    fill(few, 1_000, TAGS)
    compare(f"{tasks:,} pending against 1,000", many_tasks, few, min(rounds, 450), 1.2)
    many_tasks.close()
    many_tags = open_queue(directory / "tags", durability="relaxed")
    fill(many_tags, tags, tags)
    for half in (0, 1):  # half of them empty, half of them paused
        names = [f"tag-{index}" for index in range(10, tags) if index % 2 == half]
        if half:
            for name in names:
                many_tags.configure(name, paused=True)
        else:
            for name in names:
                many_tags.configure(name, max_inflight=None)
    drained = 0
    while leases := many_tags.lease_many(1000):
        many_tags.ack_many(leases)
        drained += len(leases)
    few_tags = open_queue(directory / "few-tags", durability="relaxed")
    for queue in (many_tags, few_tags):
        for _ in range(50):
            queue.push_many([(PAYLOAD, f"tag-{index}") for index in range(10)])
    compare(
        f"{tags:,} tags, {drained:,} empty, the rest paused, against 10", many_tags, few_tags, min(rounds, 450), 1.3
    )


def snapshots(directory: Path, tasks: int, tags: int, rounds: int) -> None:
    large, small = (open_queue(directory / name, durability="none") for name in ("snap-large", "snap-small"))
    fill(large, tasks, tags)
    fill(small, tags, tags)
    times: dict[str, list[float]] = {"large": [], "small": []}
    for _ in range(rounds):
        for name, queue in (("large", large), ("small", small)):
            start = time.perf_counter()
            queue.snapshot()
            times[name].append((time.perf_counter() - start) * 1e3)
    large_ms, small_ms = (statistics.median(times[name]) for name in ("large", "small"))
    print(f"\nsnapshot of {tags:,} tags: {large_ms:.1f} ms with {tasks:,} tasks (≤ 30 ms), {small_ms:.1f} ms with "
          f"{tags:,}; ratio {large_ms / small_ms:.2f} (≤ 1.1)")  # fmt: skip


def written() -> int:
    """Bytes that this process has handed to write calls so far."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("wchar"):
            return int(line.split()[1])
    raise RuntimeError("the kernel does not count written bytes")


def pages(directory: Path, backlog: int) -> None:
    """Pages of 4 KiB written per commit, one caller, one operation a commit."""
    queue = open_queue(directory / f"pages-{backlog}", durability="none")
    fill(queue, max(backlog, 1000), TAGS)

    def per_commit(verb: Callable[[], object], number: int = 100) -> float:
        before, mark = written(), queue._store.mark()
        for _ in range(number):
            verb()
        return (written() - before) / 4096 / (queue._store.mark() - mark)

    held = []
    results = {
        "push": per_commit(lambda: queue.push(PAYLOAD, tag="tag-1")),
        "lease": per_commit(lambda: held.append(queue.lease())),
        "heartbeat": per_commit(lambda: held.append(queue.heartbeat(held.pop()))),
        "nack": per_commit(lambda: queue.nack(held.pop(), "no"), 30),
        "ack": per_commit(lambda: queue.ack(held.pop()), 60),
        "lease(ack=)": per_commit(lambda: held.append(queue.lease(ack=held.pop()))),
    }
    print(f"pages written per commit, {backlog:>9,} pending:  " + "  ".join(f"{k} {v:.1f}" for k, v in results.items()))


def measuring(directory: Path, tags: int, busy: int, quick: bool) -> None:
    import history  # pandas: not for the processes that are started here

    history.on_and_off(directory, 5 if quick else 21)
    history.scrape(directory, tags // 10 if quick else tags, 9)
    history.day(directory, busy // 10 if quick else busy, 5)


def controlling(directory: Path, tasks: int, quick: bool) -> None:
    import control

    control.actions(directory, tasks)
    control.latency(directory, tasks, 1 if quick else 5)
    control.death(directory, 300 if quick else 3_000)


def simulating(events: int) -> None:
    import whatif

    whatif.whatif(events)


def looking(directory: Path, quick: bool) -> None:
    import dashboard

    if quick:
        dashboard.dashboard(directory, 50_000, 5_000, 2_000, 1_000, look=10, long=30)
    else:
        dashboard.dashboard(directory, 1_000_000, 100_000, 2_000, 10_000, look=20, long=600)


def growing(directory: Path, operations: int) -> None:
    import history

    history.size(directory, operations)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds")
    names = ["rates", "history", "control", "scale", "snapshot", "pages", "whatif", "dashboard", "size"]
    parser.add_argument("--only", choices=names, help="one section")
    parser.add_argument("--dir", type=Path, help="where to make the stores (default: a temporary directory)")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="queue_core-bench-", dir=options.dir))
    quick = options.quick
    sections: dict[str, Callable[[], None]] = {
        "rates": lambda: rates(directory, 3 if quick else 9, 200 if quick else 400),
        "history": lambda: measuring(directory, 10_000, 100, quick),
        "control": lambda: controlling(directory, 20_000 if quick else 200_000, quick),
        "scale": lambda: scale(
            directory, 50_000 if quick else 1_000_000, 5_000 if quick else 100_000, 100 if quick else 450
        ),
        "snapshot": lambda: snapshots(directory, 50_000 if quick else 1_000_000, 1_000 if quick else 10_000, 15),
        "pages": lambda: [pages(directory, backlog) for backlog in (1_000, 20_000 if quick else 1_000_000)],  # type: ignore[func-returns-value]
    }
    sections["whatif"] = lambda: simulating(100_000 if quick else 1_000_000)
    sections["dashboard"] = lambda: looking(directory, quick)
    sections["size"] = lambda: growing(directory, 300_000 if quick else 10_000_000)
    try:
        for name, section in sections.items():
            if options.only in (None, name):
                section()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
