"""Plans whose selection is no longer whole: they stop and say so, and nothing is moved by guess."""

from typing import Any

import pytest
from planned import ENTRY, advanced, claimed, control, empty, frozen, results, to_the_end, undone

from queue_core import Conflict, Queue
from queue_core.plans import PLAN_RETENTION, PlanState, pack
from queue_core.stores.engine import retire
from queue_core.task import SECOND, parse_id

pytestmark = pytest.mark.needs("plans")


def dead(queue: Queue, number: int) -> list[tuple[str, int]]:
    """(id, version) of so many new dead letters."""
    tasks = queue.push_many([(n, "a") for n in range(number)])
    return [(task.id, queue.dead_letter(task.id, "boom").version) for task in tasks]


def wait(queue: Queue, clock: Any, until: Any) -> None:
    """Commits an hour apart, as the retention clock counts no more, until the condition is true."""
    for _ in range(PLAN_RETENTION // (3600 * SECOND) + 100):
        clock.advance(3600)
        queue.configure()
        if until():
            return
    raise AssertionError("the condition did not come true")


def test_an_undo_that_is_too_slow_stops_when_what_it_needs_has_gone(
    queue: Queue, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes piece by piece; between two of them the undo must not take a part for the whole."""
    monkeypatch.setattr(retire, "PIECE", 1)
    chosen = dead(queue, 130)
    plan = to_the_end(queue, frozen(queue, "redrive", chosen).number, 50)
    undo = claimed(queue, undone(queue, plan.number).number, "slow")
    assert advanced(queue, undo.number, undo.run, 70).moved == 70
    wait(queue, clock, lambda: not results(queue, plan.number))
    assert queue.plan(plan.number).kept, "all of it has not gone yet"
    stopped = advanced(queue, undo.number, undo.run, 70)
    why = f"what plan {plan.number} has changed is no longer known"
    assert (stopped.state, stopped.note, stopped.moved, stopped.left) == (PlanState.STOPPED, why, 70, 60)
    last = queue.audit()[-1]
    assert (last.plan, last.intent, last.outcome) == (undo.number, why, "stopped: 70 of 130 moved, 60 not reached")
    with pytest.raises(Conflict, match="this run of it ends here"):
        advanced(queue, undo.number, undo.run, 70)
    wait(queue, clock, lambda: not queue.plan(plan.number).kept)
    with pytest.raises(Conflict, match=f"{why}: plan {undo.number} cannot be run"):
        claimed(queue, undo.number, "again")
    assert (queue.counts().dead, queue.counts().pending) == (70, 60)


def test_a_selection_that_ends_too_soon_stops_its_plan(queue: Queue) -> None:
    chosen = dead(queue, 3)
    draft = control(queue, lambda c: c.draft(empty("redrive")))
    part = pack([(parse_id(id), version) for id, version in chosen])
    control(queue, lambda c: c.fill(draft.number, 0, [part]))
    draft.selected = 5
    control(queue, lambda c: c.freeze(draft, ENTRY))
    run = claimed(queue, draft.number, "r").run
    assert advanced(queue, draft.number, run, 5).moved == 3
    assert advanced(queue, draft.number, run, 0).state == PlanState.RUNNING, "a sign of life deals with no task"
    stopped = advanced(queue, draft.number, run, 5)
    assert (stopped.state, stopped.note, stopped.left) == (PlanState.STOPPED, "it has no more tasks", 2)
