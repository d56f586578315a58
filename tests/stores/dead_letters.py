"""Dead letters by the thousand, processes that act on them, and what has to be true of a plan that is over."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from uuid_utils import uuid7

from queue_core import Attempt, Outcome, Queue, State
from queue_core.control import Operator, runner
from queue_core.plans import Plan, Result, Verdict
from queue_core.stores.base import Adopted
from queue_core.stores.engine import plan as plans
from queue_core.stores.engine.records import Book
from queue_core.task import Record, id_text

BATCH = 10_000
FORK = multiprocessing.get_context("fork")
Step = tuple[str, int, int]  # a task's id, its version before, and that after


def dead_letters(queue: Queue, number: int, tags: str = "abcdefghij") -> list[str]:
    """So many, each with the one attempt that it died of; their ids in the order of their deaths."""
    now = queue.clock()
    attempt = (Attempt(1, 1, "worker", now - 2, now - 1, Outcome.NACKED, "timeout after 30 s"),)
    records = [
        Record(
            uuid7().bytes, 0, 0, State.DEAD, 0, b'{"n":%d}' % index, now, now, 0, max_attempts=1, attempts=1, leases=1,
            history=attempt, error="timeout after 30 s", reason="failed with no attempts left", entered=now,
        )
        for index in range(number)
    ]  # fmt: skip
    for first in range(0, number, BATCH):
        items = [
            Adopted(tags[at % len(tags)], record) for at, record in enumerate(records[first : first + BATCH], first)
        ]
        assert not any(queue.perform(lambda store, items=items: store.adopt(items)))  # type: ignore[misc]
    return [id_text(record.id) for record in records]


def small_pieces(size: int) -> None:
    """From its second piece on, a run of this process deals with so many tasks in a commit, however long that takes."""
    runner.MOST, runner.PIECE_SECONDS = size, 1e6


def admin(queue: Queue, name: str = "ann") -> Operator:
    return Operator(queue, name, "admin", origin="test")


# --- processes


def started(work: Callable[..., object], *arguments: object) -> Any:
    """A forked process at work."""
    process = FORK.Process(target=work, args=arguments, daemon=True)
    process.start()
    return process


def ended(*processes: Any, seconds: float = 60) -> None:
    """Each has done its work, and nothing was wrong with it."""
    for process in processes:
        process.join(seconds)
        assert process.exitcode == 0, f"{process.name}: {process.exitcode}"


def killed(process: Any) -> bool:
    """Whether SIGKILL has ended it; False: it had done its work before, and nothing was wrong with it."""
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return bool(process.exitcode)


# --- what was frozen, and what came of it


@contextmanager
def book(queue: Queue) -> Iterator[Book]:
    """What the store keeps for control, as it is now."""
    with queue.view() as view:
        found: Book = view.reader._records.book  # type: ignore[attr-defined]
        yield found


def outcome(queue: Queue, number: int) -> list[tuple[int, str, Result]]:
    with queue.view() as view:
        return view.outcome(number, limit=1_000_000)


def steps(queue: Queue, plan: Plan) -> list[Step]:
    """What the plan has moved. Of every plan that is over, the outcome is whole and in the order of the selection."""
    with book(queue) as kept:
        frozen = [(id_text(one.id), one.version) for one in plans.walk(kept, plan, 0)]
    results = outcome(queue, plan.number)
    assert [number for number, _, _ in results] == list(range(1, plan.done + 1))
    assert [id for _, id, _ in results] == [id for id, _ in frozen[: plan.done]]
    for verdict in Verdict:
        assert sum(result.verdict is verdict for _, _, result in results) == getattr(plan, verdict.value)
    if plan.over and not plan.note:
        assert plan.selected == plan.moved + plan.skipped + plan.failed == len(frozen)
    moved = [
        (id, before, result.version)
        for (id, before), (_, _, result) in zip(frozen, results, strict=False)
        if result.verdict is Verdict.MOVED
    ]
    assert all(after > before for _, before, after in moved)
    return moved


def nothing_twice(every: list[Step]) -> None:
    """No version of a task was left twice, and none was reached twice."""
    assert len({(id, before) for id, before, _ in every}) == len(every)
    assert len({after for _, _, after in every}) == len(every)
