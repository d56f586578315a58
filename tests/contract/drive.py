"""Moves that the contract tests make all the time."""

from collections.abc import Callable
from typing import Any

from queue_core import Lease, Queue

Open = Callable[..., Queue]


def fill(queue: Queue, **numbers: int) -> None:
    """``fill(queue, a=2)`` pushes the payloads a0 and a1 in tag a."""
    queue.push_many([(f"{tag}{i}", tag) for tag, number in numbers.items() for i in range(number)])


def lease(queue: Queue, **arguments: Any) -> Lease:
    """The next lease, of which there must be one."""
    found = queue.lease(**arguments)
    assert found is not None
    return found


def serve(queue: Queue, n: int) -> list[Lease]:
    """Up to the next ``n`` serves, each done before the next."""
    served = []
    for _ in range(n):
        if (found := queue.lease()) is None:
            break
        queue.ack(found)
        served.append(found)
    return served


def payloads(queue: Queue, n: int) -> list[Any]:
    """Those of the next ``n`` serves."""
    return [found.payload for found in serve(queue, n)]


def later(queue: Queue, clock: Any, seconds: float) -> None:
    """Let the queue live for a while: retention counts at most an hour between two commits."""
    while seconds > 0:
        clock.advance(min(seconds, 3600))
        queue.configure()
        seconds -= 3600
