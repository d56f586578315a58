"""What every store counts: how long tasks wait and are worked on, and what they die of."""

from typing import Any

import pytest
from drive import fill, lease

from queue_core import Queue


def test_waits_and_service_times_are_kept_as_histograms(queue: Queue, clock: Any) -> None:
    fill(queue, a=4)
    for wait in (0.1, 0.9, 9, 90):
        clock.advance(wait)
        held = lease(queue)
        clock.advance(wait / 10)
        queue.ack(held)
    (tag,) = queue.snapshot().tags
    assert tag.waits.count == tag.services.count == 4
    assert tag.waits.p50 == pytest.approx(1.01, rel=1 / 9)
    assert tag.waits.p99 == pytest.approx(100.9 + 0.1, rel=1 / 9)
    assert tag.services.p50 == pytest.approx(0.09, rel=1 / 9)
    assert tag.services.sum == pytest.approx(9 + 0.9 + 0.09 + 0.01)
    assert queue.snapshot().waits == tag.waits


def test_delay_and_backoff_are_not_waiting(queue: Queue, clock: Any) -> None:
    queue.push("x", tag="a", delay=5 * 3600)
    clock.advance(5 * 3600)
    clock.advance(30)
    queue.nack(lease(queue), "no", retry_in=600)
    clock.advance(600)
    clock.advance(2)
    queue.ack(lease(queue))
    (tag,) = queue.snapshot().tags
    assert tag.waits.sum == 32
    assert tag.waits.quantile(1) == pytest.approx(30, rel=1 / 9)


def test_a_task_that_comes_back_waits_from_then_on(queue: Queue, clock: Any) -> None:
    queue.push("x", tag="a")
    clock.advance(100)
    for back in (
        queue.release,
        lambda held: queue.nack(held, "no", retry_in=0),
        lambda held: queue.requeue(held.id),
        lambda held: queue.requeue_inflight(),
    ):
        held = lease(queue)
        clock.advance(30)
        back(held)
        clock.advance(2)
    queue.ack(lease(queue))
    (tag,) = queue.snapshot().tags
    assert (tag.waits.count, tag.waits.sum) == (5, 100 + 4 * 2)
    assert (tag.services.count, tag.services.sum) == (5, 4 * 30)


def test_deaths_found_by_reclaim_are_told_apart_from_nacks(queue: Queue, clock: Any) -> None:
    queue.push_many([("x", "a")] * 5)
    for task in queue.tasks("pending"):
        queue.push(task.payload, tag="a", id=task.id, max_attempts=1)
    held = queue.lease_many(5, ttl=10)
    for one in held[:2]:
        queue.nack(one, "no")
    clock.advance(11)
    assert queue.lease() is None
    totals = queue.snapshot().totals
    assert (totals.died_expired, totals.died_nacked, totals.dead_lettered) == (3, 2, 0)
    assert queue.counts().dead == 5
    if queue.capabilities.history:
        assert sum(queue.series().whole("died_expired")) == 3
        assert sum(queue.series().whole("died_nacked")) == 2
