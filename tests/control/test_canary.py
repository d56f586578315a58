"""A canary: so many tasks first, then all others if enough of those succeeded."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from acting import dead
from waiting import until

from queue_core import Lease, Queue
from queue_core.control import Operator, runner
from queue_core.plans import Plan, PlanState


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "POLL", 0.005)


@contextmanager
def working(queue: Queue, handle: Callable[[Lease], None]) -> Iterator[None]:
    """A worker beside, until the end."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            lease = queue.lease(wait=0.02)
            if lease is not None:
                handle(lease)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)


def test_when_enough_succeed_the_others_follow(queue: Queue, operator: Operator) -> None:
    dead(queue, 50)
    seen: list[Plan] = []
    plan = operator.plan("redrive", "", canary=5, success=0.8)
    with working(queue, queue.ack):
        done = operator.run(plan.number, progress=seen.append)
        until(lambda: queue.counts().all == 0)
    assert (done.state, done.moved, done.canary_passed) == (PlanState.FINISHED, 50, True)
    assert 5 in [plan.moved for plan in seen]


def test_when_too_many_fail_it_stops_and_says_so(queue: Queue, operator: Operator) -> None:
    dead(queue, 50)
    plan = operator.plan("redrive", "", canary=5, success=0.8)
    failing = iter([True, False, True, False, False])

    def handle(lease: Lease) -> None:
        if next(failing):
            queue.nack(lease, "still down")
        else:
            queue.ack(lease)

    with working(queue, handle):
        done = operator.run(plan.number)
    assert (done.state, done.moved, done.left) == (PlanState.STOPPED, 5, 45)
    assert done.note.startswith("the canary failed: of 5 tasks")
    assert "80% had to" in done.note
    assert queue.counts().dead >= 47
    assert queue.audit()[-1].outcome.startswith("stopped: 5 of 50 moved, 45 not reached")


def test_a_retry_is_not_an_end(queue: Queue, operator: Operator) -> None:
    dead(queue, 2)
    for task in queue.tasks("dead"):
        queue.push(task.payload, tag="acme", id=task.id, max_attempts=3)
    leases = queue.lease_many(2)
    for lease in leases:
        queue.dead_letter(lease, "bad")
    plan = operator.plan("redrive", "", canary=1, success=1)
    tries = iter([False, True, True])

    def handle(lease: Lease) -> None:
        if next(tries):
            queue.ack(lease)
        else:
            queue.nack(lease, "once more", retry_in=0)

    with working(queue, handle):
        assert operator.run(plan.number).state is PlanState.FINISHED


def test_a_canary_that_waits_can_be_stopped_and_waits_on_when_resumed(queue: Queue, operator: Operator) -> None:
    dead(queue, 10)
    plan = operator.plan("redrive", "", canary=2)
    asked = iter([False, False, True])
    waiting = operator.run(plan.number, stopped=lambda: next(asked, True))
    assert (waiting.state, waiting.moved) == (PlanState.STOPPED, 2)
    leases = queue.lease_many(2)
    for lease in leases:
        queue.ack(lease)
    done = operator.run(plan.number)
    assert (done.state, done.moved) == (PlanState.FINISHED, 10)


def test_a_canary_of_all_is_no_more_than_the_plan(queue: Queue, operator: Operator) -> None:
    dead(queue, 3)
    assert operator.run(operator.plan("redrive", "", canary=100).number).moved == 3


def test_tasks_that_were_skipped_are_not_among_the_canary(queue: Queue, operator: Operator, clock: Any) -> None:
    ids = dead(queue, 10)
    plan = operator.plan("redrive", "", canary=2)
    for id in ids[:5]:
        queue.purge(id)
    with working(queue, queue.ack):
        done = operator.run(plan.number)
    assert (done.moved, done.skipped, done.canary_passed) == (5, 5, True)


def test_a_canary_that_failed_can_be_skipped(queue: Queue, operator: Operator) -> None:
    dead(queue, 10)
    plan = operator.plan("redrive", "", canary=2, success=1)
    with working(queue, lambda lease: (queue.nack(lease, "still down"), None)[1]):
        assert operator.run(plan.number).state is PlanState.STOPPED
        assert operator.run(plan.number).state is PlanState.STOPPED
    assert operator.run(plan.number, skip_canary=True).moved == 10
