"""Measured history: what buckets hold, how they roll up and expire, and that nothing is lost on the way."""

from datetime import datetime
from typing import Any

import pytest
from drive import Open, fill, serve

from queue_core import InvalidArgument, Queue
from queue_core.ledger import Totals
from queue_core.series import COUNTERS, DAY, FINE, HOUR, KEPT, MINUTE
from queue_core.task import SECOND

pytestmark = pytest.mark.needs("history")


def summed(queue: Queue) -> Totals:
    """The buckets kept, the open one among them, and the remainder of expired ones."""
    series = queue.series()
    total = series.remainder
    for bucket in series.buckets:
        total = total.plus(bucket.totals())
    return total


def test_a_bucket_tells_what_happened_in_it(queue: Queue, clock: Any) -> None:
    fill(queue, a=2, b=1)
    clock.advance(4)
    serve(queue, 1)
    clock.advance(10)
    fill(queue, a=1)
    series = queue.series()
    assert series.whole("pushed") == [3, 1]
    assert series.whole("leased") == series.whole("acked") == [1, 0]
    assert series.whole("pending") == [2, 3], "as it was at the end"
    assert series.whole("wait") == [4 * SECOND, 0] == series.whole("longest")
    assert series.of("a", "pushed") == [2, 1]
    assert series.of("b", "pending") == [1, 1], "it did nothing in the second, and waits in it"
    assert series.of("b", "oldest") == [10 * SECOND, 14 * SECOND]
    assert [bucket.seconds for bucket in series.buckets] == [10, 4], "the last is still open"
    assert [bucket.start % FINE for bucket in series.buckets] == [0, 0]


def test_an_empty_queue_has_no_series(queue: Queue) -> None:
    series = queue.series()
    assert (series.buckets, series.names, series.remainder) == ((), {}, Totals())
    assert series.whole("pushed") == series.of("a", "pushed") == []


def test_reading_writes_nothing_and_an_idle_queue_stays_as_it_is(queue: Queue, clock: Any) -> None:
    fill(queue, a=1)
    serve(queue, 1)
    mark = queue.mark()
    for _ in range(3):
        clock.advance(3600)
        assert queue.lease() is None, "a worker that asks in vain"
        assert queue.series().whole("pushed") == [1]
        queue.snapshot()
    assert queue.mark() == mark


def test_a_span_is_cut_out(queue: Queue, clock: Any) -> None:
    begin = clock.at()
    for _ in range(6):
        fill(queue, a=1)
        clock.advance(60)
    series = queue.series(since=clock.at(-190), until=clock.at(-60))
    assert len(series.buckets) == 2
    assert all(clock.at(-200) <= bucket.at < clock.at(-60) for bucket in series.buckets)
    assert len(queue.series(since=begin).buckets) == 6
    with pytest.raises(InvalidArgument, match="time zone"):
        queue.series(since=datetime(2026, 1, 1))  # noqa: DTZ001 - that is what is refused


def test_buckets_grow_coarser_with_age_and_expire_into_the_remainder(queue: Queue, clock: Any) -> None:
    clock.now -= clock.now % DAY
    fill(queue, a=3, b=1)
    for step, times in ((3600, 31 * 24), (120, 720), (20, 540)):
        for _ in range(times):
            queue.push("x", tag="a")
            clock.advance(step)
    series = queue.series()
    ages = [(clock.now - bucket.start, bucket.width) for bucket in series.buckets]
    slack = 41 * MINUTE  # a bucket of ten minutes, and some commits
    assert {width for age, width in ages if age > DAY + slack} == {10 * MINUTE}
    assert {width for age, width in ages if 2 * HOUR + slack < age < DAY} == {MINUTE}
    assert {width for age, width in ages if age < 2 * HOUR - slack} == {FINE}
    assert 30 * DAY - 2 * HOUR < max(age for age, _ in ages) < 30 * DAY + 2 * HOUR, "commits were an hour apart then"
    assert all(bucket.start % bucket.width == 0 for bucket in series.buckets[:-1])
    assert 24 * 2 < series.remainder.pushed < 24 * 3, "32 days and a bit are measured"
    assert summed(queue) == queue.snapshot().totals
    starts = [bucket.start for bucket in series.buckets]
    assert starts == sorted(set(starts))


def test_a_tag_that_starves_is_found_though_it_does_nothing(
    queue: Queue, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No bucket has seen it: each close looks at some more tags of the ring, and what is found stays."""
    monkeypatch.setattr("queue_core.stores.engine.measure.SWEEP", 50)
    busy = [("x", f"busy{n}") for n in range(200)]
    queue.configure(history=False)
    queue.push_many(busy)
    fill(queue, quiet=1)
    queue.configure("quiet", paused=True)
    queue.configure(history=True)
    for _ in range(7):
        clock.advance(10)
        queue.ack_many(queue.lease_many(200))
        queue.push_many(busy)
    series = queue.series()
    assert "quiet" not in {series.names[number] for number in series.buckets[0].tags}
    for last in series.buckets[-2:]:
        assert len(last.tags) == KEPT
        assert max(last.column("oldest")) >= 50 * SECOND
    assert series.of("quiet", "oldest")[-1] == max(series.buckets[-1].column("oldest"))


def test_the_busiest_tags_are_kept_and_the_others_summed(queue: Queue, clock: Any) -> None:
    queue.push_many([("x", f"tag{n:03}") for n in range(150)])
    for n in (7, 77, 149):
        queue.push_many([("x", f"tag{n:03}")] * 5)
    clock.advance(10)
    queue.push("x", tag="tag000")
    closed = queue.series().buckets[0]
    assert len(closed.tags) == KEPT
    assert {8, 78, 150} <= set(closed.tags)
    assert closed.column("pushed")[-1] == 50
    assert closed.whole("pushed") == closed.whole("pending") == 165
    assert queue.series().of("tag148", "pushed")[0] is None, "it is among the others: not known by itself"


def test_a_clock_that_jumps_forward_a_year_takes_no_history(queue: Queue, clock: Any) -> None:
    fill(queue, a=1)
    clock.advance(60)
    fill(queue, a=1)
    clock.advance(365 * 86_400)
    fill(queue, a=1)
    series = queue.series()
    assert series.whole("pushed") == [1, 1, 1]
    assert series.remainder == Totals()


def test_a_clock_set_back_opens_buckets_of_its_own(queue: Queue, clock: Any) -> None:
    fill(queue, a=1)
    clock.advance(60)
    fill(queue, a=2)
    clock.advance(-3600)
    fill(queue, a=4)
    clock.advance(-3)  # less than a bucket: it stays in the open one
    fill(queue, a=8)
    series = queue.series()
    assert series.whole("pushed") == [1, 2, 12]
    assert series.buckets[2].start < series.buckets[0].start
    assert summed(queue) == queue.snapshot().totals


def test_what_passes_while_no_history_is_written_counts_as_expired(queue: Queue, clock: Any) -> None:
    fill(queue, a=1)
    events = len(queue.journal())
    assert queue.configure(history=False).history is False
    happened = len(queue.journal())
    clock.advance(30)
    fill(queue, a=2)
    serve(queue, 1)
    assert len(queue.journal()) == happened == events
    assert queue.series().whole("pushed") == [1]
    assert queue.check() == []
    queue.configure(history=True)
    clock.advance(30)
    fill(queue, a=4)
    series = queue.series()
    assert series.whole("pushed") == [1, 0, 4]
    assert series.remainder.pushed == 2
    assert summed(queue) == queue.snapshot().totals


def test_events_are_told_while_no_history_is_written(opened: Open) -> None:
    told: list[Any] = []
    queue = opened(on_event=told.append)
    queue.configure(history=False)
    fill(queue, a=1)
    assert [(event.kind, event.number) for event in told][-1] == ("push", 0)


def test_every_counter_of_a_bucket_has_a_column(queue: Queue) -> None:
    fill(queue, a=1)
    (bucket,) = queue.series().buckets
    assert {field: bucket.whole(field) for field in COUNTERS if bucket.whole(field)} == {"pushed": 1}


# --- when a task's turn is to be expected


def test_a_task_is_expected_by_the_rate_of_late(queue: Queue, clock: Any) -> None:
    fill(queue, a=400, b=400)
    for _ in range(60):
        clock.advance(1)
        serve(queue, 2)
    told = queue.explain(queue.tasks("pending", tag="b", reverse=True).items[0].id)
    assert told.serves is not None
    assert told.forecast is not None
    assert told.forecast.expected == pytest.approx((told.serves + 1) / 2, rel=0.05)
    assert told.forecast.earliest < told.forecast.expected < told.forecast.latest < 2 * told.forecast.expected
    assert "expected in about" in told.text


def test_a_pause_of_all_workers_counts_and_ends_in_no_forecast(queue: Queue, clock: Any) -> None:
    fill(queue, a=100)
    for _ in range(20):
        clock.advance(1)
        serve(queue, 1)
    (task,) = queue.tasks("pending", reverse=True, limit=1)
    soon = queue.explain(task.id).forecast
    clock.advance(60)
    later_on = queue.explain(task.id).forecast
    assert soon is not None
    assert later_on is not None
    assert later_on.expected == pytest.approx(4 * soon.expected)
    clock.advance(600)
    fill(queue, a=1)
    assert queue.explain(task.id).forecast is None
    assert "when cannot be told" in queue.explain(task.id).text


def test_time_in_which_workers_were_short_of_tasks_does_not_count(queue: Queue, clock: Any) -> None:
    fill(queue, a=1)
    serve(queue, 1)
    clock.advance(120)
    fill(queue, a=100)
    for _ in range(20):
        clock.advance(1)
        serve(queue, 1)
    told = queue.explain(queue.tasks("pending", reverse=True).items[0].id)
    assert told.forecast is not None
    assert told.forecast.expected == pytest.approx(80, rel=0.05)


# --- and more of what history must survive


def test_history_may_be_off_for_long(queue: Queue, clock: Any) -> None:
    fill(queue, a=1)
    queue.configure(history=False)
    for _ in range(5):
        clock.advance(30)
        fill(queue, a=1)
        assert summed(queue) == queue.snapshot().totals
        assert queue.check() == []
    queue.configure(history=True)
    clock.advance(30)
    fill(queue, a=1)
    series = queue.series()
    assert sum(series.whole("pushed")) == 2
    assert series.remainder.pushed == 5


def test_history_gives_way_when_room_is_short(queue: Queue, clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    short = False
    with queue._store._read() as tx:  # type: ignore[attr-defined]
        kind = type(tx)
    real = kind.__init__

    def begin(self: Any, *args: Any) -> None:
        real(self, *args)
        self.short = lambda: short

    monkeypatch.setattr(kind, "__init__", begin)
    if (core := getattr(queue._store, "_core", None)) is not None:  # the memory store's records are made once
        core.records.short = lambda: short
    for short in (False, False, True, True, False, False):  # noqa: B007 - read by the store
        fill(queue, a=2)
        clock.advance(10)
        serve(queue, 1)
        assert queue.check() == []
        assert summed(queue) == queue.snapshot().totals
    assert queue.series().remainder.pushed > 4
    assert 2 in queue.series().whole("pushed")


def test_no_time_is_told_where_a_limit_of_a_tag_decides(queue: Queue, clock: Any) -> None:
    fill(queue, a=100, b=100)
    for _ in range(20):
        clock.advance(1)
        serve(queue, 2)
    (task,) = queue.tasks("pending", tag="a", reverse=True, limit=1)
    new = queue.push("x", tag="c")
    assert queue.explain(task.id).forecast is not None
    assert queue.explain(new.id).forecast is not None, "by the serves of all"
    for change in ({"max_inflight": 3}, {"max_inflight": None, "min_interval": 1.0}):
        queue.configure("b", **change)
        assert queue.explain(task.id).forecast is not None, "a has a rate of its own"
        told = queue.explain(new.id)
        assert told.forecast is None
        assert "limits of tags" in told.text


def test_a_bucket_adds_up_though_not_every_tag_that_changed_is_looked_at(
    queue: Queue, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_core.stores.engine.measure.LOOKED", 10)
    queue.push_many([("x", f"t{n}") for n in range(800)])
    clock.advance(10)
    queue.ack_many(queue.lease_many(700))
    clock.advance(10)
    fill(queue, a=1)
    assert queue.series().whole("pushed") == [800, 0, 1]
    assert queue.series().whole("acked") == [0, 700, 0]
    assert summed(queue) == queue.snapshot().totals


def test_other_tags_that_keep_coming_are_in_the_time_that_is_told(queue: Queue, clock: Any) -> None:
    """The present load knows nothing of them: each new one is served within a round, whoever waits."""
    queue.push_many([("x", "a")] * 200)
    for n in range(60):
        queue.push_many([("x", f"small{4 * n + i}") for i in range(4)])
        clock.advance(1)
        serve(queue, 5)
    (task,) = queue.tasks("pending", tag="a", reverse=True, limit=1)
    told = queue.explain(task.id)
    assert told.ahead is not None
    assert told.forecast is not None
    assert told.forecast.expected == pytest.approx(told.ahead + 1, rel=0.25), "one a second, not five"


def test_a_field_that_there_is_not_is_refused_with_those_there_are(queue: Queue) -> None:
    fill(queue, a=1)
    with pytest.raises(InvalidArgument, match="no field 'failed': it has pushed, leased"):
        queue.series().whole("failed")
