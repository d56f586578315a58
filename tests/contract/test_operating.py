"""Verbs by id: compare-and-set, each from the states it starts from and from no other."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from drive import lease

from queue_core import (
    Conflict,
    InvalidArgument,
    Lease,
    LeaseLost,
    Outcome,
    Queue,
    QueueError,
    State,
    Task,
    TaskNotFound,
)

Verb = Callable[..., object]


def put(queue: Queue, state: str, **arguments: Any) -> str:
    """The id of a task in the state."""
    task = queue.push("x", tag="a", delay=60 if state == "scheduled" else 0, **arguments)
    match state:
        case "inflight":
            assert lease(queue).id == task.id
        case "dead":
            queue.dead_letter(task.id, "bad")
        case "trash":
            queue.cancel(task.id)
    return task.id


VERBS: dict[str, tuple[Callable[[Queue], Verb], str]] = {
    "dead_letter": (lambda q: lambda id, **v: q.dead_letter(id, "why", **v), "pending scheduled inflight"),
    "requeue": (lambda q: q.requeue, "scheduled inflight"),
    "redrive": (lambda q: q.redrive, "dead"),
    "cancel": (lambda q: q.cancel, "pending scheduled"),
    "purge": (lambda q: q.purge, "dead"),
    "restore": (lambda q: q.restore, "trash"),
    "expunge": (lambda q: q.expunge, "trash"),
    "extend": (lambda q: lambda id, **v: q.extend(id, 60, **v), "inflight"),
    "replace": (lambda q: lambda id, **v: q.replace(q.get(id), payload="new", **v), " ".join(State)),
}


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_starts_from_its_states_only(queue: Queue, name: str, state: str) -> None:
    make, states = VERBS[name]
    id = put(queue, state)
    before = queue.get(id)
    if state in states.split():
        make(queue)(id)
        return
    with pytest.raises(Conflict) as caught:
        make(queue)(id)
    assert (caught.value.state, caught.value.version) == (state, before.version)
    wanted = " or ".join(sorted(states.split()))
    shown = f"task {id} of tag 'a' is {state} at version {before.version}; {name.replace('_', '-')} needs it {wanted}"
    assert str(caught.value) == shown
    assert queue.get(id) == before


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_takes_the_version_that_was_seen(queue: Queue, name: str) -> None:
    make, states = VERBS[name]
    id = put(queue, states.split()[0])
    seen = queue.get(id).version
    changed = queue.replace(queue.get(id), payload="newer")
    with pytest.raises(
        Conflict, match=f"at version {changed.version}; you saw version {seen}, it has changed"
    ) as caught:
        make(queue)(id, version=seen)
    assert caught.value.version == changed.version
    assert queue.get(id) == changed
    make(queue)(id, version=changed.version)


@pytest.mark.parametrize("name", VERBS)
def test_an_unknown_id_is_not_found_and_a_bad_one_invalid(queue: Queue, name: str) -> None:
    verb = VERBS[name][0](queue)
    missing = uuid4()
    with pytest.raises(TaskNotFound, match=f"no task '{missing}': it was acknowledged or expunged, or never") as caught:
        verb(missing)
    assert caught.value.id == str(missing)
    with pytest.raises(InvalidArgument, match="id 'nonsense' is not a UUID"):
        verb("nonsense")
    if name != "replace":
        with pytest.raises(InvalidArgument, match="version is -1"):
            verb(missing, version=-1)


def test_ids_are_text_or_uuid(queue: Queue) -> None:
    id = put(queue, "pending")
    for form in (id, UUID(id), id.upper(), f"{{{id}}}", UUID(id).hex):
        assert queue.get(form).id == id


def test_requeue_restores_the_place_and_takes_the_lease(queue: Queue) -> None:
    queue.push_many([("j1", "a"), ("j2", "a"), ("j3", "a")])
    first = lease(queue)
    back = queue.requeue(first.id)
    assert (back.state, back.attempts, back.history[0].outcome) == ("pending", 1, Outcome.REQUEUED)
    with pytest.raises(LeaseLost):
        queue.ack(first)
    assert [found.payload for found in queue.lease_many(9)] == ["j1", "j2", "j3"]


def test_requeue_of_a_scheduled_task_makes_it_run_now(queue: Queue) -> None:
    id = put(queue, "scheduled")
    queue.requeue(id)
    assert lease(queue).id == id


def test_a_redrive_starts_a_new_cycle_at_the_tail(queue: Queue, clock: Any) -> None:
    task = queue.push("j1", tag="a", max_attempts=3)
    for number in range(3):
        queue.nack(lease(queue), f"E{number}", retry_in=0)
    queue.push("j2", tag="a")
    clock.advance(2 * 24 * 3600)
    again = queue.redrive(task.id)
    assert (again.state, again.attempts, again.cycle, again.reason, again.owner) == ("pending", 0, 2, None, None)
    assert [found.payload for found in queue.lease_many(1)] == ["j2"]
    failed = queue.nack(lease(queue), "E3")
    assert (failed.state, failed.attempts) == ("scheduled", 1)
    assert [(a.cycle, a.error) for a in failed.history] == [(1, "E0"), (1, "E1"), (1, "E2"), (2, "E3")]


def test_a_redrive_after_expiries_starts_from_zero(queue: Queue) -> None:
    task = queue.push("x", max_attempts=2)
    for _ in range(2):
        lease(queue)
        queue.requeue_inflight()
    assert queue.redrive(task.id).attempts == 0
    lease(queue)
    assert queue.requeue_inflight() == 1
    assert queue.get(task.id).state == State.PENDING


def test_a_redriven_task_waits_while_its_tag_is_paused(queue: Queue) -> None:
    id = put(queue, "dead")
    queue.configure("a", paused=True)
    assert queue.redrive(id).state == State.PENDING
    assert queue.lease() is None
    queue.configure("a", paused=False)
    assert lease(queue).id == id


def test_dead_letter_by_id_takes_the_lease_and_keeps_it(queue: Queue) -> None:
    id = put(queue, "pending")
    found = lease(queue)
    dead = queue.dead_letter(id, "operator says no")
    assert (dead.state, dead.reason, dead.owner, dead.attempts) == ("dead", "operator says no", found.owner, 1)
    assert (dead.leased_at, dead.expires_at) == (found.leased_at, found.expires_at)
    for verb in (queue.ack, queue.heartbeat, lambda held: queue.dead_letter(held, "late")):
        with pytest.raises(LeaseLost):
            verb(found)
    assert queue.get(id) == dead
    assert (queue.counts().all, queue.counts().dead) == (1, 1)


@pytest.mark.parametrize("by", ["lease", "token", "id", "uuid"])
def test_dead_letter_by_lease_token_or_id(queue: Queue, by: str) -> None:
    id = put(queue, "pending")
    found = lease(queue)
    given: dict[str, Any] = {"lease": found, "token": found.token, "id": id, "uuid": UUID(id)}
    dead = queue.dead_letter(given[by], "why")
    assert (dead.state, dead.reason, dead.history[0].outcome) == ("dead", "why", Outcome.DEAD_LETTERED)
    assert queue.snapshot().totals.dead_lettered == 1


@pytest.mark.parametrize("state", ["pending", "scheduled"])
def test_cancel_and_restore_come_back_to_the_same_place_or_time(queue: Queue, state: str) -> None:
    id = put(queue, state)
    before = queue.get(id)
    queue.push("behind", tag="a")
    assert queue.cancel(id).state == State.TRASH
    assert queue.get(id).entered_at is not None
    back = queue.restore(id)
    assert (back.state, back.place, back.due_at, back.payload) == (state, before.place, before.due_at, before.payload)
    assert back.version > before.version
    assert back.entered_at is None


def test_purge_and_restore_bring_back_reason_lease_and_attempts(queue: Queue) -> None:
    found = queue.push("x", tag="a")
    dead = queue.dead_letter(lease(queue), "why")
    queue.purge(found.id)
    back = queue.restore(found.id)
    assert (back.state, back.reason, back.owner, back.history) == ("dead", "why", dead.owner, dead.history)
    assert queue.redrive(found.id).state == State.PENDING


def test_a_purged_tag_leaves_nothing_behind(queue: Queue) -> None:
    ids = [put(queue, "dead") for _ in range(6)]
    for id in ids:
        queue.purge(id)
    assert queue.tasks("dead").total == 0
    for id in ids:
        queue.expunge(id)
    assert queue.counts().all == 0
    totals = queue.snapshot().totals
    assert (totals.purged, totals.expunged, totals.retired) == (6, 6, 0)


def test_expunge_is_for_good(queue: Queue) -> None:
    id = put(queue, "trash")
    assert queue.expunge(id).id == id
    with pytest.raises(TaskNotFound):
        queue.restore(id)


def test_extend_keeps_the_token_and_never_shortens(queue: Queue, clock: Any) -> None:
    put(queue, "pending")
    found = lease(queue)
    extended = queue.extend(found.id, 300)
    assert extended.expires_at == clock.at(300)
    assert extended.version > found.task.version
    assert queue.extend(found.id, 5).expires_at == clock.at(300)
    clock.advance(299)
    assert queue.lease() is None
    queue.ack(found)


def test_replace_keeps_the_token_and_the_holder_its_copy(queue: Queue) -> None:
    put(queue, "pending")
    found = lease(queue)
    new = queue.replace(found.task, payload=["new"])
    assert (new.state, new.attempts, new.payload, new.expires_at) == ("inflight", 1, ["new"], found.expires_at)
    assert found.payload == "x"
    queue.release(found)
    again = lease(queue)
    assert again.payload == ["new"]
    queue.ack(again)


def test_replace_stores_the_payload_of_the_task_by_default(queue: Queue) -> None:
    task = queue.push({"list": [1]}, tag="a")
    task.payload["list"].append(2)
    assert queue.replace(task).payload == {"list": [1, 2]}
    assert queue.get(task.id).payload == {"list": [1, 2]}


def test_an_edit_of_a_task_that_moved_on_changes_nothing(queue: Queue) -> None:
    id = put(queue, "dead")
    opened_in_an_editor = queue.get(id)
    queue.redrive(id)
    found = lease(queue)
    with pytest.raises(Conflict, match="you saw version") as caught:
        queue.replace(opened_in_an_editor, payload="edited", version=opened_in_an_editor.version)
    assert caught.value.state == State.INFLIGHT
    assert queue.get(id).payload == "x"
    queue.ack(found)


def test_replace_cannot_move_a_task_to_another_tag(queue: Queue) -> None:
    task = queue.push("x", tag="a")
    elsewhere = Task(task.record, "b", lambda data: "y")
    with pytest.raises(Conflict, match="replace cannot move it to tag 'b'"):
        queue.replace(elsewhere)


def test_versions_are_never_reused_and_grow_with_every_change(queue: Queue) -> None:
    seen = [queue.push("x", tag="a").version]
    id = queue.tasks("pending").items[0].id
    seen.append(lease(queue).task.version)
    changes: list[Callable[[], Task]] = [
        lambda: queue.extend(id, 60),
        lambda: queue.replace(queue.get(id), payload="y"),
        lambda: queue.requeue(id),
        lambda: queue.cancel(id),
        lambda: queue.restore(id),
        lambda: queue.dead_letter(id, "no"),
        lambda: queue.purge(id),
        lambda: queue.restore(id),
        lambda: queue.redrive(id),
    ]
    for change in changes:
        seen.append(change().version)
        assert queue.get(id).version == seen[-1]
    assert seen == sorted(set(seen))


# --- under a limit, every exit gives the slot back ------------------------------------------------

EXITS: dict[str, Callable[[Queue, Lease], object]] = {
    "expiry": lambda queue, found: queue.requeue_inflight(),
    "ack": lambda queue, found: queue.ack(found),
    "nack": lambda queue, found: queue.nack(found, "boom"),
    "release": lambda queue, found: queue.release(found),
    "defer": lambda queue, found: queue.defer(found, 60),
    "dead-letter": lambda queue, found: queue.dead_letter(found.id, "no"),
    "dead-letter by recovery": lambda queue, found: queue.dead_letter_inflight(older_than=found.leased_at, reason="no"),
    "requeue": lambda queue, found: queue.requeue(found.id),
    "push again": lambda queue, found: queue.push("x", tag="a", id=found.id),
    "purge": lambda queue, found: queue.purge(queue.dead_letter(found.id, "no").id),
}


@pytest.mark.parametrize("name", EXITS)
def test_a_slot_under_a_limit_is_free_after_every_exit(queue: Queue, name: str) -> None:
    queue.configure("a", max_inflight=1)
    queue.push_many([("j1", "a"), ("j2", "a")])
    found = lease(queue)
    assert queue.lease() is None
    EXITS[name](queue, found)
    assert queue.counts().inflight == 0
    assert queue.check() == []
    lease(queue)
    assert queue.lease() is None


def test_a_lease_is_free_after_expiry_without_any_maintenance(queue: Queue, clock: Any) -> None:
    queue.configure("a", max_inflight=1)
    queue.push_many([("j1", "a"), ("j2", "a")])
    lease(queue)
    clock.advance(30)
    assert [found.payload for found in queue.lease_many(9)] == ["j1"]


def test_all_errors_of_verbs_are_queue_errors(queue: Queue) -> None:
    with pytest.raises(QueueError):
        queue.get(uuid4())
    with pytest.raises(QueueError):
        queue.ack("nothing")


def test_a_dead_letters_reason_does_not_hide_the_error_before(queue: Queue) -> None:
    task = queue.push(1)
    lease = queue.lease()
    assert lease is not None
    queue.nack(lease, "boom", retry_in=0)
    lease = queue.lease()
    assert lease is not None
    dead = queue.dead_letter(lease, "enough")
    assert (dead.id, dead.error, dead.reason) == (task.id, "boom", "enough")
    assert [attempt.error for attempt in dead.history] == ["boom", "enough"]
