"""Pages, snapshots, explanations, the journal, events, and reads that see one commit."""

import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from drive import Open, fill

from queue_core import Event, InvalidArgument, Item, Kind, Queue, State, TaskNotFound, history
from queue_core.ledger import WorkerRecord

needs = pytest.mark.needs


def paged(queue: Queue, state: str, limit: int, **arguments: Any) -> Iterator[list[Any]]:
    """The payloads of every page."""
    after = None
    while True:
        page = queue.tasks(state, after=after, limit=limit, **arguments)
        yield [task.payload for task in page]
        if (after := page.next) is None:
            return


@pytest.fixture
def every(queue: Queue, clock: Any) -> dict[str, list[Any]]:
    """Six tasks in each state, over two tags; their payloads in the order that the state has."""
    order: dict[str, list[Any]] = {"scheduled": [], "inflight": [], "dead": [], "trash": [], "pending": []}
    for state, delays in (("scheduled", (50, 20, 20, 90, 10, 60)), ("inflight", (9, 7, 8, 8, 3, 5))):
        for i, delay in enumerate(delays):
            task = queue.push(f"{state}{i}", tag="ab"[i % 2], delay=delay if state == "scheduled" else 0)
            if state == "inflight":
                (lease,) = queue.lease_many(1, ttl=delay)
                assert lease.id == task.id
        order[state] = [f"{state}{i}" for _, i in sorted((delay, i) for i, delay in enumerate(delays))]
    for i in (3, 0, 4, 1, 5, 2):
        for state, verb in (("dead", lambda id: queue.dead_letter(id, "no")), ("trash", queue.cancel)):
            verb(queue.push(f"{state}{i}", tag="ab"[i % 2]).id)
            order[state].append(f"{state}{i}")
    for i in range(6):
        queue.push(f"pending{i}", tag="aabbab"[i])
        order["pending"].append(f"pending{i}")
    return order


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 4, 6, 7])
@pytest.mark.parametrize("state", list(State))
def test_pages_follow_the_order_of_their_state_both_ways(
    queue: Queue, every: dict[str, list[Any]], state: str, limit: int, reverse: bool
) -> None:
    expected = every[state][::-1] if reverse else every[state]
    pages = list(paged(queue, state, limit, reverse=reverse))
    assert [payload for page in pages for payload in page] == expected
    assert all(len(page) == limit for page in pages[:-1])
    assert pages[-1]
    assert queue.tasks(state, limit=limit).total == 6
    for tag in "ab":
        of_tag = {task.payload for task in queue.tasks(state, tag=tag)}
        shown = [payload for page in paged(queue, state, limit, reverse=reverse, tag=tag) for payload in page]
        assert shown == [payload for payload in expected if payload in of_tag]
        assert queue.tasks(state, tag=tag, limit=1).total == len(of_tag) == 3


def test_a_page_goes_on_where_it_stopped_whatever_happened_meanwhile(queue: Queue) -> None:
    fill(queue, a=6)
    first = queue.tasks("pending", limit=3)
    for task in first:
        queue.cancel(task.id)
    fill(queue, b=1)
    assert [task.payload for task in queue.tasks("pending", after=first.next)] == ["a3", "a4", "a5", "b0"]


def test_an_unknown_tag_has_empty_pages(queue: Queue) -> None:
    page = queue.tasks("pending", tag="nobody")
    assert (list(page), page.next, page.total, len(page)) == ([], None, 0, 0)
    assert queue.snapshot().ring.tags == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"state": "done"}, "state is 'done': it is one of pending, scheduled, inflight, dead, trash"),
        ({"state": "pending", "limit": 0}, "limit is 0"),
        ({"state": "pending", "limit": 10_001}, "limit is 10001: it is a whole number from 1 to 10,000"),
        ({"state": "pending", "after": "x"}, "after='x' is not the `next` of a page"),
        ({"state": "pending", "after": "1-2-3"}, "is not the `next` of a page"),
        ({"state": "pending", "after": "-1-5"}, "is not the `next` of a page"),
        ({"state": "pending", "tag": "a", "after": f"{2**64 - 1:x}-0"}, "is not the `next` of a page"),
        ({"state": "scheduled", "tag": "a", "after": f"0-{2**64 - 1:x}"}, "is not the `next` of a page"),
    ],
)
def test_bad_arguments_are_named(queue: Queue, arguments: dict[str, Any], message: str) -> None:
    queue.push("x", tag="a")
    with pytest.raises(InvalidArgument, match=message):
        queue.tasks(**arguments)


# --- snapshots ------------------------------------------------------------------------------------


def test_delay_is_not_waiting(queue: Queue, clock: Any) -> None:
    queue.push("x", delay=10 * 3600)
    clock.advance(5 * 3600)
    snapshot = queue.snapshot()
    assert (snapshot.oldest_wait, snapshot.scheduled, snapshot.due, snapshot.backlog) == (None, 1, 0, 0)
    clock.advance(5 * 3600 + 30)
    snapshot = queue.snapshot()
    assert (snapshot.oldest_wait, snapshot.scheduled, snapshot.due, snapshot.backlog) == (30.0, 1, 1, 1)
    (lease,) = queue.lease_many(1)
    assert queue.snapshot().totals.wait == 30_000_000
    queue.ack(lease)


def test_backoff_is_not_waiting_and_paused_time_is(queue: Queue, clock: Any) -> None:
    queue.push("x", tag="a")
    clock.advance(7)
    (lease,) = queue.lease_many(1)
    queue.nack(lease, "boom", retry_in=100)
    clock.advance(100)
    queue.configure("a", paused=True)
    clock.advance(5)
    assert queue.snapshot().oldest_wait == 5.0
    queue.configure("a", paused=False)
    queue.lease_many(1)
    assert queue.snapshot().totals.wait == 12_000_000


def test_oldest_wait_is_that_of_the_next_task_of_each_tag(queue: Queue, clock: Any) -> None:
    queue.push("a0", tag="a")
    clock.advance(10)
    queue.push("b0", tag="b")
    clock.advance(5)
    assert {tag.name: tag.oldest_wait for tag in queue.snapshot().tags} == {"a": 15.0, "b": 5.0}
    queue.lease_many(1)
    snapshot = queue.snapshot()
    assert ({tag.name: tag.oldest_wait for tag in snapshot.tags}, snapshot.oldest_wait) == ({"a": None, "b": 5.0}, 5.0)


def test_a_snapshot_counts_per_tag_and_in_all(queue: Queue, every: dict[str, list[Any]], clock: Any) -> None:
    clock.advance(30)
    snapshot = queue.snapshot()
    assert snapshot.at == clock.at()
    assert (snapshot.pending, snapshot.scheduled, snapshot.inflight, snapshot.dead, snapshot.trash) == (6,) * 5
    assert (snapshot.due, snapshot.expired, snapshot.backlog) == (3, 6, 9)
    for state in State:
        assert sum(getattr(tag, state) for tag in snapshot.tags) == 6
    assert [(tag.name, tag.due, tag.expired) for tag in snapshot.tags] == [("a", 2, 3), ("b", 1, 3)]
    assert (snapshot.totals.pushed, snapshot.totals.leased) == (30, 6)
    assert (queue.counts().pending, queue.counts().all) == (6, 30)


def test_due_and_expired_are_counted_to_a_thousand(queue: Queue, clock: Any) -> None:
    queue.push_many([Item(i, delay=1) for i in range(999)])
    clock.advance(1)
    assert (queue.snapshot().due, queue.snapshot().due_text) == (999, "999")
    queue.push_many([Item(i, delay=1) for i in range(500)])
    clock.advance(1)
    assert (queue.snapshot().due, queue.snapshot().due_text) == (1_000, "1,000+")
    assert queue.snapshot().scheduled == 1_499
    queue.lease_many(1_499, ttl=1)
    clock.advance(1)
    assert queue.snapshot().expired_text == "1,000+"


def test_the_ring_shows_cursor_turn_and_next(queue: Queue) -> None:
    ring = queue.snapshot().ring
    assert (ring.tags, ring.cursor, ring.next, ring.serves) == ((), None, None, 0)
    queue.configure("b", weight=2)
    fill(queue, a=2, b=3)
    served = []
    for _ in range(5):
        ring = queue.snapshot().ring
        (lease,) = queue.lease_many(1)
        assert lease.tag == ring.next
        served.append((lease.tag, queue.snapshot().ring.cursor, queue.snapshot().ring.left))
    assert served == [("b", "b", 1), ("b", "a", 0), ("a", "b", 0), ("b", "b", 1), ("a", "b", 0)]
    assert (queue.snapshot().ring.next, queue.snapshot().ring.serves) == (None, 5)


def test_a_tag_shows_its_last_serve(queue: Queue, clock: Any) -> None:
    fill(queue, a=1, b=1)
    clock.advance(3)
    queue.lease_many(1)
    a, b = queue.snapshot().tags
    assert (a.last_serve, a.last_served_at, a.eligible_since) == (1, clock.at(), None)
    assert (b.last_serve, b.last_served_at, b.eligible_since) == (None, None, clock.at(-3))


# --- explanations ---------------------------------------------------------------------------------


def test_explain_counts_turns_and_serves_that_then_happen(queue: Queue) -> None:
    queue.configure("b", weight=2)
    fill(queue, a=5, b=9, c=2)
    queue.lease_many(2)
    told = [queue.explain(task.id) for task in queue.tasks("pending")]
    leases = queue.lease_many(50)
    assert len(leases) == len(told) == 14
    for each in told:
        position = [lease.id for lease in leases].index(each.task.id)
        assert (each.ahead_exact, each.blocked_by, each.serves) == (True, None, position)
        assert each.ahead == sum(lease.tag == each.task.tag for lease in leases[:position])


def test_explain_says_what_holds_a_task_back(queue: Queue, clock: Any) -> None:
    waiting = queue.push("x", tag="a")
    assert "next of its tag" in queue.explain(waiting.id).text
    queue.configure("a", paused=True)
    told = queue.explain(waiting.id)
    assert (told.blocked_by, told.turns, told.serves) == ("paused", None, None)
    assert told.text.endswith("its tag is not served: paused")
    queue.configure("a", paused=False)
    later = queue.push("x", tag="b", delay=90)
    assert "not before" in queue.explain(later.id).text
    assert "in 90 s" in queue.explain(later.id).text
    (lease,) = queue.lease_many(1, owner="w1", ttl=5)
    assert queue.explain(lease.id).text == "in flight: held by w1"
    clock.advance(90)
    assert "expired: w1 has been silent" in queue.explain(lease.id).text
    assert queue.explain(later.id).text.startswith("due")
    queue.dead_letter(later.id, "why not")
    assert queue.explain(later.id).text == "dead: why not; redrive it to run it again"
    queue.purge(later.id)
    assert "restore it" in queue.explain(later.id).text
    with pytest.raises(TaskNotFound):
        queue.explain(uuid4())


# --- journal and events ---------------------------------------------------------------------------


@needs("journal")
def test_the_journal_tells_what_happened_in_order(queue: Queue, clock: Any) -> None:
    task = queue.push("x", tag="a")
    queue.configure("a", weight=2)
    clock.advance(3)
    (lease,) = queue.lease_many(1, owner="w1")
    queue.dead_letter(lease, "bad")
    queue.redrive(task.id)
    (lease,) = queue.lease_many(1, owner="w2")
    queue.ack(lease)
    events = queue.journal()
    assert [event.kind for event in events] == ["push", "configure", "lease", "dead_letter", "redrive", "lease", "ack"]
    assert [event.number for event in events] == list(range(1, 8))
    assert {event.tag for event in events} == {"a"}
    assert events[1].detail == "weight=2"
    assert (events[2].owner, events[2].serve, events[2].entry.wait, events[2].at) == ("w1", 1, 3_000_000, clock.at())
    assert (events[3].detail, events[3].owner, events[3].task_id) == ("bad", "w1", task.id)
    assert [event.serve for event in events] == [None, None, 1, None, None, 2, None]


@needs("journal")
def test_the_journal_is_read_from_either_end_and_by_tag(queue: Queue) -> None:
    fill(queue, a=5, b=5)
    assert [event.number for event in queue.journal(limit=3)] == [8, 9, 10]
    assert [event.number for event in queue.journal(after=0, limit=3)] == [1, 2, 3]
    assert [event.number for event in queue.journal(after=8)] == [9, 10]
    assert [event.number for event in queue.journal(tag="b", limit=2)] == [9, 10]
    assert [event.number for event in queue.journal(tag="b", after=0, limit=2)] == [6, 7]
    assert queue.journal(tag="nobody") == queue.journal(after=10) == []
    with pytest.raises(InvalidArgument, match="after is -1"):
        queue.journal(after=-1)


def test_events_come_after_the_commit(opened: Open) -> None:
    seen: list[tuple[Kind, int]] = []
    other = opened()

    def listen(event: Event) -> None:
        seen.append((event.kind, other.counts().all))

    queue = opened(on_event=listen)
    queue.push_many([("x", "a"), ("y", "a")])
    (lease,) = queue.lease_many(1)
    queue.ack(lease)
    assert seen == [("push", 2), ("push", 2), ("lease", 2), ("ack", 1)]


def test_a_refused_verb_has_no_events(opened: Open) -> None:
    seen: list[Event] = []
    queue = opened(on_event=seen.append)
    with pytest.raises(TaskNotFound):
        queue.redrive(uuid4())
    assert queue.lease() is None
    assert seen == queue.journal() == []


def test_a_listener_that_raises_stops_nothing(opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    def listen(event: Event) -> None:
        raise RuntimeError("listener is broken")

    queue = opened(on_event=listen)
    assert queue.get(queue.push("x").id).payload == "x"
    assert "on_event raised for push; the verb stands" in caplog.text
    assert "listener is broken" in caplog.text


@pytest.fixture
def small_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fiftieth of it: what is trimmed, and when, goes by these two numbers."""
    assert (history.JOURNAL_LIMIT, history.JOURNAL_KEPT) == (200_000, 250_000)
    for module in ("stores.lmdb.history", "stores.memory.records", "check"):
        monkeypatch.setattr(f"queue_core.{module}.JOURNAL_LIMIT", 4_000)
    monkeypatch.setattr("queue_core.stores.memory.records.JOURNAL_KEPT", 5_000)


@needs("journal")
@pytest.mark.usefixtures("small_journal")  # until the queue was checked
def test_the_journal_keeps_the_last_200_000_events(queue: Queue) -> None:
    for _ in range(26):
        queue.push_many([None] * 500)
        assert len(queue.journal(limit=1_000_000)) <= 5_000
    events = queue.journal(limit=1_000_000)
    assert len(events) >= 4_000
    assert events[-1].number == 13_000
    assert queue.journal(after=0, limit=1)[0].number == events[0].number > 1
    assert queue.check() == []


# --- workers --------------------------------------------------------------------------------------


def worker(id: str, seen: int, **fields: int) -> WorkerRecord:
    return WorkerRecord(id, "host", 7, seen, seen, **fields)


def test_a_worker_is_what_it_last_reported(opened: Open, clock: Any) -> None:
    opened().report(worker("w1", clock.now))
    clock.advance(10)
    opened().report(worker("w1", clock.now, done=3, failed=1, concurrency=4))
    (found,) = opened().snapshot().workers
    assert (found.id, found.host, found.pid, found.seen_at) == ("w1", "host", 7, clock.at())
    assert (found.done, found.failed, found.concurrency, found.stopped_at) == (3, 1, 4, None)
    opened().report(worker("w1", clock.now, stopped=clock.now))
    assert opened().snapshot().workers[0].stopped_at == clock.at()


def test_workers_not_seen_for_an_hour_are_forgotten(queue: Queue, clock: Any) -> None:
    queue.report(worker("old", clock.now))
    clock.advance(1_800)
    queue.report(worker("young", clock.now))
    clock.advance(1_801)
    assert len(queue.snapshot().workers) == 2
    queue.report(worker("new", clock.now))
    assert [found.id for found in queue.snapshot().workers] == ["new", "young"]


# --- views ----------------------------------------------------------------------------------------


def test_all_reads_of_a_view_see_one_commit(opened: Open) -> None:
    queue = opened()
    fill(queue, a=3)
    with queue.view() as view:
        counts, snapshot, page = view.counts(), view.snapshot(), view.tasks("pending")
        task = view.get(page.items[0].id)
        assert counts.pending == snapshot.pending == page.total == 3
        assert view.explain(task.id).ahead == 0
        assert len(view.journal()) == (3 if queue.capabilities.journal else 0)
        assert view.check() == []
        assert view.snapshot() == snapshot


@needs("multi_process")
@needs("parallel_views")
def test_a_view_does_not_see_what_is_committed_meanwhile(opened: Open) -> None:
    queue, other = opened(), opened()
    fill(queue, a=1)
    with queue.view() as view:
        thread = threading.Thread(target=lambda: fill(other, a=1))
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
        assert (view.counts().pending, view.tasks("pending").total, view.snapshot().pending) == (1, 1, 1)
    assert queue.counts().pending == 2


@needs("multi_process")
@needs("parallel_views")
def test_a_view_does_not_know_a_tag_that_came_later(queue: Queue) -> None:
    fill(queue, a=1)
    with queue.view() as view:
        thread = threading.Thread(target=lambda: fill(queue, b=1))
        thread.start()
        thread.join(10)
        assert view.tasks("pending", tag="b").total == 0
        assert view.journal(tag="b") == []
    assert queue.tasks("pending", tag="b").total == 1


def test_writing_inside_a_view_is_refused(queue: Queue) -> None:
    for verb in (lambda: queue.push("x"), queue.lease, queue.requeue_inflight, lambda: queue.configure(paused=True)):
        with queue.view(), pytest.raises(InvalidArgument, match=r"called inside view\(\): leave the view first"):
            verb()
    assert queue.counts().all == 0
    queue.push("x")
