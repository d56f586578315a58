"""One tag by itself: what it did over time, how long its tasks waited, what it holds, what people did to it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import pandas as pd

from queue_core.errors import InvalidFilter
from queue_core.frames.control import audit_frame
from queue_core.frames.series import series_frame
from queue_core.frames.tables import UTC, Schema, leases_frame, rows, serves_frame, span
from queue_core.frames.text import one_line, tag_label
from queue_core.groups import Group, cause, mark_of, normalised
from queue_core.histogram import LAST, begins
from queue_core.query import parse, quote
from queue_core.query.expression import named
from queue_core.queue import View
from queue_core.redact import Redactor, masking
from queue_core.snapshot import Snapshot, TagStats
from queue_core.spans import fitting
from queue_core.task import SECOND, State, Task

POINTS = 180  # spans into which history is cut, at most
EVENTS = 3_000  # newest entries of the journal in which serves are looked for
SERVES, LEASES, LETTERS, ENTRIES = 50, 100, 500, 1_000  # serves, leases, dead letters and entries that are looked at

_COUNTED = ("pushed", "leased", "acked", "nacked", "expired")
_RATES = ("pushed", "leased", "acked", "failed")
TAG_SERIES: Schema = {
    "start": UTC, "seconds": "float64", "number": "int64", "tag": "str", "label": "str", "other": "bool",
    "known": "bool", "pending": "Int64", **dict.fromkeys(_COUNTED, "int64"), "failed": "int64",
    **{f"{name}_rate": "float64" for name in _RATES},
}  # fmt: skip
TIMES: Schema = {"what": "str", "low": "float64", "high": "float64", "count": "int64"}
TAG_GROUPS: Schema = {
    "group": "str", "text": "str", "count": "int64", "in_all": "Int64", "last_at": UTC, "since_last": "float64",
    "resolved": "bool",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TagStory:
    """Everything about one tag, of one moment. ``tag`` is None, and there is nothing in most frames, when there is no
    tag of this name. ``known`` has the spans of the series in which its numbers are known."""

    name: str
    snapshot: Snapshot
    tag: TagStats | None
    series: pd.DataFrame
    known: pd.DataFrame
    times: pd.DataFrame
    serves: pd.DataFrame
    leases: pd.DataFrame
    groups: pd.DataFrame
    changes: pd.DataFrame

    @property
    def looked(self) -> int:
        """How many dead letters the groups are of."""
        return int(self.groups["count"].sum())


def tag_story(view: View, name: str, seconds: float = 900.0, mask: Redactor | None = None) -> TagStory:
    """What there is to know of the tag of exactly this name, with its history of so many seconds.

    Of serves the newest 50 among the last 3,000 events of the queue, of leases the first 100 to expire, of dead letters
    the newest 500, of the audit what the newest 1,000 entries say of the tag.
    """
    mask, snapshot = masking(mask), view.snapshot()
    tag = next((tag for tag in snapshot.tags if tag.name == name), None)
    step = fitting(seconds, POINTS)
    series = view.series(since=snapshot.at - timedelta(seconds=seconds))
    journal = [event for event in view.journal(limit=EVENTS) if event.tag == name]
    leases = view.tasks(State.INFLIGHT, tag=name, limit=LEASES)
    dead = view.tasks(State.DEAD, tag=name, limit=LETTERS, reverse=True)
    groups = view.groups() if view.reader.meta.groups else []
    over = tag_series_frame(series_frame(series, step=step, fields=["pending", *_COUNTED]), name, tag)
    return TagStory(
        name, snapshot, tag, over, over[over["known"]],
        times_histogram_frame(tag),
        serves_frame(journal, SERVES).iloc[::-1].reset_index(drop=True),
        leases_frame(leases, snapshot.at, mask),
        tag_groups_frame(dead, groups, snapshot.at, mask),
        tag_audit_frame(view, name, mask),
    )  # fmt: skip


def tag_series_frame(series: pd.DataFrame, name: str, tag: TagStats | None) -> pd.DataFrame:
    """What one tag did, a row for each span of the series frame, as the figures over time take it.

    Not every tag is kept by name in every span. Where it is not, its numbers are 0 if those of all others together are;
    else they are not known, and the row is left out of ``known``.
    """
    others = series[series["other"]].set_index("start")
    mine = series[~series["other"] & (series["tag"] == name)]
    found = mine.groupby("start")[["pending", *_COUNTED]].sum(min_count=1).reindex(others.index)
    idle = (others[[*_COUNTED]] == 0).all(axis="columns") & (others["pending"].fillna(1) == 0)
    known = found["pushed"].notna() & found["pending"].notna() | idle
    counts = found.where(found.notna(), 0).astype({"pending": "Int64", **dict.fromkeys(_COUNTED, "int64")})
    counts["failed"] = counts["nacked"] + counts["expired"]
    rates = {f"{rate}_rate": counts[rate] / others["seconds"] for rate in _RATES}
    whole = counts.assign(
        **rates, seconds=others["seconds"], known=known, number=tag.number if tag is not None else 0, tag=name,
        label=tag_label(name), other=False,
    ).reset_index()  # fmt: skip
    return whole[list(TAG_SERIES)].astype(dict(TAG_SERIES))


def times_histogram_frame(tag: TagStats | None) -> pd.DataFrame:
    """How many of a tag's tasks waited (``wait``), and attempts took (``service``), from ``low`` to ``high`` seconds,
    since the beginning. The last bucket has no upper end."""
    measured = [] if tag is None else [("wait", tag.waits), ("service", tag.services)]
    return rows(
        TIMES,
        (
            (what, begins(bucket) / SECOND, begins(bucket + 1) / SECOND if bucket < LAST else None, count)
            for what, times in measured
            for bucket, count in sorted(times.buckets.items())
        ),
    )


def tag_groups_frame(
    dead: Iterable[Task], known: Iterable[Group], at: datetime, mask: Redactor | None = None
) -> pd.DataFrame:
    """The error groups of some dead letters, the largest first: ``count`` of them, ``in_all`` in the whole queue.

    ``known`` are the groups that the store keeps; without them ``in_all`` is missing.
    """
    mask, groups = masking(mask), {group.fingerprint: group for group in known}
    members: dict[bytes, list[Task]] = {}
    for task in dead:
        members.setdefault(mark_of(task.record), []).append(task)
    found = []
    for mark, tasks in sorted(members.items(), key=lambda item: (-len(item[1]), item[0])):
        group, last = groups.get(mark), max((task.entered_at for task in tasks if task.entered_at), default=None)
        text = normalised(mask.text(cause(tasks[0].record))) if group is None else group.said(mask.text)
        found.append((
            mark.hex(), one_line(text), len(tasks), None if group is None else group.count, last,
            span(at, last), group is not None and bool(group.resolved),
        ))  # fmt: skip
    return rows(TAG_GROUPS, found)


def tag_audit_frame(view: View, name: str, mask: Redactor | None = None) -> pd.DataFrame:
    """What people did to a tag by its name, the newest first: its settings, and whatever its name was a filter of."""
    entries = view.audit(limit=ENTRIES)
    return audit_frame((entry for entry in reversed(entries) if _names(entry.where, name)), mask)


def _names(where: str | None, tag: str) -> bool:
    if where is None or "tag" not in where:
        return False
    if where == f"tag:{quote(tag)}":
        return True
    try:
        return tag in (named(parse(where), "tag") or ())
    except InvalidFilter:  # words that tell of something else than a filter
        return False
