"""A files store with something of everything in it, and verbs that take it apart, for the tests that break things."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from peer import seen

from queue_core import Item, Lease, Queue, State, open_queue
from queue_core.task import SECOND

NOW = 1_750_000_000 * SECOND


def opened(path: Path) -> Queue:
    return open_queue(f"files://{path}", clock=lambda: NOW)


def contents(queue: Queue) -> Any:
    """All that the store tells, what is not sound in it as well: at first a file that does not decode."""
    tasks = [
        seen(task) | {"payload": task.record.payload} for state in State for task in queue.tasks(state, limit=1_000)
    ]
    with queue.view() as view:
        findings = sorted(finding.message for finding in view.check())
        snapshot = view.snapshot()
        tags = [(tag.name, tag.settings, tag.why_not) for tag in snapshot.tags]
        return tasks, view.counts(), snapshot.totals, snapshot.ring, tags, findings


def ids(*numbers: int) -> list[str]:
    return [str(UUID(int=number)) for number in numbers]


def held(queue: Queue) -> list[Any]:
    return [Lease(task) for task in queue.tasks("inflight")]


VERBS: dict[str, Callable[[Queue], object]] = {
    "push": lambda queue: queue.push_many([Item("x", tag, id) for tag, id in zip("az", ids(21, 22), strict=True)]),
    "push again": lambda queue: queue.push("new", tag="a", id=ids(2)[0]),
    "lease past what does not decode": lambda queue: queue.lease_many(3, ack=held(queue)[:1]),
    "all that is left": lambda queue: queue.ack_many(held(queue)),
    "nack": lambda queue: queue.nack(held(queue)[0], "boom", retry_in=5),
    "expire": lambda queue: queue.requeue_inflight(),
    "redrive": lambda queue: queue.redrive(ids(5)[0]),
    "settings": lambda queue: queue.configure("a", paused=True, max_inflight=1),
}
