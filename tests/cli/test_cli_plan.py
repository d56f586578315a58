"""queue-core plan, and the commands that act on many as a plan."""

import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from terminal import Terminal, ended, fail, kill_off, program, run
from waiting import until

from queue_core import Queue
from queue_core.control import Operator
from queue_core.errors import StoreFull
from queue_core.plans import Plan
from queue_core.stores.base import Done
from queue_core.stores.control import EmbeddedControl


def plans() -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(run("plan", "list", "--json").stdout)["plans"]
    return found


def show(number: int, *args: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(run("plan", "show", str(number), "--json", *args).stdout)
    return found


def test_a_dry_run_moves_nothing_and_is_a_plan_that_can_be_run(queue: Queue) -> None:
    dead = fail(queue, ["timeout 1", "no route", "timeout 2"])
    result = run("dead", "redrive", "--where", "timeout", "--dry-run", "--rate", "1000", "--reason", "mended")
    assert re.search(r"^tasks +2$", result.stdout, re.MULTILINE)
    assert re.search(r"^tags +acme 2$", result.stdout, re.MULTILINE)
    assert dead[0] in result.stdout
    assert result.stderr == ("Plan 1 is ready; this does exactly that: queue-core plan run 1\nNothing was moved.\n")
    assert queue.counts().dead == 3
    fail(queue, ["timeout 3"])
    told = run("plan", "run", "1", "--yes")
    assert told.stderr == (
        "2 tasks redriven: 2 selected, 2 moved, 0 skipped, 0 failed (plan 1).\nTake it back: queue-core plan undo 1\n"
    )
    assert queue.counts().pending == 2, "what died later was not planned"
    exact = show(1, "--outcome", "moved")
    assert (exact["state"], exact["where"], exact["actor"], exact["reason"], exact["rate"]) == (
        "finished", "timeout", "ann", "mended", 1000.0,
    )  # fmt: skip
    assert [row["id"] for row in exact["results"]] == [dead[0], dead[2]]  # type: ignore[attr-defined]
    assert "is finished" in run("plan", "run", "1", "--yes", code=3).stderr


def test_what_has_changed_since_is_skipped_and_that_is_not_success(queue: Queue) -> None:
    one, two, three = kill_off(queue, 3)
    run("plan", "make", "purge", "--all", "--reason", "old")
    queue.redrive(one)
    queue.redrive(two)
    queue.dead_letter(two, "again")
    told = run("plan", "run", "1", "--yes", "--json", code=1)
    assert told.stderr.splitlines()[:3] == [
        "1 task purged: 3 selected, 1 moved, 2 skipped, 0 failed (plan 1).",
        "  1 × it has changed: it is dead now",
        "  1 × it has changed: it is pending now",
    ]
    exact = json.loads(told.stdout)
    assert exact["moved"] == [three]
    assert [(row["id"], row["error"]) for row in exact["refused"]] == [(one, "skipped"), (two, "skipped")]
    assert exact["plan"]["why"] == {"it has changed: it is dead now": 1, "it has changed: it is pending now": 1}
    shown = run("plan", "show", "1", "--outcome", "skipped")
    assert shown.stdout.count(" skipped ") == 2
    assert "1 of 3 moved, 2 skipped" in shown.stdout
    assert run("plan", "show", "1", "--outcome", "failed").stderr == "No such task.\n"
    page = run("plan", "show", "1", "--outcome", "all", "--limit", "1")
    assert page.stderr == "Go on with --after 1\n"
    assert two in run("plan", "show", "1", "--outcome", "all", "--limit", "1", "--after", "1").stdout
    queue.purge(two)
    run("plan", "make", "purge", "--all", "--reason", "old")
    assert "0 tasks purged: 0 selected" in run("plan", "run", "2", "--yes").stderr


def test_what_cannot_be_done_at_all_is_told_with_its_reason(queue: Queue) -> None:
    task = queue.push(1, tag="acme", dedupe_key="k")
    queue.dead_letter(task.id, "broken")
    queue.push(2, tag="acme", dedupe_key="k")
    kill_off(queue, 1)
    result = run("redrive", "--all", "--yes", code=1)
    assert "not eligible: 1 × its dedupe key is held by another task" in result.stderr
    assert "1 task redriven: 1 selected, 1 moved" in result.stderr
    assert "0 tasks redriven" in run("redrive", "--where", "state:pending", "--yes", code=3).stderr
    made = run("plan", "make", "redrive", "--all")
    assert "not eligible    1 × its dedupe key" in made.stdout
    assert "ready" not in made.stderr, "there is nothing to run"


def test_undo_gives_back_what_has_not_moved_on(queue: Queue) -> None:
    one, two = kill_off(queue, 2)
    run("redrive", "--all", "--yes")
    lease = queue.lease()
    assert lease is not None
    assert "did to 2 tasks? There is no terminal" in run("plan", "undo", "1", code=2).stderr
    told = run("plan", "undo", "1", "--yes", "--reason", "too early", code=1)
    assert told.stderr == (
        "1 task given back: 2 selected, 1 moved, 1 skipped, 0 failed (plan 2).\n"
        "  1 × it has changed: it is inflight now\n"
    )
    assert {one: queue.get(one).state, two: queue.get(two).state} == {one: "inflight", two: "dead"}
    assert [(one["number"], one["undo_of"], one["undone_by"]) for one in plans()] == [(2, 1, None), (1, None, 2)]
    assert "undo 1" in run("plan", "list").stdout
    assert "taken back by   plan 2" in run("plan", "show", "1").stdout
    assert "undone by plan 2 already" in run("plan", "undo", "1", "--yes", code=3).stderr
    assert "cannot be undone" in run("plan", "undo", "2", "--yes", code=3).stderr


def test_ctrl_c_stops_it_and_it_goes_on_where_it_was(queue: Queue) -> None:
    kill_off(queue, 40)
    run("plan", "make", "redrive", "--all", "--rate", "40")
    process = program("plan", "run", "1", "--yes")
    until(lambda: queue.counts().pending > 3)
    process.send_signal(signal.SIGINT)
    out, err = ended(process, 130)
    moved = queue.counts().pending
    assert out == ""
    assert err == (
        "Go on: queue-core plan resume 1\nTake it back: queue-core plan undo 1\n"
        f"Interrupted: {moved} of 40 tasks were redriven.\n"
    )
    assert 3 < moved < 40
    assert show(1)["state"] == "stopped"
    told = run("plan", "resume", "1", "--rate", "100000", "--yes")
    assert told.stderr.startswith("40 tasks redriven: 40 selected, 40 moved")


def test_ctrl_c_while_it_is_made_leaves_none(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_off(queue, 3)
    monkeypatch.setattr("queue_core.cli.many.Meter.show", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    assert run("redrive", "--all", "--yes", code=130).stderr == "Interrupted: nothing was changed.\n"
    assert plans() == []
    assert queue.counts().dead == 3


def test_ctrl_c_before_it_begins_stops_it(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_off(queue, 3)
    make = Operator.plan

    def made(*args: Any, **given: Any) -> Plan:
        plan = make(*args, **given)
        os.kill(os.getpid(), signal.SIGINT)
        return plan

    monkeypatch.setattr(Operator, "plan", made)
    assert run("redrive", "--all", "--yes", code=130).stderr == "Interrupted: nothing was changed.\n"
    assert (queue.plan(1).state, queue.plan(1).note) == ("stopped", "stopped by ann: interrupted before it began")
    assert queue.counts().dead == 3


def test_what_ends_a_run_is_told_with_how_to_go_on(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_off(queue, 40)
    advance, calls = EmbeddedControl.advance, iter(range(100))

    def full(control: EmbeddedControl, *given: Any, **more: Any) -> Done[Plan]:
        if next(calls) == 1:
            raise StoreFull("no room: make some")
        return advance(control, *given, **more)

    monkeypatch.setattr(EmbeddedControl, "advance", full)
    told = run("redrive", "--all", "--yes", code=4)
    assert told.stderr == (
        "Go on: queue-core plan resume 1\nTake it back: queue-core plan undo 1\n"
        "Error: no room: make some. Before that, 16 of 40 tasks were redriven.\n"
    )
    assert run("plan", "resume", "1", "--yes").stderr.startswith("40 tasks redriven: ")


def test_somebody_else_stops_it(queue: Queue) -> None:
    kill_off(queue, 40)
    process = program("redrive", "--all", "--yes", "--rate", "20")
    until(lambda: queue.counts().pending > 3)
    assert "being run by ann at" in run("plan", "run", "1", "--yes", code=3).stderr
    running = run("plan", "show", "1").stdout
    assert re.search(r"^run by +ann at \S+, heard of .* ago$", running, re.MULTILINE)
    told = run("plan", "stop", "1", "--reason", "they come back")
    assert re.match(
        r"Plan 1 is stopped: \d+ of 40 moved, \d+ not reached. Go on: queue-core plan resume 1\n", told.stderr
    )
    _, err = ended(process, 1)
    assert "stopped by ann: they come back.\n" in err
    assert "not reached (plan 1).\n" in err
    assert "Go on: queue-core plan resume 1\n" in err
    assert "nothing to stop" in run("plan", "stop", "1", code=3).stderr


@contextmanager
def working(queue: Queue, *, succeed: bool) -> Iterator[None]:
    """Somebody who takes what is released, and ends it."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            lease = queue.lease(wait=0.05)
            if lease is not None:
                (queue.ack if succeed else lambda lease: queue.dead_letter(lease, "again"))(lease)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_canary_goes_first(queue: Queue) -> None:
    kill_off(queue, 20)
    with working(queue, succeed=True):
        told = run("dead", "redrive", "--all", "--canary", "3", "--success", "1", "--yes")
    assert told.stderr.startswith("20 tasks redriven: ")
    assert "passed" in run("plan", "show", "1").stdout


def test_a_canary_that_fails_ends_it(queue: Queue) -> None:
    kill_off(queue, 20)
    with working(queue, succeed=False):
        told = run("dead", "redrive", "--all", "--canary", "3", "--yes", code=1)
    assert told.stderr.startswith(
        "3 tasks redriven: 20 selected, 3 moved, 0 skipped, 0 failed, 17 not reached (plan 1).\n"
    )
    assert "the canary failed" in told.stderr
    assert queue.counts().all == 20
    assert queue.counts().dead >= 18  # one failure is too many: of the others the end is not awaited


def test_other_actions_are_planned(queue: Queue) -> None:
    queue.push_many([({"n": n}, "acme") for n in range(4)])
    queue.lease_many(2, ttl=30)
    run("plan", "make", "extend", "--all", "--ttl", "1h")
    run("plan", "make", "move-tag", "--where", "state:pending payload.n:3", "--to", "slow")
    made = run(
        "plan", "make", "edit", "--where", "state:pending payload.n:2", "--payload", '{"password": "hunter2hunter2"}'
    )
    assert "hunter2" not in made.stdout
    run("plan", "make", "dead_letter", "--where", "state:inflight", "--reason", "host lost")
    for number, done in enumerate(("2 tasks extended", "1 task moved", "1 task edited", "0 tasks dead-lettered"), 1):
        told = run("plan", "run", str(number), "--yes", code=3 if number == 4 else 0)
        assert told.stderr.startswith(done)
    assert "to tag          slow" in run("plan", "show", "2").stdout
    assert show(1)["ttl_seconds"] == 3600
    (task,) = queue.tasks("pending", tag="acme")
    assert task.payload == {"password": "hunter2hunter2"}
    run("plan", "make", "edit", task.id, "--payload", "null")
    run("plan", "run", "5", "--yes")
    assert queue.get(task.id).payload is None


def test_requeue_dead_letter_and_cancel_by_filter(queue: Queue) -> None:
    queue.push_many([({"n": n}, "acme") for n in range(4)])
    queue.lease_many(2)
    queue.push(1, tag="acme", delay=60)
    assert "3 tasks requeued: " in run("requeue", "--where", "tag:acme", "--yes").stderr
    told = run("dead-letter", "--where", "payload.n<2", "--reason", "format", "--yes")
    assert told.stderr.startswith("2 tasks dead-lettered: ")
    assert {task.reason for task in queue.tasks("dead")} == {"format"}
    assert "3 tasks cancelled: " in run("cancel", "--where", "tag:acme", "--reason", "left", "--yes").stderr
    run("plan", "undo", "3", "--yes")
    assert (queue.counts().pending, queue.counts().dead) == (3, 2)


def test_ids_with_a_rate_are_a_plan_too(queue: Queue) -> None:
    one, two = kill_off(queue, 2)
    assert "1 task redriven: 1 selected" in run("redrive", one, "--rate", "100", "--yes").stderr
    assert "1 task redriven." in run("redrive", two).stderr
    assert show(1)["where"] is None


def test_what_to_type_next_is_for_the_same_queue(queue: Queue, tmp_path_factory: pytest.TempPathFactory) -> None:
    kill_off(queue, 1)
    url = queue.url.removeprefix("lmdb://")
    assert f"queue-core plan run 1 --url {url}\n" in run("--url", url, "redrive", "--all", "--dry-run").stderr


def test_plans_are_listed_with_the_newest_first_and_it_says_that_there_are_more(queue: Queue) -> None:
    assert "queue-core plan make" in run("plan", "list").stderr
    kill_off(queue, 1)
    for _ in range(3):
        run("plan", "make", "redrive", "--all")
    assert [one["number"] for one in plans()] == [3, 2, 1]
    assert run("plan", "list", "--limit", "2").stderr == "… and older ones; --limit 4 shows more.\n"
    assert "no plan 9" in run("plan", "show", "9", code=3).stderr
    assert "no plan 9" in run("plan", "run", "9", code=3).stderr


def test_a_person_is_asked_for_a_reason_and_a_plan_that_was_made_before_stays_ready(queue: Queue) -> None:
    kill_off(queue, 2)
    with Terminal("purge", "--all") as terminal:
        terminal.see("Why? It is kept in the audit:")
        terminal.enter("sent twice\n")
        terminal.see("Purge 2 dead tasks? They stay in the trash for 7 days. [y/N]")
        terminal.enter("y\n")
        assert "2 tasks purged: 2 selected" in terminal.end(0)
    assert queue.plan(1).reason == "sent twice"
    run("plan", "make", "restore", "--all")
    with Terminal("plan", "run", "2") as terminal:
        terminal.see("Restore 2 trashed tasks? [y/N]")
        terminal.enter("n\n")
        terminal.end(1)
    assert queue.plan(2).state == "ready"
