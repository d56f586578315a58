"""What callers get: a task as it was when read, and the lease on one."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from queue_core.task.records import SECOND, Attempt, Hold, Record, State, moment
from queue_core.task.tokens import Token, id_text

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
        """Of one that is pending; None where it cannot be told, its record being undecodable."""
        return moment(self._record.ready) if self.state is State.PENDING and self._record.ready else None

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
