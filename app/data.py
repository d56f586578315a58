"""The queue behind the dashboard: the only handle, every read, every action. No transaction outlives a call.

``QUEUE_URL`` names the queue. Reads are shared by all viewers for a second; what they return is frozen. No page gets a
secret to see: what leaves here is masked.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import streamlit as st

from queue_core import (
    Event,
    Queue,
    Snapshot,
    State,
    Storage,
    StoreGone,
    View,
    open_queue,
)
from queue_core.frames import TagStory, dead_frame, leases_frame, series_frame, series_totals_frame, tag_story
from queue_core.redact import Redactor, Seen, masking
from queue_core.series import Series
from queue_core.spans import fitting
from queue_core.stores.base import Capabilities
from queue_core.task import EPOCH

T = TypeVar("T")

SHARED = 1.0  # seconds that a read is shared by all viewers
PATIENCE = 2.0  # seconds that an action waits for the write lock
ROWS = 500  # rows of a table
SEARCHED = 2_000  # tasks that a text filter looks at
PIECE = 100  # tasks decoded at a time
RECENT = 900.0  # seconds of history
POINTS = 180  # spans into which history is cut, at most
EVENTS = 3_000  # journal entries in which the last serves are looked for
FRAMES = {State.INFLIGHT: leases_frame, State.DEAD: dead_frame}


# --- the handle -----------------------------------------------------------------------------------


def url() -> str:
    """The queue's address: ``QUEUE_URL``, or ``var/queue`` beside the dashboard."""
    return os.environ.get("QUEUE_URL") or f"lmdb://{Path(__file__).resolve().parent.parent / 'var' / 'queue'}"


class Handle:
    """The open queue of one URL; opened again when the store was removed and made anew."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._queue: Queue | None = None

    def queue(self) -> Queue:
        with self._lock:
            if self._queue is None:
                options: dict[str, Any] = {"create": False, "busy_timeout": PATIENCE}
                self._queue = open_queue(self._url, **({} if self._url.startswith("memory:") else options))
            return self._queue

    def close(self) -> None:
        """Give the queue back; the next read opens it again."""
        with self._lock:
            if self._queue is not None:
                self._queue.close()
            self._queue = None

    def drop(self, gone: Queue) -> None:
        """Close a queue whose store is gone, once, whoever notices."""
        with self._lock:
            if self._queue is gone:
                self._queue = None
                gone.close()
                _history.clear()


@st.cache_resource(show_spinner=False)
def handle(url: str) -> Handle:
    return Handle(url)


def with_queue(use: Callable[[Queue], T]) -> T:
    """Ask the queue. Raises StoreGone when there is no store, and any error of ``use``."""
    return with_queue_at(url(), use)


def with_queue_at(url: str, use: Callable[[Queue], T]) -> T:
    """The same for a queue by its address, also outside a session."""
    held = handle(url)
    queue = held.queue()
    try:
        return use(queue)
    except StoreGone:
        held.drop(queue)
        return use(held.queue())


def read(ask: Callable[[View], T]) -> T:
    """Ask one view of the queue. Raises as ``with_queue`` does."""
    return _read(url(), ask)


def _read(url: str, ask: Callable[[View], T]) -> T:
    def use(queue: Queue) -> T:
        with queue.view() as view:
            return ask(view)

    return with_queue_at(url, use)


# --- what pages show ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Overview:
    """For the Overview page, from one view. ``history`` tells whether the store keeps any; the frames have what
    happened, by tag and in the whole queue."""

    snapshot: Snapshot
    history: bool
    series: pd.DataFrame
    totals: pd.DataFrame


@dataclass(frozen=True, slots=True)
class Rotation:
    """For the Fairness page, from one view. ``journal`` is None where the store keeps none."""

    snapshot: Snapshot
    journal: tuple[Event, ...] | None


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
    """What changed after a listing was read, and when that was seen."""

    at: datetime
    came: int
    came_capped: bool
    left: int
    now: int


def overview() -> Snapshot:
    """Everything about the queue and its tags."""
    return measured(RECENT).snapshot


def measured(seconds: float) -> Overview:
    """The same, and what happened in so many seconds up to then."""
    return _overview(url(), seconds)


@st.cache_resource(ttl=SHARED, max_entries=8, show_spinner=False)
def _overview(url: str, seconds: float) -> Overview:
    step = fitting(seconds, POINTS)
    kept = with_queue_at(url, lambda queue: queue.capabilities.history)

    def ask(view: View) -> Overview:
        snapshot = view.snapshot()
        begun = snapshot.at - (snapshot.at - EPOCH) % timedelta(seconds=step)  # the span under way
        over = _history(url, begun - timedelta(seconds=seconds), begun, step, view)
        now = _frames(view.series(since=begun), step)
        by_tag, totals = (pd.concat(both, ignore_index=True) for both in zip(over, now, strict=True))
        return Overview(snapshot, kept, by_tag, totals)

    return _read(url, ask)


@st.cache_resource(max_entries=8, show_spinner=False)
def _history(url: str, since: datetime, until: datetime, step: float, _view: View) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Spans that are over do not change: they are read once."""
    return _frames(_view.series(since=since, until=until), step)


def _frames(series: Series, step: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    return series_frame(series, step=step, fields=["pending"]), series_totals_frame(series, step=step)


def rotation() -> Rotation:
    """The ring and the last serves."""
    return _rotation(url())


@st.cache_resource(ttl=SHARED, max_entries=8, show_spinner=False)
def _rotation(url: str) -> Rotation:
    kept = with_queue_at(url, lambda queue: queue.capabilities.journal)
    return _read(url, lambda view: Rotation(view.snapshot(), tuple(view.journal(limit=EVENTS)) if kept else None))


def listing(state: State, tag: str | None, text: str) -> Listing:
    """Leases by expiry, dead letters newest first; with ``text``, those with it in any column."""
    return _read(url(), lambda view: _list(view, state, tag, text.casefold()))


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
    """What came and left since ``shown`` was read: exact for leases, dead letters counted to 100."""
    if state is State.INFLIGHT:  # every lease ever is counted, so the difference is exact
        fresh = overview()
        came, capped = _leased(fresh, tag) - _leased(shown.snapshot, tag), False
    else:
        fresh, entries = _newest_dead(url(), tag)
        came = sum(entry > shown.newest for entry in entries)
        capped = came == PIECE
    now = _count(fresh, state, tag)
    if fresh.at <= shown.snapshot.at:  # a shared read, older than what is shown
        return Since(shown.snapshot.at, 0, False, 0, _count(shown.snapshot, state, tag))
    return Since(fresh.at, came, capped, max(_count(shown.snapshot, state, tag) + came - now, 0), now)


@st.cache_resource(ttl=SHARED, max_entries=64, show_spinner=False)
def _newest_dead(url: str, tag: str | None) -> tuple[Snapshot, list[int]]:
    def ask(view: View) -> tuple[Snapshot, list[int]]:
        page = view.tasks(State.DEAD, tag=tag, limit=PIECE, reverse=True)
        return view.snapshot(), [task.record.entry for task in page]

    return _read(url, ask)


def _leased(snapshot: Snapshot, tag: str | None) -> int:
    if tag is None:
        return snapshot.totals.leased
    return sum(stats.totals.leased for stats in snapshot.tags if stats.name == tag)


def _count(snapshot: Snapshot, state: State, tag: str | None) -> int:
    if tag is None:
        return int(getattr(snapshot, state))
    return sum(int(getattr(stats, state)) for stats in snapshot.tags if stats.name == tag)


def task(id: str, mask: Redactor | None = None) -> tuple[Seen, datetime]:
    """A task as it is now and may be seen, and when that was. Raises TaskNotFound."""
    found, at = _read(url(), lambda view: (view.get(id), datetime.now(UTC)))
    return masking(mask).seen(found), at


def forget() -> None:
    """Read afresh from now on: something was changed."""
    for cached in (_overview, _rotation, _newest_dead, _one_tag):
        cached.clear()


# --- one tag, and what is done to the queue -------------------------------------------------------


def keeps() -> Capabilities:
    """What this store can do."""
    return with_queue(lambda queue: queue.capabilities)


def one_tag(name: str, seconds: float) -> TagStory:
    """Everything about the tag of exactly this name, its history of so many seconds, from one view."""
    return _one_tag(url(), name, seconds)


@st.cache_resource(ttl=SHARED, max_entries=32, show_spinner=False)
def _one_tag(url: str, name: str, seconds: float) -> TagStory:
    return _read(url, lambda view: tag_story(view, name, seconds))


def room() -> tuple[Storage, Storage, float]:
    """The room that the store takes, what it took when this server looked first, and the seconds since then."""
    now = with_queue(lambda queue: queue.storage())
    first, at = _first_room(url(), now)
    return now, first, time.monotonic() - at


@st.cache_resource(show_spinner=False)
def _first_room(url: str, _now: Storage) -> tuple[Storage, float]:
    return _now, time.monotonic()
