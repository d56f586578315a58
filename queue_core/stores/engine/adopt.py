"""Tasks from elsewhere, taken in as they were."""

from collections.abc import Sequence

from msgspec.structs import replace

from queue_core import task as tasks
from queue_core.errors import Conflict
from queue_core.groups import mark_of
from queue_core.history import Kind
from queue_core.ledger import TRASH_RETENTION, Tag
from queue_core.stores.base import Adopted
from queue_core.stores.engine import moves
from queue_core.stores.engine.deliver import key_is_free
from queue_core.stores.engine.records import Records
from queue_core.task import LIVE, Outcome, Record, State


def adopt(tx: Records, items: Sequence[Adopted]) -> list[str | None]:
    """Store them in order, each at the tail of its tag; why not, for each (None: it was taken).

    What was in flight is pending, its attempt ended as requeued: nobody here holds its lease. A task whose id is here
    already is left out, whatever its state.
    """
    for item in items:
        moves.fits(tx, item.record.payload)
    return [_adopt(tx, item) for item in items]


def _adopt(tx: Records, item: Adopted) -> str | None:
    old = tx.find(item.record.id)
    if old is not None:
        return f"a task of this id is here already: it is {old.state}"
    tag = tx.find_tag(item.tag) or moves.new_tag(tx, item.tag)
    if item.record.state in LIVE:
        try:
            key_is_free(tx, tag, item.record, item.record.dedupe_key)
        except Conflict as error:
            return error.brief
    new = _fitted(tx, tag, item.record)
    moves.shift(tx, tag, None, new)
    moves.count(tx, tag, moved_in=1)
    moves.log(tx, Kind.MOVE, tag, new, detail="imported")
    return None


def _fitted(tx: Records, tag: Tag, record: Record) -> Record:
    """The record with the numbers of this store."""
    meta, version = tx.meta, tx.meta.version()
    new = replace(record, tag=tag.number, place=meta.place(), version=version, group=b"")
    if new.state is State.INFLIGHT:
        ended = tasks.closed(new, now=tx.now, outcome=Outcome.REQUEUED)
        return tasks.pending(ended, version=version, now=tx.now)
    if new.state in LIVE:
        return new
    new = replace(new, entry=version, aged=meta.aged)
    if new.state is State.DEAD:
        new = replace(new, group=moves.group_of(tx, new))
    elif new.origin is State.DEAD:
        new = replace(new, group=mark_of(new))
    if new.state is State.TRASH:
        meta.trash_check = meta.trash_check or meta.aged + TRASH_RETENTION + 1
    elif meta.dead_retention is not None:
        meta.dead_check = meta.dead_check or meta.aged + meta.dead_retention + 1
    return new
