"""Push: new tasks, tasks that exist, keys that are held, delays, and the limit at the door."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from queue_core import (
    Conflict,
    InvalidArgument,
    InvalidPayload,
    InvalidTag,
    Item,
    LeaseLost,
    Outcome,
    Queue,
    QueueFull,
    State,
)


def test_push_returns_the_stored_task(queue: Queue, clock: Any) -> None:
    task = queue.push({"n": 1}, tag="a", max_attempts=3, dedupe_key="k")
    assert (task.tag, task.payload, task.state, task.attempts, task.max_attempts) == ("a", {"n": 1}, "pending", 0, 3)
    assert (task.dedupe_key, task.created_at, task.cycle) == ("k", clock.at(), 1)
    assert UUID(task.id).version == 7
    assert queue.get(task.id) == task


def test_push_many_takes_items_pairs_and_payloads(queue: Queue) -> None:
    tasks = queue.push_many([Item({"n": 1}, tag="a", delay=5), ("x", "b"), "plain", ["a", "list"]])
    assert [(task.payload, task.tag, task.state) for task in tasks] == [
        ({"n": 1}, "a", "scheduled"),
        ("x", "b", "pending"),
        ("plain", "", "pending"),
        (["a", "list"], "", "pending"),
    ]
    assert queue.push_many([]) == []


@pytest.mark.parametrize("bad", [({1, 2}, "a"), ("x", 7), Item("x", id="no"), Item("x", delay=-1)])
def test_push_many_is_all_or_none(queue: Queue, bad: Any) -> None:
    with pytest.raises(InvalidArgument):
        queue.push_many([("x", "a"), bad])
    assert queue.counts().all == 0
    assert queue.snapshot().ring.tags == ()


def test_push_many_refused_by_the_store_leaves_nothing(queue: Queue) -> None:
    task = queue.push("x", tag="a")
    before, journal = queue.snapshot(), len(queue.journal())
    items = [
        Item("new", "new tag", dedupe_key="k"),
        Item("later", "a", delay=60, dedupe_key="k"),
        Item("again", "a", task.id, dedupe_key="other"),
        Item("in another tag", "b", task.id),
    ]
    with pytest.raises(Conflict):
        queue.push_many(items)
    assert (queue.snapshot(), len(queue.journal()), queue.get(task.id)) == (before, journal, task)
    assert queue.check() == []
    for tag in ("new tag", "a"):
        assert queue.push("free", tag=tag, dedupe_key="k").payload == "free"


def test_push_many_has_limits(queue: Queue) -> None:
    with pytest.raises(InvalidArgument, match="10,001 items"):
        queue.push_many(["x"] * 10_001)
    with pytest.raises(InvalidArgument, match="67,108,864"):
        queue.push_many(["x" * 1_000_000] * 68)
    assert len(queue.push_many(["x"] * 10_000)) == 10_000


# --- an id that exists ----------------------------------------------------------------------------


def pending(queue: Queue, id: str) -> None:
    queue.push("old", tag="a", id=id)


def scheduled(queue: Queue, id: str) -> None:
    queue.push("old", tag="a", id=id, delay=60)


def inflight(queue: Queue, id: str) -> None:
    pending(queue, id)
    assert queue.lease() is not None


def dead(queue: Queue, id: str) -> None:
    inflight(queue, id)
    queue.dead_letter(id, "bad")


def trash(queue: Queue, id: str) -> None:
    dead(queue, id)
    queue.purge(id)


Make = Callable[[Queue, str], None]


@pytest.mark.parametrize("make", [pending, scheduled, inflight])
def test_pushing_a_live_task_again_keeps_its_place_and_attempts(queue: Queue, make: Make) -> None:
    id = str(uuid4())
    make(queue, id)
    before = queue.get(id)
    queue.push("behind", tag="a")
    again = queue.push("new", tag="a", id=id, max_attempts=9, dedupe_key="k")
    assert (again.payload, again.max_attempts, again.dedupe_key) == ("new", 9, "k")
    assert (again.state, again.place, again.attempts, again.cycle) == ("pending", before.place, before.attempts, 1)
    assert again.version > before.version
    assert queue.tasks("pending").items[0].id == id
    assert queue.counts().all == 2
    assert queue.snapshot().totals.pushed == 2


@pytest.mark.parametrize("make", [dead, trash])
def test_pushing_a_dead_task_again_is_a_redrive_with_the_new_payload(queue: Queue, make: Make) -> None:
    id = str(uuid4())
    make(queue, id)
    queue.push("ahead", tag="a")
    again = queue.push("new", tag="a", id=id)
    assert (again.state, again.payload, again.attempts, again.cycle) == ("pending", "new", 0, 2)
    assert (again.reason, again.owner, again.entered_at) == (None, None, None)
    assert [attempt.outcome for attempt in again.history] == [Outcome.DEAD_LETTERED]
    assert [task.payload for task in queue.tasks("pending")] == ["ahead", "new"]
    totals = queue.snapshot().totals
    assert (totals.pushed, totals.redriven) == (2, 1)


@pytest.mark.parametrize("make", [pending, scheduled, inflight, dead, trash])
def test_pushing_a_task_again_in_another_tag_is_a_conflict(queue: Queue, make: Make) -> None:
    id = str(uuid4())
    make(queue, id)
    before = queue.get(id)
    with pytest.raises(Conflict, match="a task keeps its tag") as caught:
        queue.push("new", tag="b", id=id)
    assert (caught.value.state, caught.value.version) == (before.state, before.version)
    assert queue.get(id) == before


@pytest.mark.parametrize("make", [pending, inflight, dead])
def test_pushing_a_task_again_with_a_delay_schedules_it(queue: Queue, clock: Any, make: Make) -> None:
    id = str(uuid4())
    make(queue, id)
    again = queue.push("new", tag="a", id=id, delay=10)
    assert (again.state, again.due_at) == ("scheduled", clock.at(10))
    assert queue.lease() is None
    clock.advance(10)
    lease = queue.lease()
    assert lease is not None
    assert lease.payload == "new"


def test_pushing_an_acked_task_again_makes_a_new_one(queue: Queue) -> None:
    task = queue.push("x", tag="a")
    lease = queue.lease()
    assert lease is not None
    queue.ack(lease)
    again = queue.push("y", tag="b", id=task.id)
    assert (again.cycle, again.leases, again.place > task.place) == (1, 0, True)


# --- dedupe keys ----------------------------------------------------------------------------------


def test_a_held_key_returns_the_holder_and_changes_nothing(queue: Queue) -> None:
    holder = queue.push("first", tag="a", dedupe_key="k")
    before = queue.snapshot()
    assert queue.push("second", tag="a", dedupe_key="k", delay=5, id=uuid4()) == holder
    assert queue.snapshot() == before
    other = queue.push("third", tag="b", dedupe_key="k")
    assert other.id != holder.id, "keys are per tag"


def test_a_key_is_held_while_pending_scheduled_and_in_flight_backoff_included(queue: Queue, clock: Any) -> None:
    holder = queue.push("x", tag="a", dedupe_key="k", delay=10)

    def held() -> bool:
        return queue.push("y", tag="a", dedupe_key="k").id == holder.id

    assert held()
    clock.advance(10)
    lease = queue.lease()
    assert lease is not None
    assert held()
    queue.nack(lease, "fails once", retry_in=5)
    assert held()
    clock.advance(5)
    lease = queue.lease()
    assert lease is not None, "it is not taken for a duplicate of itself"
    assert lease.id == holder.id
    queue.release(lease)
    assert held()


def acked(queue: Queue, id: str) -> None:
    queue.ack(leased(queue))


def failed(queue: Queue, id: str) -> None:
    assert queue.nack(leased(queue), "boom").state == State.DEAD


def expired(queue: Queue, id: str) -> None:
    leased(queue)
    assert queue.requeue_inflight() == 1
    assert queue.get(id).state == State.DEAD


def leased(queue: Queue) -> str:
    lease = queue.lease()
    assert lease is not None
    return lease.token


EXITS: dict[str, Callable[[Queue, str], object]] = {
    "ack": acked,
    "dead after a failure": failed,
    "dead after an expiry": expired,
    "dead-letter": lambda queue, id: queue.dead_letter(id, "no"),
    "dead-letter of a lease": lambda queue, id: queue.dead_letter(leased(queue), "no"),
    "cancel": lambda queue, id: queue.cancel(id),
    "purge": lambda queue, id: queue.purge(queue.dead_letter(id, "no").id),
    "expunge": lambda queue, id: queue.expunge(queue.cancel(id).id),
    "another key": lambda queue, id: queue.push("x", tag="a", id=id, dedupe_key="other"),
}


@pytest.mark.parametrize("name", EXITS)
@pytest.mark.parametrize("key", ["k", "", "k" * 10_000, "\0/\n🙂"])
def test_a_key_is_free_after_every_exit(queue: Queue, name: str, key: str) -> None:
    first = queue.push("x", tag="a", dedupe_key=key, max_attempts=1)
    EXITS[name](queue, first.id)
    assert queue.check() == []
    second = queue.push("y", tag="a", dedupe_key=key)
    assert second.id != first.id
    assert second.payload == "y"


def test_an_id_that_exists_comes_before_a_held_key(queue: Queue) -> None:
    queue.push("holder", tag="a", dedupe_key="k")
    other = queue.push("other", tag="a")
    with pytest.raises(Conflict, match=r"the dedupe key of .* in tag 'a' is held by .*wait until that one has ended"):
        queue.push("new", tag="a", id=other.id, dedupe_key="k")
    assert queue.get(other.id) == other


def test_redriving_into_a_held_key_is_a_conflict(queue: Queue) -> None:
    first = queue.push("x", tag="a", dedupe_key="k")
    queue.dead_letter(first.id, "bad")
    second = queue.push("y", tag="a", dedupe_key="k")
    for verb in (queue.redrive, lambda id: queue.push("z", tag="a", id=id, dedupe_key="k")):
        with pytest.raises(Conflict, match="is held by"):
            verb(first.id)
    assert queue.get(first.id).state == State.DEAD
    queue.cancel(second.id)
    assert queue.redrive(first.id).state == State.PENDING
    with pytest.raises(Conflict, match="is held by"):
        queue.restore(second.id)


# --- delays ---------------------------------------------------------------------------------------


def test_a_delayed_task_is_delivered_once_and_not_before(queue: Queue, clock: Any) -> None:
    task = queue.push("x", delay=3600)
    for _ in range(60):
        clock.advance(1)
        assert queue.lease(ttl=5) is None
        assert queue.requeue_inflight() == 0
    clock.advance(3540 - 0.000001)
    assert queue.lease() is None
    assert queue.get(task.id).attempts == 0
    clock.advance(0.000001)
    assert queue.lease() is not None
    assert queue.lease() is None


def test_a_delayed_task_holds_nothing_up(queue: Queue, clock: Any) -> None:
    queue.push_many([Item("j1", "a", delay=3600), ("j2", "a"), ("j3", "b")])
    assert [lease.payload for lease in queue.lease_many(9)] == ["j2", "j3"]
    clock.advance(3600)
    queue.requeue_inflight()
    assert [lease.payload for lease in queue.lease_many(9)] == ["j1", "j3", "j2"], "order follows the place"


def test_a_delay_is_seconds_or_a_timedelta(queue: Queue, clock: Any) -> None:
    assert queue.push("x", delay=timedelta(hours=1)).due_at == clock.at(3600)
    assert queue.push("x", delay=0.5).due_at == clock.at(0.5)
    assert queue.push("x", delay=0).state == State.PENDING


# --- admission ------------------------------------------------------------------------------------


def test_max_pending_of_a_tag_refuses_pushes_and_nothing_else(queue: Queue) -> None:
    queue.configure("a", max_pending=2)
    queue.push("1", tag="a", delay=60)
    held = queue.push("2", tag="a", dedupe_key="k")
    with pytest.raises(QueueFull, match=r"tag 'a' holds 2 waiting tasks and its max_pending is 2: push again when"):
        queue.push("3", tag="a")
    with pytest.raises(QueueFull):
        queue.push_many([("x", "b"), ("3", "a")])
    assert queue.counts().all == 2
    queue.push("x", tag="b")
    assert queue.push("again", tag="a", id=held.id, dedupe_key="k").id == held.id, "it is there already"
    assert queue.push("again", tag="a", dedupe_key="k").id == held.id
    lease = queue.lease()
    assert lease is not None
    queue.push("3", tag="a")
    assert queue.release(lease).state == State.PENDING, "coming back is never refused"
    queue.configure("a", max_pending=None)
    queue.push("4", tag="a")


def test_max_pending_of_the_queue(queue: Queue) -> None:
    queue.configure(max_pending=1)
    queue.push("1", tag="a")
    with pytest.raises(QueueFull, match="the queue holds 1 waiting tasks and max_pending is 1"):
        queue.push("2", tag="b")
    assert queue.snapshot().ring.tags == ("a",)


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delay": -1}, "delay is -1 seconds: it is at least 0"),
        ({"delay": float("nan")}, "delay is nan: it is a number of seconds"),
        ({"delay": float("inf")}, "delay is inf"),
        ({"delay": "5"}, "delay is '5'"),
        ({"delay": True}, "delay is True"),
        ({"delay": 10**12}, "at most 3,153,600,000"),
        ({"delay": 10**400}, "at most 3,153,600,000"),
        ({"delay": -(10**400)}, "it is at least 0"),
        ({"max_attempts": 0}, "max_attempts is 0: it is a whole number from 1 to 1,000,000"),
        ({"max_attempts": 1.5}, "max_attempts is 1.5"),
        ({"id": "x"}, "id 'x' is not a UUID"),
        ({"id": 5}, "id 5 is not a UUID"),
        ({"dedupe_key": 5}, "dedupe_key is 5: it is text"),
        ({"dedupe_key": "\ud800"}, "dedupe_key is"),
    ],
)
def test_bad_arguments_are_named(queue: Queue, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        queue.push("x", **arguments)
    assert queue.counts().all == 0


@pytest.mark.parametrize(
    ("tag", "message"),
    [
        ("a" * 65_536, "is 65,536 bytes as UTF-8; the limit is 65,535"),
        ("é" * 40_000, "is 80,000 bytes"),
        ("\ud800", "lone surrogate"),
        (b"a", "type bytes: a tag is text"),
        (7, "tag is 7 of type int"),
    ],
)
def test_bad_tags_are_named(queue: Queue, tag: Any, message: str) -> None:
    for verb in (lambda: queue.push("x", tag=tag), lambda: queue.configure(tag, paused=True)):
        with pytest.raises(InvalidTag, match=message):
            verb()
    assert queue.counts().all == 0


def test_a_payload_type_refuses_other_types(opened: Callable[..., Queue]) -> None:
    queue = opened(payload_type=State)
    with pytest.raises(InvalidPayload, match="payload is a dict; this queue takes State"):
        queue.push({})
    with pytest.raises(InvalidArgument, match="give payload_type or serializer, not both"):
        opened(payload_type=State, serializer=object())


def test_a_stale_token_after_push_again_changes_nothing(queue: Queue) -> None:
    task = queue.push("x", tag="a")
    lease = queue.lease()
    assert lease is not None
    queue.push("y", tag="a", id=task.id)
    again = queue.lease()
    assert again is not None
    with pytest.raises(LeaseLost):
        queue.nack(lease, "E1")
    assert queue.get(task.id).error is None
    queue.ack(again)
