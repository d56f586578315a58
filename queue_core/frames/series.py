"""The measured history as frames: by tag, for the whole queue, and how long tasks waited and took.

Built with NumPy from the packed columns of the buckets: a day of a hundred tags is 200,000 rows.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from queue_core.errors import InvalidArgument
from queue_core.frames.tables import UTC, Schema, rows
from queue_core.frames.text import tag_label
from queue_core.histogram import ABSOLUTE_ERROR, Times
from queue_core.ledger import Counts
from queue_core.series import COUNTERS, FIELDS, GAUGES, LONGEST, OTHER, UNKNOWN, Series
from queue_core.snapshot import Snapshot
from queue_core.spans import Span, Step, spans
from queue_core.task import SECOND

OTHERS = "all\N{NO-BREAK SPACE}other\N{NO-BREAK SPACE}tags"  # labels that no tag has: those have plain spaces
WHOLE = "whole\N{NO-BREAK SPACE}queue"
TIMES = ("wait", "service", "eligible")  # sums of seconds
STATES = Counts.__struct_fields__
RATES = ("pushed", "leased", "acked", "failed")
COUNTED = tuple(name for name in COUNTERS if name not in TIMES)

_ENDS: Schema = {"oldest": "float64", LONGEST: "float64"}
SERIES: Schema = {
    "start": UTC, "seconds": "float64", "number": "int64", "tag": "str", "label": "str", "other": "bool",
    **dict.fromkeys(COUNTED, "int64"), **dict.fromkeys(TIMES, "float64"), **dict.fromkeys(STATES, "Int64"), **_ENDS,
}  # fmt: skip
TOTALS: Schema = {
    "start": UTC, "seconds": "float64", **dict.fromkeys(COUNTED, "int64"), **dict.fromkeys(TIMES, "float64"),
    **dict.fromkeys(STATES, "int64"), **_ENDS, "failed": "int64", "died": "int64",
    **{f"{name}_rate": "float64" for name in RATES},
}  # fmt: skip
THEN: Schema = {
    "number": "int64", "tag": "str", "label": "str", "other": "bool", "backlog": "Int64", "oldest_wait": "float64",
    "inflight": "Int64", "scheduled": "Int64", "dead": "Int64", "leased": "int64", "share": "float64", "why_not": "str",
}  # fmt: skip
QUANTILES = ("mean", "p50", "p95", "p99")
WAITS: Schema = {
    "number": "int64", "tag": "str", "label": "str", "whole": "bool",
    **{
        f"{what}_{name}": "int64" if name == "count" else "float64"
        for what in ("wait", "service")
        for name in ("count", *QUANTILES)
    },
}  # fmt: skip

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_WIDTHS = {ord("b"): "<i1", ord("h"): "<i2", ord("i"): "<i4", ord("q"): "<i8"}  # as series.pack writes them


# --- by tag ---------------------------------------------------------------------------------------


def series_frame(series: Series, *, step: Step = None, fields: Iterable[str] | None = None) -> pd.DataFrame:
    """What happened in each span: a row for each tag that is kept in it, and one for all other tags together.

    A span is a bucket, or what lies between two; with ``step`` (a timedelta, or seconds) all are equal: see
    ``queue_core.spans``. The row of the others has ``other`` True and number 0 (a tag may be called ``_other``).
    Counters are of the span and add up exactly, over all rows to what changed in the queue; a tag that was among the
    others for a part of a span counts with them there. Gauges (``pending`` and the other states, ``oldest``) are those
    at its end, missing for a tag that is among the others by then. ``oldest`` and ``longest`` in seconds, missing
    where nothing waits, or was leased. ``fields`` limits the numbers to these, for speed. Raises InvalidArgument as
    ``spans`` does.
    """
    every = [name for name in SERIES if name in FIELDS]
    wanted = every if fields is None else list(fields)
    if unknown := sorted({*wanted} - {*every}):
        raise InvalidArgument(f"no such field: {', '.join(unknown)}; there are {', '.join(every)}")
    buckets = _Buckets(spans(series, step))
    rows = _Rows(buckets)
    names = {0: OTHER, **series.names}
    numbers = np.array(sorted(names), dtype=np.int64)
    codes = np.searchsorted(numbers, rows.number)
    return pd.DataFrame(
        {
            "start": _utc(buckets.start[rows.span]),
            "seconds": (buckets.length / SECOND)[rows.span],
            "number": rows.number,
            "tag": _texts([names[number] for number in numbers], codes),
            "label": _texts([tag_label(names[number]) if number else OTHERS for number in numbers], codes),
            "other": rows.number == 0,
            **{name: rows.column(name) for name in wanted},
        },
        copy=False,
    )


def _utc(micro: Ints) -> pd.Series:
    return pd.Series(micro.view("datetime64[us]")).dt.tz_localize("UTC")


def _texts(words: Sequence[str], codes: Ints) -> pd.api.extensions.ExtensionArray:
    return pd.array(words, dtype="str").take(codes)


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


class _Buckets:
    """The buckets of spans one below the other. An idle span has the one before it once more."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.start = _ints(span.start for span in spans)
        self.length = _ints(span.length for span in spans)
        self.stale = _ints(span.stale for span in spans)
        of = [(at, bucket) for at, span in enumerate(spans) for bucket in span.buckets or (span.last,)]
        self.all = [bucket for _, bucket in of]
        self.span = _ints(at for at, _ in of)
        self.idle = [not spans[at].buckets for at, _ in of]
        self.last = np.append(self.span[1:] != self.span[:-1], [True] * bool(of)).astype(bool)  # of its span
        self.sizes = _ints(len(bucket.tags) + 1 for bucket in self.all)
        self.begins = np.cumsum(self.sizes) - self.sizes  # the first row of each

    def column(self, field: str) -> Ints | None:
        """A number for each row; None when all are 0. Nothing is counted in idle spans."""
        place = FIELDS.index(field)
        packed = [bucket.columns.get(place, b"") for bucket in self.all]
        if field not in GAUGES and any(self.idle):
            packed = [b"" if idle else data for data, idle in zip(packed, self.idle, strict=True)]
        if not any(packed):
            return None
        widths = np.array([data[0] if data else 0 for data in packed], dtype=np.uint8)
        of_rows = np.repeat(widths, self.sizes)
        values = np.zeros(len(of_rows), dtype=np.int64)
        for width in set(widths.tolist()) - {0}:
            data = b"".join([data[1:] for data in packed if data and data[0] == width])
            values[of_rows == width] = np.frombuffer(data, dtype=_WIDTHS[width])
        return values


class _Rows:
    """The rows of buckets, those of one tag in one span made one; the row of the others is the last of its span."""

    def __init__(self, buckets: _Buckets) -> None:
        self.buckets = buckets
        number = _ints(chain.from_iterable((*bucket.tags, 0) for bucket in buckets.all))
        span = np.repeat(buckets.span, buckets.sizes)
        self._order: Ints | None = None
        if len(buckets.all) > len(buckets.start):
            most = int(number.max()) + 1
            keys = span * (most + 1) + np.where(number, number, most)
            self._order = np.argsort(keys, kind="stable")
            keys = keys[self._order]
            self._first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
            self._newest = self._order[np.append(self._first[1:], len(keys)) - 1]
            number, span = number[self._newest], span[self._newest]
        self.number, self.span = number, span

    def column(self, field: str) -> Any:
        """The numbers of one field, as the schema has it."""
        if field in STATES:
            values, known = self._gauge(field)
            rests = values[self.number == 0]  # one for each span; where the others have none, it is known of each
            return pd.arrays.IntegerArray(np.where(known, values, 0), ~(known | (rests[self.span] == 0)))
        if field == "oldest":
            values, known = self._oldest()
        else:
            values = self._counted(field)
            known = self._counted("leased") > 0 if field == LONGEST else np.array(True)
        return values if field in COUNTED else np.where(known, values / SECOND, np.nan)

    def _counted(self, field: str) -> Ints:
        values = self.buckets.column(field)
        if values is None:
            return np.zeros(len(self.number), dtype=np.int64)
        if self._order is None:
            return values
        together = np.maximum if field == LONGEST else np.add
        return together.reduceat(values[self._order], self._first)

    def _gauge(self, field: str) -> tuple[Ints, Bools]:
        """The values by the end of each span, and where they are known."""
        values = self.buckets.column(field)
        if values is None:
            values = np.zeros(int(self.buckets.sizes.sum()), dtype=np.int64)
        known = values != UNKNOWN
        if self._order is None:
            return values, known
        known &= np.repeat(self.buckets.last, self.buckets.sizes)
        return values[self._newest], known[self._newest]

    def _oldest(self) -> tuple[Ints, Bools]:
        """It goes on after the last bucket of a span. Of the others it is known when one of them was looked at."""
        values, known = self._gauge("oldest")
        waiting, _ = self._gauge("pending")
        known &= (waiting > 0) & ((values > 0) | (self.number > 0))
        return values + self.buckets.stale[self.span], known


# --- the whole queue ------------------------------------------------------------------------------


def series_totals_frame(series: Series, *, step: Step = None) -> pd.DataFrame:
    """What happened in the whole queue, a row for each span (as in ``series_frame``), exact.

    ``seconds`` is how long the span is, or as much of it as has passed or is known. Rates are per second of that.
    ``failed`` are attempts that ended with a nack or ran out; ``died`` are tasks. ``wait`` and ``service`` are sums of
    seconds, over the leases and the ended attempts of the span. Gauges are those at its end; ``pending`` does not count
    tasks that are due and that no lease has moved yet. ``oldest`` is the longest wait among the tags that were
    looked at. Raises InvalidArgument as ``spans`` does.
    """
    found = spans(series, step)
    buckets = _Buckets(found)
    first = np.searchsorted(buckets.span, np.arange(len(found)))  # of each span's buckets

    def whole(field: str) -> Ints:
        values = buckets.column(field)
        if values is None or not found:
            return np.zeros(len(found), dtype=np.int64)
        longest = field in ("oldest", LONGEST)
        together = np.maximum if longest else np.add
        by_bucket = together.reduceat(np.maximum(values, 0), buckets.begins)  # an unknown one counts with the others
        return by_bucket[buckets.last] if field in GAUGES else together.reduceat(by_bucket, first)

    counts = {name: whole(name) for name in FIELDS}
    counts["oldest"] += buckets.stale
    counts |= {"failed": counts["nacked"] + counts["expired"]}
    counts |= {"died": counts["died_nacked"] + counts["died_expired"] + counts["dead_lettered"]}
    seconds = buckets.length / SECOND
    known = {"oldest": counts["pending"] > 0, LONGEST: counts["leased"] > 0}
    columns: dict[str, Any] = {"start": _utc(buckets.start), "seconds": seconds}
    columns |= {name: counts[name] for name in TOTALS if TOTALS[name] == "int64"}
    columns |= {name: counts[name] / SECOND for name in TIMES}
    columns |= {name: np.where(where, counts[name] / SECOND, np.nan) for name, where in known.items()}
    columns |= {f"{name}_rate": counts[name] / seconds for name in RATES}
    return pd.DataFrame({name: columns[name] for name in TOTALS}, copy=False)


# --- as it was ----------------------------------------------------------------------------------


def then_frame(series: pd.DataFrame) -> pd.DataFrame:
    """The last span of a series frame: what each tag had at its end, and its ``share`` of the leases in it.

    A row for each tag that is known by itself, the largest backlog first, and one for all others. ``oldest_wait`` in
    seconds; what is not known of a tag by itself is missing.
    """
    last = series[series["start"] == series["start"].max()]
    whole = float(last["leased"].sum())
    columns = {
        "number": last["number"], "tag": last["tag"], "label": last["label"], "other": last["other"],
        "backlog": last["pending"], "oldest_wait": last["oldest"], "inflight": last["inflight"],
        "scheduled": last["scheduled"], "dead": last["dead"], "leased": last["leased"],
        "share": last["leased"] / whole if whole else float("nan"), "why_not": None,
    }  # fmt: skip
    frame = pd.DataFrame(columns, index=last.index).astype(THEN)
    return frame.sort_values(["other", "backlog"], ascending=[True, False], kind="stable").reset_index(drop=True)


# --- how long it took -----------------------------------------------------------------------------


def times_frame(snapshot: Snapshot, tags: Iterable[str] | None = None) -> pd.DataFrame:
    """How long tasks waited for a lease, and how long attempts took, since the beginning, in seconds.

    The first row is the whole queue, with ``whole`` True and number 0; then one per tag, in first-seen order, or per
    tag in ``tags``. ``wait_count`` and ``service_count`` count the samples; without one the others are missing.
    ``mean`` is exact. A quantile is off by at most a ninth of itself (11.2 %), below 1.024 ms by at most that
    (see ``queue_core.histogram``).
    """
    chosen = None if tags is None else set(tags)
    some = [tag for tag in snapshot.tags if chosen is None or tag.name in chosen]
    found = [(0, "", WHOLE, True, *_times(snapshot.waits), *_times(snapshot.services))]
    found += [
        (tag.number, tag.name, tag_label(tag.name), False, *_times(tag.waits), *_times(tag.services)) for tag in some
    ]
    return rows(WAITS, found)


def _times(times: Times) -> tuple[float | None, ...]:
    return times.count, *(getattr(times, name) for name in QUANTILES)


def quantile_text(seconds: float) -> str:
    """A quantile in as many digits as it has: "< 1 ms", "340 ms", "4.2 s", "58 min", "7.7 h"; "—" when unknown."""
    if math.isnan(seconds):
        return "—"
    if seconds < ABSOLUTE_ERROR:
        return "< 1 ms"
    for size, unit, most in ((0.001, "ms", 1), (1, "s", 60), (60, "min", 3_600), (3_600, "h", 86_400)):
        if seconds < most:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    return f"{float(f'{seconds / 86_400:.2g}'):,g} d"
