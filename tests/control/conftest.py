"""Queues that keep plans, on the injected clock; each must be sound at the end."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from queue_core import Queue, open_queue
from queue_core.control import Operator


@pytest.fixture(params=["memory", "lmdb"])
def queue(request: pytest.FixtureRequest, tmp_path: Path, clock: Callable[[], int]) -> Iterator[Queue]:
    url = "memory://" if request.param == "memory" else f"lmdb://{tmp_path}/queue"
    with open_queue(url, clock=clock) as queue:
        yield queue
        assert queue.check() == []


@pytest.fixture
def operator(queue: Queue) -> Operator:
    return Operator(queue, "ann@example.org", "operator", origin="test")


@pytest.fixture
def admin(queue: Queue) -> Operator:
    return Operator(queue, "root@example.org", "admin", origin="test")
