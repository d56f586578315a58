"""The queue that a notebook looks at: the one that ``QUEUE_URL`` names, or a recorded sample."""

import atexit
import fcntl
import os
import shutil
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from queue_core.errors import StoreGone
from queue_core.notebook.packing import unpacked
from queue_core.queue import Queue, open_queue
from queue_core.task import moment

RECORD = Path(__file__).with_name("sample.bin")  # made by ``python -m queue_core.notebook.record``
PREFIX = "queue-core-sample-"
FRESH = 60.0  # seconds for which a directory that nobody holds may be one that is being made

_opened: dict[str, Queue] = {}  # by URL, "" is the sample: a cell that runs again gets the same queue
_recorded: dict[str, datetime] = {}  # samples by URL: when they were recorded


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


def about(queue: Queue) -> str:
    """What a notebook looks at, in a sentence: where the queue is, or that it is a sample, and of when."""
    at = _recorded.get(queue.url)
    if at is None:
        return repr(queue)
    return (
        f"A recorded sample of the census, recorded on {at:%Y-%m-%d} until {at:%H:%M} UTC. Its clock goes on from then."
    )


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


def sample() -> Queue:
    """A queue at the end of 20 minutes of real work, as they were recorded: see ``queue_core.notebook.record``.

    Each call gives a store of its own, in a temporary directory that goes when this process ends. Its clock goes on
    from the moment at which it was recorded, so that nothing has waited or run out for longer than it had; another
    process that opens the store would go by the present time.
    """
    found, directory = unpacked(RECORD.read_bytes()), _temporary()
    found.pour(directory)
    begun = time.monotonic_ns()

    def clock() -> int:
        return found.at + (time.monotonic_ns() - begun) // 1_000

    queue = open_queue(directory, clock=clock, create=False, durability="none")
    _recorded[queue.url] = moment(found.at)
    return queue


def _temporary() -> str:
    """A directory that goes when this process ends; what a killed one has left goes now."""
    for path in Path(gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # in use, somebody else's, or gone just now
            if time.time() - path.stat().st_mtime > FRESH:
                os.close(_held(path))
                shutil.rmtree(path)
    directory = mkdtemp(prefix=PREFIX)
    _held(directory)
    atexit.register(_remove, directory, os.getpid())
    return directory


def _held(directory: str | os.PathLike[str]) -> int:
    """Hold a directory, as a sign of life, until what this gives is closed, or the process ends. Raises OSError while
    another holds it."""
    handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def _remove(directory: str, owner: int) -> None:
    if os.getpid() == owner:  # and not a fork of it
        shutil.rmtree(directory, ignore_errors=True)
