"""Every page: with data, with none, with odd data, and when the store cannot be read."""

from pathlib import Path

import pytest
from driving import MAIN, PAGES, again, listed, visit, words
from streamlit.testing.v1 import AppTest

from app import data
from queue_core import Item, Queue, StoreBusy, open_queue
from queue_core.frames import tag_label

ODD_TAGS = ["", "\0nul", "<script>alert(1)</script>", "x" * 10_000, ":material/delete: **bold** $x$", "a\nb", "nan"]
ODD_PAYLOADS = [
    1, "a", "b'\\xff'", None, {"deep": [{}]}, 2**70, "\ud800", "<img src=x onerror=alert(1)>", "\0", "z" * 9_000,
]  # fmt: skip


def fill(queue: Queue) -> None:
    queue.push_many([Item({"n": n}, tag, max_attempts=1) for n in range(5) for tag in ("acme", "bolt", "core")])
    for n in range(7):
        lease = queue.lease(owner=f"worker-{n}")
        if n % 3 == 0:
            queue.ack(lease)
        elif n % 3 == 1:
            queue.nack(lease, "read timeout")
    queue.push("later", tag="acme", delay=60)


def fill_oddly(queue: Queue) -> None:
    queue.push_many([Item(payload, tag, max_attempts=1) for payload in ODD_PAYLOADS for tag in ODD_TAGS])
    for n in range(5 * len(ODD_TAGS)):
        lease = queue.lease(owner="<b>owner</b>\0")
        if n % 2:
            queue.nack(lease, "<i>error</i> \0 \ud800 **bold** " + "y" * 70_000)


def metrics(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def shown(app: AppTest) -> str:
    """Everything that is sent to be shown as Markdown, HTML, or a label."""
    return "\n".join(str(element.value) for kind in (app.markdown, app.caption, app.title) for element in kind)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_with_data(queue: Queue, name: str) -> None:
    fill(queue)
    app = visit(name)
    assert not app.exception
    assert len(app.dataframe) == (2 if name == "dead" else 1)
    assert any(caption.value.startswith("as of ") and caption.value.endswith(" UTC") for caption in app.caption)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_without_data_says_what_to_do(queue: Queue, name: str) -> None:
    app = visit(name)
    assert not app.exception
    assert not app.dataframe
    expected = {
        "overview": "Nothing has been pushed into this queue yet",
        "fairness": "Nobody can be served now; nothing has been served yet",
        "inflight": "Nothing is in flight",
        "dead": "No dead letters",
    }
    assert expected[name] in words(app)
    hints = {
        "overview": [f"queue-core demo --url {queue.url}"],
        "fairness": [f"queue-core demo --url {queue.url}"],
        "inflight": [f"queue-core work queue_core.census:measure --url {queue.url}"],
        "dead": [],
    }
    assert [code.value for code in app.code] == hints[name]


@pytest.mark.parametrize("name", PAGES)
def test_odd_data_is_shown_as_text(queue: Queue, name: str) -> None:
    fill_oddly(queue)
    app = visit(name)
    assert not app.exception
    assert len(app.dataframe[0].value) > 0
    markup = shown(app)
    for stored in ("alert(1)", "<b>", "<i>", "**bold**", "xxxx", "yyyy"):
        assert stored not in markup


@pytest.mark.parametrize("name", PAGES)
def test_no_store_yet_is_a_calm_page(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"lmdb://{tmp_path / 'none yet'}"
    monkeypatch.setenv("QUEUE_URL", url)
    app = visit(name)
    assert not app.exception
    assert "There is no queue here yet" in words(app)
    assert [code.value for code in app.code] == [f"queue-core demo --url '{url}'"]
    assert not (tmp_path / "none yet").exists()  # looking makes nothing
    with open_queue(url) as queue:
        queue.push("x")
        assert not again(app).exception
        assert "There is no queue here yet" not in words(app)
    data.handle(url).close()


@pytest.mark.parametrize("name", PAGES)
def test_a_busy_store_is_a_calm_page(queue: Queue, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> None:
        raise StoreBusy("the lock was not free for <b>2 s</b>")

    fill(queue)
    monkeypatch.setattr(data, "_read", busy)
    app = visit(name)
    assert not app.exception
    assert "The queue is busy" in words(app)
    assert "StoreBusy: the lock was not free for <b>2 s</b>" in words(app)
    assert not app.metric


def test_an_address_that_names_no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUE_URL", "gopher://queue")
    app = visit("overview")
    assert not app.exception
    assert "The queue cannot be read" in words(app)


def test_the_overview_counts_what_the_queue_counts(queue: Queue) -> None:
    fill(queue)
    app = visit("overview")
    counts, totals = queue.counts(), queue.snapshot().totals
    found = metrics(app)
    assert found["Waiting"] == str(counts.pending) == "8"
    assert found["In flight"] == str(counts.inflight) == "2"
    assert found["Scheduled"] == str(counts.scheduled) == "1"
    assert found["Dead letters"] == str(counts.dead) == "2"
    assert found["Done"] == str(totals.acked) == "3"
    assert found["Oldest wait"] != "—"


def test_unknown_is_not_zero(queue: Queue) -> None:
    queue.push("x", tag="acme")
    queue.ack(queue.lease())
    found = metrics(visit("overview"))
    assert (found["Oldest wait"], found["Waiting"]) == ("—", "0")


def test_the_tag_table_keeps_its_order_when_numbers_change(queue: Queue) -> None:
    queue.push_many([(n, tag) for tag, count in (("small", 1), ("large", 9), ("middle", 4)) for n in range(count)])
    app = visit("overview")
    assert list(app.dataframe[0].value["label"]) == ["large", "middle", "small"]
    queue.push_many([(n, "small") for n in range(50)] + [(0, "new")])
    again(app)
    assert list(app.dataframe[0].value["label"]) == ["large", "middle", "small", "new"]
    assert list(app.dataframe[0].value["backlog"]) == [9, 4, 51, 1]


def test_fairness_says_who_is_next(queue: Queue) -> None:
    queue.push_many([(n, tag) for n in range(5) for tag in ("acme", "bolt", "core")])
    queue.configure("bolt", paused=True)
    queue.lease()
    app = visit("fairness")
    assert "core is next, one of 2 tags that can be served" in words(app)
    assert "Next serves, if nothing changes: core, acme, core, acme" in words(app)
    ring = app.dataframe[0].value.set_index("label")
    assert ring.loc["bolt", "why_not"] == "paused"


@pytest.mark.parametrize("name", PAGES)
def test_filters_narrow_and_survive_a_change_of_page(queue: Queue, name: str) -> None:
    fill(queue)
    app = visit("overview")
    app.selectbox(key="tag").set_value("bolt").run()
    assert list(app.dataframe[0].value["label"]) == ["bolt"]
    if name != "overview":
        app.switch_page(f"views/{name}.py").run()
    assert not app.exception
    assert app.selectbox(key="tag").value == "bolt"
    for table in app.dataframe:
        assert set(table.value.get("label", ["bolt"])) == {"bolt"}


def test_filters_come_from_the_address(queue: Queue) -> None:
    fill(queue)
    fresh = AppTest.from_file(str(MAIN), default_timeout=60)
    fresh.query_params["tag"] = "core"
    fresh.query_params["live"] = "false"
    fresh.run()
    assert list(fresh.dataframe[0].value["label"]) == ["core"]
    assert fresh.toggle(key="live").value is False


def test_a_tag_that_is_gone_stays_the_filter(queue: Queue) -> None:
    fill(queue)
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    app.query_params["tag"] = "no such tag"
    app.run()
    assert not app.exception
    assert app.selectbox(key="tag").value == "no such tag"
    assert "No tag fits the filters." in words(app)


@pytest.mark.parametrize("tag", ["", "x" * 10_000, "\0nul"])
def test_odd_tags_can_be_filtered_by(queue: Queue, tag: str) -> None:
    fill_oddly(queue)
    app = visit("overview")
    label = next(label for label in app.selectbox(key="tag").options if data_tag(app, label) == tag)
    app.selectbox(key="tag").set_value(label).run()
    assert not app.exception
    assert list(app.dataframe[0].value["label"]) == [label]


def data_tag(app: AppTest, label: str) -> str | None:
    return next((stats.name for stats in data.overview().tags if tag_label(stats.name) == label), None)


def test_the_text_filter_looks_into_the_rows(queue: Queue) -> None:
    for owner in ("reader", "printer", "READER again"):
        queue.push("x", tag="acme")
        queue.lease(owner=owner)
    app = visit("inflight")
    app.text_input(key="text").set_value("reader").run()
    assert list(listed(app)["owner"]) == ["reader", "READER again"]
    assert "2 of 3 leases, by the filters" in words(app)
    app.text_input(key="text").set_value("nothing like it").run()
    assert not app.exception
    assert listed(app).empty
    assert "0 of 3 leases, by the filters" in words(app)


def test_a_long_list_says_how_much_of_it_is_shown(queue: Queue) -> None:
    queue.push_many([Item("x", "acme") for _ in range(344)])
    for lease in queue.lease_many(344):
        queue.dead_letter(lease, "x")
    app = visit("dead")
    assert len(listed(app)) == 200
    assert "344 dead letters, all of acme" in words(app)
    assert "1–200 of 344" in words(app)


def test_every_number_of_a_refresh_is_from_one_view(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(queue)
    reads: list[str] = []
    read = data._read
    monkeypatch.setattr(data, "_read", lambda url, ask: (reads.append(url), read(url, ask))[1])
    visit("overview")
    assert len(reads) == 1
