"""Clicks that come too quickly, or after what they were meant for has changed: nothing else is done, nothing breaks."""

import threading

import pytest
from driving import MAIN, listed, press, select, visit, words
from streamlit.testing.v1 import AppTest
from waiting import until

from app import audit, control, data, letters, parts
from queue_core import Conflict, Queue
from queue_core.control import Operator


def kill(queue: Queue, n: int = 1) -> list[str]:
    """Dead letters; their ids."""
    ids = [task.id for task in queue.push_many([({"a": k}, "acme") for k in range(n)])]
    for id in ids:
        queue.dead_letter(id, "down")
    return ids


def operations(**query: str) -> AppTest:
    data.forget()
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    return app.switch_page("views/operations.py").run()


def test_a_click_too_many_between_pages(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letters, "PAGE", 3)
    ids = kill(queue, 5)[::-1]
    app = visit("dead")
    begun = app.session_state["shown:pages:dead"][1]
    press(app, "page-on")
    second = begun[-1]
    assert list(listed(app)["id"]) == ids[3:]
    begun.pop()  # a first click, whose page is not drawn yet
    press(app, "page-back")
    assert not app.exception
    assert list(listed(app)["id"]) == ids[:3]
    begun.append(second)
    press(app, "page-on")
    assert not app.exception
    assert list(listed(app)["id"]) == ids[3:]
    press(app, "page-back")
    assert list(listed(app)["id"]) == ids[:3]


def test_a_click_too_many_in_the_audit(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "PIECE", 2)
    for weight in (2, 3, 4):
        Operator(queue, "ann", origin="cli").configure("acme", weight=weight)
    app = operations(show="Audit")
    app.session_state["shown:audit"].begins.append(2)  # a first click, whose page is not drawn yet
    press(app, "audit-older")
    assert app.session_state["shown:audit"].begins == [None, 2]
    assert list(app.dataframe[0].value["number"]) == [1]


def test_what_is_saved_was_looked_at(queue: Queue) -> None:
    """Who writes on and clicks at once is shown what that changes first."""
    (id,) = kill(queue)
    app = select(visit("dead"), 0)
    press(app, f"edit-{id}")
    box = f"payload-{id}-{queue.get(id).version}"
    app.text_area(key=box).set_value('{"a": 1}')
    press(app, "edit-look")
    app.text_area(key=box).set_value('{"a": 2}')
    press(app, "edit-save")
    assert queue.get(id).payload == {"a": 0}
    assert any('+  "a": 2' in code.value for code in app.code)
    press(app, "edit-save")
    assert queue.get(id).payload == {"a": 2}
    del app.session_state["outcome:edit"]  # a click on "Dismiss" came first
    press(app, "undo-edit")
    assert not app.exception
    assert queue.get(id).payload == {"a": 2}


def test_a_plan_that_another_runs_already_is_in_no_trouble(queue: Queue) -> None:
    kill(queue, 12)
    other = Operator(queue, "ann", origin="cli")
    number = other.plan("redrive", "state:dead", rate=20).number
    run = threading.Thread(target=other.run, args=(number,))
    run.start()
    until(lambda: queue.plan(number).state == "running")
    with pytest.raises(Conflict, match="is being run by ann"):
        control.start(number)
    run.join(30)
    told = words(operations(plan=str(number)))
    assert f"Plan {number}, redrive: finished, 12 of 12 moved" in told
    assert "ended early" not in told


def test_a_plan_is_run_and_stopped_once(queue: Queue) -> None:
    kill(queue, 60)
    number = Operator(queue, "ann", origin="cli").plan("redrive", "state:dead", rate=10).number
    for _ in range(2):
        control.start(number, wait=0.1)
    until(lambda: queue.plan(number).state == "running")
    for _ in range(2):
        control.stop(number)
    until(lambda: f"plan {number}" not in {thread.name for thread in threading.enumerate()})
    assert queue.plan(number).state == "stopped"
    assert control.trouble(number) == ""
    actions = [entry.action for entry in queue.audit() if entry.origin == "dashboard"]
    assert sorted(actions) == ["run", "stop"]


def test_what_can_be_written_fits_in_an_address(queue: Queue) -> None:
    """A server refuses a longer one, and the page of who wrote it is gone."""
    kill(queue)
    app = visit("dead")
    for key in ("find", "where"):
        longest = "\U0001f4a3" * app.text_input(key=key).proto.max_chars
        assert 10_000 < len(parts.link("dead", {"where": longest})) < 64_000
