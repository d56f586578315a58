"""A store that is full while a plan is frozen or run: nothing is lost, and the plan goes on when there is room."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from dead_letters import admin, dead_letters, nothing_twice, steps

from queue_core import Queue, StoreFull, open_queue
from queue_core.control import runner
from queue_core.plans import Plan, PlanState

SIZE = 2 << 20


def fill_up(queue: Queue) -> int:
    """Push until it is refused; how many were taken."""
    pushed = 0
    while True:
        try:
            pushed += len(queue.push_many([("x" * 50, f"t{at % 10}") for at in range(20)]))
        except StoreFull:
            return pushed


def drain(queue: Queue) -> int:
    """Work off what is pending; how many tasks there were."""
    done = 0
    while lease := queue.lease():
        queue.ack(lease)
        done += 1
    return done


@pytest.mark.parametrize("action", ["redrive", "purge", "edit"])
def test_a_plan_that_has_no_room_stops_and_goes_on_when_there_is_some(
    tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    monkeypatch.setattr(runner, "MOST", 50)
    given: dict[str, Any] = {"payload": {"mended": "x" * 100}} if action == "edit" else {}
    with open_queue(tmp_path, clock=clock, max_size=SIZE, durability="none") as queue:
        ids = dead_letters(queue, 800)
        operator = admin(queue)
        plan = operator.plan(action, "state:dead", reason="no room", **given)
        pushed: list[int] = []

        def others_push(now: Plan) -> None:
            if now.moved >= 100 and not pushed:
                pushed.append(fill_up(queue))

        with pytest.raises(StoreFull):
            operator.run(plan.number, progress=others_push)
        half = queue.plan(plan.number)
        assert half.state is PlanState.STOPPED
        assert "Full: " in half.note
        assert 100 <= half.moved < 800
        assert [id for id, _, _ in steps(queue, half)] == ids[: half.moved]
        redriven = half.moved if action == "redrive" else 0
        assert queue.counts().pending == pushed[0] + redriven
        assert queue.counts().all == pushed[0] + 800
        assert queue.check() == []
        assert drain(queue) == pushed[0] + redriven
        done = operator.run(plan.number)
        assert done.outcome == "800 of 800 moved"
        moved = steps(queue, done)
        nothing_twice(moved)
        assert [id for id, _, _ in moved] == ids
        assert queue.check() == []


def test_an_undo_that_has_no_room_goes_on_when_there_is_some(tmp_path: Path, clock: Any) -> None:
    with open_queue(tmp_path, clock=clock, max_size=SIZE, durability="none") as queue:
        ids = dead_letters(queue, 800)
        operator = admin(queue)
        undo = operator.undo(operator.run(operator.plan("redrive", "state:dead").number).number)
        pushed = fill_up(queue)
        with pytest.raises(StoreFull):
            operator.run(undo.number)
        assert queue.plan(undo.number).state in (PlanState.READY, PlanState.STOPPED)
        for tag in "abcdefghij":  # the new tasks are worked off, those that were redriven are not
            queue.configure(tag, paused=True)
        assert drain(queue) == pushed
        assert operator.run(undo.number).outcome == "800 of 800 moved"
        dead = queue.tasks("dead", limit=1_000)
        assert [task.id for task in dead] == ids
        assert {(task.cycle, task.attempts) for task in dead} == {(1, 1)}
        assert queue.check() == []


def test_a_full_store_is_emptied_by_plans(tmp_path: Path, clock: Any) -> None:
    """Purge as far as the room goes, expunge what was purged, go on with the first plan."""
    with open_queue(tmp_path, clock=clock, max_size=4 * SIZE, durability="none") as queue:
        dead_letters(queue, 5_000)
        pushed = fill_up(queue)
        purge, runs = admin(queue).plan("purge", "state:dead", reason="no room").number, 0
        while not queue.plan(purge).over:
            before, runs = queue.plan(purge).moved, runs + 1
            with contextlib.suppress(StoreFull):
                admin(queue).run(purge)
            assert queue.plan(purge).moved > before
            expunge = admin(queue).plan("expunge", "state:trash", reason="no room").number
            assert admin(queue).run(expunge).moved == queue.plan(purge).moved - before
        assert runs > 1
        assert queue.counts().all == queue.counts().pending == pushed
        assert fill_up(queue) > 500
        assert queue.check() == []
