"""Taking a backup: a copy of one commit, while workers go on."""

import os
from typing import Any

from queue_core.backup.placing import appearing, real_path
from queue_core.backup.records import Backup, Told, read, silent
from queue_core.errors import InvalidArgument
from queue_core.ledger import Counts
from queue_core.queue import Queue
from queue_core.task import clean_text, moment

UNABLE = {
    "memory": "it ends with this process, and there is no file to copy: keep the queue in a directory",
    "files": "its files can be copied while no process has it open: stop the workers, then cp -a {path} TARGET",
}


def backup(queue: Queue, target: str | os.PathLike[str], *, told: Told = silent) -> Backup:
    """Copy the queue as it is at one commit into a new directory, while others push, lease and settle.

    The directory holds ``data.mdb``, without free pages, and ``backup.json``; it appears when both are on the disk.
    ``told`` is called with the bytes that were written or read back, and how many that will be. The copy is one read
    transaction: pages that are freed meanwhile are used again only after it, so the store may grow by what is written
    in that time; a fork of this process waits for its end.

    Raises InvalidArgument when the store is not LMDB's, or the target is there already or inside the store; StoreGone
    when the queue was closed; StoreFull and StoreError when the disk cannot take it: nothing is left there then.
    """
    scheme, _, path = queue.url.partition("://")
    if scheme in UNABLE:
        raise InvalidArgument(f"{queue.url} cannot be backed up: {UNABLE[scheme].format(path=path)}")
    place = real_path(target)
    if os.path.commonpath([place, path]) == path:
        raise InvalidArgument(
            f"{place} is in the directory of the store: a backup is of use elsewhere, best on another disk"
        )
    from queue_core.stores.lmdb.backup import copy, facts
    from queue_core.stores.lmdb.health import FILE

    queue.storage()  # raises StoreGone
    store: Any = queue._store  # the handle of this process; a file may be opened once in it
    with appearing(place) as directory:
        file = os.path.join(directory, FILE)
        copy(store, file, lambda done, total: told(done, 2 * total))
        size, digest = read(file, lambda done, total: told(total + done, 2 * total))
        meta, tags = facts(directory)
        counts = {state: getattr(meta.counts, state) for state in Counts.__struct_fields__}
        taken = Backup(
            clean_text(os.path.basename(path)), moment(queue.clock()), meta.format, meta.epoch, meta.last_version,
            counts, tags, size, digest,
        )  # fmt: skip
        taken.write(directory)
    return taken
