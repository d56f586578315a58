"""What can be asked of error groups. Where none are kept, they are counted from the dead letters."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from queue_core.errors import InvalidArgument
from queue_core.groups import TEXT_KEPT, Group, cause, mark_of, normalised
from queue_core.stores.base import PIECE, Found
from queue_core.stores.engine.records import Records
from queue_core.task import Record, State

LAST = (1 << 64) - 2  # of entries and places, so that one more fits into a key


def groups(tx: Records) -> list[Group]:
    """All that are known."""
    if tx.book is not None:
        return list(tx.book.groups())
    found: dict[bytes, Group] = {}
    tags: dict[bytes, set[int]] = {}
    for record in _dead(tx):
        mark = mark_of(record)
        group = found.get(mark)
        if group is None:
            group = found[mark] = Group(mark, normalised(cause(record))[:TEXT_KEPT])
        tags.setdefault(mark, set()).add(record.tag)
        group.count += 1
        group.tags = len(tags[mark])
        group.died(record)
    return [found[mark] for mark in sorted(found)]


def tags(tx: Records, fingerprint: bytes) -> dict[str, int]:
    """Dead letters of a group by tag."""
    if tx.book is not None:
        counts: dict[int, int] = tx.book.group_tags(fingerprint)
    else:
        counts = Counter(record.tag for record in _dead(tx) if mark_of(record) == fingerprint)
    return {tag.name: counts[tag.number] for tag in tx.look(sorted(counts))}


def page(tx: Records, fingerprint: bytes, after: str | None, limit: int) -> tuple[list[Found], str | None]:
    """Dead letters of a group by entry."""
    start = _parse(after)
    if tx.book is not None:
        records = tx.book.grouped(fingerprint, start, limit + 1)
    else:
        records = list(islice((r for r in _dead(tx, start) if mark_of(r) == fingerprint), limit + 1))
    following = f"{records[limit - 1].entry:x}" if len(records) > limit else None
    return [Found(record, tx.tag(record.tag).name) for record in records[:limit]], following


def _parse(after: str | None) -> int | None:
    if after is None:
        return None
    try:
        if 0 <= (entry := int(after, 16)) <= LAST:
            return entry
    except ValueError:
        pass
    raise InvalidArgument(f"after={after!r:.100} is not the `next` of a page")


def _dead(tx: Records, entry: int | None = None) -> Iterator[Record]:
    """Dead letters by entry, from above one on."""
    after = (entry, LAST) if entry is not None else None
    while records := tx.page(State.DEAD, None, after, PIECE, False):
        yield from records
        after = (records[-1].order, records[-1].place)
