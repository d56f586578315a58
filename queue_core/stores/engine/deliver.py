"""Push and lease: how tasks come in and go out, and what must move before they can."""

from collections.abc import Sequence

from msgspec.structs import replace

from queue_core import rotation
from queue_core import task as tasks
from queue_core.errors import Conflict, QueueFull, StoreCorrupt
from queue_core.history import TEXT_LIMIT, Entry, Kind
from queue_core.ledger import TRASH_RETENTION, Tag
from queue_core.stores.base import PIECE, Ending, Found, NewTask
from queue_core.stores.engine import measure, moves, retire
from queue_core.stores.engine import settle as settling
from queue_core.stores.engine.records import Records
from queue_core.task import LAST_MOMENT, Hold, Outcome, Record, State, Token

EXPIRED_REASON = "lease expired with no attempts left"


def push(tx: Records, items: Sequence[NewTask]) -> list[Found]:
    """Store the items in order. The first that is refused refuses them all."""
    for item in items:
        moves.fits(tx, item.payload)
    return [_push(tx, item) for item in items]


def _push(tx: Records, item: NewTask) -> Found:
    if item.known and (old := tx.find(item.id)) is not None:
        return _push_again(tx, item, old)
    tag = tx.find_tag(item.tag)
    if tag is not None and item.dedupe_key is not None:
        holder = tx.holder(tag.number, item.dedupe_key)
        if holder is not None and (found := tx.find(holder)) is not None:
            return Found(found, tag.name)
    _admit(tx, tag, item.tag)
    if tag is None:
        tag = moves.new_tag(tx, item.tag)
    new = Record(
        item.id, tag.number, tx.meta.place(), State.PENDING, tx.meta.version(), item.payload, tx.now, tx.now, 0,
        item.max_attempts, item.dedupe_key,
    )  # fmt: skip
    if item.delay:
        new = tasks.scheduled(new, version=new.version, due=tx.now + item.delay)
    moves.shift(tx, tag, None, new)
    tag.totals.pushed += 1
    tx.meta.totals.pushed += 1
    moves.log(tx, Kind.PUSH, tag, new)
    return Found(new, tag.name)


def _admit(tx: Records, tag: Tag | None, name: str) -> None:
    counts = tx.meta.counts
    if tx.meta.max_pending is not None and counts.pending + counts.scheduled >= tx.meta.max_pending:
        raise QueueFull(
            f"the queue holds {counts.pending + counts.scheduled:,} waiting tasks and max_pending is "
            f"{tx.meta.max_pending:,}: push again when workers have caught up"
        )
    if tag is not None and tag.max_pending is not None:
        waiting = tag.counts.pending + tag.counts.scheduled
        if waiting >= tag.max_pending:
            raise QueueFull(
                f"tag {name[:100]!r} holds {waiting:,} waiting tasks and its max_pending is {tag.max_pending:,}: "
                "push again when workers have caught up"
            )


def _push_again(tx: Records, item: NewTask, old: Record) -> Found:
    """An id that exists: live, its payload and options are replaced; dead or in trash, it is redriven."""
    tag = tx.tag(old.tag)
    if tag.name != item.tag:
        raise Conflict(
            f"task {tasks.id_text(old.id)} is {old.state} in tag {tag.name[:100]!r}, not in {item.tag[:100]!r}: "
            "a task keeps its tag",
            state=old.state, version=old.version,
        )  # fmt: skip
    key_is_free(tx, tag, old, item.dedupe_key)
    live = old.state in tasks.LIVE
    fresh = moves.end(tx, tag, old, Outcome.REPUSHED)
    fresh = replace(fresh, payload=item.payload, max_attempts=item.max_attempts, dedupe_key=item.dedupe_key)
    version = tx.meta.version()
    if live:
        since = old.ready if old.state is State.PENDING else tx.now
        new = tasks.pending(fresh, version=version, now=since)
    else:
        new = tasks.revived(fresh, version=version, now=tx.now, place=tx.meta.place())
    if item.delay:
        new = tasks.scheduled(new, version=version, due=tx.now + item.delay)
    moves.shift(tx, tag, old, new)
    if not live:
        moves.count(tx, tag, redriven=1)
    held = old.hold.owner if live and old.hold else ""
    moves.log(tx, Kind.REPUSH if live else Kind.REDRIVE, tag, new, owner=held)
    return Found(new, tag.name)


def key_is_free(tx: Records, tag: Tag, record: Record, key: str | None) -> None:
    """Raises Conflict when another task holds the dedupe key that this one is about to hold."""
    holder = tx.holder(tag.number, key) if key is not None else None
    if holder is not None and holder != record.id:
        raise Conflict(
            f"the dedupe key of task {tasks.id_text(record.id)} in tag {tag.name[:100]!r} is held by task "
            f"{tasks.id_text(holder)}: wait until that one has ended, or cancel it",
            state=record.state, version=record.version, brief="its dedupe key is held by another task",
        )  # fmt: skip


def tidy(tx: Records) -> None:
    """At the beginning of a commit, as its side effects: a new bucket; what retention removes, a piece of each."""
    meta = tx.meta
    measure.roll(tx)
    if meta.trash_check and meta.aged >= meta.trash_check:
        meta.trash_check = _retire(tx, State.TRASH, TRASH_RETENTION)
    if meta.plan_check and meta.aged >= meta.plan_check and tx.book is not None:
        meta.plan_check = retire.plans(tx, tx.book)
    if meta.dead_check and meta.aged >= meta.dead_check:
        meta.dead_check = 0 if meta.dead_retention is None else _retire(tx, State.DEAD, meta.dead_retention)


def _retire(tx: Records, state: State, retention: int) -> int:
    """Remove what has stayed longer than the retention; when to look again (0: never)."""
    for record in tx.first(state, tx.meta.last_version, PIECE):
        if record.aged + retention >= tx.meta.aged:
            return record.aged + retention + 1
        tag = tx.tag(record.tag)
        moves.shift(tx, tag, record, None)
        moves.count(tx, tag, expunged=1, retired=1)
        moves.log(tx, Kind.EXPUNGE, tag, record, detail="retention")
    left = tx.first(state, tx.meta.last_version, 1)
    return left[0].aged + retention + 1 if left else 0


def promote(tx: Records) -> bool:
    """Move what is due or expired, a piece of each; whether there may be more.

    A due task waits from its due time on, an expired one from now on: its attempt ends here.
    """
    if tx.now < tx.meta.moment:
        return False
    due = tx.first(State.SCHEDULED, tx.now, PIECE)
    for old in due:
        tag = tx.tag(old.tag)
        new = tasks.pending(old, version=tx.meta.version(), now=old.due)
        moves.shift(tx, tag, old, new)
        moves.count(tx, tag, promoted=1)
        moves.log(tx, Kind.PROMOTE, tag, new)
    expired = tx.first(State.INFLIGHT, tx.now, PIECE)
    for old in expired:
        expire(tx, old)
    timers = tx.timers(tx.now, PIECE)
    for number in timers:
        tag = tx.tag(number)
        tx.set_timer(number, tag.timer, 0)
        tag.timer = 0
        moves.review(tx, tag)
    more = PIECE in (len(due), len(expired), len(timers))
    if not more:
        moment = tx.next_moment()
        tx.meta.moment = LAST_MOMENT if moment is None else moment
    return more


def expire(tx: Records, old: Record) -> Record:
    """A lease has run out or is taken back: its attempt counts, and with none left the task is dead."""
    tag = tx.tag(old.tag)
    owner = old.hold.owner if old.hold else ""
    ended = moves.end(tx, tag, old, Outcome.EXPIRED)
    moves.count(tx, tag, expired=1)
    if ended.attempts >= ended.max_attempts:
        new = moves.to_dead(tx, tag, old, ended, EXPIRED_REASON)
        moves.count(tx, tag, died_expired=1)
        moves.log(tx, Kind.EXPIRE, tag, new, owner=owner, detail="dead")
    else:
        new = moves.to_pending(tx, tag, old, ended)
        moves.log(tx, Kind.EXPIRE, tag, new, owner=owner)
    return new


def promising(tx: Records) -> bool:
    """Whether a lease could serve or move anything: an empty poll ends here, without the write lock."""
    if tx.meta.moment <= tx.now and (moment := tx.next_moment()) is not None and moment <= tx.now:
        return True
    return tx.meta.may_serve(tx.now) and tx.ready(1) is not None


def serve(tx: Records, n: int, ttl: int, owner: str) -> list[Found]:
    """Up to ``n`` serves of the rotation at this instant."""
    meta, now = tx.meta, tx.now
    known = owner[:TEXT_LIMIT]
    out: list[Found] = []
    while len(out) < n and meta.may_serve(now):
        number = rotation.next_tag(meta.turn, tx.ready)
        if number is None:
            break
        tag = tx.tag(number)
        old = tx.head(number, tag.head - 1)
        if old is None and tag.counts.pending:
            raise StoreCorrupt(f"tag {tag.name[:100]!r} counts pending tasks and has none; run queue-core check")
        if old is None or old.place != tag.head:  # the store has set aside a record that does not decode
            tag.head, tag.head_ready = (old.place, old.ready) if old is not None else (0, 0)
            continue
        meta.fence += 1
        meta.serves += 1
        hold = Hold(meta.fence, tasks.nonce(), owner, now, now, now + ttl, ttl)
        new = tasks.leased(old, version=meta.version(), hold=hold)
        wait = max(now - old.ready, 0)
        turn = rotation.begin(meta.turn, number, tag.weight)
        entry = Entry(
            Kind.LEASE, now, number, old.id, known, meta.serves, tag.eligible_serve, wait, "", turn.weight
        )  # fmt: skip
        moves.noted(tx, tag, entry)
        meta.turn = rotation.advance(turn, meta.end_tag)
        tag.last_serve, tag.last_served = meta.serves, now
        moves.touch(tx, tag)
        for totals in (tag.totals, meta.totals):
            totals.leased += 1
            totals.wait += wait
        tag.measured.longest = max(tag.measured.longest, wait)
        moves.sample(tx, tag, "waits", wait)
        if tag.min_interval:
            tag.timer = now + tag.min_interval
            tx.set_timer(number, 0, tag.timer)
            meta.moment = min(meta.moment, tag.timer)
        if meta.min_interval:
            meta.open_at = now + meta.min_interval
        moves.shift(tx, tag, old, new)
        out.append(Found(new, tag.name))
    return out


def lease(tx: Records, n: int, ttl: int, owner: str, settle: Sequence[Token]) -> list[Found] | None:
    """Acknowledge, move what is due and expired, serve; None when a further piece has to be moved first."""
    settling.settle(tx, settle, Ending(Outcome.ACKED))
    if promote(tx):
        return None
    return serve(tx, n, ttl, owner)
