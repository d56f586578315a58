"""Other processes, forked children and threads, for the tests that break things."""

import collections
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest

from queue_core import (
    Queue,
    QueueError,
)

HOLD = """
    import sys, time
    from queue_core import open_queue
    from queue_core.stores.embedded import EmbeddedStore
    queue = open_queue(sys.argv[1])
    def stay(tx):
        tx.meta.last_place += 1000  # half a change, never committed
        print("ready", flush=True)
        time.sleep(60)
    queue._store._write(stay)
"""


@contextmanager
def process(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python process that runs the code; its first line of output says that it is ready."""
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.communicate()


@contextmanager
def pushing(queue: Queue) -> Iterator[None]:
    """Three threads push meanwhile."""
    stop = threading.Event()

    def push() -> None:
        while not stop.is_set():
            queue.push(1)

    pushers = [threading.Thread(target=push) for _ in range(3)]
    for thread in pushers:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in pushers:
            thread.join()


def consume(endless: Iterable[object]) -> None:
    collections.deque(endless, maxlen=0)


def in_child(work: Callable[[], object]) -> int:
    """Fork, run the work, and give the exit status: 0 when it returned something true."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    pytest.fail("the forked child hangs")


def run_threads(queue: Queue, works: list[Callable[[Queue], object]]) -> list[object]:
    results: list[object] = [None] * len(works)

    def run(index: int) -> None:
        try:
            results[index] = works[index](queue)
        except QueueError as error:
            results[index] = type(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
