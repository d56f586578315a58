"""The attempts of a task, drawn: each visible however short it was, with its outcome in words."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from queue_core import Queue, State, figures, frames, open_queue
from queue_core.figures.attempts import ROWS
from queue_core.frames.control import ATTEMPTS
from queue_core.frames.tables import rows

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
Row = tuple[float, float, str]  # seconds from START to its begin, how long it took, outcome


def tried(*found: Row, first: int = 1) -> pd.DataFrame:
    """An attempts frame."""
    every = []
    for number, (begin, took, outcome) in enumerate(found, first):
        started = START + timedelta(seconds=begin)
        ended = started + timedelta(seconds=took)
        every.append((number, 1, "<b>w</b>", started, ended, max(took, 0.0), outcome, f"<i>error</i> ${number}"))
    return rows(ATTEMPTS, every)


def milliseconds(seconds: float) -> float:
    return (START.timestamp() + seconds) * 1_000


def test_nothing_is_drawn_from_no_attempts() -> None:
    drawn = figures.attempts(tried())
    assert len(drawn.data) == 0
    assert drawn.layout.annotations[0].text.startswith("no data: ")


def test_a_short_attempt_and_a_long_wait_are_both_seen() -> None:
    gaps, bars, marks = figures.attempts(tried((0, 0.01, "nacked"), (259_200, 60, "acked"))).data
    assert list(bars.y) == ["1 · nacked · 10 ms", "2 · acked · 1 min"]
    assert list(bars.x) == pytest.approx([10, 60_000])
    assert list(bars.base) == list(marks.x) == pytest.approx([milliseconds(0), milliseconds(259_200)])
    assert marks.marker.line.width >= 2  # pixels, whatever the axis spans
    assert list(gaps.x)[:2] == pytest.approx([milliseconds(0.01), milliseconds(259_200)])
    assert set(gaps.y) == {"2 · acked · 1 min", None}
    assert "259,200 s after the end of the one before" in marks.hovertext[1]
    assert len(set(bars.marker.color)) == 2


def test_one_attempt_of_no_time_has_an_axis_around_it() -> None:
    drawn = figures.attempts(tried((0, 0, "acked")))
    low, high = drawn.layout.xaxis.range
    assert low < milliseconds(0) < high
    assert high - low >= 1_000
    assert list(drawn.data[0].x) == []


def test_of_many_the_last_are_drawn_and_it_is_said() -> None:
    drawn = figures.attempts(tried(*((10 * n, 5, "nacked") for n in range(100))))
    assert [label.split()[0] for label in drawn.data[1].y] == [str(n) for n in range(101 - ROWS, 101)]
    assert f"; the last {ROWS} of 100" in drawn.layout.xaxis.title.text
    assert drawn.layout.height < 500


@pytest.mark.parametrize("second", [(-50.0, 3.0), (2.0, -20.0)])
def test_a_clock_that_was_set_back_turns_no_bar_round(second: tuple[float, float]) -> None:
    gaps, bars, marks = figures.attempts(tried((0, 10, "nacked"), (*second, "expired"))).data
    assert min(bars.x) >= 0
    assert list(gaps.x) == []
    assert "after the end" not in marks.hovertext[1]


def test_no_wait_is_drawn_where_attempts_are_not_kept() -> None:
    two = pd.concat([tried((0, 1, "nacked")), tried((60, 1, "nacked"), first=51)], ignore_index=True)
    assert list(figures.attempts(two).data[0].x) == []


def test_text_of_tasks_is_neither_markup_nor_formula() -> None:
    text = figures.attempts(tried((0, 1, "nacked"))).to_json()
    assert "<b>" not in text
    assert "<i>" not in text
    assert "$" not in text


def test_an_attempt_that_goes_on_is_the_last_one(queue: Queue) -> None:
    task = queue.push("x", tag="acme", max_attempts=5)
    queue.nack(queue.lease(owner="w1"), "broken", retry_in=0)
    lease = queue.lease(owner="w2")
    assert lease is not None
    at = datetime.now(UTC) + timedelta(seconds=90)
    held = frames.timeline_frame(queue.get(task.id), at)
    assert list(held["outcome"]) == ["nacked", "running"]
    assert list(held["owner"]) == ["w1", "w2"]
    assert held["ended_at"].iloc[1] == at
    assert 89 < held["took"].iloc[1] < 120
    assert figures.attempts(held).data[1].y[1].startswith("2 · running · 1 min ")
    early = frames.timeline_frame(queue.get(task.id), at - timedelta(days=1))  # read by a clock that is behind
    assert early["took"].iloc[1] == 0
    queue.ack(lease)
    other = queue.push("y", tag="acme")
    assert queue.get(other.id).state is State.PENDING
    nothing = frames.timeline_frame(queue.get(other.id), at)
    assert nothing.empty
    assert dict(nothing.dtypes) == dict(held.dtypes)


@pytest.fixture
def queue():
    with open_queue("memory://") as queue:
        yield queue
        assert queue.check() == []
