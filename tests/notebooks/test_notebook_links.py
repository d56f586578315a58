"""From a notebook to the dashboard: the addresses are those that the pages themselves write, and they open."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from streamlit.testing.v1 import AppTest

from app import data, parts
from queue_core import InvalidArgument, Queue, frames, open_queue
from queue_core.control import Operator
from queue_core.notebook import dashboard_url, links, triage, url

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"
VIEWS = {"": "overview", **{page: page for page in links.PAGES if page != "overview"}}
ODD = "a tag\nwith <b>everything</b> & more = ?#%"


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    address = f"memory://{uuid4()}"
    monkeypatch.setenv("QUEUE_URL", address)
    monkeypatch.delenv("QUEUE_DASHBOARD", raising=False)
    with open_queue(address) as queue:
        yield queue
        assert queue.check() == []


@pytest.fixture(autouse=True)
def main_stays() -> Iterator[None]:
    """AppTest makes the page the main module."""
    import sys

    program = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = program


def opened(address: str) -> AppTest:
    """The page at an address, by its path, with what its address says."""
    found = urlsplit(address)
    data.forget()
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    for name, (value,) in parse_qs(found.query, strict_parsing=bool(found.query)).items():
        app.query_params[name] = value
    app.run()
    name = VIEWS[found.path.strip("/")]
    app = app if name == "overview" else app.switch_page(f"views/{name}.py").run()
    assert not app.exception
    return app


def words(app: AppTest) -> str:
    return "\n".join(element.value for element in app.text)


def dead(queue: Queue, tag: str = "acme", error: str = "no") -> str:
    return queue.dead_letter(queue.push({"n": 1}, tag=tag).id, error).id  # type: ignore[arg-type]


def test_every_page_of_the_dashboard_has_an_address() -> None:
    views = {path.stem for path in MAIN.with_name("views").glob("*.py")} - {"__init__"}
    assert set(links.PAGES) == views
    assert tuple(parts.SPANS) == links.SPANS
    assert links.SPANS[0] == parts.RECENT


@pytest.mark.parametrize("tag", ["acme", "", ODD, "x" * 500, "(empty tag)", "a=b&c"])
def test_a_link_to_a_tag_opens_that_tag(queue: Queue, tag: str) -> None:
    for name in (tag, "another"):
        queue.push(1, tag=name)
    app = opened(dashboard_url("tag", tag=tag, span="2 h"))
    assert app.session_state["page"] == "Tag"
    assert app.session_state["span"] == "2 h"
    told = words(app)
    assert f"There is no tag {frames.tag_label(tag)}" not in told
    assert frames.tag_label(tag) in told


def test_a_link_to_a_task_opens_it(queue: Queue) -> None:
    task = queue.get(dead(queue))
    app = opened(url(task))
    assert app.session_state["page"] == "Task"
    assert task.id in app.session_state["task"]
    assert "A task of acme" in words(app)


def test_a_triage_links_to_what_it_looked_for(queue: Queue) -> None:
    dead(queue, error="timeout"), dead(queue, tag="bolt", error="a & b = <c>?")
    looked = triage(queue, "ann")
    looked.find('reason:"a & b = <c>?"')
    app = opened(looked.url())
    assert app.session_state["page"] == "Dead letters"
    assert app.session_state["where"] == looked.where
    assert "1–1 of 1" in words(app)


def test_a_link_to_the_past_opens_it(queue: Queue) -> None:
    queue.push(1, tag="acme")
    at = datetime.now(UTC).replace(microsecond=0)
    address = dashboard_url("fairness", at=at)
    assert parse_qs(urlsplit(address).query) == {"at": [f"{at:%Y-%m-%dT%H:%M:%SZ}"]}
    app = opened(address)
    assert app.query_params["at"] == f"{at:%Y-%m-%dT%H:%M:%SZ}"
    assert app.button(key="to-now")


def test_a_link_to_a_plan_opens_it(queue: Queue) -> None:
    dead(queue)
    plan = Operator(queue, "ann", "operator", origin="test").plan("redrive", "")
    app = opened(url(plan))
    assert app.session_state["page"] == "Operations"
    assert "Plan 1, redrive: ready" in words(app)


def test_the_filters_of_a_page_make_the_same_address(queue: Queue) -> None:
    queue.push(1, tag="acme")
    app = opened(dashboard_url(tag="acme", text="ac", span="24 h"))
    for name, value in {"tag": "acme", "text": "ac", "span": "24 h"}.items():
        assert app.session_state[name] == value
    assert dashboard_url(tag="acme", span=parts.RECENT) == dashboard_url(tag="acme")  # as parts.address leaves it out


def test_things_and_frames_have_their_pages(queue: Queue) -> None:
    dead(queue)
    queue.push(1, tag="acme")
    lease = queue.lease(owner="w")
    assert lease is not None
    snapshot, tasks = queue.snapshot(), queue.tasks("dead")
    journal = queue.journal()
    wanted: list[tuple[Any, str]] = [
        (queue, ""), (snapshot, ""), (lease, f"task?task={lease.id}"), (frames.tags_frame(snapshot), ""),
        (frames.dead_frame(tasks, snapshot.at), "dead"), (frames.groups_frame(queue.groups(), snapshot.at), "dead"),
        (frames.leases_frame(queue.tasks("inflight"), snapshot.at), "inflight"),
        (frames.shares_frame(snapshot, journal), "fairness"), (frames.serves_frame(journal), "fairness"),
        (frames.audit_frame(queue.audit()), "operations?show=Audit"), (frames.plans_frame([], 1), "operations"),
    ]  # fmt: skip
    for thing, path in wanted:
        assert url(thing) == f"http://127.0.0.1:8501/{path}"


def test_where_the_dashboard_is_can_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUE_DASHBOARD", "https://queue.example.org/base/")
    assert dashboard_url("dead") == "https://queue.example.org/base/dead"
    assert dashboard_url("dead", base="http://localhost:1") == "http://localhost:1/dead"


@pytest.mark.parametrize(
    ("page", "given", "told"),
    [
        ("nowhere", {}, "page is 'nowhere'"), ("task", {"tag": "x"}, "shows nothing by tag"),
        ("overview", {"span": "3 h"}, "span is '3 h'"), ("overview", {"at": datetime(2025, 1, 1)}, "at is"),  # noqa: DTZ001
        ("task", {"task": "no id"}, "id"), ("dead", {"base": "javascript:alert(1)"}, "begins with http"),
    ],
)  # fmt: skip
def test_what_no_page_shows_is_refused(page: str, given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        dashboard_url(page, **given)


def test_what_the_dashboard_does_not_show_has_no_address() -> None:
    with pytest.raises(InvalidArgument, match="no page"):
        url(1)
