"""The rotation as frames: the ring as it stands, who is served next, and what was served against what was due."""

from bisect import bisect_left
from collections.abc import Iterable

import pandas as pd

from queue_core import fairness, rotation
from queue_core.fairness import Gaps, TagFairness
from queue_core.frames.tables import UTC, Schema, rows, span
from queue_core.frames.text import tag_label
from queue_core.history import Event, Kind
from queue_core.rotation import Turn
from queue_core.snapshot import Snapshot, TagStats
from queue_core.task import SECOND, microseconds

RING: Schema = {
    "number": "int64", "tag": "str", "label": "str", "ahead": "int64", "cursor": "bool", "next": "bool",
    "last": "bool", "left": "Int64", "weight": "int64", "backlog": "int64", "why_not": "str", "last_serve": "Int64",
    "since_served": "float64", "last_served_at": UTC,
}  # fmt: skip
SHARES: Schema = {
    "number": "int64", "tag": "str", "label": "str", "weight": "int64", "served": "int64", "entitled": "float64",
    "share": "float64", "entitled_share": "float64", "difference": "float64", "longest_wait": "float64",
    "worker_time": "float64", "worker_share": "float64", "mean_gap": "float64", "ideal_gap": "float64",
    "longest_gap": "Int64", "turns_waited": "Int64", "noisy": "str",
}  # fmt: skip


def ring_frame(snapshot: Snapshot) -> pd.DataFrame:
    """The rotation, one row per tag in first-seen order.

    ``ahead`` counts the tags the scan passes before this one (the cursor's has 0), ``left`` what is left of a turn
    under way, ``why_not`` why the scan skips it (missing: it does not). ``last`` was served last, ``next`` is next.
    """
    ring, tags = snapshot.ring, snapshot.tags
    start = next((place for place, tag in enumerate(tags) if tag.name == ring.cursor), 0)
    newest = max((tag.last_serve or 0 for tag in tags), default=0)
    return rows(
        RING,
        (
            (
                tag.number, tag.name, tag_label(tag.name), (place - start) % len(tags), tag.name == ring.cursor,
                tag.name == ring.next, bool(newest) and tag.last_serve == newest,
                ring.left if tag.name == ring.cursor and ring.left else None, tag.settings.weight, tag.backlog,
                tag.why_not, tag.last_serve, span(snapshot.at, tag.last_served_at), tag.last_served_at,
            )
            for place, tag in enumerate(tags)
        ),
    )  # fmt: skip


def upcoming(snapshot: Snapshot, n: int) -> list[TagStats]:
    """The tags of the next ``n`` serves, were they all taken now: what ``lease_many(n)`` would bring."""
    tags = {tag.number: tag for tag in snapshot.tags}
    left = {tag.number: _takes(tag) for tag in snapshot.tags if tag.why_not is None}
    ready = sorted(left)
    settings = snapshot.settings
    if settings.max_inflight is not None:
        n = min(n, settings.max_inflight - snapshot.inflight + snapshot.expired)
    if settings.min_interval:
        n = min(n, 1)

    def first(number: int) -> int | None:
        at = bisect_left(ready, number)
        return ready[at] if at < len(ready) else None

    cursor = next((tag.number for tag in snapshot.tags if tag.name == snapshot.ring.cursor), 1)
    turn = Turn(cursor, snapshot.ring.left)
    found: list[TagStats] = []
    while len(found) < n and (number := rotation.next_tag(turn, first)) is not None:
        found.append(tags[number])
        turn = rotation.advance(rotation.begin(turn, number, tags[number].settings.weight), max(tags))
        left[number] -= 1
        if not left[number]:
            ready.remove(number)
    return found


def _takes(tag: TagStats) -> int:
    """How many serves the tag can take at one instant; at least one when nothing holds it back."""
    takes = tag.pending + tag.due + tag.expired
    if tag.settings.max_inflight is not None:
        takes = min(takes, tag.settings.max_inflight - tag.inflight + tag.expired)
    return min(takes, 1) if tag.settings.min_interval else takes


def shares_frame(snapshot: Snapshot, journal: Iterable[Event], last: int = 500) -> pd.DataFrame:
    """What each tag got of the ``last`` serves in the journal, against what it was due by weight; the most due first.

    The formulas are those of ``queue_core.fairness``. ``difference`` is ``served`` less ``entitled``, in serves, as the
    gaps are; ``worker_time`` and ``longest_wait`` of the served tasks in seconds. ``noisy`` says what a tag takes much
    of; missing: nothing.
    """
    events = list(journal)
    entries = fairness.latest([event.entry for event in events], last) if last else ()
    found = fairness.assess(entries, map(fairness.standing, snapshot.tags), microseconds(snapshot.at, "at"))
    names = {event.entry.tag: event.tag or "" for event in events}
    names |= {tag.number: tag.name for tag in snapshot.tags}
    waits: dict[int, int] = {}
    for entry in entries:
        if entry.kind is Kind.LEASE:
            waits[entry.tag] = max(entry.wait, waits.get(entry.tag, 0))
    return rows(SHARES, [_share(tag, names[tag.tag], waits.get(tag.tag)) for tag in found.tags])


def _share(tag: TagFairness, name: str, wait: int | None) -> tuple[object, ...]:
    gaps = tag.gaps or Gaps(None, None, None, None)
    return (
        tag.tag, name, tag_label(name), tag.weight, tag.served, tag.entitled, tag.served_share, tag.entitled_share,
        tag.served - tag.entitled, None if wait is None else wait / SECOND, tag.worker_time, tag.worker_share,
        gaps.mean, gaps.ideal, gaps.longest, gaps.turns, ", ".join(tag.noisy) or None,
    )  # fmt: skip
