"""Tasks to act on."""

from typing import Any

from queue_core import Queue


def dead(
    queue: Queue, count: int = 1, *, tag: str = "acme", error: str = "timeout after 30 s", **more: Any
) -> list[str]:
    """The ids of so many new dead letters, in the order of their deaths."""
    ids = []
    for number in range(count):
        task = queue.push({"n": number}, tag=tag, max_attempts=1, **more)
        lease = next(lease for lease in _leases(queue) if lease.id == task.id)
        queue.nack(lease, error)
        ids.append(task.id)
    return ids


def _leases(queue: Queue) -> Any:
    while lease := queue.lease():
        yield lease
