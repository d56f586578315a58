"""A runner, or who freezes a plan, is killed at any moment: what was moved is known, nothing is moved twice."""

import os
import random
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from dead_letters import admin, book, dead_letters, killed, nothing_twice, outcome, started, steps
from planned import claimed
from waiting import until

from queue_core import Conflict, Queue, State, open_queue
from queue_core.control import planning, runner
from queue_core.plans import DRAFT_RETENTION, SILENCE, Plan, PlanState
from queue_core.stores.engine import plan as engine
from queue_core.task import SECOND

SOAK = os.environ.get("SOAK", "") not in ("", "0")
KILLS = 500 if SOAK else 50
MANY = 1_000_000 if SOAK else 200_000
NOW = 1_750_000_000 * SECOND
TAGS = "abcdefghij"


def run(path: Path, number: int, now: int, **options: Any) -> None:
    with open_queue(path, clock=lambda: now, **options) as queue:
        admin(queue, f"process {os.getpid()}").run(number)


def in_order(queue: Queue, state: State, tag: str) -> list[Any]:
    """All tasks of a tag in a state."""
    found: list[Any] = []
    after: str | None = None
    while True:
        page = queue.tasks(state, tag=tag, limit=10_000, after=after)
        found += page.items
        after = page.next
        if after is None:
            return found


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(0 if SOAK else 120)
def test_a_large_plan_whose_runner_is_killed_half_way_goes_on_in_another_process(tmp_path: Path, clock: Any) -> None:
    path = tmp_path / "queue"
    unflushed: dict[str, Any] = {"durability": "none"}  # a kill loses nothing that is not flushed
    with open_queue(path, clock=clock, **unflushed) as queue:
        ids = dead_letters(queue, MANY, TAGS)
        waiting = {tag: queue.push(1, tag=tag).id for tag in TAGS}
        number = admin(queue).plan("redrive", "state:dead", reason="the site is back").number
        first = started(lambda: run(path, number, clock.now, **unflushed))
        until(lambda: queue.plan(number).moved > MANY // 2)
        assert killed(first)
        half = queue.plan(number)
        assert half.state is PlanState.RUNNING
        assert MANY // 2 < half.moved < MANY
        assert (queue.counts().dead, queue.snapshot().totals.redriven) == (MANY - half.moved, half.moved)
        with pytest.raises(Conflict, match="is being run by process"):
            claimed(queue, number, "another")
        clock.advance(SILENCE / SECOND + 1)
        done = admin(queue).run(number)
        assert done.outcome == f"{MANY:,} of {MANY:,} moved"
        assert queue.snapshot().totals.redriven == MANY
        moved = steps(queue, done)
        nothing_twice(moved)
        assert [id for id, _, _ in moved] == ids
        for at, tag in enumerate(TAGS):
            tasks = in_order(queue, State.PENDING, tag)
            assert [task.id for task in tasks] == [waiting[tag], *ids[at :: len(TAGS)]]  # in the order of their deaths
            assert {(task.cycle, task.attempts, len(task.history)) for task in tasks[1:]} == {(2, 0, 1)}
        told = [entry.outcome for entry in queue.audit() if entry.action == "run"]
        assert sum(f"fell silent: {half.outcome}" in words for words in told) == 1
        assert told[-1] == f"finished: {done.outcome}"
        assert queue.check() == []


@pytest.mark.soak
@pytest.mark.timeout(0 if SOAK else 120)
@pytest.mark.parametrize("undoing", [False, True], ids=["redrive", "undo"])
def test_kills_at_random_moments_of_a_run(
    tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch, undoing: bool
) -> None:
    path, draw, tasks = tmp_path / "queue", random.Random(8), 100 * KILLS
    monkeypatch.setattr(runner, "PIECE_SECONDS", 1e6)
    monkeypatch.setattr(runner, "MOST", 4)  # so that there are many moments
    with open_queue(path, clock=clock) as queue:
        ids = dead_letters(queue, tasks, "ab")
        operator = admin(queue)
        plan = operator.plan("redrive", "state:dead")
        if undoing:
            with monkeypatch.context() as fast:
                fast.setattr(runner, "MOST", 1_000)
                plan = operator.undo(operator.run(plan.number).number)
        before = queue.snapshot().totals
        halves: set[int] = set()  # how far it had come
        for round in count():
            if round >= KILLS and (len(halves) > 10 or round == 10 * KILLS):
                break
            process = started(run, path, plan.number, clock.now)
            time.sleep(draw.uniform(0.002, 0.04))  # the random moment itself, not a wait for anything
            if not killed(process):
                break
            clock.advance(SILENCE / SECOND + 1)
            plan = queue.plan(plan.number)
            halves.add(plan.done)
            came = outcome(queue, plan.number)
            assert len(came) == plan.moved == plan.done
            totals = queue.snapshot().totals
            assert plan.moved == (totals.dead_lettered if undoing else totals.redriven - before.redriven)
            assert queue.check() == []
        assert len(halves) > 5, halves
        monkeypatch.setattr(runner, "MOST", 1_000)
        if not plan.over:
            plan = operator.run(plan.number)
        assert plan.outcome == f"{tasks:,} of {tasks:,} moved"
        moved = steps(queue, plan)
        nothing_twice(moved)
        assert [id for id, _, _ in moved] == ids
        for at, tag in enumerate("ab"):
            found = in_order(queue, State.DEAD if undoing else State.PENDING, tag)
            assert [task.id for task in found] == ids[at::2]
            assert {(task.cycle, task.attempts) for task in found} == {(1, 1) if undoing else (2, 0)}
        if not undoing:
            undo = operator.run(operator.undo(plan.number).number)
            assert [id for id, _, _ in steps(queue, undo)] == ids
        assert queue.check() == []


def freeze(path: Path, now: int) -> None:
    with open_queue(path, clock=lambda: now) as queue:
        admin(queue).plan("redrive", "state:dead")


def test_kills_while_plans_are_frozen_leave_no_half_plan_that_could_be_run(
    tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts are written one by one, so that there are many moments. Drafts go when they are old, with their parts."""
    path, draw, tasks = tmp_path / "queue", random.Random(9), 2_000
    monkeypatch.setattr(planning, "FILL", 1)
    monkeypatch.setattr(engine, "PIECE", 10)
    with open_queue(path, clock=clock) as queue:
        dead_letters(queue, tasks)
        operator = admin(queue)
        halves: set[int] = set()  # how many tasks of a draft are there
        for round in count():
            if round >= 25 and (len(halves) > 3 or round == 90):  # drafts are looked for among the newest 100 plans
                break
            process = started(freeze, path, clock.now)
            time.sleep(draw.uniform(0.01, 0.1))  # the random moment itself, not a wait for anything
            killed(process)
            drafts = [plan for plan in queue.plans(1_000) if plan.state is PlanState.DRAFT]
            halves |= {frozen(queue, plan) for plan in drafts} - {0, tasks}
        assert len(halves) > 3, halves
        for plan in queue.plans(1_000):
            if plan.state is PlanState.DRAFT:
                with pytest.raises(Conflict, match=f"plan {plan.number} is draft"):
                    operator.run(plan.number)
            else:
                assert (plan.state, frozen(queue, plan)) == (PlanState.READY, tasks)
        assert queue.counts().dead == tasks
        clock.advance(DRAFT_RETENTION / SECOND + 1)
        for _ in range(5):  # each forgets a piece of every old draft
            last = operator.plan("redrive", "state:dead")
        known = {plan.number for plan in queue.plans(1_000)}
        assert known.isdisjoint(plan.number for plan in drafts)
        with book(queue) as kept:
            of_plans = [number for number in range(1, last.number + 1) if kept.selection(number, 0)]
        assert set(of_plans) == known
        assert operator.run(last.number).moved == tasks
        assert queue.check() == []


def frozen(queue: Queue, plan: Plan) -> int:
    """How many tasks of its selection are stored."""
    with book(queue) as kept:
        return sum(1 for _ in engine.walk(kept, plan, 0))
