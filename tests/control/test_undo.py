"""Undo gives back exactly what has not moved on, and says of the rest what it is now."""

from typing import Any

import pytest
from acting import dead

from queue_core import Conflict, Queue, State, Task
from queue_core.control import Operator, runner
from queue_core.plans import PLAN_RETENTION, PlanState, Verdict
from queue_core.task import SECOND


def same(task: Task) -> tuple[Any, ...]:
    """All that a task is, but for its version and since when it waits."""
    record = task.record
    return (
        record.entry, record.entered, record.aged, record.hold,
        task.id, task.tag, task.state, record.place, record.payload, record.due, record.attempts, record.cycle,
        record.leases, record.history, record.error, record.reason, record.dedupe_key, record.origin, record.edits,
    )  # fmt: skip


def prepared(queue: Queue, action: str) -> list[str]:
    """Five tasks that the action can be done to, in two tags."""
    if action in ("redrive", "purge", "restore"):
        ids = dead(queue, 3) + dead(queue, 2, tag="bolt", error="boom")
        if action == "restore":
            for id in ids:
                queue.purge(id)
        return ids
    delay = 60 if action == "requeue" else 0
    return [queue.push(n, tag="acme" if n < 3 else "bolt", delay=delay * n + delay).id for n in range(5)]


GIVEN: dict[str, dict[str, Any]] = {
    "redrive": {}, "purge": {"reason": "why"}, "restore": {}, "requeue": {}, "dead_letter": {"reason": "why"},
    "cancel": {"reason": "why"}, "edit": {"payload": "new"}, "move_tag": {"tag": "other"},
}  # fmt: skip


@pytest.mark.parametrize("action", GIVEN)
def test_everything_that_an_undo_can_give_back_is_as_it_was(queue: Queue, operator: Operator, action: str) -> None:
    ids = prepared(queue, action)
    before, groups = [same(queue.get(id)) for id in ids], [(g.fingerprint, g.count, g.deaths) for g in queue.groups()]
    plan = operator.plan(action, "", **GIVEN[action])
    done = operator.run(plan.number)
    assert done.moved == 5
    assert [same(queue.get(id)) for id in ids] != before
    undo = operator.undo(plan.number, "wrong tag")
    assert (undo.state, undo.selected, undo.undo_of) == (PlanState.READY, 5, plan.number)
    undone = operator.run(undo.number)
    assert (undone.state, undone.outcome) == (PlanState.FINISHED, "5 of 5 moved")
    assert [same(queue.get(id)) for id in ids] == before
    after = [(g.fingerprint, g.count, g.deaths) for g in queue.groups() if g.count]
    assert after == [group for group in groups if group[1]] or action in ("dead_letter", "restore")
    assert queue.plan(plan.number).undone_by == undo.number
    assert [entry.action for entry in queue.audit()] == ["plan", "run", "run", "undo", "run", "run"]


def test_what_has_moved_on_stays_and_is_named(queue: Queue, operator: Operator) -> None:
    ids = dead(queue, 5)
    plan = operator.run(operator.plan("redrive", "").number)
    done, held = queue.lease(), queue.lease()
    assert done is not None
    assert held is not None
    queue.ack(done)
    queue.replace(queue.get(ids[2]), payload="new")
    undone = operator.run(operator.undo(plan.number).number)
    assert (undone.moved, undone.skipped) == (2, 3)
    with queue.view() as view:
        skipped = view.outcome(undone.number, verdict=Verdict.SKIPPED)
        moved = view.outcome(undone.number, verdict=Verdict.MOVED)
    assert [(id, result.why) for _, id, result in skipped] == [
        (ids[0], "it is gone: acknowledged, or expunged"),
        (ids[1], "it has changed: it is inflight now"),
        (ids[2], "it has changed: it is pending now"),
    ]
    assert [id for _, id, _ in moved] == ids[3:]
    assert [task.id for task in queue.tasks("dead")] == ids[3:]
    queue.ack(held)


def test_only_what_the_plan_has_moved_is_given_back(queue: Queue, operator: Operator) -> None:
    ids = dead(queue, 4)
    plan = operator.plan("purge", "", reason="old")
    queue.redrive(ids[1])
    operator.run(plan.number)
    queue.cancel(ids[1])  # in trash as well, but not by the plan
    undone = operator.run(operator.undo(plan.number).number)
    assert (undone.selected, undone.moved) == (3, 3)
    assert [queue.get(id).state for id in ids] == [State.DEAD, State.TRASH, State.DEAD, State.DEAD]


def test_a_plan_that_was_stopped_half_way_is_undone_half_way(queue: Queue, operator: Operator) -> None:
    ids = dead(queue, 3 * runner.FIRST)
    plan = operator.plan("redrive", "")
    asked = iter([False, True])
    operator.run(plan.number, stopped=lambda: next(asked))
    undone = operator.run(operator.undo(plan.number).number)
    assert undone.outcome == f"{runner.FIRST} of {runner.FIRST} moved"
    assert queue.counts().dead == len(ids)
    with pytest.raises(Conflict, match="finished"):
        operator.run(plan.number)
    assert queue.plan(plan.number).note == "ended by its undo, plan 2"
    assert queue.plan(plan.number).outcome.endswith("not reached")


def test_an_undo_that_is_stopped_goes_on_where_it_was(queue: Queue, operator: Operator) -> None:
    ids = dead(queue, 5 * runner.FIRST)
    plan = operator.run(operator.plan("redrive", "").number)
    undo = operator.undo(plan.number)
    asked = iter([False, True])
    half = operator.run(undo.number, stopped=lambda: next(asked))
    assert half.moved == runner.FIRST
    assert operator.run(undo.number).moved == 5 * runner.FIRST
    assert [task.id for task in queue.tasks("dead", limit=1_000)] == ids


def test_a_lease_that_was_taken_back_cannot_be_given_back(queue: Queue, operator: Operator) -> None:
    queue.push_many([(n, "acme") for n in range(2)])
    queue.lease_many(2, ttl=600)
    plan = operator.run(operator.plan("requeue", "state:inflight").number)
    undone = operator.run(operator.undo(plan.number).number)
    assert undone.why == {"the lease that it had has ended and cannot be given back": 2}
    assert queue.counts().pending == 2


def test_the_undo_of_an_edit_gives_the_payload_back(queue: Queue, operator: Operator) -> None:
    (id,) = dead(queue)
    first = operator.run(operator.plan("edit", "", payload="one").number)
    second = operator.run(operator.plan("edit", "", payload="two").number)
    operator.run(operator.undo(second.number).number)
    assert queue.get(id).payload == "one"
    undone = operator.run(operator.undo(first.number).number)
    assert undone.why == {"it has changed: it is dead now": 1}, "it was edited since"
    assert queue.get(id).payload == "one"


def test_an_undo_obeys_dedupe_keys(queue: Queue, operator: Operator) -> None:
    task = queue.push(1, tag="acme", dedupe_key="k")
    plan = operator.run(operator.plan("cancel", "", reason="not wanted").number)
    holder = queue.push(2, tag="acme", dedupe_key="k")
    undone = operator.run(operator.undo(plan.number).number)
    assert undone.why == {"its dedupe key is held by another task": 1}
    assert [queue.get(one.id).state for one in (task, holder)] == [State.TRASH, State.PENDING]


@pytest.mark.parametrize(("action", "given"), [("expunge", {"reason": "why"}), ("extend", {"ttl": 600})])
def test_what_cannot_be_undone_says_so(queue: Queue, admin: Operator, action: str, given: dict[str, Any]) -> None:
    queue.push_many([1, 2])
    if action == "expunge":
        admin.run(admin.plan("cancel", "", reason="why").number)
    else:
        queue.lease_many(2)
    plan = admin.run(admin.plan(action, "", **given).number)
    assert plan.moved == 2
    with pytest.raises(Conflict, match=rf"plan \d \({action}\) cannot be undone"):
        admin.undo(plan.number)


def test_an_undo_needs_a_plan_that_has_ended_and_is_not_undone_yet(queue: Queue, operator: Operator) -> None:
    dead(queue, 2)
    plan = operator.plan("redrive", "")
    with pytest.raises(Conflict, match="plan 1 is ready"):
        operator.undo(plan.number)
    operator.run(plan.number)
    undo = operator.undo(plan.number)
    with pytest.raises(Conflict, match="is undone by plan 2 already"):
        operator.undo(plan.number)
    operator.run(undo.number)
    with pytest.raises(Conflict, match="cannot be undone: make a new plan"):
        operator.undo(undo.number)


def test_what_an_undo_needs_is_kept_for_a_week(queue: Queue, operator: Operator, clock: Any) -> None:
    dead(queue, 2)
    plan = operator.run(operator.plan("redrive", "").number)
    for _ in range(PLAN_RETENTION // (3600 * SECOND) - 1):
        clock.advance(3600)
        queue.push(1)
    assert queue.plan(plan.number).kept
    for _ in range(3):
        clock.advance(3600)
        queue.push(1)
    known = queue.plan(plan.number)
    assert (known.kept, known.moved) == (False, 2)
    with queue.view() as view:
        assert view.outcome(plan.number) == []
    with pytest.raises(Conflict, match="no longer known: it was too long ago"):
        operator.undo(plan.number)


def test_a_tag_that_was_forgotten_meanwhile_is_said(queue: Queue, operator: Operator, clock: Any) -> None:
    queue.configure(tag_retention=0, history=False)
    queue.push(1, tag="acme")
    plan = operator.run(operator.plan("move_tag", "", tag="bolt").number)
    for _ in range(5):
        clock.advance(3600)
        queue.push(1, tag="other")
    assert {tag.name for tag in queue.snapshot().tags} == {"bolt", "other"}
    undone = operator.run(operator.undo(plan.number).number)
    assert undone.why == {"the tag that it was in has been forgotten": 1}
