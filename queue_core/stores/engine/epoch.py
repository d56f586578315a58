"""A new epoch: what a store that takes the place of another does before anybody opens it.

The other may have gone on after the backup: it has given out versions, fences and tokens that this one knows nothing
of. None of them may ever mean anything here.
"""

from queue_core.history import Entry, Kind
from queue_core.stores.base import PIECE, Change
from queue_core.stores.engine import operate
from queue_core.stores.engine.records import Records

JUMP = 1 << 32  # more versions, and more leases, than a store gives out between a backup and its restoration


def begin(tx: Records, *, epoch: int = 0, fence: int = 0, version: int = 0) -> int:
    """The number of the new epoch. Versions and fences go on beyond all that can have been given out meanwhile.

    By this store, or by another that had come to the given numbers and whose place it takes.
    """
    meta = tx.meta
    meta.epoch = max(meta.epoch, epoch) + 1
    meta.fence = max(meta.fence, fence) + JUMP
    meta.last_version = max(meta.last_version, version) + JUMP
    tx.log(Entry(Kind.CONFIGURE, tx.now, 0, detail=f"epoch={meta.epoch}"), None)
    return meta.epoch


def recall(tx: Records) -> int:
    """Bring a piece of what is in flight back to its place, its attempt ended as requeued; how many. 0: none is left.

    So no token of before is good any longer: not of a lease that the backup holds, nor of one that was given after it.
    """
    found = tx.inflight_after((0, 0), PIECE)
    for record in found:
        operate.change(tx, record.id, Change("requeue"))
    return len(found)
