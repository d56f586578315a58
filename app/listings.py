"""Tasks of one state as rows of a table, and what came and left since they were read."""

from dataclasses import dataclass, replace
from datetime import datetime

import pandas as pd

from app import data
from app.shared import Shared
from queue_core import Snapshot, State, View, frames
from queue_core.frames import dead_frame, gone, leases_frame, newer

ROWS = 500  # rows of a table
SEARCHED = 2_000  # tasks that a text filter looks at
PIECE = 100  # tasks decoded at a time
FRAMES = {State.INFLIGHT: leases_frame, State.DEAD: dead_frame}


@dataclass(frozen=True, slots=True)
class Listing:
    """Tasks of one state, from one view. ``frame`` has the rows to show, ``total`` counts the state (and tag);
    ``looked`` tasks were looked at and ``matched`` of them fit the text. ``newest`` is the entry number of the newest
    dead letter."""

    snapshot: Snapshot
    frame: pd.DataFrame
    total: int
    looked: int
    matched: int
    newest: int


@dataclass(frozen=True, slots=True)
class Since:
    """What changed after a listing was read, and when that was seen. ``narrowed``: what came fits a filter, and what
    left is counted of the rows that are shown; ``now`` is of all."""

    at: datetime
    came: int
    came_capped: bool
    left: int
    now: int
    narrowed: bool = False


_newest: Shared[tuple[Snapshot, list[int]]] = Shared(64)
_held: Shared[Listing] = Shared(64)


def listing(state: State, tag: str | None, text: str) -> Listing:
    """Leases by expiry, dead letters newest first; with ``text``, those with it in any column."""
    return data.read(lambda view: _list(view, state, tag, text.casefold()))


def _list(view: View, state: State, tag: str | None, text: str) -> Listing:
    snapshot = view.snapshot()
    after, looked, matched, newest, pieces = None, 0, 0, 0, []
    while True:
        page = view.tasks(state, tag=tag, after=after, limit=PIECE, reverse=state is State.DEAD)
        piece = FRAMES[state](page, snapshot.at)
        newest = max([newest, *(task.record.entry for task in page)])
        looked += len(page)
        if text:
            piece = piece[_mentions(piece, text)]
        matched += len(piece)
        pieces.append(piece)
        after = page.next
        if after is None or looked >= (SEARCHED if text else ROWS):
            break
    frame = pd.concat(pieces, ignore_index=True).head(ROWS)
    return Listing(snapshot, frame, page.total, looked, matched, newest)


def _mentions(frame: pd.DataFrame, text: str) -> pd.Series:
    columns = [name for name in ("id", "label", "owner", "reason", "error", "payload") if name in frame]
    found = pd.Series(False, index=frame.index)
    for name in columns:
        found |= frame[name].str.casefold().str.contains(text, regex=False).fillna(False).astype(bool)
    return found


def since(state: State, tag: str | None, shown: Listing) -> Since:
    """What came and left since ``shown`` was read: exact for leases, dead letters and trash counted to 100."""
    if state is State.INFLIGHT:  # every lease ever is counted, so the difference is exact
        fresh = data.overview()
        came, capped = _leased(fresh, tag) - _leased(shown.snapshot, tag), False
    else:
        fresh, entries = _newest.get((data.store(), state, tag), lambda: _newest_entries(state, tag))
        came = sum(entry > shown.newest for entry in entries)
        capped = came == PIECE
    now = _count(fresh, state, tag)
    if fresh.at <= shown.snapshot.at:  # a shared read, older than what is shown
        return Since(shown.snapshot.at, 0, False, 0, _count(shown.snapshot, state, tag))
    return Since(fresh.at, came, capped, max(_count(shown.snapshot, state, tag) + came - now, 0), now)


def _newest_entries(state: State, tag: str | None) -> tuple[Snapshot, list[int]]:
    def ask(view: View) -> tuple[Snapshot, list[int]]:
        page = view.tasks(state, tag=tag, limit=PIECE, reverse=True)
        return view.snapshot(), [task.record.entry for task in page]

    return data.read(ask)


def since_by(state: State, where: str, shown: Listing) -> Since:
    """What came since that a filter finds, and what has left of the rows that are shown. Raises InvalidFilter."""

    def ask(view: View) -> Since:
        snapshot = view.snapshot()
        came, capped = newer(view, state, where, shown.newest)
        left = gone(view, state, shown.frame)
        return Since(snapshot.at, came, capped, left, _count(snapshot, state, None), narrowed=True)

    return data.read(ask)


# --- leases ---------------------------------------------------------------------------------------


def leased(tag: str | None, text: str, owner: str | None) -> Listing:
    """The leases that fit the filters, by expiry, with their marks; ``words.NOBODY`` are those without an owner."""
    name = "" if owner in (None, frames.words.NOBODY) else str(owner)
    found = data.read(lambda view: _list(view, State.INFLIGHT, tag, (text or name).casefold()))
    marked = frames.turns.held_frame(found.frame, found.snapshot)
    if owner is not None:
        marked = marked[marked["owner"] == name].reset_index(drop=True)
    return replace(found, frame=marked)


def held(tag: str | None, text: str, owner: str | None) -> Listing:
    """The same, shared by all viewers."""
    return _held.get((data.store(), tag, text, owner), lambda: leased(tag, text, owner))


def since_held(tag: str | None, text: str, owner: str | None, shown: Listing) -> Since:
    """The leases that fit the filters, began after ``shown`` was read and are held; and those shown that have ended."""
    now = held(tag, text, owner)
    if now.snapshot.at <= shown.snapshot.at:  # a shared read, older than what is shown
        return Since(shown.snapshot.at, 0, False, 0, _count(shown.snapshot, State.INFLIGHT, None), narrowed=True)
    before = set(shown.frame["fence"])
    came = sum(
        at > shown.snapshot.at and fence not in before
        for at, fence in zip(now.frame["leased_at"], now.frame["fence"], strict=True)
    )
    left = data.read(lambda view: gone(view, State.INFLIGHT, shown.frame))
    return Since(
        now.snapshot.at, came, now.looked < now.total, left, _count(now.snapshot, State.INFLIGHT, None), narrowed=True
    )


def _leased(snapshot: Snapshot, tag: str | None) -> int:
    if tag is None:
        return snapshot.totals.leased
    return sum(stats.totals.leased for stats in snapshot.tags if stats.name == tag)


def _count(snapshot: Snapshot, state: State, tag: str | None) -> int:
    if tag is None:
        return int(getattr(snapshot, state))
    return sum(int(getattr(stats, state)) for stats in snapshot.tags if stats.name == tag)
