"""What the store knows of the queue and of each tag: counts, totals, settings, the cursor.

These records change in the transaction of the task that moves, so they are exact at every commit.
They are mutable on purpose: a transaction loads each once, changes it in place, and writes it once.
``gc=False``: they hold no cycles, and a snapshot makes three for every tag.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from queue_core.rotation import Turn
from queue_core.task import SECOND, State

FORMAT = 3  # 2: histograms, series, and tags that are forgotten; 3: error groups, edits, plans, audit
TRASH_RETENTION = 7 * 24 * 3600 * SECOND
TAG_RETENTION = 7 * 24 * 3600 * SECOND
SET_BACK = 24 * 3600 * SECOND  # a clock that is set back by more than that begins anew
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

    @property
    def died(self) -> int:
        """By whatever way; a task may die more than once."""
        return self.died_nacked + self.died_expired + self.dead_lettered

    def plus(self, other: "Totals", sign: int = 1) -> "Totals":
        """The sum; the difference with ``sign`` -1."""
        return Totals(*(getattr(self, name) + sign * getattr(other, name) for name in _TOTALS))


_TOTALS = Totals.__struct_fields__


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


T = TypeVar("T", "Tag", "Meta")
Samples = msgspec.Raw  # a histogram as stored; a plain dict while a transaction adds to it
NO_SAMPLES = msgspec.Raw(b"\x80")
_encode = msgspec.msgpack.Encoder().encode
_samples: Callable[[Samples], dict[int, int]] = msgspec.msgpack.Decoder(dict[int, int]).decode


def samples(stored: Samples | dict[int, int]) -> dict[int, int]:
    """The histogram in a field of ``Tag`` or ``Meta``. There are many tags, and few are asked for it: decoded late."""
    return stored if type(stored) is dict else _samples(stored)  # type: ignore[arg-type]


class Measured(msgspec.Struct, array_like=True, gc=False):
    """What a tag carries for the measured history."""

    waits: Samples = NO_SAMPLES
    services: Samples = NO_SAMPLES
    bucket: int = 0  # the bucket of the series that it changed in last
    mark: bytes = b""  # its totals at the beginning of that one; nothing: it was new
    longest: int = 0  # the longest wait that was served in it
    aged: int = 0  # the retention clock when it first changed in it
    event: int = 0  # the number of its newest journal entry
    wait_before: int = 0  # the sums of times from before there were histograms
    service_before: int = 0


_AS_NEW = msgspec.Raw(b"\x90")  # every field as it is by default
_totals = msgspec.msgpack.Decoder(Totals).decode
_measured = msgspec.msgpack.Decoder(Measured).decode


class Tag(msgspec.Struct, array_like=True, gc=False):
    """One tag: its place in the ring, its settings, its counts.

    A snapshot reads all of them and is asked for the totals of few: those, and what is measured, are decoded late.
    """

    number: int
    name: str
    first_seen: int
    counts: Counts
    totals_: msgspec.Raw = _AS_NEW
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
    measured_: msgspec.Raw = _AS_NEW

    @property
    def totals(self) -> Totals:
        found: Any = self.totals_
        if type(found) is msgspec.Raw:
            self.totals_ = found = _totals(found)  # type: ignore[assignment]
        return found  # type: ignore[no-any-return]

    @property
    def measured(self) -> Measured:
        found: Any = self.measured_
        if type(found) is msgspec.Raw:
            self.measured_ = found = _measured(found)  # type: ignore[assignment]
        return found  # type: ignore[no-any-return]

    def whole(self) -> "Tag":
        """Itself, with what is decoded late decoded."""
        _ = self.totals, self.measured
        return self

    @property
    def plain(self) -> bool:
        """Whether it has no setting: nothing to remember."""
        return (
            self.weight == 1
            and not self.paused
            and self.max_inflight is None
            and not self.min_interval
            and self.max_pending is None
        )

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
    waits: Samples = NO_SAMPLES
    services: Samples = NO_SAMPLES
    wait_before: int = 0  # the sums of times from before there were histograms
    service_before: int = 0
    history: bool = True  # whether series and journal are written
    bucket: int = 0  # the number of the open bucket of the series; 0: none was ever opened
    opened: int = 0  # when it begins
    end_tag: int = 0  # the last tag of the ring: tags that were forgotten leave holes
    tag_retention: int = TAG_RETENTION
    sweep_left: int = 0  # tags that are still to be looked at, whether they can be forgotten
    touched: int = 0  # tags that have changed in the open bucket, for stores that keep them as a list
    lean: bool = False  # room is short: the open bucket is not measured
    groups: int = 0  # error groups that are known
    plans: int = 0  # plans ever made
    audits: int = 0  # entries of the audit ever written
    plans_kept: int = 0  # no plan before this one has its selection still
    grouped: int = 0  # an upgrade under way: dead letters from this entry on may be in no error group yet; 0: all are
    plan_check: int = 0  # on the retention clock: when to look whether a plan's selection has to go; 0: never

    @property
    def measuring(self) -> bool:
        """Whether the open bucket will be kept."""
        return self.history and not self.lean

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
        """Advance the retention clock: a clock that jumps forward cannot empty trash or history.

        Nor can one that goes back and forth: time counts from the latest that was seen, until it is a day ago.
        """
        if self.last_commit:
            self.aged += min(max(now - self.last_commit, 0), AGING_LIMIT)
        if not self.last_commit - SET_BACK <= now <= self.last_commit:
            self.last_commit = now


def copied(record: T) -> T:
    """A copy of a tag, or of the queue's numbers, that shares nothing that is changed in place."""
    return msgspec.msgpack.decode(_encode(record), type=type(record))


class Past(msgspec.Struct, array_like=True):
    """What is no longer kept one by one, and where the sweep through the tags stands. Read and written seldom."""

    mark: Totals  # the totals of the queue when the open bucket began
    expired: Totals  # the sum of the buckets that are no longer kept, and of what passed while no history was
    forgotten: Totals  # of tags that are no longer known
    forgotten_waits: Samples = NO_SAMPLES
    forgotten_services: Samples = NO_SAMPLES
    swept: int = 0  # the tag at which the last piece of the sweep ended
    last_tag: int = 0  # the newest tag there was then


def copied_past(past: Past) -> Past:
    """A copy that shares nothing that is changed in place."""
    return msgspec.structs.replace(past)


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
