"""Plans while clocks jump, when their time is over, and after the store was restored."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dead_letters import admin, dead_letters, nothing_twice, outcome, steps
from planned import advanced, claimed, stopped

from queue_core import Conflict, Queue, open_queue
from queue_core.control import runner
from queue_core.plans import PLAN_RETENTION, SILENCE, Plan, PlanState
from queue_core.stores.engine import retire
from queue_core.task import SECOND

HOUR, YEAR = 3_600, 365 * 24 * 3_600


@pytest.mark.parametrize("jump", [-HOUR, -YEAR, YEAR], ids=["an hour back", "a year back", "a year forward"])
def test_a_run_goes_on_alone_when_the_clock_jumps(
    tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch, jump: int
) -> None:
    """From the first piece after the jump on, its runner has been heard of at the new time."""
    monkeypatch.setattr(runner, "MOST", 16)
    monkeypatch.setattr(runner, "PIECE_SECONDS", 1e6)
    with open_queue(tmp_path, clock=clock) as queue:
        ids = dead_letters(queue, 160)
        number = admin(queue).plan("redrive", "").number
        refused = []

        def meanwhile(plan: Plan) -> None:
            if plan.moved == 48:
                clock.advance(jump)
            elif plan.moved and plan.left:
                with pytest.raises(Conflict, match="is being run by ann at") as error:
                    claimed(queue, number, "another")
                refused.append(error.value)

        done = admin(queue).run(number, progress=meanwhile)
        assert (done.outcome, done.run, len(refused)) == ("160 of 160 moved", 1, 8)
        assert [id for id, _, _ in steps(queue, done)] == ids
        assert admin(queue).run(admin(queue).undo(number).number).moved == 160  # no year has passed for what is kept
        assert queue.check() == []


def test_who_begins_another_run_right_after_a_jump_ends_the_first(
    tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A jump forward looks like silence until the runner's next piece; both never move tasks."""
    monkeypatch.setattr(runner, "MOST", 16)
    monkeypatch.setattr(runner, "PIECE_SECONDS", 1e6)
    with open_queue(tmp_path, clock=clock) as queue:
        ids = dead_letters(queue, 160)
        number = admin(queue).plan("redrive", "").number

        def jump(plan: Plan) -> None:
            if plan.moved == 48 and plan.run == 1:
                clock.advance(YEAR)
                run = claimed(queue, number, "another").run
                assert advanced(queue, number, run, 7).moved == 55

        left = admin(queue).run(number, progress=jump)
        assert (left.state, left.runner, left.moved) == (PlanState.RUNNING, "another", 55)
        with pytest.raises(Conflict, match="another runs it now; this run of it ends here"):
            advanced(queue, number, 1, 16)
        assert advanced(queue, number, 2, 1_000).outcome == "160 of 160 moved"
        moved = steps(queue, queue.plan(number))
        nothing_twice(moved)
        assert [id for id, _, _ in moved] == ids
        assert queue.check() == []


@pytest.mark.parametrize("back", [HOUR, YEAR], ids=["an hour", "a year"])
def test_a_runner_that_was_gone_when_the_clock_was_set_back_can_be_stopped(
    tmp_path: Path, clock: Any, back: int
) -> None:
    """Whether it is silent cannot be told until the clock has caught up: a person decides."""
    with open_queue(tmp_path, clock=clock) as queue:
        dead_letters(queue, 20)
        number = admin(queue).plan("redrive", "").number
        advanced(queue, number, claimed(queue, number, "gone").run, 5)
        clock.advance(-back)
        with pytest.raises(Conflict, match="is being run by gone: stop it first"):
            admin(queue).run(number)
        clock.advance(2 * SILENCE / SECOND)
        with pytest.raises(Conflict, match="is being run by gone: stop it first"):
            admin(queue).run(number)
        admin(queue).stop(number, "its process is gone")
        assert admin(queue).run(number).outcome == "20 of 20 moved"
        assert queue.check() == []


# --- the end of its time


def told(run: Callable[[], Plan]) -> str:
    """Why a run is refused, or has stopped."""
    try:
        return run().note
    except Conflict as error:
        return str(error)


def pass_by(queue: Queue, clock: Any, seconds: int) -> None:
    """So much time, in commits of an hour."""
    for _ in range(seconds // HOUR):
        clock.advance(HOUR)
        queue.configure()


def test_what_an_undo_needs_goes_piece_by_piece_and_is_never_half_used(
    tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the selection is being removed nothing is undone any more, and the reason is said."""
    monkeypatch.setattr(retire, "PIECE", 2)
    with open_queue(tmp_path, clock=clock) as queue:
        ids = dead_letters(queue, 640)  # ten parts of a selection, and 32 of results
        plan = admin(queue).run(admin(queue).plan("redrive", "").number)
        clock.advance(YEAR)  # counts as an hour
        pass_by(queue, clock, PLAN_RETENTION // SECOND - 2 * HOUR)
        assert [id for _, id, _ in outcome(queue, plan.number)] == ids
        undo, rounds, said = admin(queue).undo(plan.number), 0, set()
        while queue.plan(plan.number).kept:
            rounds += 1
            clock.advance(HOUR)
            queue.configure()
            known = outcome(queue, plan.number)
            if len(known) == 640:
                continue
            assert known == []
            said.add(told(lambda: admin(queue).run(undo.number)))
        assert rounds > 5
        assert said
        assert said <= {
            f"what plan {plan.number} has changed is no longer known",  # it was begun, and stopped
            f"what plan {plan.number} has changed is no longer known: plan {undo.number} cannot be run",
        }
        with pytest.raises(Conflict, match=f"what plan {plan.number} has changed is no longer known"):
            admin(queue).run(undo.number)
        assert (queue.plan(undo.number).moved, queue.counts().pending) == (0, 640)
        assert queue.check() == []


def test_an_undo_that_was_stopped_half_way_ends_when_what_it_needs_is_gone(tmp_path: Path, clock: Any) -> None:
    with open_queue(tmp_path, clock=clock) as queue:
        ids = dead_letters(queue, 200)
        plan = admin(queue).run(admin(queue).plan("purge", "", reason="no").number)
        undo = admin(queue).undo(plan.number)
        advanced(queue, undo.number, claimed(queue, undo.number, "ann").run, 70)
        stopped(queue, undo.number, None, "later")
        pass_by(queue, clock, PLAN_RETENTION // SECOND + 5 * HOUR)
        with pytest.raises(Conflict, match=f"what plan {plan.number} has changed is no longer known"):
            admin(queue).run(undo.number)
        with pytest.raises(Conflict, match=f"is undone by plan {undo.number} already"):
            admin(queue).undo(plan.number)
        assert queue.plan(undo.number).outcome == "70 of 200 moved, 130 not reached"
        dead = queue.tasks("dead", limit=1_000)
        assert [task.id for task in dead] == ids[:70]
        assert queue.check() == []


# --- a store that was restored


def raise_epoch(queue: Queue) -> None:
    write: Callable[..., Any] = queue._store._write  # type: ignore[attr-defined]
    write(lambda tx: setattr(tx.meta, "epoch", tx.meta.epoch + 1))


def test_a_restored_store_voids_what_is_unfinished(tmp_path: Path, clock: Any) -> None:
    """Whatever state it is in; and what was finished before cannot be undone."""
    with open_queue(tmp_path, clock=clock) as queue:
        dead_letters(queue, 100, "abcde")
        operator = admin(queue)
        ready, running, half, over, undone = [
            operator.plan("redrive", f"tag:{tag} state:dead").number for tag in "abcde"
        ]  # fmt: skip
        advanced(queue, running, claimed(queue, running, "gone").run, 5)
        advanced(queue, half, claimed(queue, half, "ann").run, 5)
        operator.stop(half)
        operator.run(over)
        operator.run(undone)
        undo = operator.undo(undone).number
        raise_epoch(queue)
        clock.advance(2 * SILENCE / SECOND)
        for number in (ready, running, half, undo):
            with pytest.raises(Conflict, match=f"plan {number} is void: the store was restored after it was made"):
                operator.run(number)
        with pytest.raises(Conflict, match=f"what plan {over} has changed is no longer known"):
            operator.undo(over)
        assert queue.counts().dead == 50
        assert operator.run(operator.plan("redrive", "").number).outcome == "50 of 50 moved"
        assert queue.check() == []
