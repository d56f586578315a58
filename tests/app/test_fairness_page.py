"""The page Fairness: the ring, shares, Jain's index, gaps, worker time, noisy tags, the guarantee with its proof."""

from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest
from driving import again, visit, words
from streamlit.testing.v1 import AppTest

from queue_core import Queue, figures, frames
from queue_core.frames import turns

ODD = ["", "<script>alert(1)</script>", "x" * 10_000, "a\0b", "\u202eevil", "👍🏽 emoji", "**bold** $x$"]


def headings(app: AppTest) -> str:
    return "\n".join(element.value for element in app.markdown)


def work(queue: Queue, tags: list[str], rounds: int = 20) -> None:
    queue.push_many([(n, tag) for n in range(rounds + 5) for tag in tags])
    for _ in range(rounds * len(tags)):
        queue.ack(queue.lease(owner="w"))


def test_all_that_there_is_to_see(queue: Queue) -> None:
    queue.configure("bolt", weight=2)
    work(queue, ["acme", "bolt", "core"])
    app = visit("fairness")
    assert not app.exception
    told = words(app)
    assert told.count("guarantee") == 1
    assert "The guarantee was kept: not once in 60 serves was a tag that stayed eligible passed over" in told
    assert "Jain's index is 1.0000 over 3 tags" in told or "Jain's index is 0.9" in told
    assert "A gap is the number of serves of the whole queue" in told
    for heading in ("The ring", "Served in the last 60 serves", "Jain's index over time", "Gaps", "Worker time"):
        assert heading in headings(app)
    table = app.dataframe[0].value.set_index("label")
    assert table["served"].sum() == 60
    assert table.loc["bolt", "ideal_gap"] == pytest.approx(2.0)


def test_who_is_skipped_is_counted(queue: Queue) -> None:
    queue.push_many([("x", tag) for tag in "abc"])
    queue.configure("b", paused=True)
    queue.ack(queue.lease())
    assert "Skipped: 1 empty, 1 paused" in words(visit("fairness"))


def test_a_breach_is_told_with_the_serves_that_show_it(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rotation never breaks the guarantee, so the journal is told to have given all serves of b to a."""
    work(queue, ["a", "b"], 6)
    journal = queue.journal(limit=10_000)
    seen = turns._leases

    def told(events: Any) -> list[Any]:
        return [
            lease if place in (0, 11) else type(lease)(**{**as_fields(lease), "tag": 1, "since": 0})
            for place, lease in enumerate(seen(events))
        ]

    broken_before = turns.violations_frame(queue.snapshot(), journal)
    assert broken_before.empty
    monkeypatch.setattr(turns, "_leases", told)
    app = again(visit("fairness"))
    assert not app.exception
    assert "The guarantee was broken: " in words(app)
    assert "The guarantee was broken" in headings(app)
    assert any("served" in text.value and "could be served from serve" in text.value for text in app.text)
    assert len(app.dataframe) == 2


def as_fields(entry: Any) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in entry.__struct_fields__}


def test_odd_tags(queue: Queue) -> None:
    work(queue, ODD, 4)
    app = visit("fairness")
    assert not app.exception
    assert "alert(1)" not in headings(app)
    assert len(app.dataframe[0].value) == len(ODD)


def test_a_filter_narrows_the_charts(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, pd.DataFrame] = {}
    for name in ("gaps", "worker_shares"):
        draw = getattr(figures.rotation, name)
        monkeypatch.setattr(
            figures.rotation, name, lambda frame, name=name, draw=draw: drawn.update({name: frame}) or draw(frame)
        )
    work(queue, ["acme", "bolt"])
    app = visit("fairness")
    app.selectbox(key="tag").set_value("bolt").run()
    assert not app.exception
    assert {name: list(frame["tag"]) for name, frame in drawn.items()} == {"gaps": ["bolt"], "worker_shares": ["bolt"]}


def test_ten_thousand_tags(queue: Queue) -> None:
    queue.push_many([("x", f"t{n}") for n in range(10_000)])
    queue.ack_many(queue.lease_many(500))
    app = visit("fairness")
    assert not app.exception
    assert "t500 is next, one of 9,500 tags that can be served" in words(app)
    assert "Skipped: 500 empty" in words(app)
    assert len(app.dataframe[0].value) == 100


# --- frames and figures ---------------------------------------------------------------------------


def test_frames_are_declared_when_empty_and_when_not(queue: Queue) -> None:
    for _ in range(2):
        snapshot, journal = queue.snapshot(), queue.journal(limit=10_000)
        serves = frames.serves_frame(journal)
        for frame, schema in (
            (turns.jain_frame(snapshot, journal), turns.JAIN),
            (turns.violations_frame(snapshot, journal), turns.VIOLATIONS),
            (turns.around_frame(journal, snapshot.at), turns.AROUND),
            (turns.proof_frame(turns.violations_frame(snapshot, journal), serves), frames.tables.SERVES),
        ):
            assert {name: str(kind) for name, kind in frame.dtypes.items()} == dict(schema)
        work(queue, ["a", "b"])


def test_windows_end_with_the_last_serve(queue: Queue) -> None:
    work(queue, ["a", "b", "c"], 25)
    windows = turns.jain_frame(queue.snapshot(), queue.journal(limit=10_000), size=30)
    assert list(windows["serves"]) == [30, 30]
    assert list(windows["last"]) == [45, 75]
    assert list(windows["stayed"]) == [3, 3]
    assert windows["index"].tolist() == [1.0, 1.0]


def test_of_one_tag_there_is_no_index(queue: Queue) -> None:
    work(queue, ["a"], 40)
    windows = turns.jain_frame(queue.snapshot(), queue.journal(limit=10_000))
    assert windows["index"].isna().all()
    assert "has no value yet" in frames.words.jain_sentence(windows)
    assert figures.rotation.jain(windows).layout.annotations[0].text.startswith("no data: ")


def test_figures_are_small_and_name_tags_safely(queue: Queue) -> None:
    work(queue, [*ODD, *(f"t{n}" for n in range(200))], 3)
    snapshot, journal = queue.snapshot(), queue.journal(limit=10_000)
    shares = frames.shares_frame(snapshot, journal)
    drawn: list[go.Figure] = [
        figures.rotation.gaps(shares), figures.rotation.worker_shares(shares),
        figures.rotation.jain(turns.jain_frame(snapshot, journal)),
        figures.rotation.serves_around(turns.around_frame(journal, snapshot.at)),
    ]  # fmt: skip
    for figure in drawn:
        assert "<script>" not in figure.to_json()
        assert len(figure.to_json()) < 100_000
    for draw, empty in (
        (figures.rotation.gaps, shares.iloc[:0]), (figures.rotation.worker_shares, shares.iloc[:0]),
        (figures.rotation.jain, turns.jain_frame(snapshot, [])),
    ):  # fmt: skip
        assert draw(empty).layout.annotations[0].text.startswith("no data: ")


def test_a_large_ring_shows_the_neighbourhood_of_the_cursor(queue: Queue) -> None:
    queue.push_many([("x", f"t{n}") for n in range(1_000)])
    queue.lease_many(700)
    ring = frames.ring_frame(queue.snapshot())
    hovers = figures.ring(ring).data[1].hovertext
    shown = [text.split(":")[0] for text in hovers]
    assert len(shown) == figures.RING
    assert {f"t{n}" for n in range(680, 740)} <= set(shown)
    assert "700 skipped: empty" in figures.ring(ring).layout.annotations[-1].text
