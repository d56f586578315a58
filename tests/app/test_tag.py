"""The page of one tag: why it is or is not served, what it holds, what changed; its settings, changed and undone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from driving import MAIN, again, press, words
from streamlit.testing.v1 import AppTest

from app import data
from queue_core import Item, Queue, open_queue
from queue_core.control import Operator
from queue_core.frames import tag_label

ODD_TAGS = ["", "\0nul", "<script>alert(1)</script>", "x" * 10_000, ":material/delete: **bold** $x$", "a\nb", "nan"]


def page(tag: str | None) -> AppTest:
    """The page as a link to the tag opens it."""
    data.forget()
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    if tag is not None:
        app.query_params["tag"] = tag_label(tag)
    app.switch_page("views/tag.py").run()
    assert not app.exception
    return app


def number(queue: Queue, tag: str) -> int:
    return next(stats.number for stats in queue.snapshot().tags if stats.name == tag)


def metrics(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def fill(queue: Queue) -> None:
    queue.push_many([Item({"n": n}, tag, max_attempts=1) for n in range(4) for tag in ("acme", "bolt")])
    for n in range(4):  # one of each tag in turn
        lease = queue.lease(owner=f"w{n}")
        if n < 2:
            queue.nack(lease, f"read timeout after {n} s")
    queue.push("later", tag="acme", delay=60)


# --- what it shows --------------------------------------------------------------------------------


def test_nothing_is_chosen(queue: Queue) -> None:
    assert "Nothing has been pushed" in words(page(None))
    fill(queue)
    app = page(None)
    assert "No tag is chosen" in words(app)
    assert "Choose one of 2 in the box above" in words(app)
    assert not app.metric


def test_one_tag_and_nothing_of_another(queue: Queue) -> None:
    fill(queue)
    queue.push_many([("x", "other")] * 50)
    app = page("acme")
    assert metrics(app) == {
        "Waiting": "2", "Oldest wait": metrics(app)["Oldest wait"], "In flight": "1", "Scheduled": "1",
        "Dead letters": "1", "Done": "0",
    }  # fmt: skip
    held, groups, serves = (table.value for table in app.dataframe)
    assert list(held["owner"]) == ["w2"]
    assert list(groups["text"]) == ["read timeout after <n> s"]
    assert [*groups["count"], *groups["in_all"]] == [1, 2]
    assert list(serves["owner"]) == ["w2", "w0"]
    assert "Nothing, as far as the newest entries of the audit tell." in words(app)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "acme is next; 2 tasks wait"),
        ({"paused": True}, "acme is not served: it is paused; 2 tasks wait"),
        ({"max_inflight": 1}, "acme is not served: it has 1 in flight, and its limit is 1; 2 tasks wait"),
    ],
)
def test_why_it_is_not_served(queue: Queue, settings: dict[str, object], told: str) -> None:
    fill(queue)
    if settings:
        queue.configure("acme", **settings)
    assert told in words(page("acme"))


def test_why_it_is_not_served_as_the_queue_is_held(queue: Queue) -> None:
    fill(queue)
    queue.configure(paused=True)
    assert "acme is not served: the queue is paused" in words(page("acme"))
    queue.configure(paused=False, max_inflight=2)
    assert "the queue has 2 in flight, and its limit is 2" in words(page("acme"))


def test_why_it_is_not_served_as_it_was_just_served(queue: Queue) -> None:
    fill(queue)
    queue.configure("acme", min_interval=3_600)
    queue.lease_many(2)
    told = words(page("acme"))
    assert "acme is not served: 1 h have to pass between serves, and it was last served" in told


def test_a_tag_with_nothing_in_it(queue: Queue) -> None:
    queue.push("x", tag="acme")
    queue.ack(queue.lease())
    app = page("acme")
    assert "acme is not served: nothing waits in it" in words(app)
    assert metrics(app)["Oldest wait"] == "—"
    assert metrics(app)["Done"] == "1"


@pytest.mark.parametrize("tag", ODD_TAGS)
def test_odd_tags_are_shown_as_text(queue: Queue, tag: str) -> None:
    queue.push_many([Item({"big": 2**70, "text": "\ud800<b>"}, name, max_attempts=1) for name in ODD_TAGS * 3])
    for lease in queue.lease_many(len(ODD_TAGS), owner="<b>o</b>\0"):
        queue.nack(lease, "<i>error</i> \0 \ud800 **bold** " + "y" * 70_000)
    queue.lease_many(len(ODD_TAGS), owner="<b>o</b>\0")
    app = page(tag)
    assert metrics(app)["Waiting"] == "1"
    markup = "\n".join(str(one.value) for kind in (app.markdown, app.caption, app.success) for one in kind)
    for stored in ("alert(1)", "<b>", "<i>", "**bold**", "xxxx"):
        assert stored not in markup


# --- a tag that there is not ----------------------------------------------------------------------


def test_a_tag_that_does_not_exist_has_no_controls(queue: Queue) -> None:
    fill(queue)
    app = page("no such tag")
    assert "There is no tag no such tag" in words(app)
    assert not app.metric
    assert not [button.key for button in app.button if "pause" in str(button.key) or "settings" in str(button.key)]
    assert [tag.name for tag in queue.snapshot().tags] == ["acme", "bolt"]


def test_a_tag_that_vanishes_is_not_made_anew(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    from app import settings

    fill(queue)
    app = page("acme")
    press(app, f"pause-{number(queue, 'acme')}")
    monkeypatch.setattr(settings, "_tag", lambda name: None)
    press(app, f"settings-do-{number(queue, 'acme')}")
    monkeypatch.undo()
    assert "The tag has vanished meanwhile." in words(app)
    assert not any(tag.settings.paused for tag in queue.snapshot().tags)


# --- settings -------------------------------------------------------------------------------------


def test_pause_asks_is_told_written_down_and_undone(queue: Queue) -> None:
    fill(queue)
    app, at = page("acme"), number(queue, "acme")
    press(app, f"pause-{at}")
    assert "Pause acme?" in words(app)
    assert "2 tasks wait in it." in words(app)
    assert not queue.snapshot().tags[0].settings.paused  # nothing before the confirmation
    app.text_input(key=f"why-{at}").set_value("their API is down")
    press(app, f"settings-do-{at}")
    assert [tag.settings.paused for tag in queue.snapshot().tags] == [True, False]
    assert "acme: not paused is paused now" in words(app)
    (entry,) = queue.audit()
    assert (entry.action, entry.where, entry.reason) == ("configure", "tag:acme", "their API is down")
    assert (entry.actor, entry.origin) == ("test@example.com", "dashboard")
    again(app)
    changes = app.dataframe[-1].value
    assert list(changes["reason"]) == ["their API is down"]
    press(app, "settings-undo")
    assert not queue.snapshot().tags[0].settings.paused
    press(app, "settings-dismiss")
    assert not app.success


def test_resume(queue: Queue) -> None:
    fill(queue)
    queue.configure("acme", paused=True)
    app, at = page("acme"), number(queue, "acme")
    press(app, f"resume-{at}")
    assert "Resume acme?" in words(app)
    press(app, f"settings-do-{at}")
    assert not queue.snapshot().tags[0].settings.paused


def test_only_what_is_changed_is_set(queue: Queue) -> None:
    fill(queue)
    app, at = page("acme"), number(queue, "acme")
    press(app, f"settings-{at}")
    app.number_input(key=f"weight-{at}").set_value(3)
    app.number_input(key=f"max_inflight-{at}").set_value(7)
    press(app, f"settings-do-{at}")
    settings = queue.snapshot().tags[0].settings
    assert (settings.weight, settings.max_inflight, settings.max_pending) == (3, 7, None)
    assert "acme: weight 1 is weight 3 now; no limit in flight is at most 7 in flight now" in words(app)
    assert queue.audit()[0].intent == "weight=3 max_inflight=7"
    press(app, "settings-undo")
    assert queue.snapshot().tags[0].settings.max_inflight is None


def test_nothing_is_set_when_nothing_is_changed(queue: Queue) -> None:
    fill(queue)
    app, at = page("acme"), number(queue, "acme")
    press(app, f"settings-{at}")
    press(app, f"settings-do-{at}")
    assert "The settings are as they were." in words(app)
    assert queue.audit() == []


def test_what_somebody_else_has_set_meanwhile_is_left(queue: Queue) -> None:
    fill(queue)
    app, at = page("acme"), number(queue, "acme")
    press(app, f"settings-{at}")
    app.number_input(key=f"weight-{at}").set_value(3)
    queue.configure("acme", weight=9)
    press(app, f"settings-do-{at}")
    assert queue.snapshot().tags[0].settings.weight == 9
    assert "Somebody else changed them meanwhile: weight 9" in words(app)
    assert not app.success


def test_a_viewer_changes_nothing(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(queue)
    monkeypatch.setenv("QUEUE_ROLE", "viewer")
    app = page("acme")
    at = number(queue, "acme")
    assert app.button(key=f"pause-{at}").disabled
    assert app.button(key=f"settings-{at}").disabled


def test_the_empty_tag_is_a_tag(queue: Queue) -> None:
    queue.push("x")
    queue.push("x", tag="acme")
    app, at = page(""), number(queue, "")
    press(app, f"pause-{at}")
    press(app, f"settings-do-{at}")
    assert [tag.settings.paused for tag in queue.snapshot().tags] == [True, False]


# --- what people did, and stores that keep less ---------------------------------------------------


def test_what_people_did_by_its_name(queue: Queue) -> None:
    fill(queue)
    ann = Operator(queue, "ann", origin="cli")
    ann.configure("acme", weight=2, reason="for acme")
    ann.configure("bolt", weight=2, reason="for bolt")
    ann.run(ann.plan("redrive", "tag:acme state:dead", reason="fixed, token=abcdefgh12345678").number)
    ann.plan("redrive", "state:dead", reason="for all")
    changes = page("acme").dataframe[-1].value
    assert list(dict.fromkeys(changes["action"])) == ["run", "plan", "configure"]
    assert "abcdefgh12345678" not in str(changes.values)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    url = f"files://{tmp_path / 'queue'}"
    monkeypatch.setenv("QUEUE_URL", url)
    with open_queue(url, durability="none") as queue:
        fill(queue)
        yield queue
        assert queue.check() == []
    data.handle(url).close()


def test_a_store_that_keeps_less_says_so(files: Queue) -> None:
    app = page("acme")
    told = words(app)
    for words_of in ("keeps no history", "keeps no journal", "keeps no audit"):
        assert words_of in told
    assert list(app.dataframe[1].value["text"]) == ["read timeout after <n> s"]
    at = number(files, "acme")
    press(app, f"pause-{at}")
    press(app, f"settings-do-{at}")
    assert files.snapshot().tags[0].settings.paused
