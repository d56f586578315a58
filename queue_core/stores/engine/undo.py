"""How what a plan did to a task is taken back. Called only for a task that is as the plan left it."""

from collections.abc import Callable

from msgspec.structs import replace

from queue_core import task as tasks
from queue_core.errors import Conflict
from queue_core.history import Kind
from queue_core.ledger import Tag
from queue_core.plans import Before
from queue_core.stores.engine import moves
from queue_core.stores.engine.deliver import key_is_free
from queue_core.stores.engine.operate import back_from_trash, move_to
from queue_core.stores.engine.records import Records
from queue_core.task import Record, State

DETAIL = "undo"


def _redrive(tx: Records, tag: Tag, old: Record, before: Before) -> Record:
    """Dead again, in the cycle and at the place of before; it is not a new death."""
    ended = replace(old, place=before.place, cycle=old.cycle - 1, attempts=before.attempts)
    new = moves.dead_again(tx, tag, old, ended, before)
    moves.count(tx, tag, dead_lettered=1)
    moves.log(tx, Kind.DEAD_LETTER, tag, new, detail=DETAIL)
    return new


def _dead_letter(tx: Records, tag: Tag, old: Record, before: Before) -> Record:
    """Live again; a lease that it had is over, so that it waits at its place."""
    key_is_free(tx, tag, old, old.dedupe_key)
    version = tx.meta.version()
    if before.state is State.SCHEDULED:
        new = tasks.scheduled(old, version=version, due=before.due)
    else:
        new = tasks.pending(old, version=version, now=tx.now)
    moves.shift(tx, tag, old, new)
    moves.count(tx, tag, restored=1)
    moves.log(tx, Kind.RESTORE, tag, new, detail=DETAIL)
    return new


def _requeue(tx: Records, tag: Tag, old: Record, before: Before) -> Record:
    if before.state is not State.SCHEDULED:
        raise Conflict("the lease that it had has ended and cannot be given back", state=old.state, version=old.version)
    new = tasks.scheduled(old, version=tx.meta.version(), due=before.due)
    moves.shift(tx, tag, old, new)
    moves.count(tx, tag, deferred=1)
    moves.log(tx, Kind.DEFER, tag, new, detail=DETAIL)
    return new


def _cancel(tx: Records, tag: Tag, old: Record, _: Before) -> Record:
    """What was cancelled comes back."""
    return back_from_trash(tx, tag, old, DETAIL)


def _purge(tx: Records, tag: Tag, old: Record, before: Before) -> Record:
    """What was purged is dead again, where it was among the dead."""
    new = moves.dead_again(tx, tag, old, old, before)
    moves.count(tx, tag, restored=1)
    moves.log(tx, Kind.RESTORE, tag, new, detail=DETAIL)
    return new


def _restore(tx: Records, tag: Tag, old: Record, before: Before) -> Record:
    """Into the trash again, where it was there."""
    new = moves.to_trash(tx, tag, old, before)
    purged = old.state is State.DEAD
    moves.count(tx, tag, **{"purged" if purged else "cancelled": 1})
    moves.log(tx, Kind.PURGE if purged else Kind.CANCEL, tag, new, detail=DETAIL)
    return new


def _edit(tx: Records, tag: Tag, old: Record, _: Before) -> Record:
    """The payload that was edited away comes back."""
    new = replace(old, payload=old.edits[-1].payload, edits=old.edits[:-1], version=tx.meta.version())
    tx.put(old, new)
    moves.log(tx, Kind.EDIT, tag, new, detail=DETAIL)
    return new


def _move_tag(tx: Records, tag: Tag, old: Record, before: Before) -> Record:
    """In its old tag again, at its old place."""
    if not tx.look([before.tag]):
        raise Conflict("the tag that it was in has been forgotten", state=old.state, version=old.version)
    return move_to(tx, tag, tx.tag(before.tag), old, before.place)


UNDO: dict[str, Callable[[Records, Tag, Record, Before], Record]] = {
    "redrive": _redrive,
    "dead_letter": _dead_letter,
    "requeue": _requeue,
    "cancel": _cancel,
    "purge": _purge,
    "restore": _restore,
    "edit": _edit,
    "move_tag": _move_tag,
}
