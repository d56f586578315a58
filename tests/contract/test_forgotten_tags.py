"""Tags that are forgotten when nothing is there to remember, and the clock by which they and the dead age."""

from typing import Any

import pytest
from drive import fill, later, serve

from queue_core import Queue

WEEK = 7 * 86_400
needs = pytest.mark.needs


@pytest.fixture
def short_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal does not hold tags back."""
    monkeypatch.setattr("queue_core.stores.engine.measure.JOURNAL_KEPT", 0)


def names(queue: Queue) -> str:
    return "".join(queue.snapshot().ring.tags)


@pytest.mark.usefixtures("short_journal")
def test_a_tag_with_nothing_to_remember_is_forgotten_and_rejoins_at_the_end(queue: Queue, clock: Any) -> None:
    fill(queue, a=1, b=1, c=1, d=1)
    serve(queue, 4)
    later(queue, clock, WEEK - 3600)
    fill(queue, b=1)
    assert names(queue) == "abcd"
    later(queue, clock, 7200)
    assert names(queue) == "b"
    fill(queue, a=1)
    assert names(queue) == "ba"
    totals = queue.snapshot().totals
    assert (totals.pushed, totals.acked) == (6, 4)
    assert queue.check() == []
    assert [found.tag for found in serve(queue, 9)] == ["b", "a"]


@pytest.mark.usefixtures("short_journal")
@pytest.mark.parametrize(
    "keep",
    [
        lambda queue: queue.configure("a", weight=2),
        lambda queue: queue.configure("a", paused=True),
        lambda queue: queue.configure("a", max_inflight=5),
        lambda queue: queue.configure("a", min_interval=5),
        lambda queue: queue.configure("a", max_pending=5),
        lambda queue: queue.push("x", tag="a"),
        lambda queue: queue.push("x", tag="a", delay=WEEK),
        lambda queue: queue.dead_letter(queue.push("x", tag="a").id, "no"),
        lambda queue: queue.cancel(queue.push("x", tag="a").id),
    ],
    ids=["weight", "paused", "in-flight limit", "interval", "limit", "pending", "scheduled", "dead", "trash"],
)
def test_a_tag_with_a_setting_or_a_task_is_kept(queue: Queue, clock: Any, keep: Any) -> None:
    queue.configure(tag_retention=3600)
    fill(queue, a=1, b=1)
    serve(queue, 2)
    keep(queue)
    later(queue, clock, 6 * 3600)
    assert names(queue) == "a"


@needs("journal")
def test_a_tag_that_the_journal_names_is_kept(queue: Queue, clock: Any) -> None:
    queue.configure(tag_retention=0)
    fill(queue, a=1)
    serve(queue, 1)
    later(queue, clock, 7200)
    assert names(queue) == "a"
    assert {event.tag for event in queue.journal()} == {None, "a"}


@pytest.mark.usefixtures("short_journal")
def test_a_cursor_on_a_forgotten_tag_goes_on_with_the_next_and_wraps(queue: Queue, clock: Any) -> None:
    queue.configure(tag_retention=3600)
    fill(queue, a=9, b=9, c=1)
    assert [found.tag for found in serve(queue, 2)] == ["a", "b"]
    queue.dead_letter(queue.tasks("pending", tag="c").items[0].id, "enough")
    (dead,) = queue.tasks("dead")
    queue.expunge(queue.purge(dead.id).id)
    assert queue.snapshot().ring.cursor == "c"
    later(queue, clock, 7200)
    fill(queue, d=2)  # first seen later than the cursor moved: it waits for the round's end
    assert names(queue) == "abd"
    assert queue.snapshot().ring.cursor == "a"
    assert [found.tag for found in serve(queue, 4)] == ["a", "b", "d", "a"]


@needs("history")
@pytest.mark.usefixtures("short_journal")
def test_what_a_forgotten_tag_did_stays_in_the_series(queue: Queue, clock: Any) -> None:
    queue.configure(tag_retention=3600)
    fill(queue, gone=2, here=2)
    serve(queue, 3)
    for _ in range(3):
        later(queue, clock, 3600)
        fill(queue, here=1)
    series = queue.series()
    assert names(queue) == "here"
    assert "gone" not in series.names.values()
    assert sum(series.whole("pushed")) == 7
    assert series.of("here", "pushed")[0] == 2
    assert series.buckets[0].column("pushed")[-1] == 2, "with the others"


@needs("history")  # it is the same for all; on files it would take long
@pytest.mark.usefixtures("short_journal")
def test_forgetting_keeps_pace_with_new_tags(queue: Queue, clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though many more come than the sweep of a bucket's end would look at by itself."""
    monkeypatch.setattr("queue_core.stores.engine.measure.SWEEP", 50)
    queue.configure(tag_retention=60)
    for begin in range(0, 4_000, 100):
        queue.push_many([("x", f"t{n}") for n in range(begin, begin + 100)])
        queue.ack_many(queue.lease_many(100))
        clock.advance(5)
    assert len(queue.snapshot().tags) < 2_500
    for _ in range(40):
        clock.advance(10)
        queue.configure()
    assert len(queue.snapshot().tags) == 0
    assert queue.snapshot().totals.acked == 4_000
    fill(queue, again=1)
    assert [found.tag for found in serve(queue, 1)] == ["again"]


def test_clocks_that_take_turns_do_not_age_the_store(queue: Queue, clock: Any) -> None:
    queue.configure(dead_retention=4 * 3600)
    dead = queue.dead_letter(queue.push("x", tag="a").id, "no")
    for _ in range(10):
        clock.advance(3600)
        queue.configure()
        clock.advance(-3600)
        queue.configure()
    assert queue.get(dead.id).state == "dead"
    later(queue, clock, 6 * 3600)
    assert queue.counts().dead == 0, "it goes on where the clock goes on"
