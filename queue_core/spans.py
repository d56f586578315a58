"""Measured history without holes: bucket by bucket, or on a grid of equal spans. Pure.

Where nothing was written there is no bucket. Such a span is idle: nothing happened in it, and the gauges stayed as they
were, but for the oldest wait, which went on. (A time in which history was switched off cannot be told from that.)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from queue_core.errors import InvalidArgument
from queue_core.series import DAY, FINE, HOUR, MINUTE, TIERS, Bucket, Series
from queue_core.task import SECOND, microseconds, moment

LIMIT = 10_000  # spans
_FITTING = (
    FINE, 3 * FINE, *(n * MINUTE for n in (1, 2, 5, 10, 20, 30)), *(n * HOUR for n in (1, 2, 4, 6, 12)), DAY,
)  # fmt: skip

Step = timedelta | float | None


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time, in microseconds; what was not yet, or is not known, is left out.

    ``buckets`` are those in it, in the order in which they passed; none where it is idle. ``last`` is the newest bucket
    by its end, ``stale`` the time from then to the end of the span.
    """

    start: int
    length: int
    buckets: tuple[Bucket, ...]
    last: Bucket
    stale: int

    @property
    def at(self) -> datetime:
        """When it begins."""
        return moment(self.start)

    @property
    def seconds(self) -> float:
        return self.length / SECOND


def fitting(seconds: float, most: int) -> float:
    """The smallest round step, in seconds, that cuts a time into ``most`` spans or less; a day at most."""
    return next((step for step in _FITTING if seconds * SECOND <= step * most), DAY) / SECOND


def spans(series: Series, step: Step = None) -> list[Span]:
    """The spans of a series from its ``since`` to its ``until``, where it is known, or to now.

    Without ``step`` (a timedelta, or seconds) each bucket is a span, and so is what lies between two. With it spans are
    equal and begin at whole steps since 1970; the step is raised to the next multiple of the widest bucket. The first
    and the last may be cut; a time that a clock set back has given twice is one span. Raises InvalidArgument for a
    step that is not positive, or makes more than 10,000 spans.
    """
    if not series.buckets and series.before is None:
        return []
    end = _micro(series.at if series.until is None else min(series.at, series.until))
    return list(_between(series, end) if step is None else _equal(series, end, round(widened(series, step) * SECOND)))


def widened(series: Series, step: timedelta | float) -> float:
    """The step as it is used, in seconds: the next multiple of the widest bucket."""
    seconds = step.total_seconds() if isinstance(step, timedelta) else step
    if not 0 < seconds < float("inf"):
        raise InvalidArgument(f"step={step!r} is no time: give a timedelta, or seconds above 0")
    tiers = [width for width, _ in TIERS]
    widest = max((bucket.width for bucket in series.buckets if bucket.width in tiers), default=FINE)
    return max(-(-round(seconds * SECOND) // widest), 1) * widest / SECOND


def _micro(at: datetime) -> int:
    return microseconds(at, "at")


def _ends(bucket: Bucket) -> int:
    return bucket.start + bucket.width


def _known_from(series: Series) -> int:
    """Since when the series tells how things stood."""
    begins = [bucket.start for bucket in series.buckets]  # a clock set back makes later ones begin earlier
    if series.before is not None and series.since is not None:
        begins.append(_micro(series.since))
    return min(begins)


def _between(series: Series, end: int) -> Iterator[Span]:
    last, edge = series.before, end if series.since is None else _micro(series.since)
    for bucket in series.buckets:
        if last is not None and bucket.start > edge:
            yield Span(edge, bucket.start - edge, (), last, bucket.start - _ends(last))
        yield Span(bucket.start, bucket.width, (bucket,), bucket, 0)
        last, edge = bucket, _ends(bucket)
    if last is not None and edge < end:
        yield Span(edge, end - edge, (), last, end - _ends(last))


def _equal(series: Series, end: int, width: int) -> Iterator[Span]:
    inside: dict[int, list[Bucket]] = {}
    for bucket in series.buckets:
        inside.setdefault(bucket.start // width, []).append(bucket)
    known, end = _known_from(series), max([end, *map(_ends, series.buckets)])
    first, final = known // width, (end - 1) // width
    if final - first >= LIMIT:
        raise InvalidArgument(
            f"{(final - first + 1):,} spans of {width // SECOND:,} s are too many (at most {LIMIT:,}): "
            "ask for a shorter time, or for a longer step"
        )
    last = series.before or inside[first][0]
    for cell in range(first, final + 1):
        buckets = tuple(inside.get(cell, ()))
        last = buckets[-1] if buckets else last
        begins, ends = cell * width, (cell + 1) * width
        ends = end if begins < end < ends else ends
        begins = max(begins, known)
        yield Span(begins, ends - begins, buckets, last, max(ends - _ends(last), 0))
