"""Operations: plans run, stopped and undone from here or elsewhere; the audit; workers; the store."""

import csv
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from driving import MAIN, again, press, words
from streamlit.testing.v1 import AppTest
from waiting import until

from app import audit, control, data, plans
from queue_core import Item, Queue, frames, open_queue
from queue_core.control import Operator
from queue_core.frames import AuditFilter
from queue_core.plans import Plan
from queue_core.task import SECOND


def page(show: str = "Plans", **given: str) -> AppTest:
    """The page as a link opens it."""
    data.forget()
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    for name, value in {"show": show, **given}.items():
        app.query_params[name] = value
    app.switch_page("views/operations.py").run()
    assert not app.exception
    return app


def ann(queue: Queue, role: str = "operator") -> Operator:
    return Operator(queue, "ann@example.org", role, origin="cli")


def dead(queue: Queue, count: int, tag: str = "acme") -> None:
    queue.push_many([Item({"n": n}, tag) for n in range(count)])
    for lease in queue.lease_many(count):
        queue.dead_letter(lease, "broken")


def table(app: AppTest, place: int = 0) -> Any:
    return app.dataframe[place].value


def choose(app: AppTest, row: int) -> AppTest:
    numbers = app.session_state["shown:plans"]
    key = f"plans-{max(numbers)}-{len(numbers)}"
    app.session_state[key] = {"selection": {"rows": [row], "columns": [], "cells": []}}
    return app.run()


def settled(queue: Queue, number: int) -> None:
    """Wait until nobody runs the plan any more."""
    until(lambda: queue.plan(number).state != "running")


# --- plans ----------------------------------------------------------------------------------------


def test_no_plan_says_how_one_is_made(queue: Queue) -> None:
    app = page()
    assert "No plan is running; no worker is at work" in words(app)
    assert "None yet. A plan is made of every action on several tasks at once" in words(app)
    assert not app.dataframe


def test_plans_are_listed_the_newest_on_top(queue: Queue) -> None:
    dead(queue, 5)
    operator = ann(queue)
    first = operator.run(operator.plan("redrive", "tag:acme", reason="mended").number)
    second = operator.plan("cancel", "tag:acme", reason="not needed")
    shown = table(page())
    assert list(shown["plan"]) == [second.number, first.number]
    assert list(shown["standing"]) == ["ready", "finished"]
    assert list(shown["progress"]) == [0.0, 1.0]
    assert list(shown["moved"]) == [0, 5]


def test_a_link_opens_a_plan(queue: Queue) -> None:
    dead(queue, 3)
    queue.push("alive", tag="bolt")
    number = ann(queue).plan("redrive", "", reason="mended, token=abcdefgh12345678").number
    app = page(plan=str(number))
    told = words(app)
    assert f"Plan {number}, redrive: ready, 0 of 3 moved, 3 not reached" in told
    assert "mended" in told
    assert "abcdefgh12345678" not in told
    assert "acme: 3" in told
    assert "by ann@example.org (operator, cli)" in told


@pytest.mark.parametrize("plan", ["99", "x", "-1", "9" * 40])
def test_a_link_to_a_plan_that_there_is_not(queue: Queue, plan: str) -> None:
    dead(queue, 1)
    ann(queue).plan("redrive", "")
    app = page(plan=plan)
    assert ("no plan 99" in words(app)) == (plan == "99")
    assert not [button for button in app.button if str(button.key).startswith("plan-")]


def test_run_asks_runs_and_tells(queue: Queue) -> None:
    dead(queue, 3)
    number = ann(queue).plan("redrive", "").number
    queue.redrive(queue.tasks("dead").items[0].id)
    app = choose(page(), 0)
    press(app, f"plan-run-{number}")
    assert "Redrive 3 tasks? What has changed since it was frozen is left alone." in words(app)
    assert queue.counts().dead == 2  # nothing before the confirmation
    press(app, f"plan-do-run-{number}")
    settled(queue, number)
    again(app)
    assert queue.counts().dead == 0
    assert f"Plan {number}, redrive: finished, 2 of 3 moved, 1 skipped" in words(app)
    reasons, results = table(app, 1), table(app, 2)
    assert list(reasons["why"]) == ["it has changed: it is pending now"]
    assert sorted(results["verdict"]) == ["moved", "moved", "skipped"]
    assert not [button.key for button in app.button if button.key == f"plan-run-{number}"]


def test_cancelling_the_question_runs_nothing(queue: Queue) -> None:
    dead(queue, 1)
    number = ann(queue).plan("redrive", "").number
    app = page(plan=str(number))
    press(app, f"plan-run-{number}")
    press(app, "plan-cancel")
    assert "Redrive 1 task?" not in words(app)
    assert queue.plan(number).state == "ready"


def test_undo_is_a_plan_of_its_own(queue: Queue) -> None:
    dead(queue, 4)
    operator = ann(queue)
    number = operator.run(operator.plan("redrive", "").number).number
    lease = queue.lease()
    app = page(plan=str(number))
    press(app, f"plan-undo-{number}")
    assert f"Give back 4 tasks that plan {number} has moved?" in words(app)
    press(app, f"plan-do-undo-{number}")
    settled(queue, number + 1)
    again(app)
    assert queue.counts().dead == 3
    assert queue.get(lease.id).state == "inflight"
    assert list(table(app)["name"]) == [f"undo of {number}", "redrive"]
    assert f"Plan {number + 1}, undo of {number}: finished, 3 of 4 moved, 1 skipped" in words(app)
    assert queue.plan(number + 1).actor == "test@example.com"


@contextmanager
def slow_run(queue: Queue, number: int) -> Iterator[None]:
    """While inside, somebody elsewhere runs the plan: its first task is moved, the next one is due in an hour."""
    done = threading.Event()
    begun = threading.Event()

    def progress(plan: Plan) -> None:
        if plan.moved:
            begun.set()

    runner = threading.Thread(
        target=lambda: ann(queue).run(number, rate=1 / 3_600, progress=progress, stopped=done.is_set)
    )
    runner.start()
    try:
        assert begun.wait(30)
        yield
    finally:
        done.set()
        runner.join(30)


def test_what_another_runs_is_shown_stopped_and_resumed(queue: Queue) -> None:
    dead(queue, 10)
    number = ann(queue).plan("redrive", "").number
    with slow_run(queue, number):
        app = page(plan=str(number))
        told = words(app)
        assert "1 plan is running" in told
        assert "running, 1 of 10 moved" in told
        assert "Run by" in [caption.value for caption in app.caption]
        assert "ann@example.org at " in told
        assert not [button.key for button in app.button if button.key == f"plan-run-{number}"]
        press(app, f"plan-stop-{number}")
        again(app)
        assert queue.plan(number).state == "stopped"
    assert "stopped by test@example.com" in words(app)
    assert app.button(key=f"plan-run-{number}").label == "Resume"
    press(app, f"plan-run-{number}")
    assert "Redrive 9 tasks?" in words(app)


def test_a_runner_that_fell_silent_is_told(queue: Queue) -> None:
    with open_queue(queue.url, clock=lambda: time.time_ns() // 1_000 - 60 * SECOND) as then:
        dead(then, 2)
        number = ann(then).plan("redrive", "").number
        with slow_run(then, number):
            app = page(plan=str(number))
            assert f"whoever ran plan {number} has fallen silent: it can be resumed" in words(app)
            assert list(table(app)["standing"]) == ["running, silent"]
            assert app.button(key=f"plan-run-{number}").label == "Resume"


def test_a_refused_action_is_told(queue: Queue) -> None:
    dead(queue, 1)
    number = ann(queue).plan("redrive", "").number
    app = page(plan=str(number))
    press(app, f"plan-run-{number}")
    ann(queue).run(number)
    press(app, f"plan-do-run-{number}")
    assert f"plan {number} is finished" in words(app)


def test_new_plans_move_no_row(queue: Queue) -> None:
    dead(queue, 2)
    operator = ann(queue)
    first = operator.plan("redrive", "", reason="one").number
    app = choose(page(), 0)
    operator.plan("redrive", "", reason="two")
    again(app)
    assert list(table(app)["plan"]) == [first]
    assert f"Plan {first}, redrive" in words(app)
    assert "1 newer" in words(app)
    press(app, "plans-refresh")
    assert list(table(app)["plan"]) == [first + 1, first]
    assert f"Plan {first}, redrive" in words(app)


def test_a_viewer_runs_nothing_and_an_operator_expunges_nothing(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    dead(queue, 1)
    redrive = ann(queue).plan("redrive", "").number
    queue.purge(queue.tasks("dead").items[0].id)
    expunge = ann(queue, "admin").plan("expunge", "state:trash", reason="the law").number
    assert page(plan=str(expunge)).button(key=f"plan-run-{expunge}").disabled
    monkeypatch.setenv("QUEUE_ROLE", "viewer")
    assert page(plan=str(redrive)).button(key=f"plan-run-{redrive}").disabled
    monkeypatch.setenv("QUEUE_ROLE", "admin")
    app = page(plan=str(expunge))
    press(app, f"plan-run-{expunge}")
    assert "They are gone for good: this cannot be undone." in words(app)


def test_results_page_by_page_and_by_outcome(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "PIECE", 3)
    dead(queue, 8)
    operator = ann(queue)
    number = operator.plan("redrive", "").number
    for task in queue.tasks("dead").items[::2]:
        queue.redrive(task.id)
    operator.run(number)
    app = page(plan=str(number))
    assert list(table(app, 2)["number"]) == [1, 2, 3]
    press(app, f"next-{number}")
    assert list(table(app, 2)["number"]) == [4, 5, 6]
    app.segmented_control(key=f"came-{number}").set_value("skipped").run()
    assert set(table(app, 2)["verdict"]) == {"skipped"}
    assert list(table(app, 2)["number"]) == [1, 3, 5]
    press(app, f"next-{number}")
    assert list(table(app, 2)["number"]) == [7]
    assert app.button(key=f"next-{number}").disabled
    press(app, f"first-{number}")
    assert list(table(app, 2)["number"]) == [1, 3, 5]


# --- the audit ------------------------------------------------------------------------------------


def entries(queue: Queue, count: int) -> None:
    people = ("ann@example.org", "bob@example.org", "=cmd()")
    for n in range(count):
        who = Operator(queue, people[n % 3], origin="cli")
        who.configure(f"tag {n}", weight=n + 1, reason=f"reason {n} <b> \0 \ud800 password=hunter2hunter")


def test_the_audit_is_shown_the_newest_first(queue: Queue) -> None:
    entries(queue, 5)
    app = page("Audit")
    assert list(table(app)["number"]) == [5, 4, 3, 2, 1]
    assert "hunter2hunter" not in str(table(app).values)
    assert "5 entries of 5, 5 looked at" in words(app)


def test_nothing_has_been_done(queue: Queue) -> None:
    assert "Nothing has been done yet, by anybody." in words(page("Audit"))


def test_the_audit_is_filtered_and_linked_to(queue: Queue) -> None:
    entries(queue, 6)
    ann(queue).pause(reason="all of it")
    assert list(table(page("Audit", actor="BOB"))["number"]) == [5, 2]
    assert list(table(page("Audit", entry="reason 3"))["number"]) == [4]
    app = page("Audit", entry="hunter2")
    assert not app.dataframe  # what is masked is not found
    assert "No entry fits." in words(app)
    app = page("Audit", action="configure")
    assert len(table(app)) == 7
    app.text_input(key="actor").set_value("ann").run()
    assert list(table(app)["number"]) == [7, 4, 1]


def test_the_audit_page_by_page_stays_as_it_was(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "PIECE", 4)
    entries(queue, 10)
    app = page("Audit")
    assert list(table(app)["number"]) == [10, 9, 8, 7]
    entries(queue, 1)
    again(app)
    assert list(table(app)["number"]) == [10, 9, 8, 7]
    assert "1 newer" in words(app)
    press(app, "audit-older")
    assert list(table(app)["number"]) == [6, 5, 4, 3]
    press(app, "audit-older")
    assert list(table(app)["number"]) == [2, 1]
    assert app.button(key="audit-older").disabled
    press(app, "audit-newest")
    assert list(table(app)["number"]) == [11, 10, 9, 8]


def test_a_search_goes_through_many_entries(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames.operations, "PIECE", 7)
    entries(queue, 30)
    with queue.view() as view:
        found = frames.audit_page(view, AuditFilter(actor="ann"), limit=4)
        assert list(found.frame["number"]) == [28, 25, 22, 19]
        rest = frames.audit_page(view, AuditFilter(actor="ann"), before=found.before, limit=100)
        assert list(rest.frame["number"]) == [16, 13, 10, 7, 4, 1]
        assert (rest.before, found.looked + rest.looked) == (None, 30)
        bounded = frames.audit_page(view, AuditFilter(text="nowhere"), looked_at=10)
        assert bounded.frame.empty
        assert bounded.before is not None


def test_the_audit_is_taken_away(queue: Queue) -> None:
    entries(queue, 4)
    asked = AuditFilter(text="reason")
    found = list(csv.DictReader(io.StringIO(audit._file("csv", asked).decode())))
    assert [row["number"] for row in found] == ["4", "3", "2", "1"]
    assert found[1]["actor"] == "'=cmd()"  # no spreadsheet takes it for a formula
    lines = [json.loads(line) for line in audit._file("ndjson", asked).decode().splitlines()]
    assert [line["number"] for line in lines] == [4, 3, 2, 1]
    assert lines[0]["reason"].startswith("reason 3 <b>")
    assert lines[0]["plan"] is None
    assert "hunter2hunter" not in str(lines) + str(found)
    assert audit._file("ndjson", AuditFilter(text="nowhere")) == b""
    assert audit._file("csv", AuditFilter(text="nowhere")).count(b"\n") == 1


# --- workers and the store ------------------------------------------------------------------------


def test_workers(queue: Queue) -> None:
    assert "No worker has reported." in words(page("Workers"))
    at = time.time_ns() // 1_000
    for id, seen, stopped in (("new", 0, 0), ("old", 300, 0), ("gone", 200, 200)):
        report(queue, id, at, seen, stopped)
    app = page("Workers")
    assert list(table(app)["worker"]) == ["old", "new", "gone"]
    assert list(table(app)["state"]) == ["silent", "working", "stopped"]
    assert "1 worker has been silent for 30 s or more" in words(app)


def report(queue: Queue, id: str, at: int, seen: int, stopped: int) -> None:
    from queue_core.ledger import WorkerRecord

    record = WorkerRecord(
        id=id, host="<b>host</b>\0", pid=7, started=at - 400 * SECOND, seen=at - seen * SECOND,
        stopped=at - stopped * SECOND if stopped else 0, concurrency=4, done=3, failed=1,
    )  # fmt: skip
    queue.perform(lambda store: store.report(record))


def test_the_store_and_what_it_runs_on(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.push("x")
    told = words(page("Store"))
    for expected in (
        queue.url,
        "test@example.com, in the role operator",
        "the default ones",
        "1.67.0",
        "never restored",
    ):
        assert expected in told
    assert "this store cannot tell how much it takes" in told


def test_a_store_on_a_disk_tells_its_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"lmdb://{tmp_path / 'queue'}"
    monkeypatch.setenv("QUEUE_URL", url)
    with open_queue(url) as queue:
        queue.push_many(["x" * 1_000] * 200)
        now, first, _ = data.room()
        assert now == first
        told = words(page("Store"))
        used = frames.size_text(queue.storage().used)
        assert used in told
        assert "of it used" in told
        queue.push_many(["x" * 1_000] * 2_000)
        now, first, _ = data.room()
        assert ("Since first seen", f"grown by {frames.size_text(now.used - first.used)}, in 1 min") in (
            frames.storage_facts(now, first, 60.0)
        )
        assert queue.check() == []
    data.handle(url).close()


# --- stores that keep no plans --------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    url = f"files://{tmp_path / 'queue'}"
    monkeypatch.setenv("QUEUE_URL", url)
    with open_queue(url, durability="none") as queue:
        queue.push("x", tag="acme")
        yield queue
        assert queue.check() == []
    data.handle(url).close()


@pytest.mark.parametrize("show", ["Plans", "Audit", "Workers", "Store"])
def test_a_store_without_plans_says_why_and_shows_the_rest(files: Queue, show: str) -> None:
    told = words(page(show))
    assert ("keeps neither plans nor an audit" in told) == (show in ("Plans", "Audit"))
    assert "no worker is at work" in told
    assert ("no: there are no charts over time" in told) == (show == "Store")


def test_trouble_of_a_run_is_shown(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    dead(queue, 1)
    number = ann(queue).plan("redrive", "").number
    monkeypatch.setattr(control, "trouble", lambda wanted: "StoreFull: no room" if wanted == number else "")
    assert "Its last run ended early: StoreFull: no room" in words(page(plan=str(number)))
