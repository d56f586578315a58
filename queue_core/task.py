"""Task, attempt and lease: the records, their tokens, and the pure transitions between states.

Times inside are whole microseconds since the epoch, UTC; outside they are aware datetimes.
A record is frozen: a transition returns a new one, and the store puts it where its state belongs.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec.structs import replace

from queue_core.errors import InvalidArgument, LeaseLost

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


class Attempt(msgspec.Struct, frozen=True, array_like=True):
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


class Hold(msgspec.Struct, frozen=True, array_like=True):
    """The open lease of an in-flight task. After a dead-letter it stays, as the last holder."""

    fence: int
    nonce: int
    owner: str
    leased: int
    beat: int
    expires: int
    ttl: int


class Record(msgspec.Struct, frozen=True, array_like=True):
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

    @property
    def order(self) -> int:
        """What its state is ordered by: place, due time, expiry, or entry."""
        match self.state:
            case State.PENDING:
                return self.place
            case State.SCHEDULED:
                return self.due
            case State.INFLIGHT:
                return self.hold.expires if self.hold else 0
            case _:
                return self.entry


# --- tokens ---------------------------------------------------------------------------------------

_TOKEN = re.compile(r"([0-9a-f]{32})\.([0-9a-f]{1,16})\.([0-9a-f]{16})")


class Token(NamedTuple):
    """A parsed lease token: only the newest of a live lease is accepted."""

    id: bytes
    fence: int
    nonce: int

    def __str__(self) -> str:
        return f"{self.id.hex()}.{self.fence:x}.{self.nonce:016x}"

    def fits(self, record: Record | None) -> bool:
        """Whether it is the newest token of the record's open lease."""
        return (
            record is not None
            and record.state is State.INFLIGHT
            and record.hold is not None
            and record.hold.fence == self.fence
            and record.hold.nonce == self.nonce
        )


def parse_token(text: Any) -> Token:
    """The parts of a token. Raises LeaseLost for any text that is not one: it can hold no lease."""
    match = _TOKEN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise LeaseLost([str(text)])
    token = Token(bytes.fromhex(match[1]), int(match[2], 16), int(match[3], 16))
    if str(token) != text:
        raise LeaseLost([text])
    return token


def is_token(text: str) -> bool:
    """Whether a text has the shape of a token, as against an id."""
    return "." in text


def parse_id(value: str | UUID) -> bytes:
    """A task id as its 16 bytes. Raises InvalidArgument when it is not a UUID."""
    try:
        return value.bytes if isinstance(value, UUID) else UUID(value).bytes
    except (ValueError, AttributeError, TypeError):
        raise InvalidArgument(f"id {value!r:.100} is not a UUID, such as {UUID(int=0)}") from None


def id_text(id: bytes) -> str:
    return str(UUID(bytes=id))


# --- rules ----------------------------------------------------------------------------------------


def backoff(id: bytes, cycle: int, attempt: int) -> int:
    """Microseconds before the retry that follows the given counted attempt (from 1).

    1 s doubling to 300 s, of which the second half is jitter ("equal jitter", M. Brooker, AWS
    Architecture Blog, 2015), drawn from a hash of id, cycle and attempt, so that every store agrees.
    """
    full = min(300, 1 << min(max(attempt, 1) - 1, 9)) * SECOND
    digest = blake2b(b"%b/%d/%d" % (id, cycle, attempt), digest_size=4).digest()
    return full // 2 + (full - full // 2) * int.from_bytes(digest) // (1 << 32)


def clean_text(value: object) -> str:
    """An error or a reason as text that every store and screen can keep; never raises.

    NUL and lone surrogates become U+FFFD; what is over 64 KiB is cut, with a mark.
    """
    try:
        text = f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value)
    except Exception:  # noqa: BLE001 - whatever str() of a stranger's object raises, the failure must be recorded
        text = f"<{type(value).__name__} whose str() raises>"
    raw = text.replace("\0", "\ufffd").encode("utf-8", "surrogatepass")
    if len(raw) > TEXT_LIMIT:
        mark = f" … [cut, {len(raw):,} bytes in all]".encode()
        raw = raw[: TEXT_LIMIT - len(mark)] + mark
    return raw.decode("utf-8", "replace")


# --- transitions ----------------------------------------------------------------------------------


def leased(record: Record, *, version: int, hold: Hold) -> Record:
    """Pending → in flight; the attempt is counted now, so that a task which kills its worker uses it up."""
    return replace(
        record,
        state=State.INFLIGHT,
        version=version,
        attempts=record.attempts + 1,
        leases=record.leases + 1,
        hold=hold,
    )


def beaten(record: Record, *, nonce: int, now: int, ttl: int | None) -> Record:
    """The same lease under a new token; its expiry is never lowered and its version stays."""
    hold = record.hold
    assert hold is not None
    ttl = hold.ttl if ttl is None else ttl
    fresh = replace(hold, nonce=nonce, beat=max(hold.beat, now), expires=max(hold.expires, now + ttl), ttl=ttl)
    return replace(record, hold=fresh)


def closed(record: Record, *, now: int, outcome: Outcome, error: str | None = None) -> Record:
    """The open attempt ended and written into the history, once; given back when it does not count."""
    hold = record.hold
    if hold is None or record.state is not State.INFLIGHT:
        return record
    attempt = Attempt(record.leases, record.cycle, hold.owner, hold.leased, max(now, hold.leased), outcome, error)
    history = record.history
    if len(history) >= 2 * HISTORY_EDGE:
        history = history[:HISTORY_EDGE] + history[HISTORY_EDGE + 1 :]
    given_back = outcome in (Outcome.RELEASED, Outcome.DEFERRED)
    return replace(
        record,
        hold=None,
        history=(*history, attempt),
        attempts=record.attempts - given_back,
        defers=record.defers + (outcome is Outcome.DEFERRED),
        error=record.error if error is None else error,
    )


def pending(record: Record, *, version: int, now: int) -> Record:
    """At its place again, waiting from now on."""
    return replace(
        record, state=State.PENDING, version=version, ready=now, hold=None, reason=None, entry=0, entered=0,
        aged=0, origin=None,
    )  # fmt: skip


def scheduled(record: Record, *, version: int, due: int) -> Record:
    """Not before ``due``."""
    return replace(pending(record, version=version, now=due), state=State.SCHEDULED, due=min(due, LAST_MOMENT))


def dead(record: Record, *, version: int, now: int, aged: int, reason: str, hold: Hold | None) -> Record:
    """In the dead-letter queue; ``hold`` is the lease it died under, kept for the reader."""
    return replace(
        record,
        state=State.DEAD,
        version=version,
        reason=reason,
        hold=hold,
        entry=version,
        entered=now,
        aged=aged,
    )


def trashed(record: Record, *, version: int, now: int, aged: int) -> Record:
    """In the trash, knowing where it came from."""
    return replace(
        record, state=State.TRASH, version=version, origin=record.state, entry=version, entered=now, aged=aged
    )


def revived(record: Record, *, version: int, now: int, place: int) -> Record:
    """A new cycle, counted from zero, at the given place."""
    fresh = pending(record, version=version, now=now)
    return replace(fresh, place=place, cycle=record.cycle + 1, attempts=0)


# --- what callers get -----------------------------------------------------------------------------


_UNREAD: Any = object()


class Task:
    """A task as it was when read: an immutable view of its record."""

    __slots__ = ("_load", "_payload", "_record", "tag")

    def __init__(self, record: Record, tag: str, load: Callable[[bytes], Any]) -> None:
        self._record = record
        self._load = load
        self._payload: Any = _UNREAD
        self.tag = tag

    @property
    def payload(self) -> Any:
        """The payload, decoded when first asked for."""
        if self._payload is _UNREAD:
            self._payload = self._load(self._record.payload)
        return self._payload

    @property
    def record(self) -> Record:
        """The stored record, with times in microseconds."""
        return self._record

    @property
    def id(self) -> str:
        return id_text(self._record.id)

    @property
    def state(self) -> State:
        return self._record.state

    @property
    def version(self) -> int:
        return self._record.version

    @property
    def place(self) -> int:
        return self._record.place

    @property
    def attempts(self) -> int:
        """Counted attempts of the present cycle."""
        return self._record.attempts

    @property
    def max_attempts(self) -> int:
        return self._record.max_attempts

    @property
    def cycle(self) -> int:
        return self._record.cycle

    @property
    def leases(self) -> int:
        """All leases ever, of which ``history`` keeps the first and the last 50."""
        return self._record.leases

    @property
    def defers(self) -> int:
        return self._record.defers

    @property
    def dedupe_key(self) -> str | None:
        return self._record.dedupe_key

    @property
    def history(self) -> tuple[Attempt, ...]:
        return self._record.history

    @property
    def error(self) -> str | None:
        """The last error of any attempt."""
        return self._record.error

    @property
    def reason(self) -> str | None:
        """Why it is dead."""
        return self._record.reason

    @property
    def created_at(self) -> datetime:
        return moment(self._record.created)

    @property
    def pending_since(self) -> datetime | None:
        return moment(self._record.ready) if self.state is State.PENDING else None

    @property
    def due_at(self) -> datetime | None:
        return moment(self._record.due) if self.state is State.SCHEDULED else None

    @property
    def entered_at(self) -> datetime | None:
        """When it came into the dead-letter queue or the trash."""
        return moment(self._record.entered) if self._record.entered else None

    @property
    def owner(self) -> str | None:
        """Who holds it, or held it when it died."""
        return self._record.hold.owner if self._record.hold else None

    @property
    def leased_at(self) -> datetime | None:
        return moment(self._record.hold.leased) if self._record.hold else None

    @property
    def beat_at(self) -> datetime | None:
        """The last heartbeat, or the lease itself."""
        return moment(self._record.hold.beat) if self._record.hold else None

    @property
    def expires_at(self) -> datetime | None:
        return moment(self._record.hold.expires) if self._record.hold else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and self._record == other._record and self.tag == other.tag

    def __hash__(self) -> int:
        return hash((self._record.id, self._record.version))

    def __repr__(self) -> str:
        return f"Task({self.id}, tag={self.tag[:60]!r}, {self.state}, attempts={self.attempts}/{self.max_attempts})"


class Lease:
    """The right to work on one task until ``expires_at``, proven by ``token``."""

    __slots__ = ("proof", "task")

    def __init__(self, task: Task) -> None:
        hold = task.record.hold
        assert hold is not None
        self.task = task
        self.proof = Token(task.record.id, hold.fence, hold.nonce)

    @property
    def token(self) -> str:
        """The token as text, for a log or another process; every verb that takes a lease takes it."""
        return str(self.proof)

    @property
    def id(self) -> str:
        return self.task.id

    @property
    def tag(self) -> str:
        return self.task.tag

    @property
    def payload(self) -> Any:
        return self.task.payload

    @property
    def attempt(self) -> int:
        """Which counted attempt of its cycle this is, from 1."""
        return self.task.attempts

    @property
    def hold(self) -> Hold:
        assert self.task.record.hold is not None
        return self.task.record.hold

    @property
    def fence(self) -> int:
        """A store-wide growing number: outside systems refuse a smaller one than they have seen."""
        return self.hold.fence

    @property
    def owner(self) -> str:
        return self.hold.owner

    @property
    def ttl(self) -> float:
        """Seconds that a lease or a heartbeat gives."""
        return self.hold.ttl / SECOND

    @property
    def leased_at(self) -> datetime:
        return moment(self.hold.leased)

    @property
    def expires_at(self) -> datetime:
        return moment(self.hold.expires)

    def __repr__(self) -> str:
        return f"Lease({self.id}, tag={self.tag[:60]!r}, owner={self.owner!r}, fence={self.fence})"
