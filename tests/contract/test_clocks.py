"""Clocks that jump, and what retention removes."""

from typing import Any

import pytest
from drive import Open, lease

from queue_core import Conflict, Queue, State, TaskNotFound
from queue_core.history import Kind

HOUR, DAY = 3600, 24 * 3600


def live(queue: Queue, clock: Any, days: float) -> None:
    """Let time pass with a commit every hour; which settings are written does not matter."""
    for _ in range(round(days * 24)):
        clock.advance(HOUR)
        queue.configure(paused=False)


def test_a_clock_set_back_ends_no_lease_early_and_makes_no_age_negative(opened: Open, clock: Any) -> None:
    queue = opened()
    queue.push_many([("j1", "a"), ("j2", "a")])
    start = clock.now
    found = lease(queue, ttl=30)
    for seconds in (-600, 29):
        clock.now = start
        clock.advance(seconds)
        again = opened()
        assert again.snapshot().expired == 0
        oldest = again.snapshot().oldest_wait
        assert oldest is not None
        assert oldest >= 0
        assert again.get(found.id).state == State.INFLIGHT
    clock.now = start
    clock.advance(31)
    assert lease(queue).id == found.id


def test_order_follows_the_place_and_never_a_clock(queue: Queue, clock: Any) -> None:
    for name in ("j1", "j2", "j3"):
        queue.push(name)
        clock.advance(-HOUR)
    assert [found.payload for found in queue.lease_many(3)] == ["j1", "j2", "j3"]
    clock.advance(-HOUR)
    assert queue.requeue_inflight() == 3
    assert [found.payload for found in queue.lease_many(3)] == ["j1", "j2", "j3"]


def test_times_of_an_attempt_are_never_reversed(queue: Queue, clock: Any) -> None:
    queue.push("x")
    found = lease(queue)
    clock.advance(-HOUR)
    beaten = queue.heartbeat(found)
    assert beaten.expires_at == found.expires_at
    assert beaten.task.beat_at == found.leased_at
    (attempt,) = queue.nack(beaten, "boom").history
    assert attempt.ended_at == attempt.started_at
    assert queue.snapshot().totals.service == 0


def test_a_clock_set_back_prolongs_delays_by_its_size(queue: Queue, clock: Any) -> None:
    queue.push("x", delay=10)
    clock.advance(-HOUR)
    assert queue.lease() is None
    clock.advance(HOUR + 10)
    lease(queue)


def test_what_has_become_due_stays_so_when_the_clock_goes_back(queue: Queue, clock: Any) -> None:
    queue.push_many([("ready", "a")])
    queue.push("delayed", tag="b", delay=10)
    clock.advance(10)
    assert lease(queue).payload == "ready"  # this lease has moved what was due
    clock.advance(-HOUR)
    assert lease(queue).payload == "delayed"


def test_a_jump_forward_ends_leases_and_delays(queue: Queue, clock: Any) -> None:
    queue.push_many(["j1", "j2"])
    found = lease(queue)
    queue.push("later", delay=DAY)
    clock.advance(365 * DAY)
    assert [each.payload for each in queue.lease_many(9)] == ["j1", "j2", "later"]
    assert queue.get(found.id).attempts == 2


def test_reading_moves_nothing(queue: Queue, clock: Any) -> None:
    queue.push("due", delay=10)
    once = queue.push("x", max_attempts=1)
    lease(queue, ttl=5)
    clock.advance(HOUR)
    before = queue.mark()
    snapshot = queue.snapshot()
    assert (snapshot.scheduled, snapshot.due, snapshot.inflight, snapshot.expired) == (1, 1, 1, 1)
    assert (snapshot.pending, snapshot.dead) == (0, 0)
    assert "expired" in queue.explain(once.id).text
    assert [task.state for task in queue.tasks("inflight")] == [State.INFLIGHT]
    assert queue.mark() == before


# --- retention ------------------------------------------------------------------------------------


def test_trash_can_be_restored_for_seven_days_and_is_gone_after(queue: Queue, clock: Any) -> None:
    old = queue.push("old")
    queue.cancel(old.id)
    live(queue, clock, 3)
    young = queue.push("young")
    queue.cancel(young.id)
    live(queue, clock, 4)
    assert queue.get(old.id).state == State.TRASH
    clock.advance(1)
    queue.configure(paused=False)
    with pytest.raises(TaskNotFound):
        queue.restore(old.id)
    assert queue.restore(young.id).state == State.PENDING
    totals = queue.snapshot().totals
    assert (totals.expunged, totals.retired) == (1, 1)
    if queue.capabilities.journal:
        (event,) = [event for event in queue.journal() if event.kind == Kind.EXPUNGE]
        assert (event.task_id, event.detail) == (old.id, "retention")


def test_a_jump_of_the_clock_cannot_empty_the_trash(queue: Queue, clock: Any) -> None:
    task = queue.push("x")
    queue.cancel(task.id)
    for _ in range(24 * 7):
        clock.advance(365 * DAY)
        queue.configure(paused=False)
    assert queue.get(task.id).state == State.TRASH, "each commit ages it by an hour at most"
    clock.advance(365 * DAY)
    queue.configure(paused=False)
    assert queue.counts().trash == 0


def test_a_clock_that_swings_does_not_age_the_trash_backwards(queue: Queue, clock: Any) -> None:
    task = queue.push("x")
    queue.cancel(task.id)
    for _ in range(24 * 6):
        clock.advance(-DAY)
        queue.configure(paused=False)
        clock.advance(DAY)
        queue.configure(paused=False)
    assert queue.get(task.id).state == State.TRASH


def test_the_dead_stay_for_ever_unless_a_retention_is_set(queue: Queue, clock: Any) -> None:
    first = queue.push("x")
    queue.dead_letter(first.id, "no")
    live(queue, clock, 10)
    assert queue.counts().dead == 1
    queue.configure(dead_retention=2 * DAY)
    second = queue.push("y")
    queue.dead_letter(second.id, "no")
    assert [task.id for task in queue.tasks("dead")] == [second.id]
    live(queue, clock, 1)
    queue.configure(dead_retention=None)
    live(queue, clock, 3)
    assert queue.redrive(second.id).state == State.PENDING
    totals = queue.snapshot().totals
    assert (totals.expunged, totals.retired) == (1, 1)


def test_retention_works_in_pieces(queue: Queue, clock: Any) -> None:
    queue.configure(dead_retention=HOUR)
    queue.push_many(range(2_500))
    queue.lease_many(2_500)
    queue.dead_letter_inflight(older_than=clock.at(), reason="no")
    clock.advance(HOUR)
    queue.configure(paused=False)
    assert queue.counts().dead == 2_500
    left = []
    for _ in range(3):
        clock.advance(1)
        queue.configure(paused=False)
        left.append(queue.counts().dead)
    assert left == [1_500, 500, 0]
    assert queue.snapshot().totals.retired == 2_500


def test_a_restored_task_is_retained_from_its_new_entry(queue: Queue, clock: Any) -> None:
    task = queue.push("x")
    queue.cancel(task.id)
    live(queue, clock, 6)
    queue.restore(task.id)
    queue.cancel(task.id)
    live(queue, clock, 6)
    assert queue.restore(task.id).state == State.PENDING
    with pytest.raises(Conflict):
        queue.restore(task.id)
