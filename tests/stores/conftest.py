"""What the tests of stores share."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from breaking_files import ids
from breaking_files import opened as standing
from browsing import opened

from queue_core import Item, Queue


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory in memory where there is one, for tests that make very many files."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as path:
        yield Path(path)


@pytest.fixture
def path(place: Path) -> Path:
    """Where the files store of this test is."""
    return place / "queue"


@pytest.fixture
def queue(path: Path) -> Iterator[Queue]:
    """The files store of this test."""
    with opened(path) as queue:
        yield queue


@pytest.fixture
def template(place: Path) -> Path:
    """Tasks in every state, two in flight, one of them expired, one undecodable."""
    path = place / "template"
    with standing(path) as queue:
        queue.push_many(
            [Item(number, "ab"[number % 2], UUID(int=number), dedupe_key=f"k{number}") for number in range(1, 9)]
        )
        queue.push("later", tag="c", id=UUID(int=9), delay=60)
        queue.lease_many(2, ttl=100, owner="w")
        queue.dead_letter(ids(5)[0], "no")
        queue.cancel(ids(7)[0])
    broken = next((path / "pending").rglob(f"*{ids(3)[0]}.json"))
    broken.write_bytes(broken.read_bytes()[:100])
    return path
