"""Figures of the measured history: from nothing, from much, safe with any text, exact where it matters."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_core import Queue, figures
from queue_core.figures import series as figure_series
from queue_core.figures.series import MARGIN
from queue_core.frames import OTHERS, series_frame, series_totals_frame, times_frame
from queue_core.task import SECOND

START = 1_750_000_200 * SECOND  # a whole ten minutes
STEP = 60


def drawn(queue: Queue, step: Any = STEP) -> dict[str, Any]:
    series, times = queue.series(), times_frame(queue.snapshot())
    return {
        "backlog": figures.backlog_over_time(series_frame(series, step=step)),
        "throughput": figures.throughput(series_totals_frame(series, step=step)),
        "waits": figures.times_by_tag(times),
        "services": figures.times_by_tag(times, "service"),
    }


def names(figure: Any) -> list[str]:
    """What stands on the right."""
    return [note.text for note in figure.layout.annotations]


@pytest.fixture
def queue(queue: Queue, clock: Any) -> Queue:
    clock.now = START
    return queue


def live(queue: Queue, clock: Any, tags: list[str], minutes: int = 5) -> None:
    """Each minute two tasks come in each tag, and one of each is done."""
    for _ in range(minutes):
        queue.push_many([(n, tag) for tag in tags for n in range(2)])
        clock.advance(5)
        held = queue.lease_many(len(tags))
        clock.advance(1)
        queue.ack_many(held)
        clock.advance(54)


def test_every_figure_is_drawn_from_nothing(queue: Queue) -> None:
    for figure in drawn(queue).values():
        assert len(figure.data) == 0
        assert figure.layout.annotations[0].text.startswith("no data: ")


@pytest.mark.parametrize("step", [None, 10, 60, 3_600])
@pytest.mark.parametrize("tags", [["a"], ["a", "b", "c"], [f"tag {n}" for n in range(130)]])
def test_every_figure_is_drawn(queue: Queue, clock: Any, tags: list[str], step: Any) -> None:
    live(queue, clock, tags)
    for name, figure in drawn(queue, step).items():
        assert len(figure.data) > 0, name
        assert not figure.layout.showlegend
        assert len(figure.to_json()) < 60_000, name


def test_nothing_waited(queue: Queue, clock: Any) -> None:
    queue.push("x")
    queue.ack(queue.lease())
    clock.advance(30)
    backlog = drawn(queue)["backlog"]
    assert backlog.layout.annotations[0].text == "no data: there were no tasks pending in this time"


def test_bands_add_up_to_the_whole(queue: Queue, clock: Any) -> None:
    for size in range(1, 6):
        queue.push_many([("x", f"t{n:03}") for n in range(130) for _ in range(1 + (n % 20) * size)])
        clock.advance(60)
    series = queue.series()
    *bands, whole = drawn(queue)["backlog"].data
    assert len(bands) == 13
    assert bands[-1].name == OTHERS
    assert {bands[n].name for n in range(6)} == {f"t{n:03}" for n in range(19, 130, 20)}
    assert [sum(counts) for counts in zip(*(band.y for band in bands), strict=True)] == list(whole.y)
    assert list(whole.y) == series.whole("pending")[:5]
    assert list(whole.x) == [(START // SECOND + 60 * n) * 1_000 for n in range(1, 6)]


def test_a_band_has_the_colour_of_its_tag(queue: Queue, clock: Any) -> None:
    live(queue, clock, ["a", "b"])
    *bands, _ = drawn(queue)["backlog"].data
    assert {band.name: band.line.color for band in bands} == {name: figures.tag_colour(name) for name in "ab"}


def test_the_hover_text_is_exact(queue: Queue, clock: Any) -> None:
    queue.push_many([("x", "a")] * 1_234 + [("x", "b")] * 5)
    clock.advance(60)
    story = drawn(queue)["backlog"].data[-1].hovertext[0]
    assert story == "2025-06-15 15:11:00 UTC: 1,239 tasks pending<br>1,234 a<br>5 b"


def test_an_idle_hour_is_flat(queue: Queue, clock: Any) -> None:
    queue.push_many([("x", "a")] * 3)
    clock.advance(3_600)
    queue.push_many([("x", "a")] * 3)
    clock.advance(60)
    figure = drawn(queue)["backlog"]
    assert list(figure.data[-1].y) == [3] * 60 + [6]
    rates = {trace.name: list(trace.y) for trace in drawn(queue)["throughput"].data}
    assert rates["pushed"] == [3 / 60] + [0] * 59 + [3 / 60]
    assert set(rates["acked"]) == {0}


def test_a_span_that_has_just_begun_has_no_rate(queue: Queue, clock: Any) -> None:
    queue.push_many([("x", "a")] * 6)
    clock.advance(61)
    queue.push("x", tag="a")
    assert [list(trace.y) for trace in drawn(queue)["throughput"].data if trace.name == "pushed"] == [[0.1]]
    clock.advance(19)
    pushed = next(trace for trace in drawn(queue)["throughput"].data if trace.name == "pushed")
    assert list(pushed.y) == [0.1, 1 / 20]
    assert list(pushed.x) == [START // 1_000 + 30_000, START // 1_000 + 70_000], "at the middle of its span"


def test_a_first_moment_is_a_mark_and_no_line(queue: Queue) -> None:
    queue.push("x", tag="a")
    assert {trace.mode for trace in drawn(queue)["throughput"].data} == {"markers"}


def test_names_on_the_right_do_not_meet(queue: Queue, clock: Any) -> None:
    live(queue, clock, [f"tag {n}" for n in range(40)])
    for name in ("backlog", "throughput"):
        layout = drawn(queue)[name].layout
        plot = layout.height - MARGIN["t"] - MARGIN["b"]
        heights = sorted(note.y / layout.yaxis.range[1] * plot for note in layout.annotations)
        assert len(heights) > 3
        assert 0 <= heights[0] <= heights[-1] <= plot, "a name outside the axis is not drawn"
        assert min(high - low for low, high in pairwise(heights)) >= 15.9, name
    assert {text.split()[0] for text in names(drawn(queue)["throughput"])} == {"pushed", "leased", "acked", "failed"}


def test_names_of_lines_that_end_high_are_drawn(queue: Queue, clock: Any) -> None:
    for number in (1, 40):
        queue.push_many([("x", "a")] * number)
        queue.ack_many(queue.lease_many(number))
        clock.advance(60)
    layout = drawn(queue)["throughput"].layout
    assert [note.text for note in layout.annotations] == [
        "failed 0/s",
        "acked 0.667/s",
        "leased 0.667/s",
        "pushed 0.667/s",
    ]
    heights = [note.y / layout.yaxis.range[1] for note in layout.annotations]
    assert heights == sorted(heights)
    assert 0 <= heights[0] <= heights[-1] <= 1


def test_text_of_tasks_is_neither_markup_nor_formula(queue: Queue, clock: Any) -> None:
    live(queue, clock, ["<b>bold</b>", "<a href='javascript:x()'>click</a>", "a & b", "$x^2$", "%{y}"])
    for name, figure in drawn(queue).items():
        text = json.dumps(json.loads(figure.to_json()))
        for markup in ("<b>bold", "<a href", "$x"):
            assert markup not in text, (name, markup)
    assert "&lt;b&gt;bold&lt;/b&gt;" in drawn(queue)["backlog"].data[-1].hovertext[0]


def test_no_axis_has_a_zone(queue: Queue, clock: Any) -> None:
    live(queue, clock, ["a"])
    for name in ("backlog", "throughput"):
        figure = drawn(queue)[name]
        assert figure.layout.xaxis.title.text == "UTC"
        assert all(isinstance(moment, int) for trace in figure.data for moment in trace.x)


def test_the_slowest_tags_and_the_whole_queue(queue: Queue, clock: Any) -> None:
    queue.push_many([("x", f"t{n:02}") for n in range(20)])
    for _ in range(20):
        clock.advance(1)
        queue.ack(queue.lease())
    figure = drawn(queue)["waits"]
    lines, median, most, nearly = figure.data
    assert median.y[0] == "whole\N{NO-BREAK SPACE}queue"
    assert sorted(median.y[1:]) == [f"t{n:02}" for n in range(8, 20)]
    assert list(most.x[1:]) == sorted(most.x[1:], reverse=True)
    assert figure.layout.yaxis.type == "category"
    assert figure.layout.xaxis.type == "log"
    assert median.x[0] == pytest.approx(10, rel=1 / 9)
    assert f"half within {median.x[0]:.3f} s" in median.hovertext[0]
    assert all(low <= middle <= high for low, middle, high in zip(median.x, most.x, nearly.x, strict=True))
    assert lines.x[2] is None


@given(st.floats(1e-6, 1e9))
def test_the_lowest_label_is_not_below_the_axis(highest: float) -> None:
    """It would not be drawn; three labels pushed down from the top may bring it there by rounding."""
    heights = figure_series._apart([0.0, 0.0, 0.0, 0.0], figure_series.LINE * highest * 1.05, highest)
    assert heights == sorted(heights)
    assert 0 <= heights[0] <= heights[-1] <= highest
