"""A queue on disk for the tests of the command line."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from terminal import STARTED

from queue_core import Queue, open_queue


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    """A queue on disk, named by QUEUE_URL; who acts is ann, an operator."""
    monkeypatch.setenv("QUEUE_URL", str(tmp_path / "queue"))
    monkeypatch.setenv("QUEUE_ACTOR", "ann")
    for name in ("QUEUE_ROLE", "QUEUE_REDACT", "VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    with open_queue(tmp_path / "queue") as queue:
        yield queue
        assert queue.check() == []


@pytest.fixture(autouse=True)
def no_process_stays() -> Iterator[None]:
    yield
    while STARTED:
        with STARTED.pop() as process:
            if process.poll() is None:
                process.kill()
