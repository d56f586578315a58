"""The page Task: any state, its story, what its state allows."""

from typing import Any

import pytest
from driving import MAIN, press, words
from streamlit.testing.v1 import AppTest

from queue_core import Queue, State

SECRET = "Zq9_hunter2"


def of(id: str) -> AppTest:
    app = AppTest.from_file(str(MAIN), default_timeout=60).run()
    app.query_params["task"] = id
    return app.switch_page("views/task.py").run()


def in_state(queue: Queue, state: State, payload: Any = "x") -> str:
    """A task in that state; its id."""
    id = queue.push(payload, tag="acme", delay=60 if state is State.SCHEDULED else 0).id
    if state is State.INFLIGHT:
        queue.lease(owner="w1", ttl=600)
    elif state in (State.DEAD, State.TRASH):
        queue.dead_letter(id, "broken")
    if state is State.TRASH:
        queue.purge(id)
    return id


def story(app: AppTest) -> list[str]:
    return list(next(table.value for table in app.dataframe if "what" in table.value)["what"])


@pytest.mark.parametrize("state", State)
def test_a_task_of_any_state_says_what_it_is_and_what_can_be_done(queue: Queue, state: State) -> None:
    app = of(in_state(queue, state))
    assert not app.exception
    assert "A task of acme, " in words(app)
    allowed = {
        State.PENDING: {"cancel", "dead_letter", "move_tag"},
        State.SCHEDULED: {"requeue", "cancel", "dead_letter", "move_tag"},
        State.INFLIGHT: {"requeue", "extend", "dead_letter"},
        State.DEAD: {"redrive", "move_tag", "purge"},
        State.TRASH: {"restore"},
    }
    assert {button.key[5:] for button in app.button if (button.key or "").startswith("task-")} == allowed[state]


@pytest.mark.parametrize(
    ("state", "verb", "then"),
    [
        (State.PENDING, "cancel", State.TRASH),
        (State.SCHEDULED, "requeue", State.PENDING),
        (State.INFLIGHT, "dead_letter", State.DEAD),
        (State.DEAD, "redrive", State.PENDING),
        (State.DEAD, "purge", State.TRASH),
        (State.TRASH, "restore", State.DEAD),
        (State.INFLIGHT, "requeue", State.PENDING),
    ],
)
def test_it_is_acted_on_and_read_again(queue: Queue, state: State, verb: str, then: State) -> None:
    id = in_state(queue, state)
    app = of(id)
    press(app, f"task-{verb}")
    app.text_input(key="reason").set_value("for a test")
    press(app, "confirm-do")
    assert queue.get(id).state is then
    assert app.success[0].value.startswith("1 task ")
    assert f"{verb} asked for" in story(app)
    assert "plan 1 ran" in story(app)
    able = (state, verb) != (State.INFLIGHT, "requeue")
    assert any(button.key == "undo" for button in app.button) is able
    if able:
        press(app, "undo")
        assert queue.get(id).state is (State.PENDING if state is State.INFLIGHT else state)
        assert "undo asked for" in story(app)
    assert not app.exception


def test_a_lease_is_extended_and_a_task_moved(queue: Queue) -> None:
    id = in_state(queue, State.INFLIGHT)
    before = queue.get(id).expires_at
    app = of(id)
    press(app, "task-extend")
    app.number_input(key="ttl").set_value(3_000)
    press(app, "confirm-do")
    assert queue.get(id).expires_at > before
    queue.requeue(id)
    press(app, "refresh")
    press(app, "task-move_tag")
    app.text_input(key="to-tag").set_value("bolt")
    press(app, "confirm-do")
    assert queue.get(id).tag == "bolt"


def test_the_story_has_attempts_journal_and_audit(queue: Queue) -> None:
    id = queue.push({"token": SECRET}, tag="acme", max_attempts=1).id
    queue.nack(queue.lease(owner="w1"), f"password={SECRET}")
    queue.redrive(id)
    app = of(id)
    assert story(app) == ["pushed", "lease 1, cycle 1", "lease 1 nacked", "redriven"]
    assert "pending: it is the next of its tag" in words(app)
    frame = next(table.value for table in app.dataframe if "what" in table.value)
    assert SECRET not in frame.to_csv()
    assert all(SECRET not in code.value for code in app.code)
    assert "masked: payload.token" in words(app)


def test_a_task_that_changes_meanwhile_is_told_and_not_acted_on(queue: Queue) -> None:
    id = in_state(queue, State.DEAD)
    app = of(id)
    queue.redrive(id)
    queue.dead_letter(id, "again")
    app.run()
    assert "It has changed since: it is dead now" in words(app)
    press(app, "task-redrive")
    press(app, "confirm-do")
    assert queue.get(id).state is State.DEAD
    assert "0 of 1 task redriven; 1 skipped, because it has changed since the selection" in words(app)


@pytest.mark.parametrize("id", ["nonsense", "01a22fcb-1feb-71ea-b666-df8b6c7e3dca", "\0", "<b>x</b>"])
def test_what_is_no_task_is_told(queue: Queue, id: str) -> None:
    app = of(id)
    assert not app.exception
    assert "There is no such task" in words(app)


def test_without_an_id_it_says_where_to_find_one(queue: Queue) -> None:
    app = AppTest.from_file(str(MAIN), default_timeout=60).run().switch_page("views/task.py").run()
    assert "No task is chosen" in words(app)


@pytest.mark.parametrize("payload", [2**70, "\ud800\0", None, [], {"": [[[]]]}, "<img src=x>", {"k": 2**53}, True])
def test_odd_payloads_are_shown(queue: Queue, payload: Any) -> None:
    app = of(in_state(queue, State.DEAD, payload))
    assert not app.exception
    assert len(app.tabs) == 4
