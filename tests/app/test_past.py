"""Looking back: a page as it was at the end of a bucket, marked as past, nothing live, nothing to act with."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from driving import MAIN, press, visit, words
from msgspec.structs import replace
from streamlit.testing.v1 import AppTest

from app import data, past
from queue_core import Queue, open_queue
from queue_core.task import SECOND

MINUTE = 60


@pytest.fixture
def moved(queue: Queue) -> tuple[Queue, datetime]:
    """Ten minutes of work, one bucket of ten seconds after the other: 3 come and 1 goes in each; when it began."""
    begun = (time.time_ns() // 10**9 // 10 - 60) * 10
    now = [begun * SECOND + 1]
    with open_queue(queue.url, clock=lambda: now[0]) as then:
        for _ in range(50):
            then.push_many([("x", tag) for tag in ("acme", "bolt", "<b>\0")])
            then.ack(then.lease())
            now[0] += 10 * SECOND
    return queue, datetime.fromtimestamp(begun, UTC)


def at(page: str, moment: datetime | str) -> AppTest:
    past._overview.clear(), past._rotation.clear(), past._journal_reach.clear(), past._tag.clear(), data.forget()
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    app.query_params["at"] = moment if isinstance(moment, str) else f"{moment:%Y-%m-%dT%H:%M:%SZ}"
    app.run()
    if page != "overview":
        app.switch_page(f"views/{page}.py")
        app.query_params["at"] = moment if isinstance(moment, str) else f"{moment:%Y-%m-%dT%H:%M:%SZ}"
        app.run()
    return app


def test_the_overview_as_it_was(moved: tuple[Queue, datetime]) -> None:
    _, begun = moved
    moment = begun + timedelta(seconds=100)  # ten buckets: 30 came, 10 went
    app = at("overview", moment)
    assert not app.exception
    assert f"As it was at {moment:%Y-%m-%d %H:%M:%S} UTC" in words(app)
    assert "nothing can be changed from here" in words(app)
    assert {metric.label: metric.value for metric in app.metric}["Pending"] == "20"
    table = app.dataframe[0].value
    assert table["backlog"].sum() == 20
    assert set(table["tag" if "tag" in table else "label"]) >= {"acme", "bolt"}
    assert table["share"].sum() == pytest.approx(1)
    assert not any(caption.value.startswith("as of") for caption in app.caption)  # no live numbers beside it


def test_who_came_next_is_told_from_the_journal(moved: tuple[Queue, datetime]) -> None:
    queue, begun = moved
    leased = [event for event in queue.journal(limit=10_000) if event.kind == "lease"]
    app = at("overview", begun + timedelta(seconds=100))
    tags = [event.tag for event in leased[9:12]]  # the tenth was served in the tenth bucket
    labels = [tag if tag in ("acme", "bolt") else None for tag in tags]
    told = words(app)
    assert f"Served last by then: {labels[0]}" in told or labels[0] is None
    assert "the next serves went to " in told


def test_who_was_served_last_is_of_the_time_that_is_shown(queue: Queue) -> None:
    """A bucket is shown as it was at its end, whenever in it one looks."""
    begun = (time.time_ns() // 10**9 // 10 - 60) * 10
    now = [begun * SECOND + SECOND]
    with open_queue(queue.url, clock=lambda: now[0]) as then:
        then.push_many([("x", tag) for tag in "ab"])
        then.ack(then.lease())
        now[0] += 7 * SECOND
        then.ack(then.lease())
    app = at("overview", datetime.fromtimestamp(begun + 5, UTC))
    assert f"As it was at {datetime.fromtimestamp(begun + 10, UTC):%Y-%m-%d %H:%M:%S} UTC" in words(app)
    assert "Served last by then: b" in words(app)


@pytest.mark.parametrize("page", ["overview", "fairness"])
def test_who_was_served_last_is_not_known_without_a_journal(queue: Queue, page: str) -> None:
    queue.push_many([("x", tag) for tag in "abc"])
    queue.ack(queue.lease())
    queue.configure(history=False)
    queue.ack(queue.lease())
    app = at(page, "2999-01-01T00:00:00Z")  # which is now
    assert "Who was served last by then is not known: 1 serve about then is in no journal" in words(app)
    assert "nobody has been served since" not in words(app)


def test_later_and_back_to_now(moved: tuple[Queue, datetime]) -> None:
    _, begun = moved
    app = at("overview", begun + timedelta(seconds=100))
    app.button(key="later").click().run()
    assert not app.exception
    assert f"As it was at {begun + timedelta(seconds=110):%Y-%m-%d %H:%M:%S} UTC" in words(app)
    app.button(key="to-now").click().run()
    assert "As it was" not in words(app)
    assert "at" not in app.query_params


def test_looking_back_begins_now(moved: tuple[Queue, datetime]) -> None:
    app = visit("overview")
    app.button(key="look-back").click().run()
    assert not app.exception
    assert "As it was at " in words(app)


def test_the_slider_moves_the_time(moved: tuple[Queue, datetime]) -> None:
    _, begun = moved
    app = at("overview", begun + timedelta(seconds=100))
    assert len(app.slider) == 1
    app.slider[0].set_value((begun + timedelta(seconds=200)).replace(tzinfo=None)).run()
    assert not app.exception
    assert f"As it was at {begun + timedelta(seconds=200):%Y-%m-%d %H:%M:%S} UTC" in words(app)
    assert {metric.label: metric.value for metric in app.metric}["Pending"] == "40"


def test_the_slider_stands_where_the_buttons_lead(moved: tuple[Queue, datetime]) -> None:
    _, begun = moved
    app = at("overview", begun + timedelta(seconds=200))
    for key, seconds in (("earlier", 190), ("earlier", 180), ("later", 190)):
        press(app, key)
        assert app.slider[0].value == (begun + timedelta(seconds=seconds)).replace(tzinfo=None)
        assert f"As it was at {begun + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S} UTC" in words(app)


def test_the_rotation_as_it_was(moved: tuple[Queue, datetime]) -> None:
    _, begun = moved
    app = visit("fairness")
    app.query_params["at"] = f"{begun + timedelta(seconds=100):%Y-%m-%dT%H:%M:%SZ}"
    app.run()
    assert not app.exception
    assert "As it was at " in words(app)
    assert "Served last by then: " in words(app)
    assert "Served in the last 10 serves" in "\n".join(text.value for text in app.markdown)


@pytest.mark.parametrize("page", ["overview", "fairness"])
@pytest.mark.parametrize("moment", ["1970-01-02T00:00:00Z", "2999-01-01T00:00:00+05:00", "0001-01-01T00:00:00+09:00"])
def test_a_time_out_of_reach(moved: tuple[Queue, datetime], page: str, moment: str) -> None:
    app = visit(page)
    app.query_params["at"] = moment
    app.run()
    assert not app.exception


@pytest.mark.parametrize("moment", ["", "yesterday", "<b>", "9" * 400])
def test_a_time_that_is_none_is_now(moved: tuple[Queue, datetime], moment: str) -> None:
    app = at("overview", moment)
    assert not app.exception
    assert "As it was" not in words(app)


def test_an_empty_queue_has_no_past(queue: Queue) -> None:
    app = at("overview", datetime.now(UTC) - timedelta(minutes=5))
    assert not app.exception
    assert "Nothing is known of this time" in words(app)
    app = visit("fairness")
    assert not [button for button in app.button if button.key == "look-back"]


def test_a_store_that_is_made_anew_has_no_past_of_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"lmdb://{tmp_path}/queue"
    monkeypatch.setenv("QUEUE_URL", url)
    moment = datetime.now(UTC) - timedelta(seconds=30)
    with open_queue(url, durability="none", clock=lambda: time.time_ns() // 1_000 - MINUTE * SECOND) as old:
        old.push("x", tag="old")
        old.ack(old.lease())
    for page in ("overview", "fairness"):
        assert "Served last by then: old" in words(at(page, moment))
    (tmp_path / "queue").rename(tmp_path / "old")
    with open_queue(url, durability="none") as fresh:
        fresh.push("x", tag="new")
    for page in ("overview", "fairness"):
        app = visit(page)
        app.query_params["at"] = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
        app.run()
        assert not app.exception
        assert "As it was at " not in words(app)
    data.handle(url).close()


# --- controls are off ------------------------------------------------------------------------------

HARMLESS = {"earlier", "later", "to-now", "look-back", "code", "notebook"}  # buttons that change nothing in the queue


@pytest.mark.parametrize("page", ["overview", "fairness", "tag"])
def test_nothing_can_be_changed_from_the_past(moved: tuple[Queue, datetime], page: str) -> None:
    _, begun = moved
    app = at(page, begun + timedelta(seconds=100))
    if page == "tag":
        app.selectbox(key="tag").set_value("acme").run()
    assert not app.exception
    assert "As it was at " in words(app)
    assert {button.key for button in app.button if not button.disabled} <= HARMLESS
    assert [(toggle.key, toggle.value, toggle.disabled) for toggle in app.toggle] == [("not-live", False, True)]
    assert {box.key for box in app.text_input} <= {"find", "text"}
    assert {box.key for box in app.selectbox} <= {"tag"}
    assert not [*app.checkbox, *app.text_area, *app.number_input, *app.multiselect, *app.chat_input]
    assert "page is past" in words(app)
    assert ", live" not in words(app)
    press(app, "to-now")
    assert [(toggle.key, toggle.value, toggle.disabled) for toggle in app.toggle] == [("live", True, False)]
    assert ", live" in words(app)


@pytest.mark.parametrize("page", ["inflight", "dead", "task", "operations"])
def test_a_page_that_cannot_look_back_shows_what_is_now(moved: tuple[Queue, datetime], page: str) -> None:
    _, begun = moved
    app = at(page, begun + timedelta(seconds=100))
    assert not app.exception
    assert "at" not in app.query_params
    assert "past" not in words(app)
    assert ", live" in words(app)
    app.switch_page("views/fairness.py").run()
    assert "at" not in app.query_params
    assert "As it was at " not in words(app)


def test_the_time_goes_along_between_pages_that_look_back(moved: tuple[Queue, datetime]) -> None:
    _, begun = moved
    moment = f"{begun + timedelta(seconds=100):%Y-%m-%dT%H:%M:%SZ}"
    app = at("overview", moment)
    app.selectbox(key="tag").set_value("acme").run()
    for page in ("fairness", "tag", "overview"):
        app.switch_page(f"views/{page}.py")
        app.query_params.pop("at", None)  # as the links between pages do
        app.run()
        assert not app.exception
        assert "As it was at " in words(app)
        assert app.query_params["at"] in (moment, [moment])  # of the page, or of the address
    press(app, "to-now")
    app.switch_page("views/fairness.py").run()
    assert "As it was at " not in words(app)


# --- one tag, and the ring -------------------------------------------------------------------------


def test_a_tag_as_it_was(moved: tuple[Queue, datetime]) -> None:
    queue, begun = moved
    app = at("tag", begun + timedelta(seconds=100))
    assert "No tag is chosen" in words(app)
    app.selectbox(key="tag").set_value("acme").run()
    assert not app.exception
    leases = [event for event in queue.journal(limit=10_000) if event.kind == "lease"][:10]
    mine = [event.serve for event in leases if event.tag == "acme"]
    assert f"acme had {10 - len(mine)} tasks pending" in words(app)
    assert list(app.dataframe[0].value["serve"]) == mine[::-1]


def test_a_tag_looks_back(moved: tuple[Queue, datetime]) -> None:
    app = visit("tag")
    app.selectbox(key="tag").set_value("acme").run()
    press(app, "look-back")
    assert not app.exception
    assert "acme had " in words(app)


def test_the_ring_as_it_was(moved: tuple[Queue, datetime]) -> None:
    """After ten serves in three tags of weight 1."""
    _, begun = moved
    app = at("fairness", begun + timedelta(seconds=100))
    ring = app.dataframe[-1].value
    assert list(ring["last_serve"]) == [10, 8, 9]
    assert list(ring["ahead"]) == [2, 0, 1]
    assert "is not seen to have been" in words(app)


def test_as_far_back_as_the_journal_reaches(queue: Queue) -> None:
    """And from there every entry to the newest one is read."""
    now = [time.time_ns() // 10**9 * SECOND - 7_200 * SECOND]
    with open_queue(queue.url, clock=lambda: now[0]) as then:
        then.push_many([(n, tag) for n in range(20) for tag in "ab"])
        then.ack(then.lease())
        begun = datetime.fromtimestamp(now[0] // SECOND, UTC)
        now[0] += 7_000 * SECOND
        for _ in range(4):
            then.push_many([("x", "c")] * 8_000)
        then.ack(then.lease())
    app = at("fairness", begun + timedelta(seconds=5))
    assert not app.exception
    assert "Served last by then: a; the next serves went to b" in words(app)
    assert list(app.dataframe[-1].value["label"]) == ["a", "b"]


# --- the whole journal -----------------------------------------------------------------------------


def test_the_whole_journal_is_checked_when_asked_for(moved: tuple[Queue, datetime]) -> None:
    app = visit("fairness")
    assert "all that the journal keeps" not in words(app)
    press(app, "check-whole")
    assert not app.exception
    assert "The guarantee was kept over 50 serves, all that the journal keeps, from " in words(app)
    assert "Checked at " in words(app)
    app.run()
    assert "Checked at " in words(app)  # until the page is left
    app.switch_page("views/overview.py").run().switch_page("views/fairness.py").run()
    assert "Checked at " not in words(app)


def test_a_breach_in_the_whole_journal_is_shown_with_its_proof(
    moved: tuple[Queue, datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rotation never breaks the guarantee, so serves of one tag are told to have been of another."""
    queue, _ = moved
    with queue.view() as view:
        kind = type(view.reader)
    read = kind.journal

    def told(self: Any, after: int, limit: int, tag: str | None) -> list[Any]:
        return [
            (number, "bolt", replace(entry, tag=2))
            if entry.tag == 1 and 4 < entry.serve < 15
            else (number, name, entry)
            for number, name, entry in read(self, after, limit, tag)
        ]

    app = visit("fairness")
    monkeypatch.setattr(kind, "journal", told)
    press(app, "check-whole")
    assert not app.exception
    assert "The guarantee was broken " in words(app)
    assert "of weight 1 was served 2 times" in words(app)
    shown = [table.value for table in app.dataframe if "since" in table.value][-1]
    assert list(shown["label"]).count("bolt") >= 2


def test_the_overview_tells_how_it_is_judged(queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.push("x", tag="acme")
    app = visit("overview")
    assert [expander.label for expander in app.expander] == ["How this is judged"]
    judged = app.table[0].value
    assert "Oldest wait" in set(judged["Rule"])
    assert set(judged["Judged"]) <= {"good", "not known"}
    file = tmp_path / "rules.toml"
    file.write_text("[oldest_wait]\ntrouble = 0.000001\n")
    monkeypatch.setenv("QUEUE_RULES", str(file))
    assert "Oldest wait: " in words(visit("overview"))
    file.write_text("[oldest_wait]\ntruble = 1\n")
    app = visit("overview")
    assert not app.exception
    assert "Not judged: the rules cannot be read" in words(app)
    assert "oldest_wait has no 'truble'" in words(app)
    assert app.metric  # the numbers are there all the same
