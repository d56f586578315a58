"""What can be asked, from one read transaction."""

from collections import Counter, deque
from collections.abc import Sequence

from msgspec.structs import replace

from queue_core import rotation
from queue_core.errors import InvalidArgument, TaskNotFound
from queue_core.histogram import Times
from queue_core.ledger import Meta, Tag, WorkerRecord, samples
from queue_core.snapshot import (
    COUNT_LIMIT,
    Ring,
    Settings,
    Snapshot,
    TagStats,
    WhyNot,
    WorkerStats,
)
from queue_core.stores.base import PIECE, Found, Logged
from queue_core.stores.engine.records import Records
from queue_core.task import SECOND, State, id_text, moment

Moving = dict[int, list[tuple[int, int]]]  # tag number -> (waiting since, place) of what the next lease moves


def get(tx: Records, id: bytes) -> Found:
    record = tx.find(id)
    if record is None:
        raise TaskNotFound(id_text(id))
    return Found(record, tx.tag(record.tag).name)


def page(
    tx: Records, state: State, name: str | None, after: str | None, limit: int, reverse: bool
) -> tuple[list[Found], str | None, int]:
    tag = tx.find_tag(name) if name is not None else None
    if name is not None and tag is None:
        return [], None, 0
    total = getattr((tag or tx.meta).counts, state.value)
    records = tx.page(state, tag.number if tag else None, _parse_after(after), limit + 1, reverse)
    more = len(records) > limit
    records = records[:limit]
    following = f"{records[-1].order:x}-{records[-1].place:x}" if more and records else None
    return [Found(record, tx.tag(record.tag).name) for record in records], following, total


def _parse_after(after: str | None) -> tuple[int, int] | None:
    if after is None:
        return None
    try:
        order, place = (int(part, 16) for part in after.split("-"))
        if not (0 <= order < (1 << 64) - 1 and 0 <= place < (1 << 64) - 1):  # one more must fit into a key
            raise ValueError
    except ValueError:
        raise InvalidArgument(f"after={after!r:.100} is not the `next` of a page") from None
    return order, place


def queue_settings(meta: Meta) -> Settings:
    retention = None if meta.dead_retention is None else meta.dead_retention / SECOND
    return Settings(
        1, meta.paused, meta.max_inflight, meta.min_interval / SECOND, meta.max_pending, retention, meta.max_payload,
        meta.tag_retention / SECOND, meta.history,
    )  # fmt: skip


def snapshot(tx: Records) -> Snapshot:
    meta, now = tx.meta, tx.now
    due = tx.index(State.SCHEDULED, now, COUNT_LIMIT)
    expired = tx.index(State.INFLIGHT, now, COUNT_LIMIT)
    due_by_tag: Moving = {}
    for order, place, number in due:
        due_by_tag.setdefault(number, []).append((order, place))
    expired_by_tag = Counter(number for _, _, number in expired)
    tags: list[TagStats] = []
    names: dict[int, str] = {}
    ready: list[int] = []
    for tag in tx.tags():
        number = tag.number
        stats = _tag_stats(tag, meta, now, due_by_tag.get(number, ()), expired_by_tag.get(number, 0), len(expired))
        tags.append(stats)
        names[number] = tag.name
        if stats.why_not is None:
            ready.append(number)
    waits = [tag.oldest_wait for tag in tags if tag.oldest_wait is not None]
    counts = meta.counts
    return Snapshot(
        moment(now), counts.pending, counts.scheduled, counts.inflight, counts.dead, counts.trash,
        len(due), len(expired), max(waits, default=None), queue_settings(meta), replace(meta.totals),
        _ring(meta, names, ready), tuple(worker_stats(worker) for worker in tx.workers()),
        Times(dict(samples(meta.waits)), meta.totals.wait - meta.wait_before),
        Times(dict(samples(meta.services)), meta.totals.service - meta.service_before),
        tuple(tags),
    )  # fmt: skip


def worker_stats(worker: WorkerRecord) -> WorkerStats:
    return WorkerStats(
        worker.id, worker.host, worker.pid, moment(worker.started), moment(worker.seen),
        moment(worker.stopped) if worker.stopped else None, worker.concurrency, worker.done, worker.failed,
    )  # fmt: skip


def _tag_stats(
    tag: Tag, meta: Meta, now: int, due: Sequence[tuple[int, int]], expired: int, expired_in_all: int
) -> TagStats:
    oldest = None
    if due:
        waiting = [(place, at) for at, place in due]
        if tag.head:
            waiting.append((tag.head, tag.head_ready))
        oldest = max(now - min(waiting)[1], 0) / SECOND
    elif tag.head:
        oldest = max(now - tag.head_ready, 0) / SECOND
    return TagStats(tag, len(due), expired, oldest, why_not(tag, meta, now, len(due), expired, expired_in_all))


def why_not(tag: Tag, meta: Meta, now: int, due: int, expired: int, expired_in_all: int) -> WhyNot | None:
    """What keeps the next lease from this tag, after it has moved what is due and expired; None: nothing."""
    counts = tag.counts
    if not counts.pending + due + expired:
        return WhyNot.SCHEDULED if counts.scheduled else WhyNot.EMPTY
    if meta.paused:
        return WhyNot.QUEUE_PAUSED
    if tag.paused:
        return WhyNot.PAUSED
    if meta.max_inflight is not None and meta.counts.inflight - expired_in_all >= meta.max_inflight:
        return WhyNot.QUEUE_LIMIT
    if tag.max_inflight is not None and counts.inflight - expired >= tag.max_inflight:
        return WhyNot.LIMIT
    if now < meta.open_at:
        return WhyNot.QUEUE_INTERVAL
    if now < tag.timer:
        return WhyNot.INTERVAL
    return None


def _ring(meta: Meta, names: dict[int, str], ready: list[int]) -> Ring:
    """``names`` by the tags' numbers and the numbers of those that can be served, both in the order of the ring."""
    cursor = next((number for number in names if number >= meta.turn.tag), next(iter(names), 0))

    def first_ready(number: int) -> int | None:
        return next((candidate for candidate in ready if candidate >= number), None)

    following = rotation.next_tag(meta.turn, first_ready)
    return Ring(
        tuple(names.values()),
        names.get(cursor),
        meta.turn.left if cursor == meta.turn.tag else 0,
        names.get(following or 0),
        meta.serves,
    )


def journal(tx: Records, after: int, limit: int, name: str | None) -> list[Logged]:
    tag = tx.find_tag(name) if name is not None else None
    if name is not None and tag is None:
        return []
    newest = after < 0
    if newest:
        after = max(tx.meta.events - limit, 0) if tag is None else 0
    names: dict[int, str | None] = {0: None}
    out: deque[Logged] = deque(maxlen=limit)
    while newest or len(out) < limit:
        found = tx.entries(after, PIECE)
        for number, entry in found:
            if tag is None or entry.tag == tag.number:
                if not newest and len(out) == limit:
                    return list(out)
                if entry.tag not in names:
                    names[entry.tag] = next((known.name for known in tx.look([entry.tag])), None)
                out.append((number, names[entry.tag], entry))
        if len(found) < PIECE:
            break
        after = found[-1][0]
    return list(out)
