"""Leases: who holds a task, how a lease ends, and what an attempt costs."""

from collections.abc import Callable
from datetime import timedelta, timezone
from typing import Any
from uuid import uuid4

import pytest
from drive import Open, lease

from queue_core import InvalidArgument, Item, Lease, LeaseLost, Outcome, Queue, State, StoreBusy
from queue_core.stores.base import PIECE


def settlings(queue: Queue) -> list[Callable[[Lease | str], object]]:
    """Every verb that takes a lease."""
    return [
        queue.ack,
        queue.release,
        queue.heartbeat,
        lambda held: queue.ack_many([held]),
        lambda held: queue.nack(held, "E1"),
        lambda held: queue.defer(held, 1),
        lambda held: queue.dead_letter(held, "E1"),
        lambda held: queue.lease(ack=held),
    ]


def test_a_lease_says_who_holds_what_until_when(queue: Queue, clock: Any) -> None:
    task = queue.push("x", tag="a")
    found = lease(queue, ttl=5, owner="w1")
    assert (found.id, found.tag, found.payload, found.owner, found.ttl) == (task.id, "a", "x", "w1", 5.0)
    assert (found.leased_at, found.expires_at, found.attempt) == (clock.at(), clock.at(5), 1)
    stored = queue.get(task.id)
    assert (stored.state, stored.owner, stored.beat_at, stored.attempts) == ("inflight", "w1", clock.at(), 1)


def test_a_task_has_one_holder(queue: Queue) -> None:
    queue.push("x")
    lease(queue)
    assert queue.lease() is None
    assert queue.lease_many(5) == []


def test_who_lost_a_lease_changes_nothing_by_any_verb(queue: Queue, clock: Any) -> None:
    queue.push("x", tag="a")
    queue.push("y", tag="a", delay=1_000)
    old = lease(queue, ttl=5, owner="w1")
    clock.advance(6)
    new = lease(queue, owner="w2")
    assert new.id == old.id
    before = queue.get(old.id)
    for verb in settlings(queue):
        with pytest.raises(LeaseLost) as caught:
            verb(old)
        assert caught.value.tokens == (old.token,)
        assert queue.get(old.id) == before
    assert "E1" not in repr(before.history) + str(before.error)
    queue.ack(new)
    assert queue.snapshot().totals.acked == 1


@pytest.mark.parametrize("late", [5, 6])
def test_a_lease_stays_good_until_somebody_reclaims_it(queue: Queue, clock: Any, late: float) -> None:
    queue.push("x")
    old = lease(queue, ttl=5)
    clock.advance(late)
    assert queue.get(old.id).state == State.INFLIGHT, "reading moves nothing"
    beaten = queue.heartbeat(old)
    assert beaten.expires_at == clock.at(5)
    clock.advance(late)
    queue.ack(beaten)


def test_every_verb_that_takes_a_lease_takes_its_token(queue: Queue) -> None:
    for verb in settlings(queue):
        queue.push("x")
        verb(lease(queue).token)
        queue.requeue_inflight()
        for task in (*queue.tasks("pending"), *queue.tasks("scheduled")):
            queue.cancel(task.id)


def test_fences_grow_over_the_whole_store(opened: Open) -> None:
    one, two = opened(), opened()
    one.push_many([("x", "a"), ("x", "b"), ("x", "c")])
    fences = [lease(queue).fence for queue in (one, two, one)]
    assert fences == sorted(set(fences))
    assert two.requeue_inflight() == 3
    assert lease(one).fence > fences[-1]


# --- heartbeats -----------------------------------------------------------------------------------


def test_a_heartbeat_never_lowers_the_expiry(queue: Queue, clock: Any) -> None:
    queue.push("x")
    found = lease(queue, ttl=100)
    clock.advance(10)
    found = queue.heartbeat(found, ttl=5)
    assert found.expires_at == clock.at(90)
    clock.advance(89)
    assert queue.heartbeat(found, ttl=30).expires_at == clock.at(30)


def test_heartbeats_leave_the_version(queue: Queue, clock: Any) -> None:
    queue.push("x")
    found = lease(queue)
    version = queue.get(found.id).version
    clock.advance(1)
    assert queue.heartbeat(found).task.version == version == queue.get(found.id).version


def test_a_late_heartbeat_creates_no_lease(queue: Queue) -> None:
    queue.push("x")
    found = lease(queue)
    queue.ack(found)
    with pytest.raises(LeaseLost):
        queue.heartbeat(found)
    assert queue.counts().all == 0


def test_a_heartbeat_whose_answer_is_lost_costs_one_redelivery(queue: Queue, clock: Any) -> None:
    queue.push("x")
    found = lease(queue, ttl=5)
    queue.heartbeat(found)  # the caller never sees the new token
    with pytest.raises(LeaseLost):
        queue.ack(found)
    clock.advance(5)
    again = lease(queue)
    assert (again.id, again.attempt) == (found.id, 2)
    queue.ack(again)


# --- several at once ------------------------------------------------------------------------------


def test_ack_many_is_all_or_none_and_names_the_stale(queue: Queue) -> None:
    queue.push_many(["x"] * 4)
    leases = queue.lease_many(4)
    queue.release(leases[1])
    queue.requeue(leases[3].id)
    with pytest.raises(LeaseLost) as caught:
        queue.ack_many(leases)
    assert caught.value.tokens == (leases[1].token, leases[3].token)
    assert queue.counts().inflight == 2
    queue.ack_many([leases[0], leases[2].token, leases[0]])
    assert queue.counts().pending == 2
    queue.ack_many([])


def test_all_texts_that_are_no_tokens_are_named(queue: Queue) -> None:
    queue.push("x")
    held = lease(queue)
    for verb in (queue.ack_many, lambda tokens: queue.lease(ack=tokens)):
        with pytest.raises(LeaseLost) as caught:
            verb(["../x", held.token, "b"])
        assert caught.value.tokens == ("../x", "b")
    queue.ack(held)


def test_lease_with_ack_settles_in_the_same_commit(queue: Queue) -> None:
    queue.push_many([("a0", "a"), ("a1", "a"), ("b0", "b")])
    first = lease(queue)
    mark = queue.mark()
    second = lease(queue, ack=first)
    assert (second.payload, queue.mark()) == ("b0", mark + 1)
    third = lease(queue, ack=[second.token])
    assert third.payload == "a1"
    assert queue.lease(ack=(third,)) is None
    assert queue.snapshot().totals.acked == 3
    assert queue.counts().all == 0


def test_lease_with_a_stale_ack_leases_nothing_and_settles_nothing(queue: Queue) -> None:
    queue.push_many(["x"] * 3)
    good, stale = queue.lease_many(2)
    queue.release(stale)
    before = queue.snapshot()
    with pytest.raises(LeaseLost) as caught:
        queue.lease(ack=[good, stale])
    assert caught.value.tokens == (stale.token,)
    assert queue.snapshot() == before


def test_acking_first_makes_room_under_a_limit(queue: Queue) -> None:
    queue.configure("a", max_inflight=1)
    queue.push_many([("a0", "a"), ("a1", "a")])
    found = lease(queue)
    assert queue.lease() is None
    assert lease(queue, ack=found).payload == "a1"


# --- failure and retry ----------------------------------------------------------------------------


def test_a_nack_schedules_with_a_doubling_jittered_backoff(queue: Queue, clock: Any) -> None:
    task = queue.push("x", max_attempts=12)
    for attempt in range(1, 12):
        scheduled = queue.nack(lease(queue), f"E{attempt}")
        assert scheduled.due_at is not None
        delay = (scheduled.due_at - clock.at()).total_seconds()
        full = min(2 ** (attempt - 1), 300)
        assert full / 2 <= delay <= full
        assert queue.lease() is None
        clock.advance(delay)
    assert queue.nack(lease(queue), "E12").state == State.DEAD
    assert [attempt.error for attempt in queue.get(task.id).history] == [f"E{n}" for n in range(1, 13)]


def test_a_failed_task_comes_back_behind_what_is_ready_and_at_its_place_when_due(queue: Queue, clock: Any) -> None:
    queue.push_many(["j1", "j2", "j3"])
    queue.nack(lease(queue), "boom", retry_in=10)
    assert lease(queue).payload == "j2"
    clock.advance(10)
    assert lease(queue).payload == "j1"


@pytest.mark.parametrize("back", ["nack without delay", "expiry", "requeue", "release", "defer without delay"])
def test_a_task_that_comes_back_at_once_is_next_in_its_tag(queue: Queue, clock: Any, back: str) -> None:
    queue.push_many(["j1", "j2", "j3"])
    found = lease(queue, ttl=5)
    match back:
        case "nack without delay":
            assert queue.nack(found, "boom", retry_in=0).state == State.PENDING
        case "expiry":
            clock.advance(5)
        case "requeue":
            queue.requeue(found.id)
        case "release":
            queue.release(found)
        case _:
            queue.defer(found, 0)
    assert lease(queue).payload == "j1"


def test_a_task_that_kills_its_workers_dies_after_its_last_attempt(queue: Queue, clock: Any) -> None:
    task = queue.push("x", max_attempts=3)
    for _ in range(3):
        lease(queue, ttl=5)
        clock.advance(5)
    assert queue.lease() is None
    dead = queue.get(task.id)
    assert (dead.state, dead.attempts, dead.reason) == ("dead", 3, "lease expired with no attempts left")
    assert [attempt.outcome for attempt in dead.history] == [Outcome.EXPIRED] * 3
    totals = queue.snapshot().totals
    assert (totals.expired, totals.died_expired, totals.died_nacked) == (3, 1, 0)


def test_deaths_are_counted_by_their_cause(queue: Queue) -> None:
    queue.push_many([("x", "a")] * 5)
    for task in queue.tasks("pending"):
        queue.push("x", tag="a", id=task.id, max_attempts=1)
    for found in queue.lease_many(2):
        queue.nack(found, "boom")
    queue.lease_many(3)
    assert queue.requeue_inflight() == 3
    totals = queue.snapshot().totals
    assert (totals.died_expired, totals.died_nacked, queue.counts().dead) == (3, 2, 5)


def test_a_killed_worker_burns_the_attempt_and_a_stopped_one_does_not(queue: Queue, clock: Any) -> None:
    task = queue.push("x", max_attempts=1)
    back = queue.release(lease(queue))
    assert (back.state, back.attempts, back.leases) == ("pending", 0, 1)
    lease(queue, ttl=5)
    clock.advance(5)
    assert queue.lease() is None
    assert queue.get(task.id).state == State.DEAD


def test_defers_have_their_own_count_and_leave_the_attempts(queue: Queue, clock: Any) -> None:
    task = queue.push("x", max_attempts=3)
    for _ in range(5):
        deferred = queue.defer(lease(queue), 10)
        assert (deferred.state, deferred.due_at, deferred.attempts) == ("scheduled", clock.at(10), 0)
        clock.advance(10)
    for _ in range(2):
        assert queue.nack(lease(queue), "boom", retry_in=0).state == State.PENDING
    assert queue.nack(lease(queue), "boom").state == State.DEAD
    dead = queue.get(task.id)
    assert (dead.defers, dead.attempts, dead.max_attempts, dead.leases) == (5, 3, 3, 8)


def test_recovery_counts_the_attempts_and_dead_letters_when_none_are_left(queue: Queue) -> None:
    queue.push("once", max_attempts=1)
    twice = queue.push("twice", max_attempts=2)
    queue.lease_many(2)
    assert queue.requeue_inflight() == 2
    assert [task.payload for task in queue.tasks("dead")] == ["once"]
    back = queue.get(twice.id)
    assert (back.state, back.attempts, back.history[0].outcome) == ("pending", 1, Outcome.EXPIRED)


def test_a_head_that_dies_does_not_lock_its_tag(queue: Queue) -> None:
    queue.configure("a", max_inflight=1)
    queue.push("j1", tag="a", max_attempts=1)
    queue.push("j2", tag="a")
    queue.nack(lease(queue), "boom")
    assert lease(queue).payload == "j2"


def test_every_attempt_is_kept_the_first_and_the_last_fifty(queue: Queue) -> None:
    task = queue.push("x", max_attempts=1_000)
    for number in range(1, 121):
        queue.nack(lease(queue), f"E{number}", retry_in=0)
    kept = queue.get(task.id)
    assert [attempt.number for attempt in kept.history] == [*range(1, 51), *range(71, 121)]
    assert (kept.leases, kept.attempts, kept.error) == (120, 120, "E120")


def test_recovery_works_in_pieces_with_its_cutoff_fixed(queue: Queue, clock: Any) -> None:
    queue.push_many([(i, str(i % 7)) for i in range(2_500)])
    queue.lease_many(2_500)
    clock.advance(1)
    assert queue.requeue_inflight(older_than=clock.at()) == 2_500
    assert (queue.counts().pending, queue.counts().inflight) == (2_500, 0)
    queue.lease_many(2_500)
    assert queue.dead_letter_inflight(older_than=clock.at(), reason="stuck") == 2_500
    assert queue.counts().dead == 2_500


def test_the_next_lease_reclaims_everything_that_expired(queue: Queue, clock: Any) -> None:
    queue.push_many(range(2_500))
    queue.lease_many(2_500, ttl=5)
    clock.advance(5)
    assert [found.payload for found in queue.lease_many(3)] == [0, 1, 2]
    assert queue.counts().pending == 2_497
    assert queue.snapshot().totals.expired == 2_500


class Silent:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (ValueError("bad value"), "ValueError: bad value"),
        ("a\0b\ud800c", "a\ufffdb\ufffdc"),
        (Silent(), "<Silent whose str() raises>"),
        (None, "None"),
        ("", ""),
    ],
)
def test_recording_a_failure_cannot_fail(queue: Queue, error: object, kept: str) -> None:
    queue.push("x", max_attempts=1)
    dead = queue.nack(lease(queue), error)
    assert dead.error is not None
    assert dead.error.replace("\ufffd" * 3, "\ufffd") == kept
    task = queue.push("y")
    assert (queue.dead_letter(task.id, error).reason or "").replace("\ufffd" * 3, "\ufffd") == kept


def test_a_long_error_is_cut_with_a_mark(queue: Queue) -> None:
    queue.push("x", max_attempts=1)
    error = queue.nack(lease(queue), "é" * 100_000).error
    assert error is not None
    assert error.endswith("… [cut, 200,000 bytes in all]")
    assert 64 * 1024 - 3 <= len(error.encode()) <= 64 * 1024


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda queue: queue.lease(ttl=0), "ttl is 0 seconds: it is above 0"),
        (lambda queue: queue.lease(ttl=-1), "ttl is -1"),
        (lambda queue: queue.lease(wait=-1), "wait is -1 seconds: it is at least 0"),
        (lambda queue: queue.lease(owner=7), "owner is 7: it is text"),
        (lambda queue: queue.lease_many(0), "n is 0: it is a whole number from 1 to 10,000"),
        (lambda queue: queue.lease_many(10_001), "n is 10001"),
        (lambda queue: queue.extend(str(uuid4()), 0), "ttl is 0"),
    ],
)
def test_bad_arguments_are_named(queue: Queue, call: Callable[[Queue], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        call(queue)


def test_a_naive_datetime_is_refused_and_zones_are_one_instant(queue: Queue, clock: Any) -> None:
    queue.push("x")
    lease(queue)
    naive = clock.at().replace(tzinfo=None)
    with pytest.raises(InvalidArgument, match=r"older_than is .*: give a datetime with a time zone"):
        queue.requeue_inflight(older_than=naive)
    with pytest.raises(InvalidArgument, match="give a datetime with a time zone"):
        queue.dead_letter_inflight(older_than=naive, reason="stuck")
    india = timezone(timedelta(hours=5, minutes=30))
    assert queue.requeue_inflight(older_than=clock.at(-0.000001).astimezone(india)) == 0
    assert queue.requeue_inflight(older_than=clock.at().astimezone(india)) == 1


def test_an_acknowledgement_stands_when_the_store_is_busy_after_it(
    queue: Queue, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More is due than one commit moves, and the second one fails: what was settled is told, and nothing leased."""
    queue.push("done")
    held = lease(queue)
    queue.push_many([Item(n, delay=1) for n in range(PIECE)])
    clock.advance(2)
    write, writes = queue._store._write, iter([True, False])  # type: ignore[attr-defined]

    def busy(operation: Any) -> Any:
        if not next(writes):
            raise StoreBusy("busy")
        return write(operation)

    with monkeypatch.context() as patch:
        patch.setattr(queue._store, "_write", busy)
        assert queue.lease(ack=held) is None
    with pytest.raises(LeaseLost):
        queue.ack(held)
    assert queue.counts().pending == PIECE
    assert lease(queue).payload == 0
