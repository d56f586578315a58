"""Tasks from elsewhere: taken in as they were, or left out, and why."""

from collections.abc import Iterator
from typing import Any

import pytest
from changing import ODD_PAYLOADS, adopt, edit, happened, totals, unlike
from drive import Open, lease
from msgspec.structs import replace

from queue_core import Conflict, InvalidPayload, Item, Outcome, Queue, State, Task, open_queue
from queue_core.history import Kind
from queue_core.stores.base import Adopted
from queue_core.task import HISTORY_EDGE


@pytest.fixture
def elsewhere(clock: Any) -> Iterator[Queue]:
    """Another store, whose numbers are far from those of the store under test."""
    with open_queue("memory://", clock=clock) as queue:
        for task in queue.push_many([(n, f"t{n}") for n in range(20)]):
            queue.cancel(task.id)
        queue.configure(tag_retention=0)
        yield queue
        assert queue.check() == []


def lived(queue: Queue, clock: Any, state: State, **item: Any) -> Task:
    """A task of tag a in the state, with a story: two attempts, an edit, an error."""
    id = queue.push({"n": 1}, tag="a", **item).id
    for _ in range(2):
        queue.nack(lease(queue, owner="w"), "read timeout", retry_in=0)
    edit(queue, id, b'{"n":2}')
    match state:
        case State.SCHEDULED:
            queue.defer(lease(queue, owner="w"), 60)
        case State.INFLIGHT:
            lease(queue, owner="w")
        case State.DEAD:
            queue.dead_letter(lease(queue, owner="w"), "bad 7")
        case State.TRASH:
            queue.purge(queue.dead_letter(id, "bad 7").id)
    clock.advance(10)
    return queue.get(id)


GIVEN_OUT = {"tag", "place", "version"}  # the numbers of a store
MAY_DIFFER = {
    State.PENDING: GIVEN_OUT,
    State.SCHEDULED: GIVEN_OUT,
    State.INFLIGHT: GIVEN_OUT | {"state", "hold", "history", "ready"},
    State.DEAD: GIVEN_OUT | {"entry", "aged"},
    State.TRASH: GIVEN_OUT | {"entry", "aged"},
}


@pytest.mark.parametrize("state", State)
def test_a_task_comes_in_as_it_was(queue: Queue, elsewhere: Queue, clock: Any, state: State) -> None:
    before = lived(elsewhere, clock, state, max_attempts=9, dedupe_key="k")
    for name in ("z", "y", "x"):
        queue.push("there", tag=name)
    assert adopt(queue, before) == [None]
    after = queue.get(before.id)
    assert (after.tag, after.place, after.version) == ("a", 4, 4)
    assert unlike(before, after) <= MAY_DIFFER[state]
    if state is State.INFLIGHT:
        assert (after.state, after.attempts, after.leases) == (State.PENDING, before.attempts, before.leases)
        assert after.pending_since == clock.at()
        (ended,) = after.history[len(before.history) :]
        assert (ended.outcome, ended.owner, ended.ended, ended.number) == (
            Outcome.REQUEUED,
            "w",
            clock(),
            before.leases,
        )
    assert queue.snapshot().totals.moved_in == 1
    assert [task.id for task in queue.tasks(after.state, tag="a")] == [before.id]


@pytest.mark.parametrize("state", State)
def test_it_goes_on_from_there(queue: Queue, elsewhere: Queue, clock: Any, state: State) -> None:
    task = lived(elsewhere, clock, state, max_attempts=4)
    adopt(queue, task)
    match state:
        case State.SCHEDULED:
            assert queue.lease() is None
            clock.advance(60)
        case State.DEAD:
            queue.redrive(task.id)
        case State.TRASH:
            queue.restore(task.id)
            queue.redrive(task.id)
    found = lease(queue)
    assert (found.id, found.payload, found.fence) == (task.id, {"n": 2}, 1)
    assert found.attempt == {State.PENDING: 3, State.SCHEDULED: 3, State.INFLIGHT: 4}.get(state, 1)
    queue.ack(found)


@pytest.mark.parametrize("state", State)
def test_what_is_here_already_is_left_out_whatever_its_state(queue: Queue, elsewhere: Queue, state: State) -> None:
    task = elsewhere.push("theirs", tag="b")
    queue.push("mine", tag="a", id=task.id, delay=60 if state == "scheduled" else 0)
    match state:
        case State.INFLIGHT:
            lease(queue)
        case State.DEAD:
            queue.dead_letter(task.id, "bad")
        case State.TRASH:
            queue.cancel(task.id)
    before = queue.get(task.id)
    assert adopt(queue, task, task) == [f"a task of this id is here already: it is {state}"] * 2
    assert queue.get(task.id) == before
    assert queue.snapshot().ring.tags == ("a",)


def test_the_rest_of_what_is_given_is_taken_in_order(queue: Queue, elsewhere: Queue) -> None:
    tasks = [elsewhere.push(n, tag="ab"[n % 2]) for n in range(6)]
    adopt(queue, tasks[2])
    assert adopt(queue, *tasks, tasks[0]) == [
        None, None, "a task of this id is here already: it is pending", None, None, None,
        "a task of this id is here already: it is pending",
    ]  # fmt: skip
    assert adopt(queue) == []
    assert [found.payload for found in queue.tasks("pending", tag="a")] == [2, 0, 4]
    assert [found.payload for found in queue.tasks("pending", tag="b")] == [1, 3, 5]
    assert (totals(queue), queue.counts().all) == ({"moved_in": 6}, 6)


def test_a_held_dedupe_key_leaves_out_what_would_hold_it(queue: Queue, elsewhere: Queue, clock: Any) -> None:
    queue.push("holder", tag="a", dedupe_key="k")
    live = [elsewhere.push(n, tag=tag, dedupe_key="k") for n, tag in enumerate("ab")]
    elsewhere.dead_letter(live[0].id, "bad")
    dead = elsewhere.get(live[0].id)
    again = elsewhere.push("again", tag="a", dedupe_key="k")
    assert adopt(queue, dead, again, live[1]) == [None, "its dedupe key is held by another task", None]
    with pytest.raises(Conflict, match="is held by task"):
        queue.redrive(dead.id)
    assert queue.push("x", tag="b", dedupe_key="k").id == live[1].id


def test_two_of_one_key_in_one_call_are_one(queue: Queue, elsewhere: Queue) -> None:
    one, other = (replace(elsewhere.push(n, tag=f"t{n}", dedupe_key="k").record) for n in range(2))
    items = [Adopted("a", one), Adopted("a", other)]
    assert queue.perform(lambda store: store.adopt(items)) == [None, "its dedupe key is held by another task"]


def test_a_payload_that_is_too_large_refuses_them_all(queue: Queue, elsewhere: Queue) -> None:
    queue.configure(max_payload=10)
    tasks = [elsewhere.push(text) for text in ("x", "x" * 9)]
    with pytest.raises(InvalidPayload, match="payload is 11 bytes"):
        adopt(queue, *tasks)
    assert queue.counts().all == 0


@pytest.mark.parametrize("payload", ODD_PAYLOADS, ids=lambda data: repr(data)[:20])
def test_any_payload_comes_in_byte_for_byte(opened: Open, elsewhere: Queue, payload: bytes) -> None:
    queue = opened()
    tags = ["", "é/\n🙂", "a" * 65_535]
    tasks = [elsewhere.push("x", tag=tag) for tag in tags]
    items = [Adopted(task.tag, replace(task.record, payload=payload)) for task in tasks]
    assert queue.perform(lambda store: store.adopt(items)) == [None, None, None]
    queue = opened() if not queue.capabilities.durable else queue
    for task in tasks:
        assert (queue.get(task.id).record.payload, queue.get(task.id).tag) == (payload, task.tag)


def test_retention_begins_anew_for_what_comes_in(queue: Queue, elsewhere: Queue, clock: Any) -> None:
    tasks = [lived(elsewhere, clock, state) for state in (State.DEAD, State.TRASH)]
    queue.configure(dead_retention=7200)
    clock.advance(3600)
    adopt(queue, *tasks)
    clock.advance(3600)
    queue.configure()
    assert (queue.counts().dead, queue.counts().trash) == (1, 1)
    clock.advance(3600)
    queue.configure()
    clock.advance(1)
    queue.configure()
    assert (queue.counts().dead, queue.counts().trash) == (0, 1)
    for _ in range(7 * 24):
        clock.advance(3600)
        queue.configure()
    assert queue.counts().all == 0
    assert totals(queue) == {"moved_in": 2, "expunged": 2, "retired": 2}


def test_a_long_story_stays_as_long_as_it_may_be(queue: Queue, elsewhere: Queue) -> None:
    task = elsewhere.push("x", tag="a", max_attempts=1000)
    for _ in range(2 * HISTORY_EDGE + 5):
        elsewhere.nack(lease(elsewhere), "boom", retry_in=0)
    lease(elsewhere)
    adopt(queue, elsewhere.get(task.id))
    found = queue.get(task.id)
    assert (len(found.history), found.leases) == (2 * HISTORY_EDGE, 2 * HISTORY_EDGE + 6)
    assert [attempt.number for attempt in found.history][-2:] == [2 * HISTORY_EDGE + 5, 2 * HISTORY_EDGE + 6]


def test_what_comes_in_is_told(opened: Open, elsewhere: Queue) -> None:
    events: list[Any] = []
    queue = opened(on_event=events.append)
    adopt(queue, elsewhere.push("x", tag="a"))
    assert happened(events) == [(Kind.MOVE, "a", "imported")]


def test_a_thousand_come_in_with_one_call(queue: Queue, elsewhere: Queue) -> None:
    tasks = elsewhere.push_many([Item(n, tag=f"t{n % 7}") for n in range(1_000)])
    assert adopt(queue, *tasks) == [None] * 1_000
    assert queue.counts().pending == 1_000
    queue.configure(max_pending=1)
    assert adopt(queue, elsewhere.push("x")) == [None], "what comes from elsewhere is not pushed"
