"""A series on a grid: idle spans are filled, what stood before is known, and nothing is counted twice or lost."""

from typing import Any

import pytest
from drive import fill, lease, serve

from queue_core import InvalidArgument, Queue
from queue_core.series import FINE
from queue_core.spans import fitting, spans, widened
from queue_core.task import SECOND

pytestmark = pytest.mark.needs("history")


def lengths(queue: Queue, step: Any = None, **cut: Any) -> list[float]:
    return [span.seconds for span in spans(queue.series(**cut), step)]


def pushed(queue: Queue, step: Any = None, **cut: Any) -> list[int]:
    return [sum(bucket.whole("pushed") for bucket in span.buckets) for span in spans(queue.series(**cut), step)]


def pending(queue: Queue, step: Any = None, **cut: Any) -> list[int]:
    return [span.last.whole("pending") for span in spans(queue.series(**cut), step)]


@pytest.fixture
def whole_minute(clock: Any) -> None:
    clock.now -= clock.now % (60 * SECOND)


@pytest.mark.usefixtures("whole_minute")
def test_a_series_knows_how_things_stood_before_it(queue: Queue, clock: Any) -> None:
    begin = clock.at()
    fill(queue, a=2, b=1)
    clock.advance(600)
    fill(queue, a=4)
    series = queue.series(since=clock.at(-300), until=clock.at(60))
    assert (series.since, series.until) == (clock.at(-300), clock.at(60))
    assert series.whole("pushed") == [4]
    assert series.before is not None
    assert series.before.at == begin
    assert series.before.whole("pending") == 3
    assert sorted(series.names.values()) == ["a", "b"]
    assert queue.series().before is None
    assert queue.series(since=begin).before is None


@pytest.mark.usefixtures("whole_minute")
def test_what_stood_before_is_known_however_long_ago(queue: Queue, clock: Any) -> None:
    fill(queue, a=2)
    for _ in range(40):  # the retention clock counts an hour at most between two commits
        clock.advance(3600)
        queue.configure()
    clock.advance(30)
    series = queue.series(since=clock.at(-630))
    assert series.before is not None
    assert pending(queue, 60, since=clock.at(-630)) == [2] * 11


@pytest.mark.usefixtures("whole_minute")
def test_an_idle_time_is_filled(queue: Queue, clock: Any) -> None:
    fill(queue, a=2)
    clock.advance(95)
    fill(queue, a=3)
    clock.advance(300)
    assert pushed(queue) == [2, 0, 3, 0]
    assert lengths(queue) == [10, 80, 10, 295]
    assert pushed(queue, 60) == [2, 3, 0, 0, 0, 0, 0]
    assert pending(queue, 60) == [2, 5, 5, 5, 5, 5, 5]
    assert lengths(queue, 60) == [60, 60, 60, 60, 60, 60, 35]
    last = spans(queue.series(), 60)[-1]
    assert last.stale == 295 * SECOND
    assert last.buckets == ()


@pytest.mark.usefixtures("whole_minute")
def test_a_time_in_which_nothing_was_written_at_all(queue: Queue, clock: Any) -> None:
    fill(queue, a=2)
    clock.advance(3600)
    assert pending(queue, 60, since=clock.at(-120)) == pending(queue, since=clock.at(-120)) * 2 == [2, 2]
    assert lengths(queue, since=clock.at(-120)) == [120]
    assert pending(queue, 60, since=clock.at(-240), until=clock.at(-120)) == [2, 2]


@pytest.mark.usefixtures("whole_minute")
def test_spans_end_where_they_are_cut(queue: Queue, clock: Any) -> None:
    for _ in range(10):
        fill(queue, a=1)
        clock.advance(60)
    begin, end = clock.at(-300), clock.at(-120)
    assert pushed(queue, 60, since=begin, until=end) == [1, 1, 1]
    assert lengths(queue, 60, since=begin, until=end) == [60, 60, 60]
    assert lengths(queue, since=begin, until=end) == [10, 50] * 3
    assert spans(queue.series(since=clock.at(3600)), 60) == []


@pytest.mark.usefixtures("whole_minute")
def test_the_first_span_is_as_long_as_it_is_known(queue: Queue, clock: Any) -> None:
    clock.advance(40)
    fill(queue, a=1)
    clock.advance(50)
    assert lengths(queue, 60) == [20, 30]
    first, second = spans(queue.series(), 60)
    assert first.start + first.length == second.start, "it begins where it is known, not with the minute"
    assert lengths(queue, 60, since=clock.at(-5)) == [5]


def test_nothing_has_no_spans(queue: Queue) -> None:
    assert spans(queue.series()) == spans(queue.series(), 60) == []


@pytest.mark.usefixtures("whole_minute")
def test_a_step_is_raised_to_the_buckets_there_are(queue: Queue, clock: Any) -> None:
    fill(queue, a=1)
    assert [widened(queue.series(), step) for step in (0.001, 10, 11, 15, 60)] == [10, 10, 20, 20, 60]
    for _ in range(9):
        clock.advance(3600)
        fill(queue, a=1)
    series = queue.series()
    assert {bucket.width for bucket in series.buckets[:-1]} == {FINE, 6 * FINE}  # the last is still open
    assert [widened(series, step) for step in (10, 61)] == [60, 120]
    assert {span.seconds for span in spans(series, 10)[:-1]} == {60}


@pytest.mark.parametrize("step", [0, -1, float("nan"), float("inf")])
def test_a_step_that_is_no_time_is_refused(queue: Queue, step: float) -> None:
    fill(queue, a=1)
    with pytest.raises(InvalidArgument, match="step="):
        spans(queue.series(), step)


def test_a_step_that_makes_too_many_spans_is_refused(queue: Queue, clock: Any) -> None:
    fill(queue, a=1)
    clock.advance(365 * 86_400)
    fill(queue, a=1)
    with pytest.raises(InvalidArgument, match=r"3,153,6\d\d spans of 10 s are too many"):
        spans(queue.series(), 10)
    assert sum(pushed(queue, 86_400)) == 2
    assert pushed(queue) == [1, 0, 1]


@pytest.mark.usefixtures("whole_minute")
def test_a_clock_set_back_loses_nothing(queue: Queue, clock: Any) -> None:
    fill(queue, a=1)
    clock.advance(300)
    fill(queue, a=2)
    clock.advance(-600)
    fill(queue, a=4)
    clock.advance(12)
    serve(queue, 1)
    assert pushed(queue, 60) == [4, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2]
    assert pushed(queue) == [1, 0, 2, 4, 0]
    assert min(lengths(queue, 60)) > 0
    assert min(lengths(queue)) > 0
    clock.advance(-5)  # less than a bucket: it stays in the open one, which begins later than now
    held = lease(queue)
    assert min(lengths(queue, 60)) > 0
    queue.ack(held)


def test_a_round_step_fits() -> None:
    assert [fitting(seconds, 180) for seconds in (1, 900, 7_200, 86_400, 30 * 86_400)] == [10, 10, 60, 600, 14_400]
    assert fitting(1e12, 10) == 86_400
