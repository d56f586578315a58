"""Getting about: the line on top, the box that finds things, links that open the same view for a colleague."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from alike import twins
from driving import MAIN, again, listed, visit, words
from streamlit.testing.v1 import AppTest

from app import data, now, parts
from queue_core import Item, Queue, StoreBusy, open_queue

PAGES = ["overview", "fairness", "inflight", "dead", "tag", "task", "operations"]
ODD_TAGS = ["", "\0nul", "<script>alert(1)</script>", "x" * 10_000, ":material/delete: **bold** $x$", "a\nb", "nan"]


def fill(queue: Queue) -> str:
    """Tasks of every state; the id of a dead one."""
    queue.push_many([({"n": n}, tag) for n in range(3) for tag in ("acme", "bolt")])
    queue.ack(queue.lease(owner="w"))
    queue.lease(owner="w")
    id = queue.push("x", tag="acme").id
    queue.dead_letter(id, "no")
    return id


def find(app: AppTest, text: str) -> AppTest:
    """Write into the box that finds things, and be where that leads, as by a browser."""
    app.text_input(key="find").set_value(text).run()
    sent = [
        json.loads(element.proto.json)
        for element in app.get("bidi_component")
        if element.proto.component_name == "queue_core_go"
    ]
    return opened(sent[0]["to"]) if sent else app


def opened(link: str) -> AppTest:
    """The page at an address, in a session of its own."""
    data.forget()
    path, _, query = link.removeprefix("/").partition("?")
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    for name, value in parse_qsl(query):
        app.query_params[name] = value
    app.run()
    return app.switch_page(f"views/{path}.py").run() if path else app


def page_of(app: AppTest) -> str:
    assert not app.exception
    return str(app.session_state["page"])


# --- the line on top ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_every_page_says_how_the_queue_is_who_looks_and_at_what(
    queue: Queue, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(queue)
    monkeypatch.setenv("QUEUE_ROLE", "admin")
    app = visit(name)
    told = words(app)
    assert not app.exception
    assert "Healthy" in told
    assert re.search(r"^\d\d:\d\d:\d\d UTC, live$", told, re.MULTILINE)
    assert "admin: test@example.com" in told  # the user of AppTest
    assert f"memory {queue.url.removeprefix('memory://')}" in told
    app.toggle(key="live").set_value(False).run()
    assert re.search(r"^\d\d:\d\d:\d\d UTC, paused$", words(app), re.MULTILINE)


def test_the_line_and_the_overview_judge_alike(queue: Queue) -> None:
    queue.push("x", tag="acme")
    queue.configure(paused=True)
    app = visit("overview")
    assert "Trouble" in words(app)
    assert "The queue is paused while 1 task waits" in words(visit("task"))


@pytest.mark.parametrize("name", PAGES)
def test_a_store_that_cannot_be_read_is_unknown(queue: Queue, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> None:
        raise StoreBusy("the lock was not free for <b>2 s</b>")

    monkeypatch.setattr(data, "_read", busy)
    app = visit(name)
    assert not app.exception
    assert "Unknown" in words(app)
    assert "Healthy" not in words(app)


def test_a_role_that_there_is_not_is_told(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUE_ROLE", "king")
    app = visit("task")
    assert not app.exception
    assert "QUEUE_ROLE is 'king': it is one of viewer, operator, admin" in words(app)


# --- finding --------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", PAGES)
def test_the_id_of_a_task_opens_it(queue: Queue, start: str) -> None:
    id = fill(queue)
    app = find(visit(start), f" {id} ")
    assert page_of(app) == "Task"
    assert app.text_input(key="task").value == id
    assert "There is no such task" not in words(app)
    assert app.text_input(key="find").value == ""


@pytest.mark.parametrize("start", PAGES)
def test_the_exact_name_of_a_tag_opens_it(queue: Queue, start: str) -> None:
    fill(queue)
    app = find(visit(start), "bolt")
    assert page_of(app) == "Tag"
    assert parts_tag(app) == "bolt"
    assert "bolt is" in words(app)


def parts_tag(app: AppTest) -> Any:
    return app.selectbox(key="tag").value


@pytest.mark.parametrize("start", PAGES)
def test_anything_else_is_a_filter_of_dead_letters(queue: Queue, start: str) -> None:
    fill(queue)
    app = find(visit(start), "reason:no -tag:bolt")
    assert page_of(app) == "Dead letters"
    assert app.session_state["where"] == "reason:no -tag:bolt"


def test_finding_keeps_the_other_filters(queue: Queue) -> None:
    id = fill(queue)
    app = visit("overview")
    app.selectbox(key="tag").set_value("acme").run()
    app.toggle(key="live").set_value(False).run()
    app = find(app, id)
    assert page_of(app) == "Task"
    assert app.toggle(key="live").value is False
    app.switch_page("views/overview.py").run()
    assert parts_tag(app) == "acme"


@pytest.mark.parametrize("tag", ["a b&c=d", "50 %", "ü/?#", "\ud800", "+"])
def test_what_is_found_is_in_the_address_as_it_is(tag: str) -> None:
    path, _, query = parts.link("tag", {"tag": tag}).partition("?")
    assert (path, parse_qsl(query)) == ("/tag", [("tag", tag.replace("\ud800", "?"))])


def test_nothing_is_found_for_nothing(queue: Queue) -> None:
    fill(queue)
    assert page_of(find(visit("fairness"), "   ")) == "Fairness"


@pytest.mark.parametrize("tag", ODD_TAGS[1:])
def test_odd_tags_are_found_by_their_exact_name(queue: Queue, tag: str) -> None:
    queue.push_many([Item("x", name) for name in ODD_TAGS])
    data.forget()
    assert now.aimed(tag) == now.Aim("Tag", {"tag": tag})
    assert now.aimed(tag + "?").page == "Dead letters"


def test_a_store_that_is_busy_finds_by_filter(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> None:
        raise StoreBusy("busy")

    data.forget()
    monkeypatch.setattr(data, "_read", busy)
    assert now.aimed("acme").page == "Dead letters"


# --- links ----------------------------------------------------------------------------------------


def test_what_is_usual_is_left_out_of_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"tag": "", "text": "<b>&", "span": "24 h", "live": False, "where": "x"}
    monkeypatch.setattr(parts.st, "session_state", chosen)
    assert parts.address() == {"tag": "", "text": "<b>&", "span": "24 h", "live": "false"}
    monkeypatch.setattr(parts.st, "session_state", {"tag": None, "text": "", "span": "15 min", "live": True})
    assert parts.address() == {}


@pytest.mark.parametrize("name", ["", "x" * 100, "a\nb"])
def test_a_tag_that_is_named_as_another_is_called_is_told_apart(queue: Queue, name: str) -> None:
    """What is chosen is what a page calls a tag, whatever others are named."""
    label = parts.tag_label(name)
    queue.push_many([("b", label), ("a", name)])
    data.forget()
    assert parts.tags_called(label) == [name]
    assert parts.tags_called(parts.tag_label(label)) == [label]
    for tag in (name, label):
        queue.dead_letter(queue.tasks("pending", tag=tag).items[0].id, f"of {len(tag)}")
    app = AppTest.from_file(str(MAIN), default_timeout=60).run()
    app.session_state["tag"] = label
    app.switch_page("views/dead.py").run()
    assert list(listed(app)["reason"]) == [f"of {len(name)}"]


def test_of_two_tags_that_are_called_alike_neither_is_meant(queue: Queue) -> None:
    for name in twins():
        queue.dead_letter(queue.push(0, tag=name).id, "down")
    data.forget()
    for page in ("dead", "tag"):
        app = AppTest.from_file(str(MAIN), default_timeout=60)
        app.query_params["tag"] = parts.tag_label(twins()[0])
        app.switch_page(f"views/{page}.py").run()
        assert listed(app).empty
    assert "2 tags are called" in words(app)
    assert not [button for button in app.button if "ause" in button.label]


# --- the three pages that are not tested elsewhere ------------------------------------------------


@pytest.mark.parametrize("name", ["tag", "task", "operations"])
def test_a_page_without_a_store_is_calm(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"lmdb://{tmp_path / 'none yet'}"
    monkeypatch.setenv("QUEUE_URL", url)
    app = AppTest.from_file(str(MAIN), default_timeout=60).run()
    app.session_state["tag"] = "acme"
    app.session_state["task"] = "0" * 32
    app.switch_page(f"views/{name}.py").run()
    assert not app.exception
    assert "There is no queue here yet" in words(app)
    with open_queue(url) as queue:
        queue.push("x", tag="acme")
        assert not again(app).exception
        assert "There is no queue here yet" not in words(app)
    data.handle(url).close()
