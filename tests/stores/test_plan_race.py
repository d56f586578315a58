"""Many people and many workers act on the same tasks at once: each task is moved once for each time it was seen."""

import json
import os
import random
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from dead_letters import FORK, Step, admin, dead_letters, ended, nothing_twice, small_pieces, started, steps
from planned import advanced, claimed

from queue_core import Conflict, Kind, LeaseLost, Queue, State, StoreBusy, Task, TaskNotFound, open_queue
from queue_core.plans import SILENCE, Plan, PlanState
from queue_core.stores.lmdb.records import LmdbRecords
from queue_core.task import SECOND

NOW = 1_750_000_000 * SECOND
RACERS, WORKERS, ROUNDS, TASKS, SINGLES = 4, 2, 6, 1_000, 40
PLANS = {
    "redrive": "state:dead", "purge": "state:dead", "move_tag": "state:dead", "edit": "state:dead",
    "restore": "state:trash", "dead_letter": "state:pending",
}  # fmt: skip
ALONE = {
    State.DEAD: ("redrive", "purge", "edit", "move_tag"),
    State.PENDING: ("edit", "move_tag", "dead_letter", "cancel"),
    State.INFLIGHT: ("requeue", "edit", "dead_letter"),
    State.SCHEDULED: ("requeue", "edit", "dead_letter"),
    State.TRASH: ("restore", "edit"),
}
KINDS = {
    "redrive": Kind.REDRIVE, "purge": Kind.PURGE, "move_tag": Kind.MOVE, "edit": Kind.EDIT, "restore": Kind.RESTORE,
    "dead_letter": Kind.DEAD_LETTER, "cancel": Kind.CANCEL, "requeue": Kind.REQUEUE,
}  # fmt: skip
SKIPPED = re.compile(
    r"it is gone: acknowledged, or expunged"
    rf"|it has changed: it is ({'|'.join(State)}) now"
    r"|it is in that tag already"
)


def details(action: str, who: str) -> dict[str, Any]:
    given: dict[str, Any] = {"move_tag": {"tag": f"moved by {who}"}, "edit": {"payload": {"by": who}}}
    return {"reason": "race", **given.get(action, {})}


class Racer:
    """One of the people, in a process of its own. What came of its single actions is kept."""

    def __init__(self, queue: Queue, rank: int) -> None:
        self.queue, self.rank, self.who = queue, rank, f"racer {rank}"
        self.operator, self.draw = admin(queue, self.who), random.Random(rank)
        self.done: list[tuple[str, Step]] = []
        self.refused = 0

    def round(self, action: str, together: Any) -> None:
        """A plan, and single actions, on what was seen before the others began."""
        plan = self.operator.plan(action, PLANS[action], **details(action, self.who))
        seen = [task for state in State for task in self.queue.tasks(state, limit=TASKS)]
        together.wait(60)
        if self.rank % 2:
            self.operator.run(plan.number)
        for task in self.draw.sample(seen, SINGLES):
            self.act(task)
        if not self.rank % 2:
            self.operator.run(plan.number)
        together.wait(60)

    def act(self, task: Task) -> None:
        action = self.draw.choice(ALONE[task.state])
        try:
            given = details(action, f"{self.who} alone")
            now = getattr(self.operator, action)(task.id, version=task.version, **given)
            self.done.append((action, (task.id, task.version, now.version)))
        except (Conflict, TaskNotFound):
            self.refused += 1


def race(path: Path, rank: int, together: Any, ledger: Path) -> None:
    small_pieces(16)  # so that plans meet in the middle
    with open_queue(path) as queue:
        racer = Racer(queue, rank)
        for round in range(ROUNDS):
            racer.round(list(PLANS)[(rank + round) % len(PLANS)], together)
    ledger.write_text(json.dumps([racer.done, racer.refused]))


def toil(path: Path, rank: int, over: Any) -> None:
    """A worker: most of its tasks fail for good."""
    draw = random.Random(rank)
    with open_queue(path) as queue:
        while not over.is_set():
            lease = queue.lease(wait=0.05)
            try:
                if lease is None:
                    continue
                if draw.random() < 0.1:
                    queue.ack(lease)
                else:
                    queue.nack(lease, "no")
            except LeaseLost:  # somebody has taken it back
                continue


def test_nothing_is_moved_twice_by_four_people_while_workers_work(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    with open_queue(path) as queue:
        dead_letters(queue, TASKS)
    together, over = FORK.Barrier(RACERS), FORK.Event()
    ledgers = [tmp_path / f"ledger-{rank}" for rank in range(RACERS)]
    workers = [started(toil, path, rank, over) for rank in range(WORKERS)]
    ended(*[started(race, path, rank, together, ledger) for rank, ledger in enumerate(ledgers)], seconds=100)
    over.set()
    ended(*workers)
    told = [json.loads(ledger.read_text()) for ledger in ledgers]
    alone = [(action, (id, before, after)) for done, _ in told for action, (id, before, after) in done]
    with open_queue(path) as queue:
        plans = queue.plans()
        assert len(plans) == RACERS * ROUNDS
        planned = [(plan.action, step) for plan in plans for step in steps(queue, plan)]
        for plan in plans:
            assert plan.state is PlanState.FINISHED
            assert plan.failed == 0
            assert [why for why in plan.why if not SKIPPED.fullmatch(why)] == []
        nothing_twice([step for _, step in planned + alone])
        journalled(queue, [(action, id) for action, (id, _, _) in planned + alone])
        audited(queue, plans, alone, sum(refused for _, refused in told))
        assert sum(plan.moved for plan in plans) > TASKS
        assert sum(plan.skipped for plan in plans) > TASKS
        assert queue.check() == []


def journalled(queue: Queue, moves: list[tuple[str, str]]) -> None:
    """Each move is in the journal, once (a move between tags twice: out and in), and no other is."""
    found: Counter[tuple[Kind, str]] = Counter()
    for event in queue.journal(limit=1_000_000):
        if event.kind in KINDS.values() and event.detail != "imported":
            assert event.task_id is not None
            found[event.kind, event.task_id] += 1
    expected: Counter[tuple[Kind, str]] = Counter()
    for action, id in moves:
        expected[KINDS[action], id] += 2 if action == "move_tag" else 1
    assert found == expected


def audited(queue: Queue, plans: list[Plan], alone: list[tuple[str, Step]], refused: int) -> None:
    """Each plan and each single action is in the audit, with what came of it."""
    entries = queue.audit(limit=1_000_000)
    runs = {entry.plan: (entry.count, entry.outcome) for entry in entries if entry.action == "run"}
    assert runs == {plan.number: (plan.moved, f"finished: {plan.outcome}") for plan in plans}
    singles = Counter((entry.action, entry.where) for entry in entries if not entry.plan and entry.count)
    assert singles == Counter((action, f"id:{id}") for action, (id, _, _) in alone)
    assert sum(entry.outcome.startswith("refused: ") for entry in entries) == refused > 0


# --- one plan, two runners


def run_at_once(path: Path, rank: int, number: int, together: Any, refused: Any) -> None:
    """Run the plan that the other runs, too. Who runs it waits until the other has been told no."""
    with open_queue(path) as queue:
        together.wait(60)
        try:
            plan = admin(queue, f"runner {rank}").run(number, progress=lambda _: refused.wait(60))
        except Conflict as error:
            told = str(error)
            refused.set()
        else:
            told = plan.outcome
    assert re.search(rf"100 of 100 moved|being run by runner {1 - rank} at .*:\d+: stop it first", told), told


def test_two_processes_never_run_one_plan(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    for round in range(5):
        with open_queue(path) as queue:
            ids = dead_letters(queue, 100)
            number = admin(queue).plan("redrive", "state:dead").number
        together, refused = FORK.Barrier(2), FORK.Event()
        ended(*[started(run_at_once, path, rank, number, together, refused) for rank in range(2)])
        assert refused.is_set()
        with open_queue(path) as queue:
            plan = queue.plan(number)
            assert (plan.run, [id for id, _, _ in steps(queue, plan)]) == (1, ids)
            assert queue.snapshot().totals.redriven == 100 * (round + 1)
            assert queue.check() == []


def run_and_stop_itself(path: Path, number: int, said: Path) -> None:
    """A run that is stopped by SIGSTOP when it has moved something; what it returns is written down."""
    small_pieces(16)

    def stop(plan: Plan) -> None:
        if plan.moved == 48:
            os.kill(os.getpid(), signal.SIGSTOP)

    with open_queue(path, clock=lambda: NOW) as queue:
        plan = admin(queue, "the first").run(number, progress=stop)
        said.write_text(f"{plan.state}, {plan.runner.split(' at ')[0]}, {plan.outcome}")


def wait_stopped(process: Any) -> None:
    """Until SIGSTOP has stopped it."""
    pid, status = os.waitpid(process.pid, os.WUNTRACED)
    assert (pid, os.WIFSTOPPED(status)) == (process.pid, True)


def test_a_runner_that_stood_still_is_replaced_and_moves_nothing_more(tmp_path: Path, clock: Any) -> None:
    path, said = tmp_path / "queue", tmp_path / "said"
    clock.now = NOW
    with open_queue(path, clock=clock) as queue:
        ids = dead_letters(queue, 200)
        number = admin(queue).plan("redrive", "").number
        first = started(run_and_stop_itself, path, number, said)
        wait_stopped(first)
        clock.now = NOW + SILENCE
        with pytest.raises(Conflict, match=r"is being run by the first at .*: stop it first"):
            claimed(queue, number, "the second")
        clock.now += 1
        run = claimed(queue, number, "the second").run
        assert advanced(queue, number, run, 10).moved == 58
        os.kill(first.pid, signal.SIGCONT)
        ended(first)
        assert said.read_text() == "running, the second, 58 of 200 moved, 142 not reached"
        assert advanced(queue, number, run, 1_000).outcome == "200 of 200 moved"
        assert [id for id, _, _ in steps(queue, queue.plan(number))] == ids
        told = [entry.outcome for entry in queue.audit()]
        assert sum("the first" in words and "fell silent: 48 of 200 moved" in words for words in told) == 1
        assert told[-1] == "finished: 200 of 200 moved"
        assert queue.check() == []


def stop_in_the_commit(path: Path, number: int, said: Path) -> None:
    """A run that is stopped by SIGSTOP inside the transaction of its third piece."""
    small_pieces(16)
    finish, told = LmdbRecords.finish, 0

    def count(_: Plan) -> None:
        nonlocal told
        told += 1

    def stop(self: LmdbRecords) -> None:
        finish(self)
        if told == 3:
            count(plan)
            os.kill(os.getpid(), signal.SIGSTOP)

    with open_queue(path, clock=lambda: NOW) as queue:
        plan = queue.plan(number)
        LmdbRecords.finish = stop  # type: ignore[method-assign]
        said.write_text(admin(queue, "the first").run(number, progress=count).outcome)


def test_a_runner_that_stands_still_in_a_commit_is_not_replaced_and_goes_on(tmp_path: Path) -> None:
    """It has the write lock, so that nobody can begin another run; what it was about to write stands or falls whole."""
    path, said = tmp_path / "queue", tmp_path / "said"
    with open_queue(path, clock=lambda: NOW + 2 * SILENCE, busy_timeout=0.2) as queue:
        ids = dead_letters(queue, 100)
        number = admin(queue).plan("redrive", "").number
        first = started(stop_in_the_commit, path, number, said)
        wait_stopped(first)
        assert queue.plan(number).moved == 32
        with pytest.raises(StoreBusy, match="stopped process"):
            claimed(queue, number, "the second")
        os.kill(first.pid, signal.SIGCONT)
        ended(first)
        assert said.read_text() == "100 of 100 moved"
        plan = queue.plan(number)
        assert (plan.run, [id for id, _, _ in steps(queue, plan)]) == (1, ids)
        assert queue.check() == []
