"""The queue behind the dashboard: the only handle, every read, every action. No transaction outlives a call.

``QUEUE_URL`` names the queue. Reads are shared by all viewers for a while; what they return is frozen. No page gets a
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

from app import shared
from app.shared import Made, Shared
from queue_core import (
    Queue,
    Snapshot,
    Storage,
    StoreGone,
    View,
    open_queue,
)
from queue_core.frames import (
    PlansSeen,
    TagStory,
    plans_seen,
    ring_frame,
    series_frame,
    series_totals_frame,
    serves_frame,
    tag_story,
    tags_frame,
    turns,
)
from queue_core.redact import Redactor, Seen, masking
from queue_core.series import Series
from queue_core.spans import fitting
from queue_core.stores.base import Capabilities
from queue_core.task import EPOCH

T = TypeVar("T")

PATIENCE = 2.0  # seconds that an action waits for the write lock
RECENT = 900.0  # seconds of history
POINTS = 180  # spans into which history is cut, at most
EVENTS = 3_000  # journal entries in which the last serves are looked for
WINDOW = 500  # serves, of which shares are told
SHOWN = (
    "number", "tag", "label", "backlog", "oldest_wait", "why_not", "inflight", "scheduled", "dead", "acked", "weight",
    "since_served",
)  # fmt: skip


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
        self.gone = 0  # stores that were removed

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
                self.gone += 1
                gone.close()
                _history.clear()


@st.cache_resource(show_spinner=False)
def handle(url: str) -> Handle:
    return Handle(url)


def store() -> tuple[str, int]:
    """Which store is looked at: its address, and how many were removed there before. What is kept of one that is gone
    tells nothing of the next."""
    return url(), handle(url()).gone


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


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Overview:
    """For the Overview page, from one view. ``history`` tells whether the store keeps any; the frames have what
    happened in the last ``seconds``, by tag and in the whole queue."""

    snapshot: Snapshot
    seconds: float
    history: bool
    series: pd.DataFrame
    totals: pd.DataFrame


@dataclass(frozen=True, slots=True)
class Judged:
    """What the journal's newest serves tell: shares, breaches of the guarantee, Jain's index over time."""

    shares: pd.DataFrame
    broken: pd.DataFrame
    windows: pd.DataFrame


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Rotation:
    """For the Fairness page, from one view: the ring has what each tag got. ``judged`` is None where the store keeps no
    journal."""

    snapshot: Snapshot
    ring: pd.DataFrame
    served: pd.DataFrame
    judged: Judged | None


_overviews: Shared[Overview] = Shared(8)
_rotations: Shared[Rotation] = Shared(8)
_tag_frames: Made[pd.DataFrame] = Made()
_tags: Shared[TagStory] = Shared(32)
_plans: Shared[PlansSeen] = Shared(8)


def overview() -> Snapshot:
    """Everything about the queue and its tags."""
    return measured(RECENT).snapshot


def measured(seconds: float) -> Overview:
    """The same, and what happened in so many seconds up to then."""
    return _overviews.get((store(), seconds), lambda: _overview(url(), seconds))


def _overview(url: str, seconds: float) -> Overview:
    step = fitting(seconds, POINTS)
    kept = with_queue_at(url, lambda queue: queue.capabilities.history)

    def ask(view: View) -> tuple[Snapshot, tuple[pd.DataFrame, pd.DataFrame], Series]:
        snapshot = view.snapshot()
        begun = snapshot.at - (snapshot.at - EPOCH) % timedelta(seconds=step)  # the span under way
        over = _history(url, begun - timedelta(seconds=seconds), begun, step, view)
        return snapshot, over, view.series(since=begun)

    snapshot, over, now = _read(url, ask)
    by_tag, totals = (pd.concat(both, ignore_index=True) for both in zip(over, _frames(now, step), strict=True))
    return Overview(snapshot, seconds, kept, by_tag, totals)


@st.cache_resource(max_entries=8, show_spinner=False)
def _history(url: str, since: datetime, until: datetime, step: float, _view: View) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Spans that are over do not change: they are read once."""
    return _frames(_view.series(since=since, until=until), step)


def _frames(series: Series, step: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    return series_frame(series, step=step, fields=["pending"]), series_totals_frame(series, step=step)


def tags(shown: Overview) -> pd.DataFrame:
    """Its tags as a frame of the columns that are shown."""
    return _tag_frames.get(shown, "tags", lambda: tags_frame(shown.snapshot, SHOWN))


def rotation() -> Rotation:
    """The ring and the last serves, judged."""
    return _rotations.get(store(), lambda: _rotation(url()))


def _rotation(url: str) -> Rotation:
    kept = with_queue_at(url, lambda queue: queue.capabilities.journal)
    snapshot, journal = _read(url, lambda view: (view.snapshot(), view.journal(limit=EVENTS) if kept else []))
    served, ring = serves_frame(journal), ring_frame(snapshot)
    if not kept:
        return Rotation(snapshot, turns.ring_shares_frame(ring, None), served, None)
    shares = turns.shares_frame(snapshot, journal, WINDOW)
    broken, windows = turns.violations_frame(snapshot, journal), turns.jain_frame(snapshot, journal)
    return Rotation(snapshot, turns.ring_shares_frame(ring, shares), served, Judged(shares, broken, windows))


def task(id: str, mask: Redactor | None = None) -> tuple[Seen, datetime]:
    """A task as it is now and may be seen, and when that was. Raises TaskNotFound."""
    found, at = _read(url(), lambda view: (view.get(id), datetime.now(UTC)))
    return masking(mask).seen(found), at


def forget() -> None:
    """Read afresh from now on: something was changed."""
    shared.forget()


# --- one tag, and what is done to the queue -------------------------------------------------------


def plans() -> PlansSeen:
    """The newest plans, and how work on the queue goes."""
    return _plans.get(store(), lambda: read(plans_seen))


def keeps() -> Capabilities:
    """What this store can do."""
    return with_queue(lambda queue: queue.capabilities)


def one_tag(name: str, seconds: float) -> TagStory:
    """Everything about the tag of exactly this name, its history of so many seconds, from one view."""
    return _tags.get((store(), name, seconds), lambda: read(lambda view: tag_story(view, name, seconds)))


def room() -> tuple[Storage, Storage, float]:
    """The room that the store takes, what it took when this server looked first, and the seconds since then."""
    now = with_queue(lambda queue: queue.storage())
    first, at = _first_room(store(), now)
    return now, first, time.monotonic() - at


@st.cache_resource(show_spinner=False)
def _first_room(store: tuple[str, int], _now: Storage) -> tuple[Storage, float]:
    return _now, time.monotonic()
