"""Figures: pure, drawn from empty frames too, safe with any text, the same colours everywhere."""

import json
import subprocess
import sys
from datetime import timedelta
from itertools import pairwise

import plotly.graph_objects as go
import pytest

from queue_core import Queue, figures, frames, open_queue
from queue_core.frames import SLOW_WAIT
from queue_core.task import SECOND

START = 1_700_000_000 * SECOND
LIGHT, DARK = "#fbfbfd", "#0f131c"


def drawn(queue: Queue) -> dict[str, go.Figure]:
    """Every figure there is, of this queue."""
    snapshot, journal = queue.snapshot(), queue.journal(limit=10_000)
    tags = frames.tags_frame(snapshot)
    return {
        "backlog": figures.count_by_tag(tags),
        "dead": figures.count_by_tag(tags, "dead", "dead letters"),
        "oldest wait": figures.oldest_wait_by_tag(tags),
        "ring": figures.ring(frames.ring_frame(snapshot)),
        "shares": figures.shares(frames.shares_frame(snapshot, journal)),
        "serves": figures.serves(frames.serves_frame(journal)),
        "leases": figures.lease_ages(frames.leases_frame(queue.tasks("inflight"), snapshot.at)),
        "errors": figures.errors(frames.dead_frame(queue.tasks("dead"), snapshot.at)),
    }


@pytest.fixture
def queue():
    now = iter(range(START, START + 10**12, SECOND // 10))  # every commit and every read is 0.1 s later
    with open_queue("memory://", clock=lambda: next(now)) as queue:
        yield queue
        assert queue.check() == []


def fill(queue: Queue, tags: list[str]) -> None:
    queue.push_many([(n, tag) for n in range(4) for tag in tags])
    for n in range(2 * len(tags)):
        lease = queue.lease(owner="<b>me</b>", ttl=3 if n % 2 else 300)
        if n % 3 == 0:
            queue.dead_letter(lease, f"<i>why</i> {n % 7}")
    queue.configure(tags[0], paused=True)


def texts(figure: go.Figure) -> str:
    return json.dumps(json.loads(figure.to_json()))


def test_every_figure_is_drawn_from_nothing(queue: Queue) -> None:
    for name, figure in drawn(queue).items():
        assert len(figure.data) == 0, name
        assert figure.layout.annotations[0].text.startswith("no data: "), name


@pytest.mark.parametrize("tags", [["a"], ["a", "b", "c"], [f"tag {n}" for n in range(200)]])
def test_every_figure_is_drawn(queue: Queue, tags: list[str]) -> None:
    fill(queue, tags)
    for name, figure in drawn(queue).items():
        assert len(figure.data) > 0, name
        assert figure.to_json() == figure.to_json()
        assert not figure.layout.showlegend, name


def test_drawing_changes_no_frame(queue: Queue) -> None:
    fill(queue, ["a", "b"])
    tags = frames.tags_frame(queue.snapshot())
    before = tags.copy(deep=True)
    figures.count_by_tag(tags), figures.oldest_wait_by_tag(tags)
    assert tags.equals(before)


def test_text_of_tasks_is_no_markup(queue: Queue) -> None:
    fill(queue, ["<b>bold</b>", "<a href='javascript:x()'>click</a>", "a & b"])
    for name, figure in drawn(queue).items():
        text = texts(figure)
        for markup in ("<b>bold", "<a href", "<b>me", "<i>why"):
            assert markup not in text, (name, markup)
    assert "&lt;b&gt;bold&lt;/b&gt;" in texts(drawn(queue)["backlog"])
    assert "a &amp; b" in texts(drawn(queue)["backlog"])


def test_text_of_tasks_is_no_formula(queue: Queue) -> None:
    fill(queue, ["$x^2$", "$5"])
    for name, figure in drawn(queue).items():
        assert "$" not in texts(figure), name
    assert "&#36;x^2&#36;" in texts(drawn(queue)["backlog"])


@pytest.mark.parametrize("number", [1, 2, 5, 6, 1_000])
def test_a_whole_number_is_on_an_axis_once(queue: Queue, number: int) -> None:
    queue.push_many([("x", "a")] * number)
    axis = figures.count_by_tag(frames.tags_frame(queue.snapshot())).layout.xaxis
    assert (axis.dtick, axis.nticks) == ((1, None) if number < 6 else (None, 6))


def test_tags_are_categories(queue: Queue) -> None:
    fill(queue, ["001", "1e5", "2024-01-01", "nan"])
    for name in ("backlog", "oldest wait", "shares", "serves"):
        figure = drawn(queue)[name]
        assert figure.layout.yaxis.type == "category", name
        assert set(figure.data[0].y) <= {"001", "1e5", "2024-01-01", "nan"}, name


def test_long_tags_stay_apart(queue: Queue) -> None:
    fill(queue, ["x" * 10_000, "x" * 9_999 + "y"])
    bars = drawn(queue)["backlog"].data[0]
    assert len(set(bars.y)) == 2
    assert max(map(len, bars.y)) <= 40


def test_twelve_tags_and_all_the_others(queue: Queue) -> None:
    queue.push_many([(n, f"t{tag:02}") for tag in range(20) for n in range(tag + 1)])
    figure = figures.count_by_tag(frames.tags_frame(queue.snapshot()))
    bars = figure.data[0]
    assert list(bars.y)[:2] == ["t19", "t18"]
    assert list(bars.y)[-1] == "8 other tags"
    assert sum(bars.x) == queue.snapshot().pending == 210
    assert bars.x[-1] == sum(range(1, 9))


def test_a_line_marks_what_is_too_long(queue: Queue) -> None:
    queue.push("x", tag="a")
    tags = frames.tags_frame(queue.snapshot())
    assert not figures.oldest_wait_by_tag(tags.assign(oldest_wait=SLOW_WAIT - 1)).layout.shapes
    assert figures.oldest_wait_by_tag(tags.assign(oldest_wait=SLOW_WAIT + 1)).layout.shapes[0].x0 == SLOW_WAIT


@pytest.mark.parametrize("longest", [0.0, 0.0004, 0.02, 1, 4, 59, 61, 3_000, 7_200, 90_000, 86_400 * 3_000])
def test_ticks_of_spans_are_few_and_round(longest: float) -> None:
    ticks, words = figures.span_ticks(longest)
    assert 1 <= len(ticks) == len(set(words)) <= 6
    assert ticks[0] == 0
    assert ticks[-1] <= longest or longest == 0


def test_the_ring_shows_cursor_next_and_skipped(queue: Queue) -> None:
    queue.push_many([(n, tag) for n in range(3) for tag in "abc"])
    queue.configure("b", paused=True)
    queue.lease()
    figure = drawn(queue)["ring"]
    dots = figure.data[1]
    assert list(dots.marker.symbol) == ["circle", "circle-open", "circle"]
    assert sorted(figure.data[2].text) == ["<b>c · next</b>", "a", "b"]
    assert "skipped: paused" in dots.hovertext[1]
    arrow, centre = figure.layout.annotations
    assert (arrow.x, arrow.y) == pytest.approx((0.9 * dots.x[1], 0.9 * dots.y[1]))  # the cursor is on b
    assert centre.text == "<b>2</b> can be served<br>of 3 tags<br>last served: a"


def test_a_large_ring_keeps_those_that_matter(queue: Queue) -> None:
    queue.push_many([("x", f"t{n}") for n in range(1_000)])
    queue.lease_many(700)
    figure = drawn(queue)["ring"]
    assert len(figure.data[1].x) == figures.RING
    assert "<b>t700 · next</b>" in figure.data[2].text
    for side in ("middle left", "middle right"):  # names have room
        names = zip(figure.data[2].y, figure.data[2].textposition, strict=True)
        heights = sorted(y for y, position in names if position == side)
        assert len(heights) > 5
        assert min(high - low for low, high in pairwise(heights)) > figures.LINE
    assert "120 of 1,000 tags shown" in figure.layout.annotations[-1].text


@pytest.mark.parametrize(("letter", "most"), [("x", 23), ("W", 16), ("漢", 12)])
def test_names_beside_the_ring_have_room(queue: Queue, letter: str, most: int) -> None:
    queue.push_many([("x", letter * 38 + f"{n:02}") for n in range(20)])
    names = drawn(queue)["ring"].data[2]
    beside = [name for name, x in zip(names.text, names.x, strict=True) if abs(x) > 1]
    assert len(beside) == 6
    assert max(map(len, beside)) == most


def test_the_strip_is_in_the_order_of_serves(queue: Queue) -> None:
    queue.push_many([(n, tag) for n in range(5) for tag in "abc"])
    queue.lease_many(8)
    marks = drawn(queue)["serves"].data[0]
    assert list(marks.x) == list(range(1, 9))
    assert list(marks.y) == list("abcabcab")


def test_leases_that_ran_out_are_red(queue: Queue) -> None:
    queue.push_many(["x", "y"])
    queue.lease(ttl=600, owner="good")
    queue.lease(ttl=0.05, owner="late")
    good, late, _ = drawn(queue)["leases"].data
    assert (len(good.y), good.marker.color) == (1, figures.GREY)
    assert (len(late.y), late.marker.color) == (1, figures.RED)
    assert "late" in late.y[0]


def test_colours_stand_out_in_both_themes() -> None:
    def contrast(one: str, other: str) -> float:
        high, low = sorted((figures.luminance(one), figures.luminance(other)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    colours = {figures.tag_colour(f"tag {n}") for n in range(500)}
    assert len(colours) > 60
    for colour in colours:
        assert contrast(colour, LIGHT) >= 4
        assert contrast(colour, DARK) >= 4
    for colour in (figures.GREY, figures.AMBER, figures.RED, figures.ACCENT):
        assert contrast(colour, LIGHT) >= 3
        assert contrast(colour, DARK) >= 3


def test_a_tag_has_one_colour_in_every_process() -> None:
    code = "from queue_core.figures import tag_colour; print(tag_colour('acme'))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == figures.tag_colour("acme")


def test_a_figure_of_ten_thousand_tags_is_small(queue: Queue) -> None:
    queue.push_many([("x", f"t{n}") for n in range(10_000)])
    queue.lease_many(1_000)
    for name, figure in drawn(queue).items():
        assert len(figure.to_json()) < 100_000, name


def test_no_axis_has_a_zone(queue: Queue) -> None:
    """A zone makes figures slow, and Plotly shifts such times: they are in hover text, named as UTC."""
    fill(queue, ["a"])
    assert "UTC" in drawn(queue)["serves"].data[0].hovertext[0]
    for name, figure in drawn(queue).items():
        for trace in figure.data:
            for axis in (trace.x, trace.y):
                assert not any(isinstance(value, timedelta) or hasattr(value, "tzinfo") for value in axis), name
