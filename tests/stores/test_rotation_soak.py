"""The rotation keeps its promise whatever four processes do to it: every serve is checked, in order, without a hole."""

import multiprocessing
import os
import random
import sys
from collections import Counter
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import pytest
from waiting import until

from queue_core import Lease, Queue, QueueFull, fairness, open_queue
from queue_core.history import JOURNAL_LIMIT, Entry, Kind

SOAK = os.environ.get("SOAK", "") not in ("", "0")
SERVES = 1_000_000 if SOAK else 10_000
PROCESSES = 4
TAGS = [f"tag-{number}" for number in range(12)]
WEIGHTS = [1, 2, 3, 7]
AHEAD = JOURNAL_LIMIT // 20  # serves that nobody has checked yet: with all they bring, they are far from the limit
PIECE = 5_000


def serve(path: Path, seed: int, checked: "Synchronized[int]") -> None:
    """Push, lease and settle at random, and change settings now and then, until enough has been served."""
    draw = random.Random(seed)
    held: list[Lease] = []
    with open_queue(path) as queue:
        while checked.value < SERVES:
            refill(queue, draw)
            if draw.random() < 0.05:
                interfere(queue, draw)
            done, held = held, []
            held = queue.lease_many(draw.choice([1, 1, 1, 2, 5, 20, 100]), ttl=60, ack=settled(queue, done, draw))
            if held:
                last = held[-1].fence
                until(lambda last=last: last < checked.value + AHEAD or checked.value >= SERVES, 120)  # type: ignore[misc]
        queue.ack_many(held)


def refill(queue: Queue, draw: random.Random) -> None:
    """A few tasks more for one tag, or many for some; tags run empty in between and come back."""
    tags = draw.choices(TAGS, k=draw.choice([1, 1, 2]))
    try:
        queue.push_many([(0, tag) for tag in tags for _ in range(draw.choice([1, 2, 10, 60]))])
    except QueueFull:
        pass  # max_pending keeps the store small


def settled(queue: Queue, leases: list[Lease], draw: random.Random) -> list[Lease]:
    """Most are left for the acknowledgement that goes with the next lease; the rest end in other ways now."""
    left = []
    for lease in leases:
        chance = draw.random()
        if chance < 0.01:
            queue.nack(lease, "no", retry_in=draw.choice([0, 0.01]))
        elif chance < 0.02:
            queue.release(lease)
        elif chance < 0.03:
            queue.defer(lease, 0.01)
        else:
            left.append(lease)
    return left


def interfere(queue: Queue, draw: random.Random) -> None:
    """New settings for one tag, most of them of no hindrance; who was paused goes on."""
    for tag in queue.snapshot().tags:
        if tag.settings.paused:
            queue.configure(tag.name, paused=False)
    queue.configure(
        draw.choice(TAGS), weight=draw.choice(WEIGHTS), paused=draw.random() < 0.2,
        max_inflight=draw.choice([None, None, 1, 4]), min_interval=draw.choice([0, 0, 0.002]),
    )  # fmt: skip


class Follower:
    """Reads the journal as it grows, and judges every serve of it."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.number = 0  # of the last entry that was read
        self.guarantee = fairness.Guarantee()
        self.found: list[fairness.Violation] = []
        self.kinds: Counter[Kind] = Counter()
        self.served: Counter[int] = Counter()
        self.weights: set[int] = set()
        self.came_back = 0  # serves of a tag that had not been eligible for a while

    def read(self) -> bool:
        """The next piece; whether there was one."""
        events = self._queue.journal(after=self.number, limit=PIECE)
        if events:
            assert events[0].number == self.number + 1, "the journal was cut before it was read"
            self.number = events[-1].number
        for event in events:
            self.kinds[event.kind] += 1
            if event.kind is Kind.LEASE:
                self._judge(event.entry)
        return bool(events)

    def _judge(self, lease: Entry) -> None:
        violation = self.guarantee.feed(lease)
        self.found += [violation] if violation else []
        self.served[lease.tag] += 1
        self.weights.add(lease.weight)
        self.came_back += lease.since > lease.serve - 5


@pytest.mark.soak
@pytest.mark.timeout(0 if SOAK else 300)
def test_no_serve_of_four_processes_breaks_the_guarantee(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    context = multiprocessing.get_context("spawn")
    checked = context.Value("Q", 0)
    with open_queue(path, durability="none") as queue:
        for number, tag in enumerate(TAGS):
            queue.configure(tag, weight=WEIGHTS[number % 4], max_pending=200)
        follower = Follower(queue)
        processes = [context.Process(target=serve, args=(path, seed, checked)) for seed in range(PROCESSES)]
        for process in processes:
            process.start()
        try:
            until(lambda: follow(follower, checked, processes), 24 * 3600 if SOAK else 240)
        finally:
            for process in processes:
                process.kill() if sys.exc_info()[0] else process.join(120)
        assert [process.exitcode for process in processes] == [0] * PROCESSES
        while follower.read():
            pass
        judge(follower, queue)


def follow(follower: Follower, checked: "Synchronized[int]", processes: list[multiprocessing.Process]) -> bool:
    """Read what there is; whether enough has been served."""
    assert all(process.exitcode in (None, 0) for process in processes)
    while follower.read():
        checked.value = follower.guarantee.last
        if checked.value >= SERVES:
            return True
    return False


def judge(follower: Follower, queue: Queue) -> None:
    snapshot = queue.snapshot()
    assert follower.found == []
    assert (follower.guarantee.first, follower.guarantee.last) == (1, snapshot.ring.serves)
    assert snapshot.ring.serves >= SERVES
    for tag in snapshot.tags:
        since = tag.eligible_since_serve
        assert since is None or follower.guarantee.waiting(tag.number, since) is None
    # it has seen what it is about
    assert len(follower.served) == len(TAGS)
    assert min(follower.served.values()) > SERVES / 1_000
    assert follower.weights == set(WEIGHTS)
    assert follower.came_back > SERVES / 100
    least = {Kind.CONFIGURE, Kind.NACK, Kind.RELEASE, Kind.DEFER, Kind.PROMOTE}
    assert min(follower.kinds[kind] for kind in least) > 20, follower.kinds
    assert queue.check() == []
