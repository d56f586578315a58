"""The room that history takes, on a clock that runs as fast as the store: it ends where ARCHITECTURE.md says."""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from queue_core import Queue, open_queue
from queue_core.history import JOURNAL_KEPT
from queue_core.series import TIERS
from queue_core.stores.engine import measure

SOAK = os.environ.get("SOAK", "") not in ("", "0")
DAY = 86_400
BUCKETS = [kept // width - (TIERS[tier - 1][1] // width if tier else 0) for tier, (width, kept) in enumerate(TIERS)]
BUCKET_BYTES = 2 * 4096  # pages of a bucket of 100 tags; in the worst case, every column at its widest, seven
ENTRY_BYTES = 200  # of the journal, committed alone, with the page's slack
TAG_BYTES = 1_000  # of a tag and its name, with the pages' slack


def limit(tags: int, journal: int, buckets: int) -> int:
    """What the store may take beyond its tasks, in bytes."""
    return buckets * BUCKET_BYTES + journal * ENTRY_BYTES + tags * TAG_BYTES + (1 << 20)


def buckets(queue: Queue) -> list[int]:
    """How many there are in each tier, the open one left out."""
    widths = [bucket.width for bucket in queue.series().buckets[:-1]]
    return [widths.count(width) for width, _ in TIERS]


def work(queue: Queue, tags: list[str]) -> None:
    """Push, lease and acknowledge a task of each."""
    queue.push_many([("x", tag) for tag in tags])
    queue.ack_many(queue.lease_many(len(tags)))


def live(queue: Queue, clock: Any, days: float, step: float, tags: Any) -> int:
    """Work every ``step`` seconds for so many days; the most bytes that were in use at any look."""
    most = 0
    for number in range(int(days * DAY / step)):
        clock.advance(step)
        work(queue, tags(number))
        if not number % 5_000:
            most = max(most, queue.storage().used or 0)
    return max(most, queue.storage().used or 0)


@pytest.mark.soak
@pytest.mark.timeout(0 if SOAK else 300)
def test_thirty_days_of_2_000_tags(tmp_path: Path, clock: Any) -> None:
    """50 operations a second under SOAK, every 10 s; else fewer, and the older days in longer steps."""
    draw = random.Random(5)
    with open_queue(tmp_path / "queue", clock=clock, durability="none") as queue:
        spans = [(31.0, 10, 167)] if SOAK else [(30.5, 3_600, 40), (0.1, 60, 40), (0.02, 10, 167)]
        for days, step, tasks in spans:
            used = live(queue, clock, days, step, lambda _, n=tasks: [f"tag{draw.randrange(2_000)}" for _ in range(n)])
            assert used < limit(2_000, JOURNAL_KEPT, sum(BUCKETS))
        assert all(found <= most + 2 for found, most in zip(buckets(queue), BUCKETS, strict=True))
        if SOAK:
            assert all(found >= most - 2 for found, most in zip(buckets(queue), BUCKETS, strict=True))
        assert queue.series().remainder.pushed > 0
        print(f"{used:,} bytes used of {limit(2_000, JOURNAL_KEPT, sum(BUCKETS)):,}, buckets {buckets(queue)}")
        assert queue.check() == []


@pytest.mark.soak
@pytest.mark.timeout(0 if SOAK else 300)
def test_tags_that_are_seen_once(tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million in thirty days under SOAK; else a fiftieth of both, and of the retention."""
    part = 1 if SOAK else 50
    if not SOAK:
        monkeypatch.setattr(measure, "JOURNAL_KEPT", JOURNAL_KEPT // part)
    with open_queue(tmp_path / "queue", clock=clock, durability="none") as queue:
        queue.configure(tag_retention=7 * DAY / part)
        each = 25  # every 64.8 s: a million in thirty days
        used = live(queue, clock, 30 / part, 64.8, lambda n: [f"once-{n * each + i}" for i in range(each)])
        known = len(queue.snapshot().tags)
        seen = 1_000_000 // part
        most = seen * 7 // 30 + measure.JOURNAL_KEPT // 3 + 2_000
        assert known < most < seen
        room = limit(most, measure.JOURNAL_KEPT, sum(buckets(queue)))
        assert used < room
        assert queue.snapshot().totals.acked > 0.99 * seen
        print(f"{used:,} bytes used of {room:,}, {known:,} tags known")
        assert queue.check() == []
