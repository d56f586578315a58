"""One contract for every store. A test that needs more than every store has says so: ``@needs("multi_process")``."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from drive import Open

from queue_core import Queue, open_queue
from queue_core.stores.base import Capabilities

STORES = {"memory": "memory://{name}", "lmdb": "lmdb://{path}/queue", "files": "files://{path}/queue"}
OPTIONS = {"files": {"durability": "none"}}
MEMORY = Path("/dev/shm")  # flushes would be most of the time: these tests run in memory where there is room


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(capability): only for stores that declare it")


@cache
def capabilities(store: str) -> Capabilities:
    with tempfile.TemporaryDirectory() as path, open_queue(STORES[store].format(path=path, name="")) as queue:
        return queue.capabilities


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store" in metafunc.fixturenames:
        needed = [mark.args[0] for mark in metafunc.definition.iter_markers("needs")]
        able = [store for store in STORES if all(getattr(capabilities(store), name) for name in needed)]
        metafunc.parametrize("store", able)


@pytest.fixture
def url(store: str, tmp_path: Path) -> Iterator[str]:
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 1 << 30:
        with tempfile.TemporaryDirectory(dir=MEMORY) as path:
            yield STORES[store].format(path=path, name=uuid4())
    else:
        yield STORES[store].format(path=tmp_path, name=uuid4())


@pytest.fixture
def opened(store: str, url: str, clock: Callable[[], int]) -> Iterator[Open]:
    """Opens handles on the store of this test, with its clock unless another is given; it must be sound at the end."""
    queues: list[Queue] = []

    def one(**options: Any) -> Queue:
        queues.append(open_queue(url, **{"clock": clock, **OPTIONS.get(store, {}), **options}))
        return queues[-1]

    yield one
    assert one().check() == []
    for queue in queues:
        queue.close()


@pytest.fixture
def queue(opened: Open) -> Queue:
    return opened()
