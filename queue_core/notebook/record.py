"""The sample of the notebooks, recorded anew: ``python -m queue_core.notebook.record [FILE] [SECONDS]``.

Real work by real workers, for 20 minutes: every Python file of the standard library and of some distributions is a
task, its tag the distribution that it belongs to. Two processes read, compile and measure them, and refuse those that
are too long. A big tag comes all at once, others little by little, some near the end; one is paused, others limited;
processes are killed, the last of them shortly before the end, so that its leases are seen to run out.

Nothing of the machine is kept: paths begin at the roots of what is installed, hosts are left out.
"""

import os
import random
import signal
import socket
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from queue_core import census
from queue_core.backup import backup
from queue_core.control import Operator
from queue_core.notebook.packing import HOST, packed
from queue_core.notebook.sample import RECORD
from queue_core.queue import Item, Queue, open_queue
from queue_core.task import microseconds
from queue_core.worker import Worker

SECONDS, PROCESSES, OWNER = 1_200.0, 2, "census"
LONG = 1_500  # lines: a longer file is refused
TTL, SILENT = 60.0, 35.0  # seconds: of a lease; for which the last process that is killed has been silent at the end
LATER = 1_800.0  # seconds for which the files of one tag are put off
ROOTS = (sysconfig.get_path("purelib"), sys.base_prefix, str(Path(__file__).parents[2]))  # of all that is named

# Which tags, when their files begin to come and when the last has come, as parts of the whole time.
COMING = {
    "Python standard library": (0.05, 0.05), "streamlit": (0.0, 0.95), "ipython": (0.05, 0.9), "Jinja2": (0.0, 1.0),
    "click": (0.1, 1.0), "requests": (0.0, 0.5), "narwhals": (0.3, 0.4), "Authlib": (0.45, 0.8), "rich": (0.5, 0.98),
    "pytest": (0.7, 0.72), "setuptools": (0.75, 0.9), "Pygments": (0.8, 0.8), "tornado": (0.85, 0.9),
    "websockets": (0.8, 0.9),
}  # fmt: skip
PUT_OFF = "pytest"


def measure(job: Any) -> None:
    """What the workers do: measure a file, the longer the larger it is. Raises what ``census.measured`` raises, and
    ValueError for one that is too long."""
    started, path = time.monotonic(), _found(job.payload["path"])
    try:
        measured = census.measured(census.Source(path, job.tag))
        if measured.lines > LONG:
            raise ValueError(f"too long: {measured.lines:,} lines")
    finally:
        pace = min(0.35 + os.path.getsize(path) / 9_000, 6.0)  # seconds
        time.sleep(max(0.0, pace - (time.monotonic() - started)))


def _found(path: str) -> str:
    return next(whole for root in ROOTS if os.path.exists(whole := os.path.join(root, path)))


def scrub(text: str) -> str:
    """A text with paths that begin at the roots, and without the name of this machine."""
    for root in ROOTS:
        text = text.replace(f"{root}{os.sep}", "")
    return text.replace(f" at {socket.gethostname()}:", f" at {HOST}:")


# --- what happens -----------------------------------------------------------------------------------


def coming() -> list[tuple[float, Item]]:
    """All tasks, in the order in which they come: when, as a part of the whole time, and what."""
    drawn = random.Random(1)
    files: dict[str, list[str]] = {name: [] for name in COMING}
    for source in census.sources():
        if source.distribution in files:
            files[source.distribution].append(scrub(source.path))
    found = []
    for tag, paths in files.items():
        begin, end = COMING[tag]
        drawn.shuffle(paths)
        for place, path in enumerate(paths):
            item = Item({"path": path}, tag, delay=LATER if tag == PUT_OFF else 0, max_attempts=2)
            found.append((begin + (end - begin) * place / len(paths), item))
    return sorted(found, key=lambda pair: pair[0])


def settings(queue: Queue) -> None:
    """What holds some tags back, and favours one."""
    queue.configure("ipython", weight=3)
    queue.configure("tornado", max_inflight=1)
    queue.configure("websockets", min_interval=8.0)


def intervene(queue: Queue) -> None:
    """What a person does: try some dead letters again, give others up, pause a tag."""
    ann = Operator(queue, "ann", "operator", origin="command line")
    for action, tag, reason in (("redrive", "ipython", "is it still so?"), ("purge", "narwhals", "generated files")):
        ann.run(ann.plan(action, f"state:dead tag:{tag}", reason=reason).number)
    queue.configure("Authlib", paused=True)


def kill(queue: Queue) -> None:
    """One of the processes that work, as if it had crashed."""
    workers = queue.snapshot().workers
    newest = max(worker.seen_at for worker in workers)
    alive = [worker for worker in workers if (newest - worker.seen_at).total_seconds() < SILENT / 2]
    os.kill(min(alive, key=lambda worker: worker.started_at).pid, signal.SIGKILL)


def happen(queue: Queue, seconds: float) -> None:
    """All of it, in its time."""
    tasks = iter(coming())
    begun, ahead = time.monotonic(), next(tasks, None)
    acts = [(0.55 * seconds, kill), (0.75 * seconds, intervene), (seconds - SILENT, kill)]  # by time
    while (gone := time.monotonic() - begun) < seconds:
        due = []
        while ahead is not None and ahead[0] * seconds <= gone:
            due.append(ahead[1])
            ahead = next(tasks, None)
        queue.push_many(due)
        while acts and acts[0][0] <= gone:
            acts.pop(0)[1](queue)
        time.sleep(0.1)


@contextmanager
def working(queue: Queue) -> Iterator[None]:
    """While inside, two processes that work; they have reported when it begins."""
    worker = Worker(
        queue, f"{__package__}.record:measure", processes=PROCESSES, concurrency=3, ttl=TTL, owner=OWNER
    )  # fmt: skip
    thread = threading.Thread(target=worker.run, kwargs={"signals": False})
    thread.start()
    try:
        while len(queue.snapshot().workers) < PROCESSES:
            time.sleep(0.1)
        yield
    finally:
        worker.stop(now=True)
        thread.join()


def record(target: Path, seconds: float = SECONDS) -> None:
    """Record for so many seconds, and write what a queue is then to a file."""
    with TemporaryDirectory() as home, open_queue(f"{home}/queue") as queue:
        settings(queue)
        with working(queue):
            happen(queue, seconds)
            taken = backup(queue, f"{home}/backup")
        target.write_bytes(packed(f"{home}/backup", microseconds(taken.taken_at, "taken_at"), scrub))


if __name__ == "__main__":
    record(Path(sys.argv[1]) if len(sys.argv) > 1 else RECORD, float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS)
