"""Verbs by name with plain arguments and plain answers, here or in a second process on the same store.

``python tests/peer.py`` reads one JSON request a line: ["open", url], ["close"], or [verb, now, arguments].
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from queue_core import Conflict, Item, Lease, LeaseLost, Queue, QueueError, Task, open_queue
from queue_core.task import SECOND, moment

Answer = list[Any]  # ["ok", value, tokens] or [error, details…]


def seen(task: Task) -> dict[str, Any]:
    """All of a task on which every store must agree."""
    record = task.record
    hold = record.hold
    return {
        "id": task.id, "tag": task.tag, "payload": task.payload, "state": task.state.value, "version": task.version,
        "place": task.place, "created": record.created, "attempts": task.attempts, "cycle": task.cycle,
        "max_attempts": task.max_attempts, "leases": task.leases, "defers": task.defers, "key": task.dedupe_key,
        "ready": record.ready if task.pending_since else None, "due": record.due if task.due_at else None,
        "hold": hold and [hold.fence, hold.owner, hold.leased, hold.beat, hold.expires, hold.ttl],
        "history": [[a.number, a.cycle, a.owner, a.started, a.ended, a.outcome.value, a.error] for a in task.history],
        "error": task.error, "reason": task.reason, "entered": record.entered,
        "origin": record.origin and record.origin.value,
    }  # fmt: skip


def _push(queue: Queue, items: list[dict[str, Any]]) -> list[Task]:
    named = [Item(i["payload"], i["tag"], i["id"], _s(i["delay"]), i["max_attempts"], i["key"]) for i in items]
    return queue.push_many(named)


def _lease(queue: Queue, n: int, ttl: int, owner: str, ack: list[str]) -> list[Lease]:
    return queue.lease_many(n, ttl=_s(ttl), owner=owner, ack=ack)


def _change(queue: Queue, action: str, id: str, version: int | None, **details: Any) -> Task:
    if action == "replace":
        return queue.replace(queue.get(id), version=version, **details)
    if action == "extend":
        details["ttl"] = _s(details["ttl"])
    done: Task = getattr(queue, action)(id, version=version, **details)
    return done


def _configure(queue: Queue, tag: str | None, changes: dict[str, Any]) -> None:
    spans = {name: value and _s(value) for name, value in changes.items() if name in ("min_interval", "dead_retention")}
    queue.configure(tag, **(changes | spans))


def _s(span: int) -> float:
    return span / SECOND


VERBS: dict[str, Callable[..., Any]] = {
    "push": _push,
    "lease": _lease,
    "heartbeat": lambda queue, token, ttl: [queue.heartbeat(token, ttl=None if ttl is None else _s(ttl))],
    "ack": lambda queue, tokens: queue.ack_many(tokens),
    "nack": lambda queue, token, error, delay: queue.nack(token, error, retry_in=None if delay is None else _s(delay)),
    "release": lambda queue, token: queue.release(token),
    "defer": lambda queue, token, delay: queue.defer(token, _s(delay)),
    "bury_held": lambda queue, token, reason: queue.dead_letter(token, reason),
    "change": _change,
    "requeue_inflight": lambda queue, older_than: queue.requeue_inflight(
        older_than=None if older_than is None else moment(older_than)
    ),
    "dead_letter_inflight": lambda queue, older_than, reason: queue.dead_letter_inflight(
        older_than=moment(older_than), reason=reason
    ),
    "configure": _configure,
}


def call(queue: Queue, verb: str, args: dict[str, Any]) -> Answer:
    """Run a verb. Errors of the queue are answers, whatever else is raised is not."""
    try:
        value = VERBS[verb](queue, **args)
    except LeaseLost as error:
        return ["LeaseLost", list(error.tokens)]
    except Conflict as error:
        return ["Conflict", error.state, error.version]
    except QueueError as error:
        return [type(error).__name__]
    if isinstance(value, list):
        tokens = [lease.token for lease in value if isinstance(lease, Lease)]
        return ["ok", [seen(one.task if isinstance(one, Lease) else one) for one in value], tokens]
    return ["ok", seen(value) if isinstance(value, Task) else value, []]


class Peer:
    """A second process that runs verbs on command."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, *request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the second process died: see its standard error"
        return json.loads(answer)

    def stop(self) -> None:
        self._process.communicate(timeout=30)


def main() -> None:
    now = 0
    queue: Queue | None = None
    for line in sys.stdin:
        answer: Any = None
        match json.loads(line):
            case ["open", url, options]:
                queue = open_queue(url, clock=lambda: now, **options)
            case ["close"]:
                assert queue is not None
                queue.close()
            case [verb, now, args]:
                assert queue is not None
                answer = call(queue, verb, args)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
