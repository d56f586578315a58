"""The rotation as frames: the ring as it stands, who is served next, and what was served against what was due."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import datetime
from math import ceil

import pandas as pd

from queue_core import fairness, rotation
from queue_core.fairness import Gaps, Standing, Waiting
from queue_core.frames.rules import silent_for
from queue_core.frames.tables import SERVES, UTC, Schema, moments, rows, serves_frame, spans, table
from queue_core.frames.text import one_line, tag_label
from queue_core.frames.words import WORKER_SILENT
from queue_core.history import Entry, Event, Kind
from queue_core.rotation import Turn
from queue_core.snapshot import Snapshot, TagStats
from queue_core.task import SECOND, microseconds, moment

ROUNDS, WINDOWS, LEAST = 3, 60, 20  # rounds in a window of Jain's index, windows shown at most, serves in one at least

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
JAIN: Schema = {
    "first": "int64", "last": "int64", "begun_at": UTC, "at": UTC, "serves": "int64", "stayed": "int64",
    "index": "float64",
}  # fmt: skip
VIOLATIONS: Schema = {
    "number": "int64", "tag": "str", "label": "str", "since": "int64", "until": "Int64", "other": "int64",
    "other_tag": "str", "other_label": "str", "served": "int64", "weight": "int64",
}  # fmt: skip
AROUND: Schema = {**SERVES, "after": "bool"}
OF_FAIRNESS = ("weight", "served", "entitled", "worker_time", "worker_share")
NO_GAPS = Gaps(None, None, None, None)
MERGED = ("served", "entitled", "mean_gap", "ideal_gap", "longest_gap", "worker_share", "noisy")


def ring_frame(snapshot: Snapshot) -> pd.DataFrame:
    """The rotation, one row per tag in first-seen order.

    ``ahead`` counts the tags the scan passes before this one (the cursor's has 0), ``left`` what is left of a turn
    under way, ``why_not`` why the scan skips it (missing: it does not). ``last`` was served last, ``next`` is next.
    """
    ring, tags = snapshot.ring, snapshot.tags
    start = next((place for place, tag in enumerate(tags) if tag.name == ring.cursor), 0)
    newest = max((tag.last_serve or 0 for tag in tags), default=0)
    names = [tag.name for tag in tags]
    served_at = moments([tag.stamps[1] for tag in tags])
    return table(
        RING,
        {
            **{name: [getattr(tag, name) for tag in tags] for name in ("number", "weight", "backlog", "why_not")},
            "tag": names,
            "label": [tag_label(name) for name in names],
            "ahead": [(place - start) % len(tags) for place in range(len(tags))],
            "cursor": [name == ring.cursor for name in names],
            "next": [name == ring.next for name in names],
            "last": [bool(newest) and tag.last_serve == newest for tag in tags],
            "left": [ring.left if name == ring.cursor and ring.left else None for name in names],
            "last_serve": [tag.last_serve for tag in tags],
            "since_served": spans(snapshot.at, served_at),
            "last_served_at": served_at,
        },
    )


def upcoming(snapshot: Snapshot, n: int) -> list[TagStats]:
    """The tags of the next ``n`` serves, were they all taken now: what ``lease_many(n)`` would bring."""
    tags = {tag.number: tag for tag in snapshot.tags}  # in order
    ready = [tag.number for tag in snapshot.tags if tag.why_not is None]
    left: dict[int, int] = {}
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
        turn = rotation.advance(rotation.begin(turn, number, tags[number].weight), snapshot.tags[-1].number)
        left[number] = left.get(number, _takes(tags[number])) - 1
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
    standings = [fairness.standing(tag) for tag in snapshot.tags]
    entries = [event.entry for event in events]
    return shares_of(entries, standings, microseconds(snapshot.at, "at"), names_of(snapshot, events), last)


def names_of(snapshot: Snapshot, events: Iterable[Event]) -> dict[int, str]:
    """The exact names of the tags in a journal and a snapshot, by their numbers."""
    names = {event.entry.tag: event.tag or "" for event in events}
    return names | {tag.number: tag.name for tag in snapshot.tags}


def shares_of(
    entries: Sequence[Entry], standings: Iterable[Standing], now: int, names: dict[int, str], last: int
) -> pd.DataFrame:
    """The shares frame of the ``last`` serves of a journal; the standings are those at ``now``, in microseconds."""
    recent = fairness.latest(entries, last) if last else ()
    tags = fairness.got(recent, standings, now)
    waits: dict[int, int] = {}
    for entry in recent:
        if entry.kind is Kind.LEASE:
            waits[entry.tag] = max(entry.wait, waits.get(entry.tag, 0))
    exact = [names[tag.tag] for tag in tags]
    gaps = [tag.gaps or NO_GAPS for tag in tags]
    return table(
        SHARES,
        {
            "number": [tag.tag for tag in tags],
            "tag": exact,
            "label": [tag_label(name) for name in exact],
            **{name: [getattr(tag, name) for tag in tags] for name in OF_FAIRNESS},
            "share": [tag.served_share for tag in tags],
            "entitled_share": [tag.entitled_share for tag in tags],
            "difference": [tag.served - tag.entitled for tag in tags],
            "longest_wait": [waits[tag.tag] / SECOND if tag.tag in waits else None for tag in tags],
            "mean_gap": [gap.mean for gap in gaps],
            "ideal_gap": [gap.ideal for gap in gaps],
            "longest_gap": [gap.longest for gap in gaps],
            "turns_waited": [gap.turns for gap in gaps],
            "noisy": [", ".join(tag.noisy) or None for tag in tags],
        },
    )


def ring_shares_frame(ring: pd.DataFrame, shares: pd.DataFrame | None) -> pd.DataFrame:
    """The ring frame with what each tag got, from the shares frame; missing for tags that had no part in it."""
    known = rows(SHARES, []) if shares is None else shares
    merged = ring.merge(known[["number", *MERGED]], on="number", how="left")
    return merged.astype({"served": "Int64"})


# --- over time ------------------------------------------------------------------------------------


def jain_frame(snapshot: Snapshot, journal: Iterable[Event], size: int | None = None) -> pd.DataFrame:
    """Jain's index in windows of ``size`` serves one after the other, as ``queue_core.fairness.over_time`` has it.

    Without a size a window has three rounds of the tags that can be served now, 20 serves at least, and there are 60
    windows at most. ``index`` is missing where it has no value, and where a single tag stayed: of one it is always 1.
    """
    leases = _leases(journal)
    waiting = _waiting(snapshot)
    if size is None:
        weights = sum(one.weight for one in waiting.values())
        size = max(LEAST, ROUNDS * weights, ceil(len(leases) / WINDOWS))
    return rows(
        JAIN,
        (
            (
                one.first, one.last, moment(one.begun), moment(one.ended), one.serves, one.stayed,
                one.index if one.stayed > 1 else None,
            )
            for one in fairness.over_time(leases, waiting, size)
        ),
    )  # fmt: skip


def _leases(journal: Iterable[Event]) -> list[Entry]:
    return [event.entry for event in journal if event.kind is Kind.LEASE]


def _waiting(snapshot: Snapshot) -> dict[int, Waiting]:
    """The tags that are eligible now."""
    return {
        tag.number: Waiting(since, tag.weight)
        for tag in snapshot.tags
        if (since := tag.eligible_since_serve) is not None
    }


def violations_frame(snapshot: Snapshot, journal: Iterable[Event]) -> pd.DataFrame:
    """One row per breach of the rotation's guarantee among the serves of the journal: none when all is fair.

    A tag stayed eligible from serve ``since`` to its serve ``until`` (missing: it waits still), while ``other`` was
    served more than its weight.
    """
    events = list(journal)
    names = names_of(snapshot, events)
    waiting = {tag: one.since for tag, one in _waiting(snapshot).items()}
    return rows(
        VIOLATIONS,
        (
            (
                one.tag, names[one.tag], tag_label(names[one.tag]), one.since, one.until, one.other, names[one.other],
                tag_label(names[one.other]), one.served, one.weight,
            )
            for one in fairness.violations(_leases(events), waiting)
        ),
    )  # fmt: skip


def proof_frame(violations: pd.DataFrame, serves: pd.DataFrame, limit: int = 20) -> pd.DataFrame:
    """The serves (of ``serves_frame``) that show the first violation: where the wait began, those of the other tag in
    between, at most ``limit``, and where it ended."""
    if violations.empty:
        return serves.iloc[:0]
    first = violations.iloc[0]
    since, until = first["since"], first["until"]
    inside = serves[(serves["number"] == first["other"]) & (serves["serve"] > since)]
    if not pd.isna(until):
        inside = inside[inside["serve"] < until]
    edges = serves[(serves["serve"] == since) | (False if pd.isna(until) else serves["serve"] == until)]
    shown: pd.DataFrame = pd.concat([edges, inside.head(limit)]).sort_values("serve")
    return shown


def around_frame(journal: Iterable[Event], at: datetime, before: int = 60, after: int = 60) -> pd.DataFrame:
    """The last serves up to a moment and the first ones behind it: what the rotation did next, in fact."""
    serves = serves_frame(journal)
    later = serves["at"] > at
    earlier = serves[~later]
    shown = pd.concat([earlier.tail(before), serves[later].head(after)])
    return shown.assign(after=shown["at"] > at)


# --- who holds leases -----------------------------------------------------------------------------


def held_frame(leases: pd.DataFrame, snapshot: Snapshot) -> pd.DataFrame:
    """The leases frame with ``mark``: what is wrong with a lease or with the worker that holds it; empty: nothing.

    A worker is lost when it has not reported for 30 s, and stopped when it has said so; a lease that is held by a name
    that no worker has reports nothing.
    """
    silences = {one_line(worker.id): silent_for(worker, snapshot.at) for worker in snapshot.workers}

    def mark(owner: str, expired: bool) -> str:
        said = ["ran out"] if expired else []
        if owner in silences:
            silence = silences[owner]
            if silence is None:
                said.append("worker stopped")
            elif silence > WORKER_SILENT:
                said.append("worker lost")
        return ", ".join(said)

    marks = [mark(owner, over) for owner, over in zip(leases["owner"], leases["expired"], strict=True)]
    return leases.assign(mark=pd.Series(marks, index=leases.index, dtype="str"))
