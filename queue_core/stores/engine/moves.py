"""The one way by which a task changes: counts, head, dedupe key, eligibility and journal go with it."""

from msgspec.structs import replace

from queue_core import codec
from queue_core import task as tasks
from queue_core.errors import InvalidPayload, StoreCorrupt, StoreFull
from queue_core.groups import (
    GROUP_LIMIT,
    LOOK_AGAIN,
    OTHERS,
    OTHERS_TEXT,
    TEXT_KEPT,
    Group,
    cause,
    fingerprint,
    normalised,
)
from queue_core.histogram import bucket_of
from queue_core.history import TEXT_LIMIT, Entry, Kind
from queue_core.ledger import TRASH_RETENTION, Tag, samples
from queue_core.plans import Before
from queue_core.stores.engine.records import Book, Records
from queue_core.task import LIVE, Outcome, Record, State

MOST_TAGS = (1 << 32) - 2
MOVED_BY_TIME = (State.SCHEDULED, State.INFLIGHT)


def new_tag(tx: Records, name: str) -> Tag:
    """A tag at the end of the ring. Its number is never used again."""
    if tx.meta.last_tag == MOST_TAGS:
        raise StoreFull(f"{MOST_TAGS:,} tags have been seen, the most that a store can number: start a new one")
    tag = tx.add_tag(name)
    tag.measured.aged = tx.meta.aged
    tx.meta.end_tag = tag.number
    return tag


def fits(tx: Records, payload: bytes) -> None:
    """Raises InvalidPayload for one that is over the limit of the queue."""
    if len(payload) > tx.meta.max_payload:
        raise InvalidPayload(
            f"payload is {len(payload):,} bytes as JSON; the limit is {tx.meta.max_payload:,}: store the data "
            "elsewhere and push a reference to it, or raise max_payload with configure()"
        )


def shift(tx: Records, tag: Tag, old: Record | None, new: Record | None, *, death: bool = False) -> None:
    """``old`` becomes ``new``; either may be None. Every entry and every exit of a task comes through here.

    ``death``: it is dead by what happened now, not by going back to where it was.
    """
    touch(tx, tag)
    tx.put(old, new)
    total = tx.meta.counts
    if old is not None:
        tag.counts.add(old.state, -1)
        total.add(old.state, -1)
    if new is not None:
        tag.counts.add(new.state, 1)
        total.add(new.state, 1)
    if (old is not None and old.dedupe_key is not None) or (new is not None and new.dedupe_key is not None):
        _dedupe(tx, tag, old, new)
    if tx.book is not None:
        if old is not None and old.state is State.DEAD and old.group:  # a store that is being upgraded has others
            leave_group(tx.book, old.group, old.tag)
        if new is not None and new.state is State.DEAD and new.group:
            regroup(tx, tx.book, new, death=death)
    _head(tx, tag, old, new)
    if new is not None and new.state in MOVED_BY_TIME:
        tx.meta.moment = min(tx.meta.moment, new.order)
    review(tx, tag)


def _dedupe(tx: Records, tag: Tag, old: Record | None, new: Record | None) -> None:
    """A key is held while its task is live, and by one task."""
    before = old.dedupe_key if old is not None and old.state in LIVE else None
    after = new.dedupe_key if new is not None and new.state in LIVE else None
    if before != after:
        if before is not None:
            tx.set_holder(tag.number, before, None)
        if after is not None:
            assert new is not None
            tx.set_holder(tag.number, after, new.id)


def _head(tx: Records, tag: Tag, old: Record | None, new: Record | None) -> None:
    """The tag knows its next task, so that neither a lease nor a snapshot has to look for it."""
    place = new.place if new is not None and new.state is State.PENDING else 0
    if old is not None and old.state is State.PENDING and old.place == tag.head != place:
        found = tx.head(tag.number, tag.head)
        tag.head, tag.head_ready = (found.place, found.ready) if found is not None else (0, 0)
    if new is not None and place and (not tag.head or place <= tag.head):
        tag.head, tag.head_ready = place, new.ready


def group_of(tx: Records, record: Record) -> bytes:
    """The fingerprint of the error group that a dead letter belongs to. Groups are bounded in number."""
    text = normalised(cause(record))
    mark, book = fingerprint(text), tx.book
    if book is None or book.group(mark) is not None:
        return mark
    if tx.meta.groups >= GROUP_LIMIT and not _make_room(tx, book):
        return OTHERS
    book.put_group(Group(mark, text[:TEXT_KEPT]))
    tx.meta.groups += 1
    return mark


def _make_room(tx: Records, book: Book) -> bool:
    """Forget those of the groups without dead letters that were seen longest ago, half of them; whether any was.

    When there was none of late, it is not looked for again: in a storm of new errors each death would read all groups.
    """
    others = book.group(OTHERS)
    if others is not None and tx.meta.aged - others.looked < LOOK_AGAIN:
        return False
    empty = sorted((group.last, group.fingerprint) for group in book.groups() if not group.count)
    for _, mark in empty[: -(-len(empty) // 2)]:
        book.remove_group(mark)
        tx.meta.groups -= 1
    if tx.meta.groups < GROUP_LIMIT:
        return True
    others = book.group(OTHERS)
    if others is None:
        others = Group(OTHERS, OTHERS_TEXT)
        tx.meta.groups += 1
    others.looked = tx.meta.aged
    book.put_group(others)
    return False


def regroup(tx: Records, book: Book, record: Record, *, death: bool) -> None:
    """A dead letter comes into its group."""
    group = book.group(record.group)
    if group is None:
        raise StoreCorrupt(f"error group {record.group.hex()} is not stored; run queue-core check")
    held = book.group_tag(record.group, record.tag)
    book.set_group_tag(record.group, record.tag, held + 1)
    group.count += 1
    group.tags += not held
    if death:
        group.died(record)
    else:
        group.came(record)
    book.put_group(group)


def leave_group(book: Book, mark: bytes, tag: int) -> None:
    """A dead letter of a tag leaves its group."""
    group, held = book.group(mark), book.group_tag(mark, tag)
    if group is None or not held:
        raise StoreCorrupt(f"tag number {tag} has no dead letter in error group {mark.hex()}; run queue-core check")
    book.set_group_tag(mark, tag, held - 1)
    group.count -= 1
    group.tags -= held == 1
    book.put_group(group)


def review(tx: Records, tag: Tag) -> None:
    """Bring the rotation's view of a tag up to date. Called after anything that may change it."""
    may = tag.may_be_served()
    if may == tag.eligible:
        return
    tag.eligible = may
    tx.set_ready(tag.number, may)
    if may:
        tag.eligible_at, tag.eligible_serve = tx.now, tx.meta.serves
    else:
        touch(tx, tag)
        span = max(tx.now - tag.eligible_at, 0)
        tag.totals.eligible += span
        tx.meta.totals.eligible += span


def touch(tx: Records, tag: Tag) -> None:
    """Before the totals of a tag change: the first change in a bucket of the series keeps what they were."""
    meta, measured = tx.meta, tag.measured
    if measured.bucket == meta.bucket:
        return
    measured.bucket, measured.aged, measured.longest = meta.bucket, meta.aged, 0
    if meta.measuring:
        measured.mark = codec.encode(tag.totals)
        tx.touch(tag.number)


def sample(tx: Records, tag: Tag, name: str, time: int) -> None:
    """Add a wait or a service time to the histograms of a tag and of the queue."""
    bucket = bucket_of(time)
    for holder in (tag.measured, tx.meta):
        counts = getattr(holder, name)
        if type(counts) is not dict:
            counts = samples(counts)
            setattr(holder, name, counts)
        counts[bucket] = counts.get(bucket, 0) + 1


def count(tx: Records, tag: Tag, **steps: int) -> None:
    """Add to the totals of a tag and of the queue."""
    touch(tx, tag)
    for totals in (tag.totals, tx.meta.totals):
        for name, step in steps.items():
            setattr(totals, name, getattr(totals, name) + step)


def log(tx: Records, kind: Kind, tag: Tag, record: Record, *, owner: str = "", detail: str = "") -> None:
    noted(tx, tag, Entry(kind, tx.now, tag.number, record.id, owner[:TEXT_LIMIT], detail=detail[:TEXT_LIMIT]))


def noted(tx: Records, tag: Tag, entry: Entry) -> None:
    """Log an entry of a tag, which is known as long as the journal names it."""
    number = tx.log(entry, tag.name)
    if number:
        tag.measured.event = number


def served_for(tx: Records, record: Record) -> int:
    """Microseconds since the lease, for the service time."""
    return max(tx.now - record.hold.leased, 0) if record.hold else 0


def end(tx: Records, tag: Tag, record: Record, outcome: Outcome, error: str | None = None) -> Record:
    """The record with its open attempt closed; a record that is not in flight comes back as it is."""
    if record.state is not State.INFLIGHT:
        return record
    service = served_for(tx, record)
    count(tx, tag, service=service)
    sample(tx, tag, "services", service)
    return tasks.closed(record, now=tx.now, outcome=outcome, error=error)


def to_pending(tx: Records, tag: Tag, old: Record, ended: Record | None = None) -> Record:
    """Back at its place, waiting from now."""
    new = tasks.pending(old if ended is None else ended, version=tx.meta.version(), now=tx.now)
    shift(tx, tag, old, new)
    return new


def to_scheduled(tx: Records, tag: Tag, old: Record, ended: Record, delay: int) -> Record:
    """Back later; at once when there is no delay."""
    if delay <= 0:
        return to_pending(tx, tag, old, ended)
    new = tasks.scheduled(ended, version=tx.meta.version(), due=tx.now + delay)
    shift(tx, tag, old, new)
    return new


def to_dead(tx: Records, tag: Tag, old: Record, ended: Record, reason: str, *, death: bool = True) -> Record:
    """Into the dead-letter queue, with the lease it died under. ``death``: now, not back again."""
    meta = tx.meta
    new = tasks.dead(ended, version=meta.version(), now=tx.now, aged=meta.aged, reason=reason, hold=old.hold)
    new = replace(new, group=group_of(tx, new))
    shift(tx, tag, old, new, death=death)
    if meta.dead_retention is not None and not meta.dead_check:
        meta.dead_check = meta.aged + meta.dead_retention + 1
    return new


def dead_again(tx: Records, tag: Tag, old: Record, ended: Record, before: Before) -> Record:
    """Dead as it was before, by its old entry, as if it had never left: it is no new death."""
    new = replace(
        ended, state=State.DEAD, version=tx.meta.version(), reason=before.reason, hold=before.hold, entry=before.entry,
        entered=before.entered, aged=before.aged, origin=None,
    )  # fmt: skip
    new = replace(new, group=group_of(tx, new))
    shift(tx, tag, old, new)
    meta = tx.meta
    if meta.dead_retention is not None:
        due = before.aged + meta.dead_retention + 1
        meta.dead_check = min(meta.dead_check, due) if meta.dead_check else due
    return new


def to_trash(tx: Records, tag: Tag, old: Record, before: Before | None = None) -> Record:
    """Into the trash; with ``before``, where it was there before."""
    meta = tx.meta
    new = tasks.trashed(old, version=meta.version(), now=tx.now, aged=meta.aged)
    if before is not None:
        new = replace(new, entry=before.entry, entered=before.entered, aged=before.aged)
    shift(tx, tag, old, new)
    due = new.aged + TRASH_RETENTION + 1
    meta.trash_check = min(meta.trash_check, due) if meta.trash_check else due
    return new
