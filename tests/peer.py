"""Verbs by name with plain arguments and plain answers, here or in a second process on the same store.

``python tests/peer.py`` reads one JSON request a line: ["open", url], ["close"], or [verb, now, arguments].
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from planned import ENTRY, advanced, by_hand, claimed, control, frozen, stopped, undone

from queue_core import Conflict, Item, Lease, LeaseLost, Queue, QueueError, Task, open_queue
from queue_core.plans import Plan
from queue_core.stores.base import Adopted, Change
from queue_core.task import SECOND, Attempt, Hold, Outcome, Record, State, moment, parse_id

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
        "edits": [[edit.at, edit.version, json.loads(edit.payload)] for edit in record.edits],
    }  # fmt: skip


def _push(queue: Queue, items: list[dict[str, Any]]) -> list[Task]:
    named = [Item(i["payload"], i["tag"], i["id"], _s(i["delay"]), i["max_attempts"], i["key"]) for i in items]
    return queue.push_many(named)


def _lease(queue: Queue, n: int, ttl: int, owner: str, ack: list[str]) -> list[Lease]:
    return queue.lease_many(n, ttl=_s(ttl), owner=owner, ack=ack)


def _change(queue: Queue, action: str, id: str, version: int | None, **details: Any) -> Task:
    if action == "replace":
        return queue.replace(queue.get(id), version=version, **details)
    if action in ("edit", "move_tag"):
        change = Change(action, version, **_stored(queue, details))
        found = queue.perform(lambda store: store.change(parse_id(id), change))
        with queue.view() as view:
            return view.task(found)
    if action == "extend":
        details["ttl"] = _s(details["ttl"])
    done: Task = getattr(queue, action)(id, version=version, **details)
    return done


def _configure(queue: Queue, tag: str | None, changes: dict[str, Any]) -> None:
    spans = {name: value and _s(value) for name, value in changes.items() if name in ("min_interval", "dead_retention")}
    queue.configure(tag, **(changes | spans))


def _s(span: int) -> float:
    return span / SECOND


def _stored(queue: Queue, details: dict[str, Any]) -> dict[str, Any]:
    """The details of a change as a store takes them."""
    return details | ({"payload": queue.dump(details["payload"])} if "payload" in details else {})


def _adopt(queue: Queue, items: list[dict[str, Any]]) -> list[bool]:
    """Whether each was taken in."""
    given = [
        Adopted(i["tag"], Record(
            parse_id(i["id"]), 77, 1 << 40, State(i["state"]), 1 << 40, queue.dump(i["payload"]), i["created"],
            i["ready"], i["due"], i["max_attempts"], i["key"], i["attempts"], 1, i["leases"], 0,
            i["hold"] and Hold(i["hold"][0], 7, *i["hold"][1:]),
            tuple(Attempt(n, c, w, s, e, Outcome(o), text) for n, c, w, s, e, o, text in i["history"]),
            i["error"], i["reason"], 1 << 40, i["entered"], 1 << 40, i["origin"] and State(i["origin"]), b"elsewhere",
        )) for i in items
    ]  # fmt: skip
    return [why is None for why in queue.perform(lambda store: store.adopt(given))]


def _shown(queue: Queue, plan: Plan, since: int) -> dict[str, Any]:
    """A plan with what came of each task that was dealt with ``since``."""
    with queue.view() as view:
        rows = [[id, row.verdict.value, row.version] for _, id, row in view.outcome(plan.number, after=since)]
    return {
        "number": plan.number, "state": plan.state.value, "run": plan.run, "selected": plan.selected,
        "moved": plan.moved, "skipped": plan.skipped, "failed": plan.failed, "rows": rows,
    }  # fmt: skip


def _resolve(queue: Queue, text: str, by: str | None) -> None:
    mark = next((group.fingerprint for group in queue.groups() if group.text == text), b"12345678")
    control(queue, lambda c: c.resolve(mark, by, ENTRY))


def _freeze(queue: Queue, action: str, chosen: list[Any], **options: Any) -> dict[str, Any]:
    return _shown(queue, frozen(queue, action, chosen, **_stored(queue, options)), 0)


def _claim(queue: Queue, number: int, runner: str) -> dict[str, Any]:
    plan = claimed(queue, number, runner)
    return _shown(queue, plan, plan.done)


def _advance(queue: Queue, number: int, run: int, limit: int) -> dict[str, Any]:
    done = queue.plan(number).done
    return _shown(queue, advanced(queue, number, run, limit), done)


def _stop(queue: Queue, number: int, run: int | None) -> dict[str, Any]:
    plan = stopped(queue, number, run, "asked to")
    return _shown(queue, plan, plan.done)


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
    "adopt": _adopt,
}
PLANNING: dict[str, Callable[..., Any]] = {
    "resolve": _resolve,
    "freeze": _freeze,
    "claim": _claim,
    "advance": _advance,
    "stop": _stop,
    "undo": lambda queue, number: _shown(queue, undone(queue, number), 0),
}
BY_HAND: dict[str, Callable[..., Any]] = {  # what stands for those where no plans are kept
    "commit": lambda queue: queue.configure() and None,
    "by_hand": lambda queue, action, chosen, befores, **options: by_hand(
        queue, action, chosen, befores, **_stored(queue, options)
    ),
}


def call(queue: Queue, verb: str, args: dict[str, Any]) -> Answer:
    """Run a verb. Errors of the queue are answers, whatever else is raised is not."""
    try:
        value = (VERBS | PLANNING | BY_HAND)[verb](queue, **args)
    except LeaseLost as error:
        return ["LeaseLost", list(error.tokens)]
    except Conflict as error:
        return ["Conflict", error.state, error.version]
    except QueueError as error:
        return [type(error).__name__]
    if isinstance(value, list):
        tokens = [lease.token for lease in value if isinstance(lease, Lease)]
        return ["ok", [_plain(one) for one in value], tokens]
    return ["ok", _plain(value), []]


def _plain(value: Any) -> Any:
    match value:
        case Lease():
            return seen(value.task)
        case Task():
            return seen(value)
        case _:
            return value


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
