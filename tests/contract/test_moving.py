"""Payloads that are edited, and tasks that change their tag."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from changing import ODD_PAYLOADS, ODD_TAGS, edit, happened, move, totals, unlike
from drive import Open, lease, payloads
from test_operating import put

from queue_core import Conflict, InvalidPayload, Queue, State, TaskNotFound
from queue_core.history import Kind
from queue_core.task import SECOND

# --- edit


@pytest.mark.parametrize("state", State)
def test_an_edit_changes_the_payload_and_nothing_else(queue: Queue, clock: Any, state: State) -> None:
    id = put(queue, state)
    before, counted = queue.get(id), totals(queue)
    clock.advance(1)
    after = edit(queue, id, b'{"new":1}')
    assert queue.get(id) == after
    assert unlike(before, after) == {"payload", "version", "edits"}
    assert (after.payload, after.version) == ({"new": 1}, before.version + 1)
    (kept,) = after.record.edits
    assert (kept.at, kept.version, kept.payload) == (clock(), before.version, b'"x"')
    assert totals(queue) == counted
    assert [task.id for task in queue.tasks(state)] == [id]


def test_the_first_payload_and_the_last_four_are_kept(queue: Queue) -> None:
    id = queue.push(0).id
    for number in range(1, 10):
        kept = [edit.payload for edit in edit(queue, id, str(number).encode()).record.edits]
        every = [str(n).encode() for n in range(number)]
        assert kept == (every if number <= 5 else [every[0], *every[-4:]])
    versions = [found.version for found in queue.get(id).record.edits]
    assert versions == sorted(set(versions))


@pytest.mark.parametrize("payload", ODD_PAYLOADS, ids=lambda data: repr(data)[:20])
def test_every_payload_is_kept_byte_for_byte(opened: Open, payload: bytes) -> None:
    queue = opened()
    id = queue.push("x").id
    edit(queue, id, payload)
    edit(queue, id, b"[1]")
    again = edit(queue, id, payload)
    queue = opened() if not queue.capabilities.durable else queue
    assert queue.get(id).record == again.record
    assert again.record.payload == payload
    assert [found.payload for found in again.record.edits] == [b'"x"', payload, b"[1]"]


def test_the_story_of_edits_goes_with_the_task(queue: Queue) -> None:
    """Through every state, another tag, a replaced payload, and a push with its id."""
    id = queue.push("x", tag="a", max_attempts=1).id
    edit(queue, id, b"1")
    story = queue.get(id).record.edits
    queue.nack(lease(queue), "boom")
    move(queue, id, "b")
    queue.purge(id)
    queue.restore(id)
    queue.redrive(id)
    queue.replace(queue.get(id), payload="replaced")
    assert queue.push("pushed", tag="b", id=id).record.edits == story
    assert edit(queue, id, b"2").record.edits[-1].payload == b'"pushed"'


def test_the_holder_of_a_lease_keeps_its_copy_and_its_token(queue: Queue) -> None:
    id = queue.push("old", tag="a").id
    held = lease(queue)
    edit(queue, id, b'"new"')
    assert held.payload == "old"
    queue.release(queue.heartbeat(held))
    assert lease(queue).payload == "new"


def test_an_edit_is_refused_where_a_change_would_be_overwritten_or_does_not_fit(queue: Queue) -> None:
    id = queue.push("x").id
    seen = queue.get(id)
    newer = queue.replace(seen, payload="newer")
    with pytest.raises(Conflict, match="it has changed since") as caught:
        edit(queue, id, b"1", version=seen.version)
    assert (caught.value.state, caught.value.version) == ("pending", newer.version)
    with pytest.raises(TaskNotFound):
        edit(queue, str(UUID(int=5)), b"1")
    queue.configure(max_payload=10)
    with pytest.raises(InvalidPayload, match="payload is 11 bytes as JSON; the limit is 10"):
        edit(queue, id, b'"123456789"')
    assert edit(queue, id, b'"12345678"', version=newer.version).record.edits[0].payload == b'"newer"'


def test_an_edit_is_told(opened: Open) -> None:
    events: list[Any] = []
    queue = opened(on_event=events.append)
    id = queue.push("x", tag="a").id
    events.clear()
    edit(queue, id, b"1")
    assert happened(events) == [(Kind.EDIT, "a", "")]


# --- another tag


@pytest.mark.parametrize("state", State)
def test_a_task_goes_to_the_tail_of_another_tag_unless_somebody_holds_it(
    queue: Queue, clock: Any, state: State
) -> None:
    id = put(queue, state)
    queue.push_many([("before", "b"), ("last", "b")])
    before = queue.get(id)
    if state in (State.INFLIGHT, State.TRASH):
        with pytest.raises(Conflict, match=f"is {state} at version .*; move-tag needs it dead or pending or scheduled"):
            move(queue, id, "b")
        assert queue.get(id) == before
        return
    clock.advance(1)
    after = move(queue, id, "b")
    assert queue.get(id) == after
    assert unlike(before, after) == {"name", "tag", "place", "version"}
    assert after.place > max(task.place for task in queue.tasks("pending", tag="b") if task.id != id)
    assert [task.id for task in queue.tasks(state, tag="b")][-1] == id
    assert queue.tasks(state, tag="a").total == 0
    with pytest.raises(Conflict, match="it is in that tag already"):
        move(queue, id, "b")
    with pytest.raises(Conflict, match="it has changed since"):
        move(queue, id, "a", version=before.version)


def test_it_counts_as_moved_out_of_one_and_into_the_other(queue: Queue) -> None:
    ids = [task.id for task in queue.push_many([(n, "a") for n in range(3)])]
    move(queue, ids[1], "b")
    tags = {tag.name: tag for tag in queue.snapshot().tags}
    assert (tags["a"].totals.moved_out, tags["a"].totals.moved_in, tags["a"].pending) == (1, 0, 2)
    assert (tags["b"].totals.moved_out, tags["b"].totals.moved_in, tags["b"].pending) == (0, 1, 1)
    assert totals(queue) == {"pushed": 3, "moved_in": 1, "moved_out": 1}


def test_the_next_of_a_tag_is_right_whatever_leaves_or_comes(queue: Queue) -> None:
    a, b = ([task.id for task in queue.push_many([(f"{tag}{n}", tag) for n in range(3)])] for tag in "ab")
    move(queue, a[0], "b")
    move(queue, b[0], "a")
    move(queue, a[2], "c")
    assert [(tag.name, tag.pending) for tag in queue.snapshot().tags] == [("a", 2), ("b", 3), ("c", 1)]
    assert payloads(queue, 9) == ["a1", "b1", "a2", "b0", "b2", "a0"]


def test_it_has_waited_since_it_was_pushed(queue: Queue, clock: Any) -> None:
    id = queue.push("x", tag="a").id
    clock.advance(60)
    move(queue, id, "b")
    assert {tag.name: tag.oldest_wait for tag in queue.snapshot().tags} == {"a": None, "b": 60.0}
    assert lease(queue).task.record.ready == clock() - 60 * SECOND


def test_a_scheduled_task_keeps_its_time(queue: Queue, clock: Any) -> None:
    id = queue.push("x", tag="a", delay=60).id
    due = queue.get(id).due_at
    assert move(queue, id, "b").due_at == due
    clock.advance(59)
    assert queue.lease() is None
    clock.advance(1)
    assert lease(queue).tag == "b"


def test_a_dead_letter_stays_dead_with_its_order_and_its_end(queue: Queue, clock: Any) -> None:
    ids = [put(queue, "dead") for _ in range(4)]
    queue.configure(dead_retention=3600)
    clock.advance(3000)
    moved = move(queue, ids[1], "b")
    assert (moved.reason, moved.entered_at) == ("bad", queue.get(ids[0]).entered_at)
    assert [task.id for task in queue.tasks("dead")] == ids
    assert [task.id for task in queue.tasks("dead", tag="a")] == [ids[0], ids[2], ids[3]]
    clock.advance(601)
    queue.configure()
    assert queue.counts().all == 0, "the retention runs from its death"


def test_a_tag_that_is_new_comes_last_in_the_rotation(queue: Queue) -> None:
    ids = [queue.push(n, tag=tag).id for n, tag in enumerate("ab")]
    move(queue, ids[0], "new")
    assert queue.snapshot().ring.tags == ("a", "b", "new")
    assert [found.tag for found in queue.lease_many(3)] == ["b", "new"]


def test_limits_and_pauses_are_those_of_the_tag_it_is_in(queue: Queue) -> None:
    queue.configure("shut", paused=True)
    queue.configure("b", max_pending=1)
    ids = [queue.push(n, tag="shut").id for n in range(3)]
    assert queue.lease() is None
    for id in ids[:2]:
        move(queue, id, "b")  # what is here already is not refused for want of room
    assert [found.tag for found in queue.lease_many(5)] == ["b", "b"]
    move(queue, queue.push("x", tag="b").id, "shut")
    assert queue.lease() is None


def test_a_dedupe_key_is_held_in_the_tag_where_the_task_is(queue: Queue) -> None:
    ids = [queue.push(n, tag=tag, dedupe_key="k").id for n, tag in enumerate("ab")]
    with pytest.raises(Conflict, match="in tag 'b' is held by task") as caught:
        move(queue, ids[0], "b")
    assert caught.value.brief == "its dedupe key is held by another task"
    move(queue, ids[0], "c")
    assert queue.push("a", tag="a", dedupe_key="k").id not in ids
    assert queue.push("c", tag="c", dedupe_key="k").id == ids[0]
    queue.dead_letter(ids[1], "no")
    assert move(queue, ids[1], "c").state == State.DEAD, "a dead letter holds no key"
    with pytest.raises(Conflict, match="is held by task"):
        queue.redrive(ids[1])


def test_a_refused_move_leaves_nothing_behind(queue: Queue) -> None:
    """Neither a place that was given out, nor a tag that was made known."""
    held = put(queue, "inflight")
    with pytest.raises(Conflict):
        move(queue, held, "new")
    ids = [queue.push(n, tag=tag, dedupe_key="k").id for n, tag in enumerate("bc")]
    with pytest.raises(Conflict):
        move(queue, ids[0], "c")
    assert queue.snapshot().ring.tags == ("a", "b", "c")
    assert queue.push("x", tag="a").place == 4


@pytest.mark.parametrize("tag", ODD_TAGS, ids=lambda tag: repr(tag)[:12])
def test_any_tag_will_do(queue: Queue, tag: str) -> None:
    id = queue.push("x", tag="a").id
    assert move(queue, id, tag).tag == tag
    assert queue.push("y", tag=tag).record.tag == queue.get(id).record.tag
    assert move(queue, id, "a").tag == "a"
    assert payloads(queue, 5) == ["x", "y"]


def test_a_move_is_told_of_both_tags(opened: Open) -> None:
    events: list[Any] = []
    queue = opened(on_event=events.append)
    id = queue.push("x", tag="a").id
    events.clear()
    move(queue, id, "é\n" * 500)
    out, come = happened(events)
    assert out == (Kind.MOVE, "a", ("to " + "é\n" * 500)[:200])
    assert come == (Kind.MOVE, "é\n" * 500, "from a")


def test_a_tag_that_is_left_is_forgotten_as_any_other(queue: Queue, clock: Any) -> None:
    queue.configure(tag_retention=0, history=False)
    id = queue.push("x", tag="a").id
    move(queue, id, "b")
    for _ in range(5):
        clock.advance(3600)
        queue.push(1, tag="other")
    assert queue.snapshot().ring.tags == ("b", "other")
    move(queue, id, "a")
    assert queue.snapshot().ring.tags == ("b", "other", "a")
    assert queue.snapshot().totals.moved_in == 2


def test_moves_and_edits_beside_leases_lose_and_double_nothing(queue: Queue) -> None:
    ids = [task.id for task in queue.push_many([(n, "abc"[n % 3]) for n in range(60)])]
    move(queue, ids[0], "d")
    done: list[str] = []

    def shift(start: int) -> None:
        for at, id in enumerate(ids[start:] + ids[:start]):
            with suppress(Conflict, TaskNotFound):
                move(queue, id, "abc"[(at + start + 1) % 3])
                edit(queue, id, str(at).encode())

    def work(_: int) -> None:
        while found := queue.lease():
            queue.ack(found)
            done.append(found.id)

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(act, start) for start, act in ((0, shift), (30, shift), (0, work), (1, work))]
        for future in futures:
            future.result()
    work(0)
    assert sorted(done) == sorted(ids)
    tags = queue.snapshot().tags
    assert sum(tag.totals.moved_in for tag in tags) == sum(tag.totals.moved_out for tag in tags) >= 1
