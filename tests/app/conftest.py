"""Pages run in this process, on a named memory store that the test holds too."""

import sys
from collections.abc import Iterator
from uuid import uuid4

import pytest

from queue_core import Queue, open_queue


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    url = f"memory://{uuid4()}"
    monkeypatch.setenv("QUEUE_URL", url)
    with open_queue(url) as queue:
        yield queue
        assert queue.check() == []


@pytest.fixture(autouse=True)
def the_program_stays_what_it_was() -> Iterator[None]:
    """AppTest makes the page the main module, which processes that are started later would run."""
    program = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = program
