"""The rotation as frames: the ring as it stands, who is served next, and what was served against what was due."""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

import pandas as pd

from queue_core import rotation
from queue_core.frames.tables import UTC, Schema, rows, serves_frame, span
from queue_core.frames.text import tag_label
from queue_core.history import Event
from queue_core.rotation import Turn
from queue_core.snapshot import Snapshot, TagStats

RING: Schema = {
    "number": "int64", "tag": "str", "label": "str", "ahead": "int64", "cursor": "bool", "next": "bool",
    "last": "bool", "left": "Int64", "weight": "int64", "backlog": "int64", "why_not": "str", "last_serve": "Int64",
    "since_served": "float64", "last_served_at": UTC,
}  # fmt: skip
SHARES: Schema = {
    "number": "int64", "tag": "str", "label": "str", "weight": "int64", "served": "int64", "entitled": "float64",
    "share": "float64", "entitled_share": "float64", "difference": "float64", "longest_wait": "float64",
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
    """What each tag got of the ``last`` serves in the journal, against what it was due.

    Weighted max-min fairness: a tag that ran empty (or was held back) got all it could take, and was due just that.
    The other serves are due, one by one, to the tags that are waiting still and were then, by weight. ``difference``
    is ``served`` less ``entitled``, in serves; ``longest_wait`` of the served tasks in seconds. The most due first.
    """
    serves = serves_frame(journal, last)
    if serves.empty:
        return rows(SHARES, [])
    entitled = _entitled(snapshot, serves)
    tags = {tag.number: tag for tag in snapshot.tags}
    served = serves.groupby("number")["wait"].agg(["size", "max"])
    found = []
    for number in sorted(entitled, key=lambda number: (-entitled[number], number)):
        due, got, tag = entitled[number], int(served["size"].get(number, 0)), tags.get(number)
        name, weight = (tag.name, tag.settings.weight) if tag else ("", 1)
        found.append((
            number, name, tag_label(name), weight, got, due, got / len(serves), due / len(serves), got - due,
            served["max"].get(number),
        ))  # fmt: skip
    return rows(SHARES, found)


def _entitled(snapshot: Snapshot, serves: pd.DataFrame) -> dict[int, float]:
    """Serves due to each tag that was served in the window, or has been waiting in it."""
    numbers, begins = list(serves["number"]), _begins(snapshot, serves)
    weights = {tag.number: tag.settings.weight for tag in snapshot.tags}
    total = [0] * (len(numbers) + 1)  # the weight of the tags that waited at each serve, and do so still
    for number, begin in begins.items():
        total[begin] += weights[number]
    total = list(accumulate(total))
    entitled: dict[int, float] = dict.fromkeys(begins, 0.0)
    part = [0.0]  # what a waiting tag of weight 1 was due of the serves before each
    for place, number in enumerate(numbers):
        shared = place >= begins.get(number, len(numbers))
        part.append(part[-1] + (1 / total[place] if shared else 0.0))
        if not shared:
            entitled[number] = entitled.get(number, 0.0) + 1
    for number, begin in begins.items():
        entitled[number] += weights[number] * (part[-1] - part[begin])
    return entitled


def _begins(snapshot: Snapshot, serves: pd.DataFrame) -> dict[int, int]:
    """For each tag that is waiting now: the serve of the window since which it has been, without a break."""
    first = int(serves["serve"].iloc[0])
    moments = list(accumulate(serves["at"], max))  # a clock may have been set back
    served = zip(serves["number"], serves["since"], strict=True)
    lasts = {number: (place, since) for place, (number, since) in enumerate(served)}
    begins = {}
    for tag in snapshot.tags:
        if tag.eligible_since is None:
            continue
        begin = bisect_left(moments, tag.eligible_since)
        place, since = lasts.get(tag.number, (-1, 0))
        if place >= begin:  # served since then: its journal entry knows the serve exactly
            begin = max(since + 1 - first, 0)
        if begin < len(serves):
            begins[tag.number] = begin
    return begins
