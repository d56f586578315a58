"""Acting from a table: on exactly what was selected, once more compared in the queue, told as it was."""

import pytest
from driving import again, listed, press, select, visit, words
from streamlit.testing.v1 import AppTest

from app import control, data, verbs
from app.verbs import Result, Target, Verb
from queue_core import Item, Queue, State, StoreBusy, StoreFull
from queue_core.control import Operator


def kill(queue: Queue, name: str, tag: str = "acme") -> str:
    """A new dead letter; its id."""
    task = queue.push({"name": name}, tag=tag)
    queue.dead_letter(task.id, f"reason of {name}")
    return task.id


def hold(queue: Queue, name: str, ttl: float = 600) -> str:
    """A new lease; the id of its task."""
    task = queue.push({"name": name}, tag=name)
    lease = queue.lease(ttl=ttl, owner=f"owner of {name}")
    assert lease is not None
    assert lease.id == task.id
    return task.id


def row_of(app: AppTest, id: str) -> int:
    return list(listed(app)["id"]).index(id)


def test_nothing_can_be_done_before_something_is_selected(queue: Queue) -> None:
    kill(queue, "one")
    app = visit("dead")
    assert app.button(key="dead-redrive").disabled
    select(app, 0)
    assert not app.button(key="dead-redrive").disabled
    assert app.button(key="dead-redrive").label == "Redrive 1 task"


def test_redrive_the_selected(queue: Queue) -> None:
    ids = [kill(queue, f"n{n}", f"tag {n % 2}") for n in range(4)]
    app = visit("dead")
    select(app, row_of(app, ids[1]), row_of(app, ids[2]))
    press(app, "dead-redrive")
    assert "Redrive 2 tasks of 2 tags?" in words(app)
    assert "tag 0: 1\ntag 1: 1" in words(app)
    assert [queue.get(id).state for id in ids] == [State.DEAD] * 4  # nothing before the confirmation
    press(app, "confirm-do")
    assert [queue.get(id).state for id in ids] == [State.DEAD, State.PENDING, State.PENDING, State.DEAD]
    assert [box.value for box in app.success] == ["2 tasks redriven"]
    assert sorted(listed(app)["id"]) == sorted([ids[0], ids[3]])


def test_rows_that_came_on_top_are_not_hit(queue: Queue) -> None:
    old = [kill(queue, f"old {n}") for n in range(3)]
    app = visit("dead")
    chosen = old[1]
    select(app, row_of(app, chosen))
    new = [kill(queue, f"new {n}") for n in range(5)]
    again(app)
    assert "Since then: 5 newer, 0 gone; 8 now" in words(app)
    assert "reason of old 1" in [code.value for code in app.code]
    press(app, "dead-redrive")
    press(app, "confirm-do")
    assert queue.get(chosen).state is State.PENDING
    assert {queue.get(id).state for id in (*new, old[0], old[2])} == {State.DEAD}


def test_rows_that_come_while_the_question_is_open_are_not_hit(queue: Queue) -> None:
    kill(queue, "one"), kill(queue, "two")
    app = visit("dead")
    select(app, 0, 1)
    press(app, "dead-redrive")
    new = kill(queue, "three")
    data.forget()
    press(app, "confirm-do")
    assert queue.get(new).state is State.DEAD
    assert queue.counts().pending == 2


def test_a_refresh_keeps_what_is_selected(queue: Queue) -> None:
    old = [kill(queue, f"old {n}") for n in range(3)]
    app = visit("dead")
    select(app, row_of(app, old[1]))
    kill(queue, "new")
    press(app, "refresh")
    assert len(listed(app)) == 4
    assert app.button(key="dead-redrive").label == "Redrive 1 task"
    press(app, "dead-redrive")
    press(app, "confirm-do")
    assert queue.get(old[1]).state is State.PENDING
    assert queue.counts().dead == 3


def test_a_refresh_drops_what_has_changed(queue: Queue) -> None:
    id = kill(queue, "one")
    kill(queue, "two")
    app = visit("dead")
    select(app, row_of(app, id))
    queue.redrive(id)
    queue.dead_letter(id, "again")
    press(app, "refresh")
    assert app.button(key="dead-redrive").disabled


def test_a_changed_task_is_skipped_and_said_so(queue: Queue) -> None:
    ids = [kill(queue, f"n{n}") for n in range(3)]
    app = visit("dead")
    select(app, 0, 1, 2)
    press(app, "dead-redrive")
    queue.redrive(ids[0])
    lease = queue.lease()
    queue.redrive(ids[1])
    queue.dead_letter(ids[1], "died once more")
    press(app, "confirm-do")
    assert [box.value for box in app.warning] == [
        "1 of 3 tasks redriven; 2 skipped, because they have changed since the selection"
    ]
    assert not app.success
    undone = app.dataframe[0].value.set_index("id")
    assert set(undone["outcome"]) == {"skipped"}
    assert undone.loc[ids[0], "detail"].startswith("now inflight, version")
    assert undone.loc[ids[1], "detail"].startswith("now dead, version")
    assert queue.get(lease.id).state is State.INFLIGHT
    assert queue.get(ids[1]).reason == "died once more"
    press(app, "dismiss")
    assert not app.warning


def test_a_task_that_is_gone_is_skipped(queue: Queue) -> None:
    id = hold(queue, "one")
    app = visit("inflight")
    select(app, 0)
    press(app, "inflight-requeue")
    queue.requeue(id)
    queue.ack(queue.lease())
    press(app, "confirm-do")
    assert "0 of 1 task requeued; 1 skipped, because it has changed since the selection" in words(app)
    assert app.dataframe[0].value["detail"][0] == "gone: it was acknowledged or expunged"


def test_requeue_the_selected_lease(queue: Queue) -> None:
    ids = [hold(queue, name) for name in ("a", "b", "c")]
    app = visit("inflight")
    select(app, row_of(app, ids[1]))
    hold(queue, "d", ttl=1)  # expires first, so it would come on top
    again(app)
    assert "Since then: 1 leased, 0 ended; 4 now" in words(app)
    press(app, "inflight-requeue")
    assert "A handler that holds one may still be running" in words(app)
    press(app, "confirm-do")
    assert [queue.get(id).state for id in ids] == [State.INFLIGHT, State.PENDING, State.INFLIGHT]
    assert queue.counts().inflight == 3


def test_a_heartbeat_meanwhile_is_no_change(queue: Queue) -> None:
    queue.push("x", tag="acme")
    lease = queue.lease()
    app = visit("inflight")
    select(app, 0)
    queue.heartbeat(lease)
    press(app, "inflight-requeue")
    press(app, "confirm-do")
    assert [box.value for box in app.success] == ["1 task requeued"]


def test_dead_lettering_needs_a_reason(queue: Queue) -> None:
    id = hold(queue, "one")
    app = visit("inflight")
    select(app, 0)
    press(app, "inflight-dead_letter")
    press(app, "confirm-do")
    assert queue.get(id).state is State.INFLIGHT
    assert not app.success
    press(app, "inflight-dead_letter")
    app.text_input(key="reason").set_value("  poison <b>pill</b> ")
    press(app, "confirm-do")
    assert queue.get(id).state is State.DEAD
    assert queue.get(id).reason == "poison <b>pill</b>"
    assert [box.value for box in app.success] == ["1 task dead-lettered"]


def test_cancelling_does_nothing(queue: Queue) -> None:
    id = kill(queue, "one")
    app = visit("dead")
    select(app, 0)
    press(app, "dead-redrive")
    press(app, "confirm-cancel")
    assert queue.get(id).state is State.DEAD
    assert "Redrive 1 task of 1 tag?" not in words(app)
    assert app.button(key="dead-redrive").label == "Redrive 1 task"


def test_a_failing_store_stops_and_is_never_a_success(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [kill(queue, f"n{n}") for n in range(4)]
    do, calls = control._do, []

    def failing(*given: object) -> None:
        calls.append(given)
        if len(calls) == 2:
            raise StoreFull("no room")
        do(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(control, "_do", failing)
    targets = [Target(id, queue.get(id).version, "acme") for id in ids]
    results = control._one_by_one(Verb.REDRIVE, targets, "", {})
    assert [result.outcome for result in results] == ["done", "failed", "failed", "failed"]
    assert results[1].detail == "StoreFull: no room"
    assert results[2].detail == "not tried, because the store failed before: StoreFull: no room"
    assert verbs.summary(Verb.REDRIVE, results) == "1 of 4 tasks redriven; 3 failed"
    assert queue.counts().dead == 3


def test_a_plan_that_the_store_cannot_finish_is_never_a_success(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise StoreFull("no room")

    ids = [kill(queue, f"n{n}") for n in range(3)]
    targets = [Target(id, queue.get(id).version, "acme") for id in ids]
    monkeypatch.setattr(Operator, "run", full)
    done = control.act(Verb.REDRIVE, targets)
    assert {(result.outcome, result.detail) for result in done.results} == {("failed", "StoreFull: no room")}
    assert done.plan is None
    assert queue.counts().dead == 3


def test_several_are_one_plan_that_can_be_undone(queue: Queue) -> None:
    ids = [kill(queue, f"n{n}") for n in range(3)]
    app = visit("dead")
    select(app, 0, 1, 2)
    press(app, "dead-redrive")
    press(app, "confirm-do")
    (plan,) = queue.plans()
    assert (plan.action, plan.moved, plan.origin) == ("redrive", 3, "dashboard")
    assert [entry.action for entry in queue.audit()] == ["plan", "run", "run"]
    lease = queue.lease()
    assert lease is not None
    press(app, "undo")
    assert [box.value for box in app.warning] == ["Undone: 2 of 3 moved, 1 skipped; they had been redriven"]
    assert "1 × it has changed: it is inflight now" in words(app)
    assert queue.counts().dead == 2
    assert queue.get(lease.id).state is State.INFLIGHT
    assert {lease.id} < set(ids)


def test_one_is_a_plan_that_can_be_undone_and_the_audit_names_it(queue: Queue) -> None:
    id, other = kill(queue, "one"), kill(queue, "two")
    app = visit("dead")
    select(app, row_of(app, id))
    press(app, "dead-redrive")
    press(app, "confirm-do")
    assert [box.value for box in app.success] == ["1 task redriven"]
    assert {entry.where for entry in queue.audit()} == {f"id:{id} version={queue.plans()[0].where.split('=')[1]}"}
    press(app, "undo")
    assert [box.value for box in app.success] == ["Undone: 1 of 1 moved; it had been redriven"]
    assert {queue.get(one).state for one in (id, other)} == {State.DEAD}
    assert row_of(app, id) == 1  # where it was


def test_an_undo_that_comes_too_late_says_why(queue: Queue) -> None:
    id = kill(queue, "one")
    app = visit("dead")
    select(app, 0)
    press(app, "dead-redrive")
    press(app, "confirm-do")
    queue.lease()
    press(app, "undo")
    assert [box.value for box in app.warning] == ["Not undone: 0 of 1 moved, 1 skipped; it had been redriven"]
    assert "1 × it has changed: it is inflight now" in words(app)
    assert queue.get(id).state is State.INFLIGHT


def test_what_cannot_be_given_back_offers_no_undo(queue: Queue) -> None:
    ids = [hold(queue, name) for name in ("a", "b", "c")]
    later = queue.push("x", tag="d", delay=60)
    targets = [Target(id, queue.get(id).version, "a") for id in (*ids, later.id)]
    assert control.act(Verb.EXTEND, targets[:2], ttl=900).plan is None
    targets[:2] = [Target(id, queue.get(id).version, "a") for id in ids[:2]]
    assert control.act(Verb.REQUEUE, targets[:1]).plan is None  # nobody can be given a lease back
    assert control.act(Verb.REQUEUE, targets[1:]).plan is not None  # but the delay of the last one


def test_one_task_of_a_store_without_room_for_plans_is_acted_on(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise StoreFull("no room")

    id = kill(queue, "one")
    monkeypatch.setattr(Operator, "run", full)
    done = control.act(Verb.REDRIVE, [Target(id, queue.get(id).version, "acme")])
    assert [result.outcome for result in done.results] == ["done"]
    assert done.plan is None
    assert queue.get(id).state is State.PENDING


def test_a_viewer_does_nothing(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [kill(queue, f"n{n}") for n in range(2)]
    monkeypatch.setenv("QUEUE_ROLE", "viewer")
    app = visit("dead")
    select(app, 0, 1)
    assert app.button(key="dead-redrive").disabled
    for targets in (ids, ids[:1]):
        done = control.act(Verb.REDRIVE, [Target(id, queue.get(id).version, "acme") for id in targets])
        assert {result.outcome for result in done.results} <= {"skipped", "failed"}
        assert "has the role viewer" in done.results[0].detail
    assert queue.counts().dead == 2
    assert queue.audit() == []


def test_a_busy_store_is_told_on_the_page(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object, **__: object) -> None:
        raise StoreBusy("the lock was not free for 2 s")

    id = kill(queue, "one")
    app = visit("dead")
    select(app, 0)
    monkeypatch.setattr(Operator, "plan", busy)
    press(app, "dead-redrive")
    press(app, "confirm-do")
    assert [box.value for box in app.error] == ["0 of 1 task redriven; 1 failed"]
    assert queue.get(id).state is State.DEAD


def test_a_held_key_is_told(queue: Queue) -> None:
    dead = queue.push("x", tag="acme", dedupe_key="k")
    queue.dead_letter(dead.id, "x")
    queue.push("y", tag="acme", dedupe_key="k")
    done = control.act(Verb.REDRIVE, [Target(dead.id, queue.get(dead.id).version, "acme")])
    assert [(one.outcome, one.detail) for one in done.results] == [
        ("skipped", "its dedupe key is held by another task")
    ]
    assert done.plan is None
    assert verbs.summary(Verb.REDRIVE, done.results) == "0 of 1 task redriven; 1 skipped"


def test_the_detail_has_the_full_error_and_the_payload(queue: Queue) -> None:
    error = "Traceback\n  line 1\n" + "z" * 5_000
    queue.push({"id": 2**70, "text": "<b>x</b>"}, tag="acme", max_attempts=1)
    queue.nack(queue.lease(owner="w1"), error)
    app = visit("dead")
    select(app, 0)
    assert not app.exception
    codes = [code.value for code in app.code]
    assert error in codes
    assert f'{{"id":{2**70},"text":"<b>x</b>"}}' in codes
    attempts = next(table.value for table in app.dataframe if "took" in table.value)
    assert list(attempts["outcome"]) == ["nacked"]
    assert list(attempts["owner"]) == ["w1"]


def test_the_detail_of_a_task_that_is_gone(queue: Queue) -> None:
    hold(queue, "one")
    app = visit("inflight")
    queue.requeue_inflight()
    queue.ack(queue.lease())
    select(app, 0)
    assert not app.exception
    assert "TaskNotFound: no task" in words(app)


def test_a_big_payload_is_cut_and_can_be_downloaded(queue: Queue) -> None:
    task = queue.push("q" * 100_000, tag="acme")
    queue.dead_letter(task.id, "too big")
    app = visit("dead")
    select(app, 0)
    assert not app.exception
    assert max(len(code.value) for code in app.code) < 5_000
    assert app.get("download_button")[-1].label == "Download 100,002 bytes"


def test_many_at_once(queue: Queue) -> None:
    queue.push_many([Item(n, f"tag {n % 30}") for n in range(120)])
    for lease in queue.lease_many(120):
        queue.dead_letter(lease, "x")
    app = visit("dead")
    select(app, *range(120))
    assert app.button(key="dead-redrive").label == "Redrive 120 tasks"
    press(app, "dead-redrive")
    assert "Redrive 120 tasks of 30 tags?" in words(app)
    assert "and 18 more tags" in words(app)
    press(app, "confirm-do")
    assert queue.counts().pending == 120


def test_summary_of_each_outcome() -> None:
    target = Target("id", 1, "acme")
    done, skipped, failed = (Result(target, outcome, "why") for outcome in ("done", "skipped", "failed"))
    assert verbs.summary(Verb.REQUEUE, [done]) == "1 task requeued"
    assert verbs.summary(Verb.DEAD_LETTER, [done, done]) == "2 tasks dead-lettered"
    changed = Result(target, "skipped", "now inflight, version 7")
    assert verbs.summary(Verb.REDRIVE, [done, changed, failed, failed]) == (
        "1 of 4 tasks redriven; 1 skipped, because it has changed since the selection; 2 failed"
    )
    assert verbs.summary(Verb.REDRIVE, [skipped, changed]) == "0 of 2 tasks redriven; 2 skipped"
