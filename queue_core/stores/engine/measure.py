"""Measured history: buckets opened, closed, rolled up and expired, tags forgotten, all as side effects of commits.

A tag that changes for the first time in a bucket keeps its totals of that moment as its mark; what it did in the bucket
is the difference. So a commit writes nothing for the series beside the tags that it writes anyway, and a bucket is
put together when the first commit after its end closes it.
"""

from collections.abc import Iterator
from itertools import islice, takewhile

from msgspec.structs import replace

from queue_core import codec
from queue_core.histogram import merged
from queue_core.history import JOURNAL_KEPT
from queue_core.ledger import FORMAT, Past, Tag, Totals, samples
from queue_core.rotation import Turn
from queue_core.series import (
    FINE,
    HOUR,
    TIERS,
    Bucket,
    Row,
    Series,
    busy,
    choose,
    compose,
    merge,
    row_of,
    without_forgotten,
)
from queue_core.stores.engine.records import Records
from queue_core.task import moment

# What a commit does for history is bounded, because it holds the write lock meanwhile.
LOOKED = 5_000  # tags that have changed in a bucket: above, every second, third, … one is looked at
SWEEP = 500  # other tags looked at when a bucket is closed
SWEPT = 2_000  # looked at by any commit, when many tags are new
FORGOTTEN = 250  # forgotten by a commit
SLACK = 2 * HOUR  # clocks set back by more than that in all may hide the oldest buckets of a span
SHED = 32  # buckets that make room for tasks at a time, 128 KiB or more
ROLLED = 8  # buckets of a tier that are moved on at a time; one is written


def roll(tx: Records) -> None:
    """Before anything else in a commit: when the clock has left the open bucket, close it and open the next.

    A clock that is set back by less than a bucket stays in the open one.
    """
    meta = tx.meta
    if meta.format != FORMAT:
        return  # it is about to be upgraded
    if not (meta.bucket and meta.opened - FINE <= tx.now < meta.opened + FINE):
        past = _past(tx)
        short = meta.history and tx.short()
        if meta.measuring and meta.bucket and not short:
            _close(tx, past)
            _roll_up(tx, past)
        elif meta.history:
            _give_way(tx, past)
        meta.lean = short
        meta.sweep_left += SWEEP + 2 * (meta.last_tag - past.last_tag)  # faster than new tags come
        past.last_tag = meta.last_tag
        _open(tx, past)
    if meta.sweep_left:
        _sweep(tx)


def _past(tx: Records) -> Past:
    """A store that was written before there was history counts what it has done as expired."""
    done = tx.meta.totals.plus(Totals())
    return tx.past() or Past(done, done, Totals())


def _open(tx: Records, past: Past) -> None:
    meta = tx.meta
    meta.bucket += 1
    meta.opened = tx.now - tx.now % FINE
    if meta.history:
        past.mark = meta.totals.plus(Totals())
    tx.put_past(past)


def _close(tx: Records, past: Past) -> None:
    bucket = _gather(tx, past, tx.meta.opened + FINE)
    if bucket is not None:
        tx.put_bucket(0, tx.meta.bucket, bucket)
    tx.clear_touched()


def _give_way(tx: Records, past: Past) -> None:
    """Room is short, or was so all through the open bucket: it and the oldest ones count as expired."""
    past.expired = past.expired.plus(tx.meta.totals).plus(past.mark, -1)
    tx.clear_touched()
    left = SHED if tx.short() else 0
    for tier in reversed(range(len(TIERS))):
        for number, bucket in list(islice(tx.buckets(tier), left)):
            tx.put_bucket(tier, number, None)
            past.expired = past.expired.plus(bucket.totals())
            left -= 1


def _gather(tx: Records, past: Past, end: int) -> Bucket | None:
    """The open bucket, up to its end; None when nothing happened and nothing waits.

    Of the tags that did nothing in it, those are looked at that the bucket before has kept, and the next piece of the
    sweep: a tag that waits without being served is found there, and then stays.
    """
    meta = tx.meta
    touched = tx.touched()
    numbers = dict.fromkeys(touched[:: 1 + len(touched) // LOOKED])
    for _, before in islice(tx.buckets(0, reverse=True), 1):
        numbers |= dict.fromkeys(before.tags)
    start = tx.known(past.swept + 1) or tx.known(1) or 1
    numbers |= dict.fromkeys(range(start, min(start + SWEEP, meta.last_tag + 1)))
    found = {tag.number: tag for tag in tx.look(list(numbers))}
    waits = {number: _waits(tag, meta.bucket, end) for number, tag in found.items()}
    ranks = {number: (_busy(found[number], meta.bucket), max(both)) for number, both in waits.items()}
    kept = choose({number: rank for number, rank in ranks.items() if any(rank) or found[number].counts.all})
    changed = meta.totals.plus(past.mark, -1)
    if not kept and changed == Totals():
        return None
    rows: dict[int, Row] = {}
    for number in kept:
        tag = found[number]
        own = tag.totals.plus(mark_of(tag), -1) if tag.measured.bucket == meta.bucket else Totals()
        rows[number] = row_of(own, tag.counts, *waits.pop(number))
    rest = [max((both[place] for both in waits.values()), default=0) for place in (0, 1)]
    whole = row_of(changed, meta.counts, 0, 0)
    return compose(meta.opened, end - meta.opened, meta.aged, rows, whole, *rest)


def _waits(tag: Tag, bucket: int, end: int) -> tuple[int, int]:
    """(how long its next task has waited at the end, the longest wait that was served in the bucket)."""
    oldest = max(end - tag.head_ready, 0) if tag.head else 0
    return oldest, tag.measured.longest if tag.measured.bucket == bucket else 0


def _busy(tag: Tag, bucket: int) -> int:
    return busy(tag.totals) - busy(mark_of(tag)) if tag.measured.bucket == bucket else 0


def mark_of(tag: Tag) -> Totals:
    return codec.decode_totals(tag.measured.mark) if tag.measured.mark else Totals()


def _roll_up(tx: Records, past: Past) -> None:
    """Move what is too old for a tier into the next coarser one; what is too old for the last is added up."""
    for tier, (_, kept) in enumerate(TIERS):
        for number, bucket in list(islice(tx.buckets(tier), ROLLED)):
            if tx.meta.aged - bucket.aged <= kept:
                break
            tx.put_bucket(tier, number, None)
            if tier + 1 == len(TIERS):
                past.expired = past.expired.plus(bucket.totals())
                continue
            width = TIERS[tier + 1][0]
            start = bucket.start - bucket.start % width
            newest = next(tx.buckets(tier + 1, reverse=True), None)
            if newest is not None and newest[1].start == start:
                tx.put_bucket(tier + 1, newest[0], merge(newest[1], bucket, width))
            else:
                tx.put_bucket(tier + 1, number, replace(bucket, start=start, width=width))


def switch(tx: Records, on: bool) -> None:
    """Begin or cease to write history. What passes meanwhile counts as expired."""
    meta = tx.meta
    if on == meta.history:
        return
    past = _past(tx)
    if on or not meta.measuring:
        past.expired = past.expired.plus(meta.totals).plus(past.mark, -1)
    else:
        _close(tx, past)
    past.mark = meta.totals.plus(Totals())
    meta.history, meta.lean = on, False
    _open(tx, past)


def _sweep(tx: Records) -> None:
    """Look at the next tags of the ring and forget those with nothing to remember."""
    meta = tx.meta
    past = _past(tx)
    piece = min(max(SWEEP, meta.sweep_left // 8), SWEPT, meta.sweep_left)
    meta.sweep_left -= piece
    start = tx.known(past.swept + 1) or tx.known(1)
    if start is None:
        return
    past.swept = min(start + piece - 1, meta.last_tag)
    found = (tag for tag in tx.look(range(start, past.swept + 1)) if _forgettable(tx, tag))
    for tag in islice(found, FORGOTTEN):
        forget(tx, past, tag)
        last = tag.number
    if next(found, None) is not None:  # each costs calls; the rest is left to the next commit
        meta.sweep_left += past.swept - last
        past.swept = last
    tx.put_past(past)


def _forgettable(tx: Records, tag: Tag) -> bool:
    """There is nothing to remember: no task, setting or running interval, no journal entry, no change of late."""
    if tag.counts.all or not tag.plain or tag.timer:
        return False
    meta, measured = tx.meta, tag.measured
    return (
        measured.bucket != meta.bucket
        and meta.aged - measured.aged >= meta.tag_retention
        and (not measured.event or measured.event + JOURNAL_KEPT <= meta.events)
    )


def forget(tx: Records, past: Past, tag: Tag) -> None:
    """Fold a tag's totals into those of all forgotten ones. Seen again, it joins at the ring's end."""
    meta = tx.meta
    tx.remove_tag(tag)
    past.forgotten = past.forgotten.plus(tag.totals)
    for ours, theirs in (("forgotten_waits", tag.measured.waits), ("forgotten_services", tag.measured.services)):
        setattr(past, ours, merged([samples(getattr(past, ours)), samples(theirs)]))
    if tag.number == meta.end_tag:
        meta.end_tag = tx.last_known()
        if meta.turn.tag > meta.end_tag:  # a tag first seen later waits for the round's end
            meta.turn = Turn()


def series(tx: Records, since: int | None, until: int | None) -> Series:
    """The buckets that reach into the span, the open one as it is now; coarse ones first, as they are older."""
    meta, past = tx.meta, tx.past()
    oldest = 0 if since is None else meta.aged - (tx.now - since) - SLACK
    found: list[Bucket] = []
    for bucket in _newest_first(tx) if past is not None else ():
        found.append(bucket)
        if bucket.aged < oldest:  # one more, which tells how things stood before
            break
    found.reverse()
    if past is not None and meta.measuring and meta.bucket:
        now = _gather(tx, past, min(max(tx.now, meta.opened + 1), meta.opened + FINE))
        found += [now] if now is not None else []
    earlier = list(takewhile(lambda bucket: since is not None and bucket.start + bucket.width <= since, found))
    inside = [
        bucket
        for bucket in found
        if (since is None or bucket.start + bucket.width > since) and (until is None or bucket.start < until)
    ]
    inside, names = _named(tx, earlier[-1:] + inside)
    before = inside.pop(0) if earlier else None
    expired = past.expired if past is not None else meta.totals.plus(Totals())
    if past is not None and not meta.measuring:
        expired = expired.plus(meta.totals).plus(past.mark, -1)
    begin, end = (None if time is None else moment(time) for time in (since, until))
    return Series(moment(tx.now), tuple(inside), names, expired, begin, end, before)


def _newest_first(tx: Records) -> Iterator[Bucket]:
    for tier in range(len(TIERS)):
        for _, bucket in tx.buckets(tier, reverse=True):
            yield bucket


def _named(tx: Records, buckets: list[Bucket]) -> tuple[list[Bucket], dict[int, str]]:
    """The names of the tags that buckets keep; those that have none any more count with the others."""
    numbers = sorted({number for bucket in buckets for number in bucket.tags})
    names = {tag.number: tag.name for tag in tx.look(numbers)}
    if gone := set(numbers) - names.keys():
        buckets = [without_forgotten(bucket, gone) if gone & set(bucket.tags) else bucket for bucket in buckets]
    return buckets, names
