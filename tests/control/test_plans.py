"""Plans: what is frozen, what is moved, how a run ends, and that it never says more than it did."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from acting import dead
from waiting import until

from queue_core import Conflict, InvalidArgument, InvalidFilter, Queue, State
from queue_core.control import Operator, planning, runner
from queue_core.plans import PART, Plan, PlanState, Verdict


def results(queue: Queue, plan: Plan, verdict: Verdict | None = None) -> list[tuple[str, str]]:
    with queue.view() as view:
        return [(id, result.why) for _, id, result in view.outcome(plan.number, verdict=verdict)]


def test_a_plan_tells_what_it_would_do_and_does_nothing(queue: Queue, operator: Operator, clock: Any) -> None:
    first = dead(queue, 3)
    clock.advance(100)
    last = dead(queue, 2, tag="bolt")
    queue.push(1, tag="acme")
    plan = operator.plan("redrive", "state:dead OR state:pending", reason="the site is back")
    assert (plan.number, plan.state, plan.selected, plan.moved) == (1, PlanState.READY, 5, 0)
    assert plan.ineligible == {"it is pending": 1}
    summary = json.loads(plan.summary)
    assert (summary["tags"], summary["tags_in_all"]) == ({"acme": 3, "bolt": 2}, 2)
    assert summary["sample"] == first + last
    assert (summary["oldest"], summary["newest"]) == (clock.at(-100).isoformat(), clock.at().isoformat())
    assert queue.counts().dead == 5
    assert queue.plan(1) == plan
    assert [(entry.action, entry.count, entry.plan) for entry in queue.audit()] == [("plan", 5, 1)]


def test_it_moves_what_was_frozen_and_nothing_that_came_later(queue: Queue, operator: Operator) -> None:
    """344 dead letters, 60 of the tag; five more die while the dialog is open."""
    for number in range(71):
        dead(queue, 4, tag=f"other{number}")
    chosen = dead(queue, 60)
    plan = operator.plan("redrive", "tag:acme")
    dead(queue, 5)
    done = operator.run(plan.number)
    assert (done.state, done.selected, done.moved, done.skipped, done.failed) == (PlanState.FINISHED, 60, 60, 0, 0)
    assert done.outcome == "60 of 60 moved"
    assert [task.id for task in queue.tasks("pending", tag="acme", limit=1_000)] == chosen
    assert (queue.counts().dead, queue.counts().pending) == (289, 60)
    assert [id for id, _ in results(queue, done)] == chosen
    assert queue.audit()[-1].outcome == "finished: 60 of 60 moved"


def test_redriven_tasks_start_a_new_cycle_at_the_tail_in_the_order_of_their_deaths(
    queue: Queue, operator: Operator
) -> None:
    ids = [queue.push(n, tag="acme", max_attempts=1).id for n in range(5)]
    leases = {lease.id: lease for lease in queue.lease_many(5)}
    died = [ids[place] for place in (3, 1, 4, 0, 2)]
    for id in died:
        queue.nack(leases[id], "boom")
    waiting = queue.push("first", tag="acme").id
    operator.run(operator.plan("redrive", "error:boom").number)
    tasks = queue.tasks("pending", tag="acme").items
    assert [task.id for task in tasks] == [waiting, *died]
    assert {(task.cycle, task.attempts, len(task.history)) for task in tasks[1:]} == {(2, 0, 1)}


def test_a_task_that_has_changed_is_skipped_with_its_present_state(queue: Queue, operator: Operator) -> None:
    ids = dead(queue, 6)
    plan = operator.plan("purge", "tag:acme", reason="old")
    queue.redrive(ids[0])
    queue.purge(ids[1])
    queue.replace(queue.get(ids[2]), payload="new")
    queue.purge(ids[3])
    queue.expunge(ids[3])
    done = operator.run(plan.number)
    assert (done.moved, done.skipped) == (2, 4)
    assert done.why == {
        "it has changed: it is pending now": 1, "it has changed: it is trash now": 1,
        "it has changed: it is dead now": 1, "it is gone: acknowledged, or expunged": 1,
    }  # fmt: skip
    assert [id for id, _ in results(queue, done, Verdict.SKIPPED)] == ids[:4]
    assert done.outcome == "2 of 6 moved, 4 skipped"


def test_tasks_may_be_named_with_the_version_that_was_seen(queue: Queue, operator: Operator) -> None:
    ids = dead(queue, 4)
    seen = [queue.get(id) for id in ids]
    queue.replace(seen[1], payload="new")
    plan = operator.plan("redrive", ids=[seen[0], seen[1], (ids[2], seen[2].version), ids[3], ids[3]])
    assert (plan.selected, plan.ineligible) == (3, {"it has changed: it is dead now": 1})
    assert operator.run(plan.number).moved == 3
    assert queue.get(ids[1]).state is State.DEAD


def test_a_redrive_obeys_dedupe_keys(queue: Queue, operator: Operator) -> None:
    """A key that is held now is named in the plan; one that is taken later is skipped in the run."""
    held, later, again = (dead(queue, dedupe_key=key)[0] for key in ("k", "l", "l"))
    queue.push("holder", tag="acme", dedupe_key="k")
    plan = operator.plan("redrive", "state:dead")
    assert (plan.selected, plan.ineligible) == (2, {"its dedupe key is held by another task": 1})
    done = operator.run(plan.number)
    assert (done.moved, done.why) == (1, {"its dedupe key is held by another task": 1})
    assert [queue.get(id).state for id in (held, later, again)] == [State.DEAD, State.PENDING, State.DEAD]


def test_a_redrive_obeys_pause_and_limits(queue: Queue, operator: Operator) -> None:
    dead(queue, 3)
    operator.pause("acme")
    assert operator.run(operator.plan("redrive", "").number).moved == 3
    assert queue.lease() is None
    operator.resume("acme")
    operator.configure("acme", max_inflight=1)
    assert len(queue.lease_many(3)) == 1


@pytest.mark.parametrize(
    ("action", "given", "state"),
    [
        ("requeue", {}, "pending"),
        ("dead_letter", {"reason": "why"}, "dead"),
        ("cancel", {"reason": "why"}, "trash"),
        ("edit", {"payload": {"n": 2}}, "scheduled"),
        ("move_tag", {"tag": "bolt"}, "scheduled"),
    ],
)
def test_every_action_can_be_planned(
    queue: Queue, operator: Operator, action: str, given: dict[str, Any], state: str
) -> None:
    ids = [queue.push(n, tag="acme", delay=60).id for n in range(PART + 3)]
    plan = operator.plan(action, "tag:acme", **given)
    done = operator.run(plan.number)
    assert (done.moved, done.left) == (PART + 3, 0)
    assert {queue.get(id).state for id in ids} == {State(state)}
    assert {queue.get(id).tag for id in ids} == {given.get("tag", "acme")}
    if action == "edit":
        assert {str(queue.get(id).payload) for id in ids} == {"{'n': 2}"}


def test_leases_can_be_extended_by_a_plan(queue: Queue, operator: Operator, clock: Any) -> None:
    queue.push_many([(n, "acme") for n in range(3)])
    leases = queue.lease_many(3, ttl=30)
    assert operator.run(operator.plan("extend", "", ttl=600).number).moved == 3
    assert {queue.get(lease.id).expires_at for lease in leases} == {clock.at(600)}
    for lease in leases:
        queue.ack(lease)


def test_an_edit_that_is_too_large_fails_and_says_so(queue: Queue, operator: Operator) -> None:
    dead(queue, 2)
    plan = operator.plan("edit", "", payload="x" * 2_000)
    queue.configure(max_payload=1_000)
    done = operator.run(plan.number)
    assert (done.moved, done.failed) == (0, 2)
    assert "limit is 1,000" in next(iter(done.why))
    assert done.outcome == "0 of 2 moved, 2 failed"


@pytest.mark.parametrize(
    ("action", "given", "said"),
    [
        ("redriev", {}, "one of cancel, dead_letter"),
        ("replace", {}, "one of cancel, dead_letter"),
        ("purge", {}, "needs a reason"),
        ("extend", {}, "extend needs ttl"),
        ("redrive", {"ttl": 5}, "redrive takes no ttl"),
        ("edit", {}, "edit needs payload"),
        ("move_tag", {}, "move_tag needs tag"),
        ("redrive", {"rate": 0}, "tasks a second"),
        ("redrive", {"rate": float("nan")}, "tasks a second"),
        ("redrive", {"canary": 0}, "canary"),
        ("redrive", {"canary": 5, "success": 1.5}, "share from 0 to 1"),
        ("purge", {"reason": "why", "canary": 5}, "a canary would tell nothing"),
        ("redrive", {"ids": []}, "a filter or ids, and not both"),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused(
    queue: Queue, operator: Operator, action: str, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidArgument, match=said):
        operator.plan(action, "", **given)
    assert queue.plans() == queue.audit() == []


def test_a_filter_that_does_not_parse_is_refused(queue: Queue, operator: Operator) -> None:
    with pytest.raises(InvalidFilter):
        operator.plan("redrive", "tga:acme")
    with pytest.raises(InvalidArgument, match="where="):
        operator.plan("redrive")
    assert queue.plans() == []


def test_an_empty_selection_is_a_plan_that_finishes(operator: Operator) -> None:
    plan = operator.plan("redrive", "tag:nobody")
    assert (plan.selected, plan.outcome) == (0, "0 of 0 moved")
    assert operator.run(plan.number).state is PlanState.FINISHED


def test_a_search_can_be_ended_and_then_there_is_no_plan(queue: Queue, operator: Operator) -> None:
    dead(queue, 3)
    asked: list[tuple[int, int]] = []

    def progress(scanned: int, total: int) -> bool:
        asked.append((scanned, total))
        return False

    with pytest.raises(InvalidArgument, match="ended after 3 tasks: no plan was made"):
        operator.plan("redrive", "", progress=progress)
    assert asked == [(3, 3)]
    assert queue.plans() == []


def test_progress_is_told_after_each_piece(queue: Queue, operator: Operator) -> None:
    dead(queue, 2 * runner.FIRST + 1)
    seen: list[Plan] = []
    operator.run(operator.plan("redrive", "").number, progress=seen.append)
    assert seen[0].done == 0
    assert seen[1].done == runner.FIRST
    assert seen[-1].state is PlanState.FINISHED
    assert [plan.done for plan in seen] == sorted(plan.done for plan in seen)


def test_a_run_that_is_stopped_can_be_resumed(queue: Queue, operator: Operator) -> None:
    ids = dead(queue, 3 * runner.FIRST)
    plan = operator.plan("redrive", "")
    asked = iter([False, True])
    stopped = operator.run(plan.number, stopped=lambda: next(asked))
    assert (stopped.state, stopped.moved, stopped.note) == (PlanState.STOPPED, runner.FIRST, "asked to stop")
    assert stopped.outcome == f"{runner.FIRST} of {3 * runner.FIRST} moved, {2 * runner.FIRST} not reached"
    assert queue.counts().dead == 2 * runner.FIRST
    done = operator.run(plan.number)
    assert (done.state, done.moved, done.skipped) == (PlanState.FINISHED, 3 * runner.FIRST, 0)
    assert [task.id for task in queue.tasks("pending", limit=100)] == ids
    assert [entry.outcome.split(":")[0] for entry in queue.audit() if entry.action == "run"] == [
        "begun", "stopped", "begun", "finished",
    ]  # fmt: skip
    assert [entry.count for entry in queue.audit() if entry.action == "run"] == [0, runner.FIRST, 0, 2 * runner.FIRST]


def test_another_person_stops_a_run_that_goes_on(queue: Queue, operator: Operator) -> None:
    dead(queue, 3 * runner.FIRST)
    plan = operator.plan("redrive", "", rate=40)
    other = Operator(queue, "bob", origin="test")
    ended: list[Plan] = []
    thread = threading.Thread(target=lambda: ended.append(operator.run(plan.number)))
    thread.start()
    until(lambda: queue.plan(plan.number).moved)
    stopped = other.stop(plan.number, "wrong tag")
    thread.join(30)
    assert ended[0].state is PlanState.STOPPED
    assert ended[0].note == "stopped by bob: wrong tag"
    assert ended[0].moved == stopped.moved < 3 * runner.FIRST
    assert queue.counts().pending == stopped.moved


def test_one_run_at_a_time(queue: Queue, operator: Operator, clock: Any) -> None:
    dead(queue, 40)
    plan = operator.plan("redrive", "", rate=100)
    refused: list[Exception] = []

    def meanwhile(_: Plan) -> None:
        if not refused:
            with pytest.raises(Conflict, match=r"is being run by ann@example.org at .*: stop it first") as error:
                Operator(queue, "bob").run(plan.number)
            refused.append(error.value)

    assert operator.run(plan.number, progress=meanwhile).moved == 40
    with pytest.raises(Conflict, match=r"plan 1 is finished: 40 of 40 moved; make a new plan"):
        operator.run(plan.number)
    with pytest.raises(Conflict, match="there is no plan 9"):
        operator.run(9)
    with pytest.raises(Conflict, match="nothing to stop"):
        operator.stop(plan.number)


def test_a_run_that_fell_silent_is_replaced_and_moves_nothing_more(
    queue: Queue, operator: Operator, clock: Any
) -> None:
    ids = dead(queue, 3 * runner.FIRST)
    plan = operator.plan("redrive", "")
    late = Operator(queue, "late")
    taken: list[Plan] = []

    def hang(seen: Plan) -> None:
        """The first run hangs after its first piece; another takes over meanwhile."""
        if seen.moved and not taken:
            clock.advance(60)
            taken.append(operator.run(plan.number))

    ended = late.run(plan.number, progress=hang)
    assert taken[0].moved == 3 * runner.FIRST
    assert ended == queue.plan(plan.number)
    assert [id for id, _ in results(queue, ended, Verdict.MOVED)] == ids
    assert any("fell silent" in entry.outcome for entry in queue.audit())


def test_an_interrupt_stops_the_plan_and_is_raised(queue: Queue, operator: Operator) -> None:
    dead(queue, 3 * runner.FIRST)
    plan = operator.plan("redrive", "")

    def interrupt(seen: Plan) -> None:
        if seen.state is PlanState.RUNNING and seen.moved:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        operator.run(plan.number, progress=interrupt)
    left = queue.plan(plan.number)
    assert (left.state, left.moved) == (PlanState.STOPPED, runner.FIRST)
    assert "KeyboardInterrupt" in left.note
    assert operator.run(plan.number).state is PlanState.FINISHED


def test_a_rate_is_kept(queue: Queue, operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock of its own: 50 tasks at 10 a second are released over 4.9 seconds, one at the beginning."""
    now = [0.0]
    monkeypatch.setattr(runner.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(runner.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    dead(queue, 50)
    when: list[tuple[float, int]] = []
    operator.run(operator.plan("redrive", "", rate=10).number, progress=lambda plan: when.append((now[0], plan.moved)))
    assert now[0] == pytest.approx(4.9, abs=0.11)
    assert all(moved <= at * 10 + 1.01 for at, moved in when)


def test_a_slow_run_gives_signs_of_life(
    queue: Queue, operator: Operator, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        clock.advance(seconds)

    monkeypatch.setattr(runner.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(runner.time, "sleep", sleep)
    dead(queue, 3)
    silences: list[int] = []
    operator.run(
        operator.plan("redrive", "", rate=0.02).number,
        progress=lambda _: silences.append(clock.now - queue.plan(1).beat),
    )
    assert now[0] == pytest.approx(100, abs=0.3)
    assert max(silences) < 5_000_000
    assert len(silences) > 20


def test_plans_are_listed_with_the_newest_first(queue: Queue, operator: Operator) -> None:
    for tag in ("a", "b", "c"):
        operator.plan("redrive", f"tag:{tag}")
    assert [plan.where for plan in queue.plans(2)] == ["tag:c", "tag:b"]


def test_a_plan_of_a_store_that_was_restored_since_is_void(queue: Queue, operator: Operator) -> None:
    dead(queue, 2)
    plan = operator.plan("redrive", "")
    raise_epoch(queue)
    with pytest.raises(Conflict, match="plan 1 is void: the store was restored after it was made; make a new plan"):
        operator.run(plan.number)
    assert operator.run(operator.plan("redrive", "").number).moved == 2


def raise_epoch(queue: Queue) -> None:
    write: Callable[..., Any] = queue._store._write  # type: ignore[attr-defined]
    write(lambda tx: setattr(tx.meta, "epoch", tx.meta.epoch + 1))


def test_a_draft_cannot_be_run_and_is_forgotten(
    queue: Queue, operator: Operator, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(queue, 2)
    with monkeypatch.context() as patched:
        patched.setattr(planning, "_fill", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            operator.plan("redrive", "")
    assert queue.plan(1).state is PlanState.DRAFT
    with pytest.raises(Conflict, match="plan 1 is draft"):
        operator.run(1)
    clock.advance(2 * 3600)
    assert operator.plan("redrive", "").number == 2
    assert [plan.number for plan in queue.plans()] == [2]


def test_a_plan_that_is_left_for_a_month_loses_its_selection(queue: Queue, operator: Operator, clock: Any) -> None:
    dead(queue, 2)
    plan = operator.plan("edit", "", payload={"password": "hunter2"})
    for _ in range(30 * 24 + 2):
        clock.advance(3600)
        queue.configure(weight=1, tag="acme")
    left = queue.plan(plan.number)
    assert (left.kept, left.state, left.options.payload) == (False, PlanState.READY, None)
    with pytest.raises(Conflict, match="left for so long that its selection is no longer kept"):
        operator.run(plan.number)


def test_what_came_of_a_plan_is_read_in_pages(queue: Queue, operator: Operator) -> None:
    ids = dead(queue, 2 * PART + 5)
    plan = operator.plan("redrive", "")
    queue.purge(ids[1])
    operator.run(plan.number)
    undo = operator.undo(plan.number)
    operator.run(undo.number)
    moved = ids[:1] + ids[2:]
    with queue.view() as view:
        for number, expected in ((plan.number, ids), (undo.number, moved)):
            pages, after = [], 0
            while page := view.outcome(number, after=after, limit=40):
                pages += page
                after = page[-1][0]
            assert [(at, id) for at, id, _ in pages] == list(enumerate(expected, 1))
        assert [id for _, id, _ in view.outcome(plan.number, verdict=Verdict.SKIPPED)] == [ids[1]]
        assert view.outcome(plan.number, verdict=Verdict.SKIPPED, after=2) == []


def test_only_what_would_hold_a_key_is_kept_from_moving_by_it(queue: Queue, operator: Operator) -> None:
    (letter,) = dead(queue, dedupe_key="k")
    queue.push("holder", tag="acme", dedupe_key="k")
    queue.purge(letter)
    assert operator.plan("restore", "").selected == 1, "dead, it holds nothing"
    queue.restore(letter)
    assert operator.plan("move_tag", "state:dead", tag="bolt").selected == 1
    queue.push("there", tag="bolt", dedupe_key="k")
    plan = operator.plan("move_tag", "state:pending tag:acme", tag="bolt")
    assert (plan.selected, plan.ineligible) == (0, {"its dedupe key is held by another task": 1})


def test_each_run_is_written_by_who_ran_it_with_what_it_moved(queue: Queue, operator: Operator, clock: Any) -> None:
    dead(queue, 3 * runner.FIRST)
    plan = operator.plan("redrive", "")
    bob, carl = Operator(queue, "bob"), Operator(queue, "carl")

    def die(seen: Plan) -> None:
        if seen.moved:
            raise _Died

    patched = pytest.MonkeyPatch()
    patched.setattr(runner.Run, "_stop", lambda *_: None)  # as a killed process leaves it
    with pytest.raises(_Died):
        bob.run(plan.number, progress=die)
    patched.undo()
    clock.advance(60)
    carl.run(plan.number)
    told = [(entry.actor, entry.count, entry.outcome.split(":")[0]) for entry in queue.audit() if entry.action == "run"]
    assert told[0] == ("bob", 0, "begun")
    assert told[1][:2] == ("carl", 0)
    assert told[1][2].startswith("begun, after bob at ")
    assert told[2] == ("carl", 2 * runner.FIRST, "finished")


class _Died(Exception):
    pass
