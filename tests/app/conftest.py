"""Pages run in this process, on a named memory store that the test holds too."""

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
