"""The overview over time: the span that is shown, the filters, stores without history, all of it from one view."""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from driving import MAIN, again, visit, words
from streamlit.testing.v1 import AppTest

from app import data, parts
from queue_core import Queue, figures, open_queue
from queue_core.spans import fitting
from queue_core.task import SECOND

HOUR = 3_600


@pytest.fixture
def slept(queue: Queue) -> Queue:
    """A queue that worked for an hour, five hours ago, and has been left alone since."""
    now = [time.time_ns() // 1_000 - 5 * HOUR * SECOND]
    with open_queue(queue.url, clock=lambda: now[0]) as then:
        for _ in range(60):
            then.push_many([("x", tag) for tag in ("acme", "bolt")])
            held = then.lease()
            assert held is not None
            then.ack(held)
            now[0] += 60 * SECOND
    return queue


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, go.Figure]:
    """The figures over time, as they were drawn last."""
    last: dict[str, go.Figure] = {}

    def watched(name: str) -> None:
        draw = getattr(figures, name)
        monkeypatch.setattr(figures, name, lambda frame: last.setdefault(name, draw(frame)))

    watched("backlog_over_time")
    watched("throughput")
    return last


def at(span: str) -> AppTest:
    """The overview as a link to a span opens it."""
    data.forget()
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    app.query_params["span"] = span
    return app.run()


@pytest.mark.parametrize("span", parts.SPANS)
def test_each_span_is_drawn_as_long_as_it_is_known(slept: Queue, drawn: dict[str, go.Figure], span: str) -> None:
    app = at(span)
    assert not app.exception
    assert app.session_state["span"] == span
    whole = drawn["backlog_over_time"].data[-1]
    assert whole.y[-1] == slept.counts().pending == 60
    length = (whole.x[-1] - drawn["throughput"].data[0].x[0]) / 1_000
    step = fitting(parts.SPANS[span], data.POINTS)
    known = min(parts.SPANS[span] + step, 5 * HOUR)  # what is shown begins at a whole step
    assert known - 2 * step < length < known + 60  # the first rate stands in the middle of its step
    assert len(whole.x) <= data.POINTS + 1


def test_a_span_that_is_chosen_is_read(slept: Queue, drawn: dict[str, go.Figure]) -> None:
    app = visit("overview")
    assert sum(drawn["throughput"].data[0].y) == 0
    drawn.clear()
    app.segmented_control(key="span").set_value("24 h").run()
    assert sum(drawn["throughput"].data[0].y) > 0


def test_a_foreign_span_in_the_address_is_the_usual_one(slept: Queue) -> None:
    app = at("a fortnight")
    assert not app.exception
    assert app.segmented_control(key="span").value == parts.RECENT


def test_what_is_drawn_follows_the_queue(slept: Queue, drawn: dict[str, go.Figure]) -> None:
    app = visit("overview")
    assert drawn["backlog_over_time"].data[-1].y[-1] == 60
    drawn.clear()
    slept.push_many([("x", "acme")] * 40)
    again(app)
    assert drawn["backlog_over_time"].data[-1].y[-1] == 100


def test_numbers_and_charts_are_of_one_moment(slept: Queue) -> None:
    shown = data.measured(7_200.0)
    last = shown.totals.iloc[-1]
    assert last["start"] + timedelta(seconds=last["seconds"]) == shown.snapshot.at
    assert last["pending"] == shown.snapshot.pending
    assert len({*shown.totals["start"]}) == len(shown.totals) == 121


def test_spans_that_are_over_are_read_once(slept: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    before = data.measured(86_400.0)
    read: list[Any] = []
    frame = data.series_frame
    monkeypatch.setattr(data, "series_frame", lambda series, **how: (read.append(series), frame(series, **how))[1])
    data.forget()
    slept.push("x", tag="acme")
    after = data.measured(86_400.0)
    assert all(series.until is None for series in read) or len(before.totals) != len(after.totals)
    assert after.totals["pushed"].sum() == before.totals["pushed"].sum() + 1 == slept.snapshot().totals.pushed


def test_a_store_that_is_made_anew_shows_nothing_of_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"lmdb://{tmp_path}/queue"
    monkeypatch.setenv("QUEUE_URL", url)
    now = time.time_ns() // 1_000
    data.forget()
    for number, ago in enumerate((5, 4)):
        with open_queue(url, durability="none", clock=lambda ago=ago: now - ago * HOUR * SECOND) as queue:
            queue.push_many(["x"] * (number + 1))
        data.forget()
        assert data.measured(86_400.0).totals["pushed"].sum() == number + 1
        (tmp_path / "queue").rename(tmp_path / f"old {number}")
    data.handle(url).close()


def test_the_tag_filter_narrows_the_bands(slept: Queue, drawn: dict[str, go.Figure]) -> None:
    app = visit("overview")
    assert {band.name for band in drawn["backlog_over_time"].data[:-1]} == {"acme", "bolt"}
    drawn.clear()
    app.selectbox(key="tag").set_value("bolt").run()
    assert not app.exception
    assert [band.name for band in drawn["backlog_over_time"].data[:-1]] == ["bolt"]
    assert drawn["backlog_over_time"].data[-1].y[-1] == 30


def test_a_tag_called_other_is_not_the_others(queue: Queue, drawn: dict[str, go.Figure]) -> None:
    queue.push_many([("x", f"t{n}") for n in range(150)] + [("x", "_other")] * 5)
    app = visit("overview")
    drawn.clear()
    app.selectbox(key="tag").set_value("_other").run()
    assert drawn["backlog_over_time"].data[-1].y[-1] == 5


def test_history_that_is_switched_off_is_told(queue: Queue) -> None:
    queue.push("x", tag="acme")
    assert "History is switched off" not in words(visit("overview"))
    queue.configure(history=False)
    assert "History is switched off" in words(visit("overview"))


def test_the_table_tells_how_long_tasks_wait(slept: Queue) -> None:
    app = visit("overview")
    table = app.dataframe[0].value.set_index("label")
    stats = {tag.name: tag for tag in slept.snapshot().tags}
    assert table.loc["acme", "wait_p95"] == stats["acme"].waits.p95
    assert table.loc["bolt", "service_p95"] == stats["bolt"].services.p95
