"""Buckets and totals agree after a SIGKILL at any moment: of closing a bucket, rolling up, expiring, forgetting.

The processes live on a clock of their own that runs fast and at times jumps, so that in a second there are buckets
to close, to roll up and to expire.
"""

import os
import random
import signal
import time
import traceback
from contextlib import suppress
from pathlib import Path

import pytest

from queue_core import Conflict, LeaseLost, TaskNotFound, open_queue
from queue_core.series import DAY, HOUR, TIERS
from queue_core.stores.engine import measure

SOAK = os.environ.get("SOAK", "") not in ("", "0")
KILLS = 200 if SOAK else 25


class Fast:
    """A clock that runs 20,000 or 2,000,000 times as fast as it should, from where the last process left it."""

    def __init__(self, start: int, draw: random.Random) -> None:
        self.began = time.monotonic_ns()
        self.start = start
        self.draw = draw
        self.speed = draw.choice([20, 2_000])  # microseconds in a nanosecond

    def __call__(self) -> int:
        lot = self.draw.random()
        if lot < 0.002:
            self.start += 365 * DAY if lot < 0.0005 else -HOUR
        return self.start + (time.monotonic_ns() - self.began) * self.speed


def load(store: Path, start: int, seed: int) -> None:
    """Until killed: push, lease, settle, in many tags, some of them seen once."""
    draw = random.Random(seed)
    measure.JOURNAL_KEPT = 1_000  # else the journal would hold the tags that are seen once
    with open_queue(store, clock=Fast(start, draw), durability="relaxed") as queue:
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


def start_loads(store: Path, start: int, seeds: range) -> list[int]:
    pids = []
    for seed in seeds:
        pid = os.fork()
        if pid == 0:
            try:
                load(store, start, seed)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        pids.append(pid)
    return pids


def kill(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status)


def test_processes_whose_clocks_disagree_keep_one_history(tmp_path: Path) -> None:
    now = 1_750_000_000_000_000
    draw = random.Random(4)
    for round in range(5):
        pids = start_loads(tmp_path / "queue", now, range(3 * round, 3 * round + 3))
        time.sleep(draw.uniform(0.3, 0.6))  # the random moment itself, not a wait for anything
        kill(pids)
        with open_queue(tmp_path / "queue", clock=lambda: now) as queue:
            assert queue.check() == []
    with open_queue(tmp_path / "queue", clock=lambda: now) as queue:
        assert queue.snapshot().totals.pushed > 0
        assert len(queue.series().buckets) > 10
        assert queue.check() == []


@pytest.mark.soak
@pytest.mark.timeout(0 if SOAK else 300)
def test_buckets_and_remainder_are_the_totals_after_every_kill(tmp_path: Path) -> None:
    draw = random.Random(3)
    with open_queue(tmp_path / "queue", clock=lambda: 1_750_000_000_000_000) as queue:
        queue.configure(tag_retention=3600)
    start = 1_750_000_000_000_000
    widths: set[int] = set()  # of buckets, as they have been rolled up
    expired = forgotten = round = 0
    while round < KILLS or not (expired and forgotten and len(widths) == len(TIERS)):
        round += 1
        assert round < 4 * KILLS, (expired, forgotten, widths)
        pids = start_loads(tmp_path / "queue", start, range(round, round + 1))
        time.sleep(draw.uniform(0.05, 0.4))  # the random moment itself, not a wait for anything
        kill(pids)
        with open_queue(tmp_path / "queue", clock=lambda start=start: start) as queue:
            assert queue.check() == [], f"after kill {round}"
            with queue.view() as view:
                series, snapshot = view.series(), view.snapshot()
                total = series.remainder
                for bucket in series.buckets:
                    total = total.plus(bucket.totals())
                assert total == snapshot.totals, f"after kill {round}"
                widths |= {bucket.width for bucket in series.buckets[:-1]}
                if series.buckets:
                    start = max(bucket.start + bucket.width for bucket in series.buckets)
            forgotten = snapshot.totals.pushed // 2 + 6 - len(snapshot.tags)
            expired = series.remainder.pushed
