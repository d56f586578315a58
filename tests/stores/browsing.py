"""A files store and what lies in its directory, for the tests that look around in it."""

from pathlib import Path
from typing import Any
from uuid import UUID

from queue_core import Lease, Queue, Task, open_queue
from queue_core.task import SECOND

NOW = 1_750_000_000 * SECOND


def opened(path: Path, **options: Any) -> Queue:
    """With a clock that stands, and without flushes, unless asked otherwise."""
    return open_queue(f"files://{path}", **{"clock": lambda: NOW, "durability": "none", **options})


def tasks(path: Path) -> list[str]:
    """The files of all tasks, sorted as ``ls`` does."""
    states = ("pending", "scheduled", "inflight", "dead", "trash")
    return sorted(str(file.relative_to(path)) for state in states for file in (path / state).rglob("*.json"))


def uuid(number: int) -> str:
    return str(UUID(int=number))


def lease_of(task: Task) -> Lease:
    """The lease on a task that is in flight."""
    return Lease(task)
