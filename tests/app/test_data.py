"""The handle on the store: one for all viewers, opened again when the store is made anew, never keeping a read open."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from driving import visit, words
from streamlit.testing.v1 import AppTest

from app import chart, data, listings
from queue_core import Queue, State, StoreGone, open_queue


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    """An LMDB store, opened by the test and, through ``QUEUE_URL``, by the dashboard."""
    url = f"lmdb://{tmp_path / 'queue'}"
    monkeypatch.setenv("QUEUE_URL", url)
    with open_queue(url) as queue:
        yield queue
    data.forget()
    data.handle(url).close()


def test_many_viewers_share_one_handle(stored: Queue) -> None:
    stored.push("x")
    with ThreadPoolExecutor(10) as viewers:
        queues = list(viewers.map(lambda _: data.handle(stored.url).queue(), range(50)))
    assert len(set(map(id, queues))) == 1
    assert data.overview().pending == 1


def test_viewers_of_a_second_share_one_read(stored: Queue) -> None:
    data.forget()
    assert data.overview() is data.overview()
    stored.push("x")
    data.forget()
    assert data.overview().pending == 1


def test_a_cleared_cache_opens_the_store_once_more(stored: Queue) -> None:
    before = data.handle(stored.url)
    assert data.overview().pending == 0
    data.handle.clear()
    data.forget()
    assert data.handle(stored.url) is not before
    assert data.overview().pending == 0
    before.close()
    data.forget()
    assert data.overview().pending == 0  # closing the one leaves the other open


def test_a_store_that_is_removed_and_made_anew(stored: Queue, tmp_path: Path) -> None:
    stored.push("old")
    assert data.overview().pending == 1
    stored.close()
    shutil.rmtree(tmp_path / "queue")
    data.forget()
    with pytest.raises(StoreGone):
        data.overview()
    assert "There is no queue here yet" in words(visit("overview"))
    with open_queue(stored.url) as fresh:
        fresh.push_many(["new", "new"])
        data.forget()
        assert data.overview().pending == 2


def test_reads_keep_no_page_of_the_store(stored: Queue, tmp_path: Path) -> None:
    """A read left open would hold old pages, and the file would grow with every change."""
    task = stored.push("x" * 4_000)
    stored.dead_letter(stored.push("y").id, "z")
    data.overview(), data.rotation(), listings.listing(State.DEAD, None, "")
    size = sum(file.stat().st_size for file in (tmp_path / "queue").iterdir())
    for n in range(300):
        stored.replace(task, payload=f"{n}" * 1_000)
    assert sum(file.stat().st_size for file in (tmp_path / "queue").iterdir()) < size + 500_000


def test_a_read_only_installation_still_has_charts(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.push("x", tag="acme")
    monkeypatch.setattr(chart, "STATIC", Path("/proc/nowhere"))
    chart._library.cache_clear()
    try:
        app = visit("overview")
        assert not app.exception
        assert len(app.get("plotly_chart")) == 4
    finally:
        chart._library.cache_clear()


def test_a_table_says_its_numbers_in_the_words_of_this_run(queue: Queue) -> None:
    def page() -> None:
        import pandas as pd
        import streamlit as st

        from app import parts

        words = parts.ago if st.toggle("past", key="past") else parts.left
        parts.grid(pd.DataFrame({"span": [90.0]}), {"span": "Span"}, key="spans", spans={"span": words})

    app = AppTest.from_function(page).run()
    assert shown(app) == "1 min 30 s"
    app.toggle(key="past").set_value(True).run()
    assert shown(app) == "1 min 30 s ago"
    assert not app.exception


def shown(app: AppTest) -> str:
    """What stands in the one cell of its one table."""
    cells = pa.ipc.open_stream(app.dataframe[0].proto.arrow_data.styler.display_values).read_all().to_pydict()
    (said,) = cells["span"]
    return str(said)
