"""Buckets of the measured history: what changed in a span of time, for the tags that mattered and for the rest. Pure.

A bucket has a row for each tag it keeps and one for all others together, so that counters add up exactly: over the
rows to what changed in the whole queue, over all buckets and what has expired to the totals.

Columns are packed: a byte for the width of the numbers, then the numbers, little-endian, one per kept tag and the last
for the rest. A column without a number other than 0 is left out.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from heapq import nlargest

import msgspec

from queue_core.errors import InvalidArgument
from queue_core.ledger import Counts, Totals
from queue_core.task import SECOND, moment

MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
TIERS = ((10 * SECOND, 2 * HOUR), (MINUTE, DAY), (10 * MINUTE, 30 * DAY))  # (width of a bucket, kept for)
FINE = TIERS[0][0]
KEPT = 100  # tags in a bucket
OTHER = "_other"

COUNTERS = Totals.__struct_fields__  # what happened in the span
GAUGES = (*Counts.__struct_fields__, "oldest")  # as they were at its end; oldest: how long the next task had waited
LONGEST = "longest"  # the longest wait of a task that was leased in the span
FIELDS = (*COUNTERS, *GAUGES, LONGEST)
UNKNOWN = -1  # a gauge of a tag that was not kept at the end of the span

_PLACE = {name: place for place, name in enumerate(FIELDS)}
_GAUGES = [_PLACE[name] for name in GAUGES]
_ADDED = [_PLACE[name] for name in (*COUNTERS, *Counts.__struct_fields__)]  # the whole is the sum of the rows
_OLDEST, _LONGEST = _PLACE["oldest"], _PLACE[LONGEST]  # the whole is the largest
_BUSY = [_PLACE[name] for name in ("pushed", "leased", "acked", "nacked")]

Row = list[int]  # one number per field


def place_of(field: str) -> int:
    """Raises InvalidArgument for a field that there is not."""
    if field not in _PLACE:
        raise InvalidArgument(f"a bucket has no field {field!r:.100}: it has {', '.join(FIELDS)}")
    return _PLACE[field]


class Bucket(msgspec.Struct, array_like=True):
    """One span of time. Times in microseconds; ``aged`` is the retention clock when it was closed."""

    start: int
    width: int
    aged: int
    tags: list[int]  # the numbers of the tags that it keeps
    columns: dict[int, bytes]  # by the place of the field

    @property
    def at(self) -> datetime:
        """When it begins."""
        return moment(self.start)

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.width / SECOND

    def column(self, field: str) -> Sequence[int]:
        """One number per kept tag, then that of all others; a gauge that is not known is -1."""
        return self._column(place_of(field))

    def _column(self, place: int) -> Sequence[int]:
        data = self.columns.get(place)
        return unpack(data) if data is not None else (0,) * (len(self.tags) + 1)

    def of(self, tag: int, field: str) -> int | None:
        """The number of a tag; None where it is among the others, -1 for a gauge that is not known."""
        column = self.column(field)
        if tag in self.tags:
            return column[self.tags.index(tag)]
        return None if column[-1] else 0

    def whole(self, field: str) -> int:
        """The whole queue's number. The oldest wait is the longest among the tags that were looked at."""
        return self._whole(place_of(field))

    def _whole(self, place: int) -> int:
        data = self.columns.get(place)
        if data is None:
            return 0
        values = unpack(data)
        if place in (_OLDEST, _LONGEST):
            return max(0, *values)
        return sum(value for value in values if value > 0)

    def totals(self) -> Totals:
        """All counters of the whole queue."""
        return Totals(*(self._whole(place) for place in range(len(COUNTERS))))

    def rows(self) -> dict[int, Row]:
        """The kept tags' numbers by field."""
        columns = [self._column(place) for place in range(len(FIELDS))]
        return {tag: [column[place] for column in columns] for place, tag in enumerate(self.tags)}


def pack(values: Sequence[int]) -> bytes:
    """Numbers as bytes, no wider than the largest of them needs."""
    reach = max(-min(values) - 1, max(values), 0)
    code = "b" if reach < 1 << 7 else "h" if reach < 1 << 15 else "i" if reach < 1 << 31 else "q"
    return code.encode() + struct.pack(f"<{len(values)}{code}", *values)


def unpack(data: bytes) -> tuple[int, ...]:
    code = chr(data[0])
    return struct.unpack_from(f"<{(len(data) - 1) // struct.calcsize(code)}{code}", data, 1)


def compose(
    start: int, width: int, aged: int, rows: Mapping[int, Row], whole: Row, oldest: int = 0, longest: int = 0
) -> Bucket:
    """A bucket of the whole queue's numbers that keeps the 100 rows that were busiest or waited longest.

    ``oldest`` and ``longest`` are waits that no row tells of.
    """
    kept = choose(
        {tag: (sum(row[place] for place in _BUSY), max(row[_OLDEST], row[_LONGEST])) for tag, row in rows.items()}
    )
    columns: dict[int, bytes] = {}
    dropped = [row for tag, row in rows.items() if tag not in kept]
    for place in range(len(FIELDS)):
        values = [rows[tag][place] for tag in kept]
        if place in (_OLDEST, _LONGEST):
            rest = max([oldest if place == _OLDEST else longest, *(row[place] for row in dropped)])
        else:
            rest = whole[place] - sum(value for value in values if value > 0)
        values.append(max(rest, 0))
        if any(values):
            columns[place] = pack(values)
    return Bucket(start, width, aged, list(kept), columns)


def choose(ranks: Mapping[int, tuple[int, int]]) -> dict[int, None]:
    """The tags that a bucket keeps, by how busy they were and how long they waited.

    Half of the room is for the busiest, half for those that waited longest; all of them when there is room.
    """
    if len(ranks) <= KEPT:
        return dict.fromkeys(sorted(ranks))
    chosen = dict.fromkeys(nlargest(KEPT // 2, ranks, key=lambda tag: (ranks[tag][0], -tag)))
    for tag in nlargest(KEPT, ranks, key=lambda tag: (ranks[tag][1], -tag)):
        if len(chosen) < KEPT:
            chosen[tag] = None
    return dict.fromkeys(sorted(chosen))


def busy(totals: Totals) -> int:
    """What a bucket goes by when it keeps the busiest tags."""
    return totals.pushed + totals.leased + totals.acked + totals.nacked


def merge(earlier: Bucket, later: Bucket, width: int) -> Bucket:
    """Both as one bucket of the coarser grid: counters added, gauges those of the later."""
    before, after = earlier.rows(), later.rows()
    rows = {tag: row.copy() for tag, row in after.items()}
    for tag, row in before.items():
        mine = rows.get(tag)
        if mine is None:
            rows[tag] = row.copy()
            for place in _GAUGES:
                rows[tag][place] = UNKNOWN
            continue
        for place in range(len(COUNTERS)):
            mine[place] += row[place]
        mine[_LONGEST] = max(mine[_LONGEST], row[_LONGEST])
    whole = [later._whole(place) for place in range(len(FIELDS))]
    for place in range(len(COUNTERS)):
        whole[place] += earlier._whole(place)
    start = min(earlier.start, later.start)
    aged = max(earlier.aged, later.aged)
    longest = max(earlier._column(_LONGEST)[-1], later._column(_LONGEST)[-1])
    return compose(start - start % width, width, aged, rows, whole, later._column(_OLDEST)[-1], longest)


def row_of(changed: Totals, counts: Counts, oldest: int, longest: int) -> Row:
    """The numbers of a tag, or of the whole queue, in the order of ``FIELDS``."""
    return [
        *(getattr(changed, name) for name in COUNTERS),
        *(getattr(counts, name) for name in Counts.__struct_fields__),
        oldest,
        longest,
    ]


class Series(msgspec.Struct, frozen=True):
    """Measured history: buckets in the order in which they passed, the last of them still open.

    A span in which nothing was written has no bucket: nothing happened in it, and the gauges stayed as they were.
    ``names`` has the tags that the buckets keep; a tag that the queue has forgotten counts with ``_other``.
    ``remainder`` sums what is older than the first bucket that is kept: with all buckets it makes up the totals.
    ``since`` and ``until`` are what was asked for; ``before`` is the newest bucket that passed before ``since``, None
    where none is kept: its gauges are those with which the span begins.
    """

    at: datetime
    buckets: tuple[Bucket, ...]
    names: dict[int, str]
    remainder: Totals
    since: datetime | None = None
    until: datetime | None = None
    before: Bucket | None = None

    def whole(self, field: str) -> list[int]:
        """The whole queue's number in each bucket; times in microseconds."""
        return [bucket.whole(field) for bucket in self.buckets]

    def of(self, tag: str, field: str) -> list[int | None]:
        """One tag's number in each bucket; None where it is not known, being among the others."""
        numbers = {number for number, name in self.names.items() if name == tag}
        return [_of(bucket, numbers, field) for bucket in self.buckets]


def _of(bucket: Bucket, numbers: set[int], field: str) -> int | None:
    column = bucket.column(field)
    known = [column[place] for place, number in enumerate(bucket.tags) if number in numbers]
    if not known:
        return None if column[-1] else 0
    return sum(known) if UNKNOWN not in known else None


def without_forgotten(bucket: Bucket, forgotten: Iterable[int]) -> Bucket:
    """The rows of tags that have no name any more, in the row of all others."""
    gone = set(forgotten)
    rows = {tag: row for tag, row in bucket.rows().items() if tag not in gone}
    waits = (max(0, *(bucket._column(place)[-1:]), *_of_tags(bucket, place, gone)) for place in (_OLDEST, _LONGEST))
    whole = [bucket._whole(place) for place in range(len(FIELDS))]
    return compose(bucket.start, bucket.width, bucket.aged, rows, whole, *waits)


def _of_tags(bucket: Bucket, place: int, tags: set[int]) -> list[int]:
    column = bucket._column(place)
    return [column[at] for at, tag in enumerate(bucket.tags) if tag in tags]
