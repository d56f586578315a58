"""Restoring a backup: a store of its own, under a new epoch."""

import os
from typing import Any

from queue_core.backup.placing import appearing, real_path
from queue_core.backup.records import Backup, Restored, Told, read, silent
from queue_core.backup.verifying import verify
from queue_core.errors import InvalidArgument, StoreCorrupt
from queue_core.queue import open_queue, system_clock
from queue_core.stores.base import Clock


def restore(
    source: str | os.PathLike[str], to: str | os.PathLike[str], *, clock: Clock = system_clock,
    told: Told = silent,
) -> Restored:  # fmt: skip
    """Make a store of a backup, in a directory that is not there yet or is empty.

    The backup is verified first, and stays as it is. Before the store appears, its epoch is raised, versions and fences
    jump beyond all that the original can have given out, and what was in flight goes back to its place, its attempt
    ended as requeued: no token, fence or version of the original means anything here. What was done after the backup is
    not known here: a task that was acknowledged since runs again, one that was pushed since is not there.

    Raises InvalidArgument when the source is no backup or the target is taken, StoreCorrupt when the backup is not
    sound, StoreFull and StoreError when the disk cannot take it: nothing is left there then.
    """
    origin = real_path(source)
    taken = Backup.read(origin)
    if taken is None:
        raise InvalidArgument(f"{origin} is no backup, it has no backup.json: take one with queue-core backup DIR")
    from queue_core.stores.lmdb.backup import begin_epoch, forget_locks, pour
    from queue_core.stores.lmdb.health import FILE

    place = real_path(to)
    with appearing(place) as directory:
        verdict = verify(origin, told=told)
        if not verdict.sound:
            first = verdict.faults[0]
            raise StoreCorrupt(
                f"the backup {origin} is not sound ({first.part}: {first.message}): restore another; queue-core "
                "verify tells all that is wrong with this one"
            )
        copy = os.path.join(directory, FILE)
        file = os.open(os.path.join(origin, FILE), os.O_RDONLY | os.O_CLOEXEC)
        try:
            pour(file, copy, taken.bytes, told)
        finally:
            os.close(file)
        if read(copy, silent)[1] != taken.blake2b:
            raise StoreCorrupt(f"the backup {origin} has changed while it was read: look who writes there")
        with open_queue(directory, clock=clock, create=False, durability="none") as queue:
            store: Any = queue._store
            epoch, requeued = begin_epoch(store)
            if findings := queue.check():  # of an older format, it could not be checked before
                raise StoreCorrupt(f"the backup {origin} is not sound ({findings[0].message}): restore another")
        forget_locks(directory)
    return Restored(place, taken, epoch, requeued)
