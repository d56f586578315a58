"""Buckets and totals agree after a SIGKILL at any moment: of closing a bucket, rolling up, expiring, forgetting.

The processes live on a clock of their own that runs fast and at times jumps, so that in a second there are buckets
to close, to roll up and to expire.
"""

import os
import random
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from killing import kill, start

from queue_core import Conflict, LeaseLost, TaskNotFound, open_queue
from queue_core.series import DAY, HOUR, TIERS
from queue_core.stores.engine import measure
from queue_core.task import SECOND

SOAK = os.environ.get("SOAK", "") not in ("", "0")
KILLS = 200 if SOAK else 25
BEGIN = 1_750_000_000 * SECOND
JUMPS = (0, 365 * DAY, -HOUR)


class Fast:
    """A clock that goes on whenever it is looked at, by up to an hour, and at times jumps."""

    def __init__(self, start: int, draw: random.Random) -> None:
        self.now = start
        self.draw = draw

    def __call__(self) -> int:
        if self.draw.random() < 0.002:
            self.now += self.draw.choice(JUMPS)
        self.now += self.draw.choice((0, 1, 4, 60, 3600, 3600)) * SECOND
        return self.now


def load(store: Path, ledger: Path, start: int, seed: int) -> None:
    """Until killed: push, lease, settle, in many tags, some of them seen once. A byte in the ledger for each time."""
    draw = random.Random(seed)
    measure.JOURNAL_KEPT = 1_000  # else the journal would hold the tags that are seen once
    with open_queue(store, clock=Fast(start, draw), durability="relaxed") as queue, ledger.open("ab", 0) as done:
        number = 0
        while True:
            number += 1
            queue.push_many([(number, draw.choice("abcdef")), (number, f"once-{seed}-{number}")])
            held = queue.lease_many(draw.randrange(1, 5))
            with suppress(LeaseLost, Conflict, TaskNotFound):  # another, whose clock is ahead, was there before
                for lease in held[1:]:
                    queue.nack(lease, "no", retry_in=draw.choice([0, 60]))
                queue.ack_many(held[:1])
                for task in queue.tasks("dead"):
                    queue.expunge(queue.purge(task.id).id)
            done.write(b".")


def test_processes_whose_clocks_disagree_keep_one_history(place: Path) -> None:
    store, ledger, draw = place / "queue", place / "ledger", random.Random(4)
    for round in range(5):
        for pid in [start(partial(load, store, ledger, BEGIN, 3 * round + number)) for number in range(3)]:
            kill(pid, [ledger], 30, draw)
        with open_queue(store, clock=lambda: BEGIN) as queue:
            assert queue.check() == []
    with open_queue(store, clock=lambda: BEGIN) as queue:
        assert queue.snapshot().totals.pushed > 0
        assert len(queue.series().buckets) > 10
        assert queue.check() == []


@pytest.mark.soak
@pytest.mark.timeout(0 if SOAK else 300)
def test_buckets_and_remainder_are_the_totals_after_every_kill(place: Path) -> None:
    store, ledger, draw = place / "queue", place / "ledger", random.Random(3)
    with open_queue(store, clock=lambda: BEGIN) as queue:
        queue.configure(tag_retention=3600)
    now = BEGIN
    widths: set[int] = set()  # of buckets, as they have been rolled up
    expired = forgotten = round = 0
    while round < KILLS or not (expired and forgotten and len(widths) == len(TIERS)):
        round += 1
        assert round < 4 * KILLS, (expired, forgotten, widths)
        pid = start(partial(load, store, ledger, now + JUMPS[round % len(JUMPS)], round))
        kill(pid, [ledger], 40, draw)
        with open_queue(store, clock=lambda now=now: now) as queue:
            assert queue.check() == [], f"after kill {round}"
            with queue.view() as view:
                series, snapshot = view.series(), view.snapshot()
                total = series.remainder
                for bucket in series.buckets:
                    total = total.plus(bucket.totals())
                assert total == snapshot.totals, f"after kill {round}"
                widths |= {bucket.width for bucket in series.buckets[:-1]}
                if series.buckets:
                    now = max(bucket.start + bucket.width for bucket in series.buckets)
            forgotten = snapshot.totals.pushed // 2 + 6 - len(snapshot.tags)
            expired = series.remainder.pushed
    print(f"{round} kills, {snapshot.totals.pushed:,} pushed, {expired:,} of them in buckets that expired")
