"""What a reader gets: snapshots, pages, explanations. Frozen, times as aware datetimes, spans in seconds."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import msgspec

from queue_core.forecast import Forecast
from queue_core.histogram import Times
from queue_core.ledger import Tag, Totals, samples
from queue_core.task import SECOND, Task, moment

COUNT_LIMIT = 1_000  # due and expired are counted up to here
AHEAD_LIMIT = 10_000  # what is ahead of a task is counted up to here


class WhyNot(StrEnum):
    """Why a tag is not served. The order is that of the checks: the first that holds is given."""

    EMPTY = "empty"
    SCHEDULED = "only scheduled tasks"
    QUEUE_PAUSED = "the queue is paused"
    PAUSED = "paused"
    QUEUE_LIMIT = "in-flight limit of the queue"
    LIMIT = "in-flight limit"
    QUEUE_INTERVAL = "minimum interval of the queue"
    INTERVAL = "minimum interval"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a tag, or of the whole queue. Spans in seconds.

    ``weight`` has no meaning for the whole queue and is 1; the last four belong to the queue only.
    """

    weight: int = 1
    paused: bool = False
    max_inflight: int | None = None
    min_interval: float = 0.0
    max_pending: int | None = None
    dead_retention: float | None = None
    max_payload: int | None = None
    tag_retention: float | None = None
    history: bool | None = None


def settings_of(tag: Tag) -> Settings:
    """The settings of a tag."""
    return Settings(tag.weight, tag.paused, tag.max_inflight, tag.min_interval / SECOND, tag.max_pending)


class TagStats(msgspec.Struct, frozen=True, gc=False):
    """One tag at the snapshot's instant. There may be many: what is not asked for is not computed.

    ``due`` and ``expired`` are among the first 1,000 of the store. ``oldest_wait`` is that of its next task, in
    seconds; None when nothing waits. ``why_not`` tells what keeps the next lease from it; None: nothing.
    """

    _tag: Tag
    due: int
    expired: int
    oldest_wait: float | None
    why_not: WhyNot | None

    @property
    def number(self) -> int:
        """Its position in the ring, from 1."""
        return self._tag.number

    @property
    def name(self) -> str:
        return self._tag.name

    @property
    def pending(self) -> int:
        return self._tag.counts.pending

    @property
    def scheduled(self) -> int:
        return self._tag.counts.scheduled

    @property
    def inflight(self) -> int:
        return self._tag.counts.inflight

    @property
    def dead(self) -> int:
        return self._tag.counts.dead

    @property
    def trash(self) -> int:
        return self._tag.counts.trash

    @property
    def backlog(self) -> int:
        """Pending and due."""
        return self._tag.counts.pending + self.due

    @property
    def weight(self) -> int:
        return self._tag.weight

    @property
    def settings(self) -> Settings:
        return settings_of(self._tag)

    @property
    def totals(self) -> Totals:
        """Transitions since the beginning."""
        return self._tag.totals

    @property
    def waits(self) -> Times:
        """How long its tasks had been pending when they were leased."""
        measured = self._tag.measured
        return Times(samples(measured.waits), self._tag.totals.wait - measured.wait_before)

    @property
    def services(self) -> Times:
        """How long its attempts took, from the lease to the end."""
        measured = self._tag.measured
        return Times(samples(measured.services), self._tag.totals.service - measured.service_before)

    @property
    def stamps(self) -> tuple[int, int, int]:
        """First seen, last served and eligible since, in microseconds since 1970, 0 for never: a datetime costs more,
        and there may be many tags."""
        tag = self._tag
        return tag.first_seen, tag.last_served if tag.last_serve else 0, tag.eligible_at if tag.eligible else 0

    @property
    def first_seen_at(self) -> datetime:
        return moment(self._tag.first_seen)

    @property
    def last_served_at(self) -> datetime | None:
        return moment(self._tag.last_served) if self._tag.last_serve else None

    @property
    def last_serve(self) -> int | None:
        """The number of its last serve."""
        return self._tag.last_serve or None

    @property
    def eligible_since(self) -> datetime | None:
        return moment(self._tag.eligible_at) if self._tag.eligible else None

    @property
    def eligible_since_serve(self) -> int | None:
        """The newest serve of all when it became eligible; None when it is not."""
        return self._tag.eligible_serve if self._tag.eligible else None


@dataclass(frozen=True, slots=True)
class Ring:
    """The rotation: tag names in first-seen order, the cursor's tag, what is left of its turn
    (0: not begun), and who is served next, None when nobody can be."""

    tags: tuple[str, ...]
    cursor: str | None
    left: int
    next: str | None
    serves: int


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """A worker as it last reported; it reports every 10 s at most."""

    id: str
    host: str
    pid: int
    started_at: datetime
    seen_at: datetime
    stopped_at: datetime | None
    concurrency: int
    done: int
    failed: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole queue at one instant, from one read transaction."""

    at: datetime
    pending: int
    scheduled: int
    inflight: int
    dead: int
    trash: int
    due: int
    expired: int
    oldest_wait: float | None
    settings: Settings
    totals: Totals
    ring: Ring
    workers: tuple[WorkerStats, ...]
    waits: Times
    services: Times
    tags: tuple[TagStats, ...] = field(repr=False)

    @property
    def backlog(self) -> int:
        """Pending and due."""
        return self.pending + self.due

    @property
    def due_text(self) -> str:
        return counted(self.due)

    @property
    def expired_text(self) -> str:
        return counted(self.expired)


def counted(number: int) -> str:
    """A count that stops at 1,000, as text: "1,000+" when it stopped."""
    return f"{number:,}+" if number >= COUNT_LIMIT else f"{number:,}"


@dataclass(frozen=True, slots=True)
class Storage:
    """Room in bytes; None where a store cannot tell.

    ``used`` by records; ``file`` on the disk, which does not shrink; ``limit`` that ``used`` may reach.
    """

    used: int | None
    file: int | None
    limit: int | None


@dataclass(frozen=True, slots=True)
class Page:
    """One page of tasks; ``next`` goes in as ``after`` for the page behind it, None at the end.

    ``total`` counts all tasks of the state (and tag), on other pages too.
    """

    items: tuple[Task, ...]
    next: str | None
    total: int

    def __iter__(self) -> Iterator[Task]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a task is not running yet.

    ``ahead`` counts the tasks before it in its tag (exact to 10,000, ``ahead_exact`` tells);
    ``turns`` of its tag and ``serves`` of the whole queue come before it under the present load, None
    when that cannot be said (it is not pending, or its tag is held back). ``blocked_by`` says what
    holds its tag back, ``text`` says it all in words. ``forecast`` tells when its serve is to be expected by how the
    last five minutes went; None when that cannot be said.
    """

    task: Task
    ahead: int | None
    ahead_exact: bool
    turns: int | None
    serves: int | None
    blocked_by: WhyNot | None
    text: str
    forecast: Forecast | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken invariant, found by ``check()``. ``invariant`` is its number in ARCHITECTURE.md."""

    invariant: int
    message: str
