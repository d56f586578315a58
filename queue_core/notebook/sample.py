"""The queue that a notebook looks at: the one that ``QUEUE_URL`` names, or a sample of real work in memory."""

import os
import sysconfig
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from queue_core import census
from queue_core.errors import StoreGone
from queue_core.queue import Item, Queue, open_queue, system_clock
from queue_core.task import SECOND

STEP = 3 * SECOND  # by which the sample's clock goes on at each look, until it has caught up
BATCH, WORK = 200, 40  # files that come in at a time, and that are compiled meanwhile
LOOKS = 3 * WORK + 2  # at the clock for each batch: a lease looks twice
LONG = 200  # lines: a longer file is refused, so that there are dead letters

_opened: dict[str, Queue] = {}  # by URL, "" is the sample: a cell that runs again gets the same queue
_STDLIB = Path(sysconfig.get_path("stdlib"))


def opened(url: str | None = None) -> Queue:
    """The queue at ``url``, else the one that ``QUEUE_URL`` names, else a sample; the same one each time, while it is
    open. A queue is never made: raises StoreGone where there is none.

    A relative path begins where the kernel runs, which is beside the notebook.
    """
    given = url or os.environ.get("QUEUE_URL") or ""
    where = _absolute(given)
    kept = _opened.get(where)
    if kept is not None and _is_open(kept):
        return kept
    queue = _open(given, where) if where else sample()
    _opened[where] = queue
    return queue


def _absolute(url: str) -> str:
    scheme, separator, path = url.rpartition("://")
    if not url or scheme not in ("", "lmdb", "files"):
        return url
    return f"{scheme}{separator}{os.path.abspath(os.path.expanduser(path))}"


def _is_open(queue: Queue) -> bool:
    try:
        queue.counts()
    except StoreGone:
        return False
    return True


def _open(given: str, where: str) -> Queue:
    if where.startswith("memory://"):
        return open_queue(where)
    try:
        return open_queue(where, create=False)
    except StoreGone as error:
        told = "" if given == where else f"; {given} is taken from where the kernel runs, {os.getcwd()}"
        raise StoreGone(f"there is no queue at {where}{told}: correct QUEUE_URL, or unset it for a sample") from error


# --- the sample -----------------------------------------------------------------------------------------


class _Clock:
    """Begins in the past and goes on by a step at each look, which makes a history; then it is the system's."""

    def __init__(self, looks: int) -> None:
        self._at = system_clock() - looks * STEP

    def __call__(self) -> int:
        self._at = min(self._at + STEP, max(system_clock(), self._at))
        return self._at


def sample(url: str = "memory://") -> Queue:
    """A queue of real work: every Python file of the standard library is a task, its tag is its package.

    Files come in faster than they are compiled, those of more than 200 lines are refused, and a few are in flight
    when it ends, for a few minutes. The package ``encodings`` has a weight of 3, ``idlelib`` is paused.
    """
    files = [source.path for source in census.sources(search=())]
    starts = range(0, len(files), BATCH)
    queue = open_queue(url, tag_of=_package, clock=_Clock(len(starts) * LOOKS + 10))
    queue.configure("encodings", weight=3)
    queue.configure("idlelib", paused=True)
    for start in starts:
        queue.push_many(_item(path) for path in files[start : start + BATCH])
        for _ in range(WORK):
            _work(queue)
    for number in (1, 2, 3):
        queue.lease_many(2, ttl=60 * number, owner=f"worker-{number}")
    return queue


def _work(queue: Queue) -> None:
    lease = queue.lease(owner="notebook")
    if lease is None:
        return
    try:
        found = census.measured(census.Source(lease.payload, lease.tag))
        if found.lines > LONG:
            raise ValueError(f"too long: {found.lines:,} lines")
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the file
        queue.nack(lease, error)
    else:
        queue.ack(lease)


def _item(path: str) -> Item:
    """Its id follows from its path, and the wait before a retry from the id: two samples are alike."""
    return Item(path, id=uuid5(NAMESPACE_URL, path), max_attempts=2)


def _package(path: str) -> str:
    """The tag of a file: its package."""
    first, *deeper = Path(path).relative_to(_STDLIB).parts
    return first if deeper else "single modules"
