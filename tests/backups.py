"""A queue with tasks in every state, and what there is of it, for the tests of backups."""

from pathlib import Path

from queue_core import Item, Queue
from queue_core.backup.placing import UNFINISHED
from queue_core.task import Task

ODD = ["", "a/b", "\0", "é☃🦉", "x" * 10_000, "line\nbreak", "'; --", "\u202e"]
PAYLOADS = [None, "", [], {"\ud800": "\udfff"}, 2**70, -0.0, "\0", "🦉" * 10_000, {"a": {"b": [1, "2", None]}}]


def busy(queue: Queue) -> list[str]:
    """Tasks in every state, odd text everywhere; the tokens of those in flight."""
    queue.push_many([Item(payload, tag, dedupe_key=tag or None) for tag, payload in zip(ODD, PAYLOADS, strict=False)])
    queue.push_many([(n, f"tag{n % 3}") for n in range(300)])
    queue.push("later", tag="\0", delay=3600)
    queue.configure("é☃🦉", weight=3, max_inflight=7)
    queue.configure("paused", paused=True)
    queue.ack_many(queue.lease_many(40, owner="done"))
    for task in queue.tasks("pending", limit=20).items:
        queue.dead_letter(task.id, "no\ud800")
    for task in queue.tasks("dead", limit=5).items:
        queue.purge(task.id)
    held = queue.lease_many(30, ttl=30, owner="worker\n1")
    queue.nack(held[0], "again")
    return [lease.token for lease in held[1:]]


def shown(task: Task) -> tuple[object, ...]:
    """All of a task but what a new epoch changes in one that was in flight."""
    record = task.record
    return (
        task.id, task.tag, record.payload, record.place, task.state, task.attempts, task.max_attempts, task.cycle,
        task.leases, task.dedupe_key, task.error, task.reason, record.history, record.due, record.entry, record.created,
    )  # fmt: skip


def everything(queue: Queue) -> dict[str, tuple[object, ...]]:
    states = ("pending", "scheduled", "inflight", "dead", "trash")
    return {task.id: shown(task) for state in states for task in queue.tasks(state, limit=10_000)}


def leftovers(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if path.name.startswith(UNFINISHED)]
