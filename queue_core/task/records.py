"""The records: a task as it is stored, its attempts, and the lease that holds it.

Times inside are whole microseconds since the epoch, UTC; outside they are aware datetimes.
A record is frozen: a transition (``transitions``) returns a new one, and the store puts it where it belongs.
"""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from queue_core.errors import InvalidArgument

SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HISTORY_EDGE = 50  # closed attempts kept at each end of a task's history
TEXT_LIMIT = 64 * 1024  # bytes of an error or a reason
LAST_MOMENT = 253_402_300_799 * SECOND  # the end of the year 9999, the last that datetime knows


class State(StrEnum):
    """Where a task is stored. Reading never changes it."""

    PENDING = "pending"
    SCHEDULED = "scheduled"
    INFLIGHT = "inflight"
    DEAD = "dead"
    TRASH = "trash"


class Outcome(StrEnum):
    """How an attempt ended."""

    ACKED = "acked"
    NACKED = "nacked"
    EXPIRED = "expired"
    RELEASED = "released"
    DEFERRED = "deferred"
    REQUEUED = "requeued"
    DEAD_LETTERED = "dead_lettered"
    REPUSHED = "repushed"


LIVE = frozenset({State.PENDING, State.SCHEDULED, State.INFLIGHT})


def moment(at: int) -> datetime:
    """Microseconds since the epoch as an aware datetime."""
    return EPOCH + timedelta(microseconds=at)


def microseconds(value: Any, name: str) -> int:
    """An aware datetime as microseconds since the epoch. Raises InvalidArgument for a naive one."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidArgument(
            f"{name} is {value!r}: give a datetime with a time zone, such as datetime.now(timezone.utc)"
        )
    return (value - EPOCH) // timedelta(microseconds=1)


class Attempt(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One lease of a task that has ended. ``number`` counts all leases of the task, given-back ones too."""

    number: int
    cycle: int
    owner: str
    started: int
    ended: int
    outcome: Outcome
    error: str | None = None

    @property
    def started_at(self) -> datetime:
        return moment(self.started)

    @property
    def ended_at(self) -> datetime:
        return moment(self.ended)


class Hold(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The open lease of an in-flight task. After a dead-letter it stays, as the last holder."""

    fence: int
    nonce: int
    owner: str
    leased: int
    beat: int
    expires: int
    ttl: int


class Edit(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A payload that was edited away: when, the version it had, and its bytes."""

    at: int
    version: int
    payload: bytes


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A task as it is stored."""

    id: bytes
    tag: int
    place: int
    state: State
    version: int
    payload: bytes
    created: int
    ready: int  # pending since; for a scheduled task, of no meaning
    due: int  # scheduled: not before
    max_attempts: int = 5
    dedupe_key: str | None = None
    attempts: int = 0  # counted in this cycle
    cycle: int = 1
    leases: int = 0  # all leases ever
    defers: int = 0
    hold: Hold | None = None
    history: tuple[Attempt, ...] = ()
    error: str | None = None
    reason: str | None = None
    entry: int = 0  # dead and trash: the version at which it came in; their order
    entered: int = 0  # dead and trash: when
    aged: int = 0  # dead and trash: the store's retention clock then
    origin: State | None = None  # trash: where restore brings it back to
    group: bytes = b""  # dead and trash: the fingerprint of its error
    edits: tuple[Edit, ...] = ()  # payloads that were edited away: the first, and the last ones

    @property
    def order(self) -> int:
        """What its state is ordered by: place, due time, expiry, or entry."""
        state = self.state
        if state is State.PENDING:
            return self.place
        if state is State.INFLIGHT:
            return self.hold.expires if self.hold else 0
        return self.due if state is State.SCHEDULED else self.entry
