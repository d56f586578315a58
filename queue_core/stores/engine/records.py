"""What a store offers inside one transaction. Reads see the transaction's own writes."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from queue_core.groups import Group
from queue_core.history import Entry
from queue_core.ledger import Meta, Past, Tag, WorkerRecord
from queue_core.plans import AuditEntry, Plan, Result
from queue_core.series import Bucket
from queue_core.task import Record, State


class Records(Protocol):
    """Records by key, each an atomic part of the transaction; nothing here decides anything.

    ``now`` is the one reading of the clock, in microseconds. ``meta`` and the tags are loaded once,
    changed in place, and written at the end of a write transaction.
    """

    now: int
    meta: Meta
    history: bool  # whether series and journal can be stored

    @property
    def book(self) -> "Book | None":
        """Error groups, plans and the audit; None where they cannot be stored."""

    def tag(self, number: int) -> Tag:
        """A known tag by its number."""

    def find_tag(self, name: str) -> Tag | None:
        """A tag by its exact name."""

    def add_tag(self, name: str) -> Tag:
        """A new tag at the end of the ring."""

    def remove_tag(self, tag: Tag) -> None:
        """It is known no longer. Nothing refers to it."""

    def tags(self) -> Iterator[Tag]:
        """All tags in ring order, whole: to read, and nobody changes them."""

    def look(self, numbers: Sequence[int]) -> list[Tag]:
        """Those of the tags that are known, as copies: to read."""

    def known(self, number: int) -> int | None:
        """The first known tag numbered ``number`` or more."""

    def last_known(self) -> int:
        """The last tag of the ring; 0: there is none."""

    def find(self, id: bytes) -> Record | None: ...

    def find_many(self, ids: Sequence[bytes]) -> list[Record | None]:
        """One for each, in that order."""

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

    def log(self, entry: Entry, name: str | None) -> int:
        """Append to the journal while ``meta.history``, as number ``meta.events``; its number, else 0."""

    def entries(self, after: int, limit: int) -> list[tuple[int, Entry]]:
        """Journal entries numbered above ``after``, oldest first."""

    # --- history: only ``past`` and ``put_past`` are called where ``history`` is False

    def short(self) -> bool:
        """Whether room is so short that history has to give way to tasks."""

    def past(self) -> Past | None:
        """What is no longer kept one by one; None: nothing was written yet."""

    def put_past(self, past: Past) -> None: ...

    def touch(self, number: int) -> None:
        """The tag has changed in the open bucket."""

    def touched(self) -> list[int]:
        """The tags that have."""

    def clear_touched(self) -> None: ...

    def buckets(self, tier: int, reverse: bool = False) -> Iterator[tuple[int, Bucket]]:
        """Buckets of a tier by number, oldest first; not to be changed while it goes on."""

    def put_bucket(self, tier: int, number: int, bucket: Bucket | None) -> None:
        """Write or (None) remove one."""

    def workers(self) -> list[WorkerRecord]: ...

    def put_worker(self, worker: WorkerRecord | None, id: str = "") -> None:
        """Write a worker's record, or remove it by ``id``."""


class Book(Protocol):
    """Error groups, plans and the audit. What comes back is a copy, and counts when it is put."""

    def group(self, fingerprint: bytes) -> Group | None: ...

    def put_group(self, group: Group) -> None: ...

    def remove_group(self, fingerprint: bytes) -> None:
        """It is known no longer. It has no dead letters."""

    def groups(self) -> Iterator[Group]:
        """All of them, by fingerprint."""

    def group_tags(self, fingerprint: bytes) -> dict[int, int]:
        """How many dead letters of the group each tag has; those that have some."""

    def group_tag(self, fingerprint: bytes, tag: int) -> int: ...

    def set_group_tag(self, fingerprint: bytes, tag: int, count: int) -> None: ...

    def grouped(self, fingerprint: bytes, after: int | None, limit: int) -> list[Record]:
        """Dead letters of the group by entry, from above ``after`` on."""

    def plan(self, number: int) -> Plan | None: ...

    def put_plan(self, plan: Plan) -> None: ...

    def put_progress(self, plan: Plan) -> None:
        """Of a plan that is stored, what a run changes."""

    def remove_plan(self, number: int) -> None: ...

    def plans(self) -> Iterator[Plan]:
        """The newest first."""

    def plans_from(self, number: int, limit: int) -> list[Plan]:
        """Those numbered ``number`` or more, the oldest first."""

    def selection(self, plan: int, part: int) -> bytes:
        """A part of what was frozen, as ``plans.pack`` gives it; nothing when it is not kept."""

    def put_selection(self, plan: int, part: int, data: bytes) -> None: ...

    def results(self, plan: int, first: int = 0) -> Iterator[tuple[int, list[Result]]]:
        """(index of the first, results of some tasks), in the order of the selection, from the block on that holds
        the result at index ``first``."""

    def put_results(self, plan: int, first: int, results: list[Result]) -> None: ...

    def drop_parts(self, plan: int, limit: int) -> bool:
        """Remove parts of the selection and of the results, at most ``limit``; whether there may be more."""

    def put_audit(self, entry: AuditEntry) -> None: ...

    def audits(self, after: int, limit: int) -> list[AuditEntry]:
        """Entries numbered above ``after``, oldest first."""
