"""What a plan does to a full store, on a slow disk, and to a draft that was left for too long."""

import time
from pathlib import Path
from typing import Any

import pytest
from dead_letters import admin, book, dead_letters
from planned import ENTRY, control, empty
from test_plan_room import SIZE, drain, fill_up

from queue_core import Conflict, StoreFull, open_queue
from queue_core.plans import DRAFT_RETENTION, PlanState, pack
from queue_core.stores.engine import plan as engine
from queue_core.stores.lmdb import commit
from queue_core.task import SECOND


@pytest.mark.parametrize("action", ["redrive", "edit"])
def test_what_is_left_for_draining_a_full_store_is_not_used_up_by_runs(tmp_path: Path, clock: Any, action: str) -> None:
    given = {"edit": {"payload": {"mended": "x" * 100}}}.get(action, {})
    with open_queue(tmp_path, clock=clock, max_size=SIZE, durability="none") as queue:
        dead_letters(queue, 800)
        number = admin(queue).plan(action, "state:dead", **given).number
        pushed = fill_up(queue)
        for _ in range(300):
            with pytest.raises(StoreFull):
                admin(queue).run(number)
            clock.advance(20)
        assert drain(queue) == pushed
        assert admin(queue).run(number).outcome == "800 of 800 moved"
        assert queue.check() == []


def test_a_full_store_can_be_emptied_by_plans(tmp_path: Path, clock: Any) -> None:
    with open_queue(tmp_path, clock=clock, max_size=SIZE, durability="none") as queue:
        dead_letters(queue, 300)
        numbers = [admin(queue).plan("purge", "state:dead", reason="no").number]
        fill_up(queue)
        moved = 0
        while moved < 300:  # in small pieces, as far as the room goes
            try:
                moved = admin(queue).run(numbers[0]).moved
            except StoreFull:
                clock.advance(20)
                assert queue.plan(numbers[0]).moved > moved
                moved = queue.plan(numbers[0]).moved
        assert queue.counts().trash == 300
        assert queue.check() == []


def test_a_slow_disk_does_not_make_the_pieces_small(
    tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = commit._commit

    def slow(*arguments: Any) -> None:
        time.sleep(0.01)
        commits(*arguments)

    with open_queue(tmp_path, clock=clock) as queue:
        dead_letters(queue, 2_000)
        plan = admin(queue).plan("redrive", "")
        monkeypatch.setattr(commit, "_commit", slow)
        seen = []
        admin(queue).run(plan.number, progress=lambda now: seen.append(now.done))
        assert len(set(seen)) < 60  # they stay at the least, 16: 125
        assert queue.check() == []


def test_a_draft_that_is_forgotten_while_it_is_filled_is_refused(
    tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever froze it was stopped for an hour; another made a plan meanwhile."""
    monkeypatch.setattr(engine, "PIECE", 2)
    with open_queue(tmp_path, clock=clock) as queue:
        dead_letters(queue, 640)
        entries = [(task.record.id, task.version) for task in queue.tasks("dead", limit=1_000)]
        parts = [pack(entries[at : at + 64]) for at in range(0, 640, 64)]
        draft = control(queue, lambda c: c.draft(empty("redrive")))
        control(queue, lambda c: c.fill(draft.number, 0, parts[:5]))
        clock.advance(DRAFT_RETENTION / SECOND + 1)
        admin(queue).plan("redrive", "")  # two of its parts go
        with pytest.raises(Conflict, match="plan 1 was not frozen for so long that it is forgotten: make it again"):
            control(queue, lambda c: c.fill(draft.number, 5, parts[5:]))
        draft.selected = 640
        with pytest.raises(Conflict, match="it is forgotten"):
            control(queue, lambda c: c.freeze(draft, ENTRY))
        for _ in range(2):
            admin(queue).plan("redrive", "")
        with pytest.raises(Conflict, match="there is no plan 1"):
            control(queue, lambda c: c.fill(draft.number, 0, parts))
        with book(queue) as kept:
            assert [part for part in range(10) if kept.selection(1, part)] == []
        assert {plan.state for plan in queue.plans()} == {PlanState.READY}
        assert queue.check() == []
