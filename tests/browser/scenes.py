"""Queues in which there is something to see on every page."""

import json
import sys
import time
import traceback
from collections.abc import Callable

from queue_core import Item, Queue, open_queue
from queue_core.control import Operator
from queue_core.ledger import WorkerRecord
from queue_core.task import SECOND

MINUTES = 45


def lived_in(queue: Queue) -> None:
    """Three quarters of an hour of work on the modules of the standard library, up to now: weights and a paused tag,
    leases of two owners of which one has expired, three error groups, a plan that ran, an audit, workers."""
    begun = time.time_ns() // 1_000 - MINUTES * 60 * SECOND
    names = sorted(sys.stdlib_module_names)
    now = [begun]
    with open_queue(queue.url, clock=lambda: now[0]) as past:
        past.configure("encodings", weight=3)
        past.configure("email", max_inflight=4)
        for minute in range(MINUTES):
            now[0] = begun + minute * 60 * SECOND
            chosen = names[minute * 6 : minute * 6 + 6]
            past.push_many([Item({"module": name}, "encodings", max_attempts=1) for name in chosen])
            past.push_many([Item({"module": name}, "email", max_attempts=1) for name in chosen[:2]])
            past.push({"module": chosen[0]}, tag=f"modules {chosen[0].strip('_')[0]}", max_attempts=1)
            leases = past.lease_many(4, ttl=50, owner="worker-1")
            now[0] += (2 + minute % 7) * SECOND
            lost = [leases.pop(minute % len(leases))] if minute % 5 == 3 else []
            past.ack_many(leases)
            for lease in lost:
                past.nack(lease, failures()[minute % 3])
        now[0] = begun + (MINUTES * 60 - 40) * SECOND
        past.lease_many(3, ttl=3_600, owner="worker-1")
        past.lease_many(2, ttl=15, owner="worker-2")
        seen = begun + MINUTES * 60 * SECOND
        past.report(WorkerRecord("worker-1", "host-a", 4_711, begun, seen, concurrency=4, done=170, failed=11))
        past.report(WorkerRecord("worker-2", "host-b", 4_712, begun, now[0] - 300 * SECOND, done=3))
    Operator(queue, "ann@example.org", "admin", origin="cli").configure("email", paused=True, reason="mail is down")
    operator = Operator(queue, "bob@example.org", origin="notebook")
    mended = [task for task in queue.tasks("dead") if "JSONDecodeError" in str(task.error)]
    operator.run(operator.plan("redrive", ids=mended[:2], reason="the parser is mended").number)
    operator.plan("purge", "error:KeyError", reason="too old")


def failures() -> list[str]:
    """Tracebacks of three kinds, as a worker hands them in."""

    def told(act: Callable[[], object]) -> str:
        try:
            act()
        except (LookupError, ValueError, OSError):
            return traceback.format_exc()
        raise AssertionError("it did not fail")

    return [
        told(lambda: json.loads("{")),
        told(lambda: dict[str, int]()["size"]),
        told(lambda: open("/nowhere/at/all")),
    ]
