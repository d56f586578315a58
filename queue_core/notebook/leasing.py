"""A lease for the length of a ``with``: an interrupted cell gives its task back."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from queue_core.errors import LeaseLost
from queue_core.queue import Queue
from queue_core.task import Lease


@contextmanager
def lease_for(queue: Queue, *, ttl: float = 30.0, owner: str | None = None) -> Iterator[Lease | None]:
    """The next task of the rotation, or None; acknowledged at the end of the ``with``.

    An error there fails the attempt, an interrupt gives the task back uncounted. Where the kernel itself dies, the
    lease runs out after ``ttl`` seconds: for longer work let it be longer, or call ``queue.extend(lease.id, ttl)``,
    which keeps the token. Raises LeaseLost at the end when the lease ran out and another has taken the task.
    """
    lease = queue.lease(ttl=ttl, owner=owner)
    if lease is None:
        yield None
        return
    try:
        yield lease
    except Exception as error:
        with suppress(LeaseLost):  # the error of the work is what is to be seen
            queue.nack(lease, error)
        raise
    except BaseException:
        with suppress(LeaseLost):
            queue.release(lease)
        raise
    queue.ack(lease)
