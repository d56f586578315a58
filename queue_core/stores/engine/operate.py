"""What an operator can do: verbs by id, recovery, settings."""

from collections.abc import Callable

from msgspec.structs import replace

from queue_core import task as tasks
from queue_core.errors import Conflict, InvalidArgument, TaskNotFound
from queue_core.history import Entry, Kind
from queue_core.ledger import Tag
from queue_core.snapshot import Settings, settings_of
from queue_core.stores.base import PIECE, Change, Found
from queue_core.stores.engine import measure, moves, read
from queue_core.stores.engine.deliver import expire, key_is_free
from queue_core.stores.engine.records import Records
from queue_core.stores.engine.settle import bury
from queue_core.task import LIVE, Edit, Outcome, Record, State

EDITS = 5  # payloads of before that a task keeps: the first, and the last ones


def change(tx: Records, id: bytes, asked: Change) -> Found:
    """Compare-and-set by id: the state must be one that the action starts from, the version as given."""
    old = tx.find(id)
    if old is None:
        raise TaskNotFound(tasks.id_text(id))
    tag = tx.tag(old.tag)
    states, act = ACTIONS[asked.action]
    if old.state not in states:
        wanted = " or ".join(sorted(states))
        raise _conflict(old, tag, f"{asked.action.replace('_', '-')} needs it {wanted}")
    if asked.version is not None and asked.version != old.version:
        raise _conflict(old, tag, f"you saw version {asked.version}, it has changed since: look again")
    new = act(tx, tag, old, asked)
    return Found(new, tx.tag(new.tag).name)


def _conflict(old: Record, tag: Tag, why: str) -> Conflict:
    return Conflict(
        f"task {tasks.id_text(old.id)} of tag {tag.name[:100]!r} is {old.state} at version {old.version}; {why}",
        state=old.state, version=old.version, brief=why,
    )  # fmt: skip


def _requeue(tx: Records, tag: Tag, old: Record, _: Change) -> Record:
    owner = old.hold.owner if old.hold else ""
    new = moves.to_pending(tx, tag, old, moves.end(tx, tag, old, Outcome.REQUEUED))
    moves.count(tx, tag, requeued=1)
    moves.log(tx, Kind.REQUEUE, tag, new, owner=owner)
    return new


def _redrive(tx: Records, tag: Tag, old: Record, _: Change) -> Record:
    key_is_free(tx, tag, old, old.dedupe_key)
    new = tasks.revived(old, version=tx.meta.version(), now=tx.now, place=tx.meta.place())
    moves.shift(tx, tag, old, new)
    moves.count(tx, tag, redriven=1)
    moves.log(tx, Kind.REDRIVE, tag, new)
    return new


def _cancel(tx: Records, tag: Tag, old: Record, _: Change) -> Record:
    new = moves.to_trash(tx, tag, old)
    moves.count(tx, tag, cancelled=1)
    moves.log(tx, Kind.CANCEL, tag, new)
    return new


def _purge(tx: Records, tag: Tag, old: Record, _: Change) -> Record:
    new = moves.to_trash(tx, tag, old)
    moves.count(tx, tag, purged=1)
    moves.log(tx, Kind.PURGE, tag, new)
    return new


def _restore(tx: Records, tag: Tag, old: Record, _: Change) -> Record:
    return back_from_trash(tx, tag, old)


def back_from_trash(tx: Records, tag: Tag, old: Record, detail: str = "") -> Record:
    """Back to where it came from: dead by a new entry, scheduled with its due time, pending at its place."""
    if old.origin is State.DEAD:
        new = moves.to_dead(tx, tag, old, replace(old, origin=None), old.reason or "", death=False)
    else:
        key_is_free(tx, tag, old, old.dedupe_key)
        version = tx.meta.version()
        if old.origin is State.SCHEDULED:
            new = tasks.scheduled(old, version=version, due=old.due)
        else:
            new = tasks.pending(old, version=version, now=tx.now)
        moves.shift(tx, tag, old, new)
    moves.count(tx, tag, restored=1)
    moves.log(tx, Kind.RESTORE, tag, new, detail=detail)
    return new


def _expunge(tx: Records, tag: Tag, old: Record, _: Change) -> Record:
    moves.shift(tx, tag, old, None)
    moves.count(tx, tag, expunged=1)
    moves.log(tx, Kind.EXPUNGE, tag, old)
    return old


def _extend(tx: Records, tag: Tag, old: Record, asked: Change) -> Record:
    assert old.hold is not None
    hold = replace(old.hold, expires=max(old.hold.expires, tx.now + asked.ttl))
    new = replace(old, hold=hold, version=tx.meta.version())
    tx.put(old, new)
    moves.log(tx, Kind.EXTEND, tag, new, owner=hold.owner)
    return new


def _replace(tx: Records, tag: Tag, old: Record, asked: Change) -> Record:
    if asked.tag is not None and asked.tag != tag.name:
        raise _conflict(old, tag, f"replace cannot move it to tag {asked.tag[:100]!r}")
    moves.fits(tx, asked.payload)
    new = replace(old, payload=asked.payload, version=tx.meta.version())
    tx.put(old, new)
    moves.log(tx, Kind.REPLACE, tag, new)
    return new


def _edit(tx: Records, tag: Tag, old: Record, asked: Change) -> Record:
    """A new payload by a person's hand: that of before is kept, the first one always."""
    moves.fits(tx, asked.payload)
    edits = (*old.edits, Edit(tx.now, old.version, old.payload))
    if len(edits) > EDITS:
        edits = (edits[0], *edits[1 - EDITS :])
    new = replace(old, payload=asked.payload, version=tx.meta.version(), edits=edits)
    tx.put(old, new)
    moves.log(tx, Kind.EDIT, tag, new)
    return new


def _move_tag(tx: Records, tag: Tag, old: Record, asked: Change) -> Record:
    """To the tail of another tag, which is made known if it is new."""
    assert asked.tag is not None
    if asked.tag == tag.name:
        raise _conflict(old, tag, "it is in that tag already")
    return move_to(tx, tag, tx.find_tag(asked.tag) or moves.new_tag(tx, asked.tag), old)


def move_to(tx: Records, tag: Tag, other: Tag, old: Record, place: int = 0) -> Record:
    """Into another tag at a place that no task has; 0: at its tail. A dead letter stays dead, with its entry."""
    if old.state is not State.DEAD:
        key_is_free(tx, other, old, old.dedupe_key)
    new = replace(old, tag=other.number, place=place or tx.meta.place(), version=tx.meta.version())
    moves.shift(tx, tag, old, None)
    moves.count(tx, tag, moved_out=1)
    moves.log(tx, Kind.MOVE, tag, old, detail=f"to {other.name}")
    moves.shift(tx, other, None, new)
    moves.count(tx, other, moved_in=1)
    moves.log(tx, Kind.MOVE, other, new, detail=f"from {tag.name}")
    return new


def _dead_letter(tx: Records, tag: Tag, old: Record, asked: Change) -> Record:
    return bury(tx, tag, old, asked.reason)


ACTIONS: dict[str, tuple[frozenset[State], Callable[[Records, Tag, Record, Change], Record]]] = {
    "requeue": (frozenset({State.INFLIGHT, State.SCHEDULED}), _requeue),
    "redrive": (frozenset({State.DEAD}), _redrive),
    "dead_letter": (LIVE, _dead_letter),
    "cancel": (frozenset({State.PENDING, State.SCHEDULED}), _cancel),
    "purge": (frozenset({State.DEAD}), _purge),
    "restore": (frozenset({State.TRASH}), _restore),
    "expunge": (frozenset({State.TRASH}), _expunge),
    "extend": (frozenset({State.INFLIGHT}), _extend),
    "replace": (frozenset(State), _replace),
    "edit": (frozenset(State), _edit),
    "move_tag": (frozenset({State.PENDING, State.SCHEDULED, State.DEAD}), _move_tag),
}


def reclaim(
    tx: Records, cutoff: int | None, reason: str | None, upto: int, after: tuple[int, int]
) -> tuple[int, tuple[int, int] | None]:
    """One piece of recovery: (how many were reclaimed, where to go on; None at the end).

    Only leases up to fence ``upto`` are touched: what was leased after the start is not taken back.
    """
    records = tx.inflight_after(after, PIECE)
    done = 0
    for old in records:
        hold = old.hold
        assert hold is not None
        if hold.fence > upto or (cutoff is not None and hold.beat > cutoff):
            continue
        if reason is None:
            expire(tx, old)
        else:
            bury(tx, tx.tag(old.tag), old, reason)
        done += 1
    last = records[-1] if len(records) == PIECE else None
    return done, (last.order, last.place) if last is not None else None


def configure(tx: Records, name: str | None, changes: dict[str, int | bool | None]) -> Settings:
    """Change settings of a tag (made known if it is new) or of the queue."""
    detail = " ".join(f"{key}={value}" for key, value in changes.items())
    if name is None:
        if changes.get("history") and not tx.history:
            raise InvalidArgument("this store keeps no history: use lmdb")
        if "history" in changes:
            measure.switch(tx, bool(changes["history"]))
        for key, value in changes.items():
            setattr(tx.meta, key, value)
        if changes.get("min_interval") == 0:
            tx.meta.open_at = 0
        if "dead_retention" in changes:
            tx.meta.dead_check = 0 if changes["dead_retention"] is None else max(tx.meta.aged, 1)
        if changes:
            tx.log(Entry(Kind.CONFIGURE, tx.now, 0, detail=detail), None)
        return read.queue_settings(tx.meta)
    tag = tx.find_tag(name) or moves.new_tag(tx, name)
    tag.measured.aged = tx.meta.aged
    for key, value in changes.items():
        setattr(tag, key, value)
    if changes.get("min_interval") == 0 and tag.timer:
        tx.set_timer(tag.number, tag.timer, 0)
        tag.timer = 0
    moves.review(tx, tag)
    if changes:
        moves.noted(tx, tag, Entry(Kind.CONFIGURE, tx.now, tag.number, detail=detail))
    return settings_of(tag)
