"""What a store offers inside one transaction. Reads see the transaction's own writes."""

from collections.abc import Iterator
from typing import Protocol

from queue_core.history import Entry
from queue_core.ledger import Meta, Tag, WorkerRecord
from queue_core.task import Record, State


class Records(Protocol):
    """Records by key, each an atomic part of the transaction; nothing here decides anything.

    ``now`` is the one reading of the clock, in microseconds. ``meta`` and the tags are loaded once,
    changed in place, and written at the end of a write transaction.
    """

    now: int
    meta: Meta

    def tag(self, number: int) -> Tag:
        """A known tag by its number."""

    def find_tag(self, name: str) -> Tag | None:
        """A tag by its exact name."""

    def add_tag(self, name: str) -> Tag:
        """A new tag at the end of the ring."""

    def tags(self) -> Iterator[Tag]:
        """All tags in ring order, as copies: to read."""

    def find(self, id: bytes) -> Record | None: ...

    def put(self, old: Record | None, new: Record | None) -> None:
        """``old`` (None: a new task) becomes ``new`` (None: gone) in every place that shows it."""

    def head(self, tag: int, after: int = 0) -> Record | None:
        """The pending task of the tag with the smallest place above ``after``."""

    def first(self, state: State, upto: int, limit: int) -> list[Record]:
        """Up to ``limit`` tasks of a state other than pending with order <= ``upto``, in that order."""

    def index(self, state: State, upto: int, limit: int) -> list[tuple[int, int, int]]:
        """The same as (order, place, tag), without the tasks; scheduled and in flight only."""

    def inflight_after(self, after: tuple[int, int], limit: int) -> list[Record]:
        """In flight with (expiry, place) above ``after``, in that order."""

    def page(
        self, state: State, tag: int | None, after: tuple[int, int] | None, limit: int, reverse: bool
    ) -> list[Record]:
        """Tasks in the order of their state, beyond (order, place) ``after``."""

    def ahead(self, tag: int, place: int, limit: int) -> int:
        """How many tasks of the tag are pending before ``place``, counted to ``limit``."""

    def ready(self, number: int) -> int | None:
        """The first eligible tag numbered ``number`` or more."""

    def set_ready(self, number: int, ready: bool) -> None: ...

    def timers(self, upto: int, limit: int) -> list[int]:
        """Tags whose minimum interval is over at ``upto``, in that order."""

    def set_timer(self, number: int, old: int, new: int) -> None:
        """0 is no timer."""

    def next_moment(self) -> int | None:
        """The earliest of due, expiry and timer."""

    def holder(self, tag: int, key: str) -> bytes | None:
        """The task that holds a dedupe key."""

    def set_holder(self, tag: int, key: str, id: bytes | None) -> None: ...

    def log(self, entry: Entry, name: str | None) -> None:
        """Append to the journal."""

    def entries(self, after: int, limit: int) -> list[tuple[int, Entry]]:
        """Journal entries numbered above ``after``, oldest first."""

    def workers(self) -> list[WorkerRecord]: ...

    def put_worker(self, worker: WorkerRecord | None, id: str = "") -> None:
        """Write a worker's record, or remove it by ``id``."""
