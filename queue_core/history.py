"""Journal records: what happened, in the order it was committed. Pure."""

from datetime import datetime
from enum import StrEnum

import msgspec

from queue_core.task import id_text, moment

JOURNAL_LIMIT = 200_000  # events kept
TEXT_LIMIT = 200  # characters of an owner or a reason in the journal, which is bounded on disk
JOURNAL_KEPT = JOURNAL_LIMIT * 5 // 4  # at most; what is older may be gone


class Kind(StrEnum):
    """What happened to a task, a tag, or the queue."""

    PUSH = "push"
    REPUSH = "repush"
    PROMOTE = "promote"
    LEASE = "lease"
    ACK = "ack"
    NACK = "nack"
    EXPIRE = "expire"
    RELEASE = "release"
    DEFER = "defer"
    DEAD_LETTER = "dead_letter"
    REQUEUE = "requeue"
    REDRIVE = "redrive"
    CANCEL = "cancel"
    PURGE = "purge"
    RESTORE = "restore"
    EXPUNGE = "expunge"
    EXTEND = "extend"
    REPLACE = "replace"
    EDIT = "edit"
    MOVE = "move"
    CONFIGURE = "configure"


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One journal entry as it is stored; its number is its position in the journal.

    For a lease, ``serve`` is its serve number, ``since`` the serve since which its tag has been eligible,
    ``weight`` that of the turn, and ``wait`` how long the task had been pending. ``detail`` is a reason or a setting.
    """

    kind: Kind
    at: int
    tag: int
    id: bytes = b""
    owner: str = ""
    serve: int = 0
    since: int = 0
    wait: int = 0
    detail: str = ""
    weight: int = 0


class Event:
    """A journal entry with its number and its tag's name, as ``on_event`` and ``journal()`` give it."""

    __slots__ = ("entry", "number", "tag")

    def __init__(self, number: int, tag: str | None, entry: Entry) -> None:
        self.number = number
        self.tag = tag
        self.entry = entry

    @property
    def kind(self) -> Kind:
        return self.entry.kind

    @property
    def at(self) -> datetime:
        return moment(self.entry.at)

    @property
    def task_id(self) -> str | None:
        return id_text(self.entry.id) if self.entry.id else None

    @property
    def owner(self) -> str | None:
        return self.entry.owner or None

    @property
    def serve(self) -> int | None:
        """The serve number of a lease."""
        return self.entry.serve or None

    @property
    def detail(self) -> str:
        return self.entry.detail

    def __repr__(self) -> str:
        return f"Event({self.number}, {self.kind}, tag={self.tag!r:.60}, task={self.task_id})"
