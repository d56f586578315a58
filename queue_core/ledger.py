"""What the store knows of the queue and of each tag: counts, totals, settings, the cursor.

These records change in the transaction of the task that moves, so they are exact at every commit.
They are mutable on purpose: a transaction loads each once, changes it in place, and writes it once.
``gc=False``: they hold no cycles, and a snapshot makes three for every tag.
"""

import msgspec

from queue_core.rotation import Turn
from queue_core.task import SECOND, State

FORMAT = 1
TRASH_RETENTION = 7 * 24 * 3600 * SECOND
AGING_LIMIT = 3600 * SECOND  # what retention counts at most between two commits, whatever the clock says
DEFAULT_MAX_PAYLOAD = 1 << 20


class Totals(msgspec.Struct, array_like=True, gc=False):
    """Counts of transitions since the beginning, and sums of times in microseconds."""

    pushed: int = 0
    leased: int = 0
    acked: int = 0
    nacked: int = 0
    expired: int = 0
    released: int = 0
    deferred: int = 0
    requeued: int = 0
    promoted: int = 0
    died_nacked: int = 0  # no attempts left after a nack
    died_expired: int = 0  # no attempts left after a lease ran out
    dead_lettered: int = 0  # by a verb
    redriven: int = 0
    cancelled: int = 0
    purged: int = 0
    restored: int = 0
    expunged: int = 0
    retired: int = 0  # expunged by a retention, not by a verb
    moved_in: int = 0
    moved_out: int = 0
    wait: int = 0  # sum over leases
    service: int = 0  # sum over ended attempts: lease to end
    eligible: int = 0  # time spent eligible, up to the last change


class Counts(msgspec.Struct, array_like=True, gc=False):
    """Tasks by state."""

    pending: int = 0
    scheduled: int = 0
    inflight: int = 0
    dead: int = 0
    trash: int = 0

    def add(self, state: State, step: int) -> None:
        setattr(self, state, getattr(self, state) + step)

    @property
    def all(self) -> int:
        return self.pending + self.scheduled + self.inflight + self.dead + self.trash


class Tag(msgspec.Struct, array_like=True, gc=False):
    """One tag: its place in the ring, its settings, its counts."""

    number: int
    name: str
    first_seen: int
    counts: Counts
    totals: Totals
    weight: int = 1
    paused: bool = False
    max_inflight: int | None = None
    min_interval: int = 0
    max_pending: int | None = None
    head: int = 0  # place of the next task; 0: nothing pending
    head_ready: int = 0  # since when that one has been pending
    timer: int = 0  # not eligible before, after a serve; 0: no interval runs
    eligible: bool = False  # as the rotation has it: the stored index of eligible tags
    eligible_at: int = 0
    eligible_serve: int = 0
    last_serve: int = 0  # serve number
    last_served: int = 0  # when

    def may_be_served(self) -> bool:
        return (
            self.counts.pending > 0
            and not self.paused
            and not self.timer
            and (self.max_inflight is None or self.counts.inflight < self.max_inflight)
        )


class Meta(msgspec.Struct, array_like=True):
    """The queue as a whole: the numbers it gives out, the cursor, settings, counts."""

    counts: Counts
    totals: Totals
    format: int = FORMAT
    epoch: int = 0
    created: int = 0
    turn: Turn = Turn()
    last_tag: int = 0
    last_place: int = 0
    last_version: int = 0
    fence: int = 0
    serves: int = 0
    events: int = 0  # journal entries ever written
    last_commit: int = 0
    aged: int = 0  # the retention clock
    paused: bool = False
    max_inflight: int | None = None
    min_interval: int = 0
    max_pending: int | None = None
    open_at: int = 0  # no serve before: the interval of the whole queue
    dead_retention: int | None = None
    max_payload: int = DEFAULT_MAX_PAYLOAD
    trash_check: int = 0  # on the retention clock: when to look whether trash has to go; 0: never
    dead_check: int = 0
    moment: int = 0  # nothing is due, expired or past its interval before; it may be early, never late

    def version(self) -> int:
        self.last_version += 1
        return self.last_version

    def place(self) -> int:
        self.last_place += 1
        return self.last_place

    def may_serve(self, now: int) -> bool:
        return (
            not self.paused
            and now >= self.open_at
            and (self.max_inflight is None or self.counts.inflight < self.max_inflight)
        )

    def age(self, now: int) -> None:
        """Advance the retention clock: a clock that jumps forward cannot empty trash or history."""
        if self.last_commit:
            self.aged += min(max(now - self.last_commit, 0), AGING_LIMIT)
        self.last_commit = now


class WorkerRecord(msgspec.Struct, frozen=True, array_like=True):
    """A worker that has reported. ``id`` is random: process ids mean nothing across containers."""

    id: str
    host: str
    pid: int
    started: int
    seen: int
    stopped: int = 0
    concurrency: int = 1
    done: int = 0
    failed: int = 0
