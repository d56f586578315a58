"""Another click comes while something is done, and ends what did it: it was done once, and is told nevertheless."""

from collections.abc import Callable
from typing import Any

import pytest
from driving import MAIN, press, select, visit, words
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData
from streamlit.testing.v1 import AppTest

from app import data, letters
from queue_core import Queue, State
from queue_core.control import Operator


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """A function that lets a click come whenever a method of ``Operator`` has acted; the list grows with each."""

    def during(name: str) -> list[str]:
        came: list[str] = []
        real = getattr(Operator, name)

        def act(*args: Any, **given: Any) -> Any:
            done = real(*args, **given)
            context = get_script_run_ctx()
            assert context is not None
            assert context.script_requests is not None
            context.script_requests.request_rerun(
                RerunData(query_string=context.query_string, page_script_hash=context.page_script_hash)
            )
            came.append(name)
            return done

        monkeypatch.setattr(Operator, name, act)
        return came

    return during


def kill(queue: Queue) -> str:
    id = queue.push({"a": 0}, tag="acme").id
    queue.dead_letter(id, "down")
    return id


def test_a_confirmed_action(queue: Queue, interrupt: Callable[[str], list[str]]) -> None:
    id = kill(queue)
    app = press(select(visit("dead"), 0), "dead-redrive")
    came = interrupt("run")
    press(app, "confirm-do")
    assert came == ["run"]
    assert queue.get(id).state is State.PENDING
    assert [box.value for box in app.success] == ["1 task redriven"]
    press(app, "undo")
    assert came == ["run", "run"]
    assert queue.get(id).state is State.DEAD
    assert [box.value for box in app.success] == ["Undone: 1 of 1 moved; it had been redriven"]


def test_an_edit(queue: Queue, interrupt: Callable[[str], list[str]]) -> None:
    """It is saved and redriven, not only saved."""
    id = kill(queue)
    app = press(select(visit("dead"), 0), f"edit-{id}")
    app.text_area(key=f"payload-{id}-{queue.get(id).version}").set_value('{"a": 1}')
    press(app, "edit-look")
    came = interrupt("edit")
    press(app, "edit-save")
    assert came == ["edit"]
    assert (queue.get(id).payload, queue.get(id).state) == ({"a": 1}, State.PENDING)
    assert [box.value for box in app.success] == [
        f"The payload of {id} was saved; that of before is kept with the task; it was redriven"
    ]
    press(app, "undo-edit")
    assert (queue.get(id).payload, queue.get(id).state) == ({"a": 0}, State.DEAD)
    assert "Undone: it has the payload of before again, and is a dead letter" in [box.value for box in app.success]


def test_an_error_group(queue: Queue, interrupt: Callable[[str], list[str]]) -> None:
    kill(queue)
    app = visit("dead")
    table = next(table.key for table in app.dataframe if table.key.startswith("groups-"))
    app.session_state[table] = {"selection": {"rows": [0], "columns": [], "cells": []}}
    app.run()
    came = interrupt("resolve")
    press(app, "groups-resolve")
    assert came == ["resolve"]
    assert queue.groups()[0].resolved
    assert [box.value for box in app.success] == ["1 error group resolved; a new death reopens it"]
    assert not app.session_state[letters.CHOSEN] or app.button(key="groups-resolve").disabled


def test_a_setting(queue: Queue, interrupt: Callable[[str], list[str]]) -> None:
    queue.push("x", tag="acme")
    data.forget()
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    app.query_params["tag"] = "acme"
    app.switch_page("views/tag.py").run()
    press(app, "pause-1")
    came = interrupt("configure")
    press(app, "settings-do-1")
    assert came == ["configure"]
    assert "acme: not paused is paused now" in words(app)
    press(app, "settings-undo")
    assert "acme: paused is not paused now" in words(app)
    assert [tag.settings.paused for tag in queue.snapshot().tags] == [False]


def test_all_that_match_and_a_plan(queue: Queue, interrupt: Callable[[str], list[str]]) -> None:
    id = kill(queue)
    app = press(visit("dead"), "all-redrive")
    came = interrupt("plan")
    press(app, "plan-look")
    assert came == ["plan"]
    press(app, "plan-run")
    assert queue.get(id).state is State.PENDING
    came = interrupt("undo")
    app.query_params["plan"] = "1"
    app.switch_page("views/operations.py").run()
    press(app, "plan-undo-1")
    press(app, "plan-do-undo-1")
    assert came == ["undo"]
    assert queue.get(id).state is State.DEAD
    assert "Plan 2, undo of 1: finished, 1 of 1 moved" in words(app)
