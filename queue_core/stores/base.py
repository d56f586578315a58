"""The seam between the queue and its stores: a dozen verbs, each one atomic transition.

A verb's docstring states its guarantee, never a mechanism. ``Queue`` checks arguments and turns
payloads into bytes before it calls a store; a store gives back records with the names of their tags.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from queue_core.groups import Group
from queue_core.history import Entry
from queue_core.ledger import Meta, Past, Tag, WorkerRecord
from queue_core.plans import AuditEntry, Plan, Result, Verdict
from queue_core.series import Bucket, Series
from queue_core.snapshot import Explanation, Settings, Snapshot, Storage
from queue_core.task import Outcome, Record, State, Token

T = TypeVar("T")
Clock = Callable[[], int]  # microseconds since the epoch, UTC

PIECE = 1_000  # tasks moved in one commit by whatever moves many


class Found(NamedTuple):
    """A record with the name of its tag."""

    record: Record
    tag: str


# A journal entry with its number (0 while no journal is kept) and the name of its tag; None for the whole queue.
Logged = tuple[int, str | None, Entry]


class Done(NamedTuple, Generic[T]):
    """What a verb returned, and what happened."""

    result: T
    logged: Sequence[Logged]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can do; tests and dashboard ask this, never the class."""

    durable: bool
    multi_process: bool
    journal: bool
    history: bool = False
    plans: bool = False
    parallel_views: bool = True  # whether others may write while a view() is open


class NewTask(msgspec.Struct, frozen=True):
    """A task to push. ``known`` tells that the caller gave the id, so that it may exist already."""

    id: bytes
    known: bool
    tag: str
    payload: bytes
    delay: int
    max_attempts: int
    dedupe_key: str | None


class Ending(msgspec.Struct, frozen=True):
    """How a lease is settled. ``delay`` in microseconds; None is the backoff for a nack, at once else."""

    outcome: Outcome
    error: str | None = None
    delay: int | None = None
    reason: str = ""


class Change(msgspec.Struct, frozen=True):
    """What a verb by id asks: ``action`` is a name in ``engine.operate.ACTIONS``."""

    action: str
    version: int | None = None
    reason: str = ""
    ttl: int = 0
    payload: bytes = b""
    tag: str | None = None


class Adopted(msgspec.Struct, frozen=True):
    """A task from elsewhere. Of its record, the numbers that a store gives out mean nothing."""

    tag: str
    record: Record


@dataclass
class Inventory:
    """The whole store, read without trusting any of its indexes.

    ``records`` streams every task there is. While it is read, ``problems`` collects what only the store
    can see: an index entry without its task, a task without its entries, bytes that do not decode.
    """

    meta: Meta
    tags: list[Tag]
    records: Iterator[Record]
    buckets: list[Bucket]
    past: Past | None
    touched: list[int]  # tags that have changed in the open bucket
    eligible: set[int]
    timers: dict[int, int]
    holders: list[tuple[int, bytes]]  # (tag, id) of every dedupe key that is held
    journal: Iterator[tuple[int, Entry]]
    problems: list[str]
    groups: list[Group] | None = None  # None: the store keeps none
    group_tags: dict[tuple[bytes, int], int] | None = None


class Reader(Protocol):
    """All reads of one transaction."""

    @property
    def now(self) -> int: ...

    @property
    def meta(self) -> Meta: ...

    def get(self, id: bytes) -> Found:
        """Raises TaskNotFound."""

    def page(
        self, state: State, tag: str | None, after: str | None, limit: int, reverse: bool
    ) -> tuple[list[Found], str | None, int]:
        """(tasks, where the next page starts, how many there are in all)."""

    def snapshot(self) -> Snapshot: ...

    def explain(self, id: bytes) -> tuple[Found, Explanation]: ...

    def journal(self, after: int, limit: int, tag: str | None) -> list[Logged]:
        """Entries numbered above ``after``, oldest first; with a negative ``after``, the last ``limit``."""

    def series(self, since: int | None, until: int | None) -> Series:
        """The buckets that reach into the span; empty where no history is kept."""

    def inventory(self) -> Inventory:
        """Everything that is stored, for ``check``."""

    # --- control

    def find(self, id: bytes) -> Found | None: ...

    def holder(self, tag: str, key: str) -> bytes | None:
        """The task that holds a dedupe key of a tag."""

    def groups(self) -> list[Group]:
        """Error groups, those with dead letters and those that had some."""

    def group_tags(self, fingerprint: bytes) -> dict[str, int]:
        """How many dead letters of a group each tag has."""

    def grouped(self, fingerprint: bytes, after: str | None, limit: int) -> tuple[list[Found], str | None]:
        """(dead letters of a group by entry, where the next page starts)."""

    def plans(self, limit: int) -> list[Plan]:
        """The newest first; none where plans are not kept."""

    def plan(self, number: int) -> Plan:
        """Raises Conflict."""

    def outcome(self, number: int, verdict: Verdict | None, after: int, limit: int) -> list[tuple[int, bytes, Result]]:
        """(number, id, result) of a plan's tasks that were dealt with, numbered from 1."""

    def audits(self, after: int, limit: int) -> list[AuditEntry]:
        """Entries numbered above ``after``, oldest first; with a negative ``after``, the last ``limit``."""


class Control(Protocol):
    """Plans, error groups and the audit of a store that keeps them.

    Each entry of the audit is in the transaction of what it tells of; its number and time are given there.
    """

    def note(self, entry: AuditEntry) -> Done[AuditEntry]:
        """Append to the audit."""

    def draft(self, plan: Plan) -> Done[Plan]:
        """A new plan that cannot be run yet, numbered."""

    def fill(self, number: int, first: int, parts: Sequence[bytes]) -> Done[None]:
        """Parts of its selection, from part ``first`` on."""

    def freeze(self, plan: Plan, entry: AuditEntry) -> Done[Plan]:
        """The draft is whole, and as given."""

    def undo(self, plan: Plan, entry: AuditEntry) -> Done[Plan]:
        """A plan, frozen, that gives back what ``plan.undo_of`` has moved, which ends. Conflict."""

    def claim(
        self, number: int, runner: str, entry: AuditEntry, *, rate: float | None = None, skip_canary: bool = False
    ) -> Done[Plan]:
        """Begin a run, from now on at a rate, if one is given. Conflict while another goes on, and when the plan is
        over or void."""

    def advance(self, number: int, run: int, limit: int, entry: AuditEntry, *, grows: int = 0) -> Done[Plan]:
        """Each of the next tasks is moved if it is as it was frozen, and what came of it is noted. Conflict for any
        run but the newest; ``entry`` is written with the outcome when the last task is dealt with."""

    def passed(self, number: int, run: int) -> Done[Plan]:
        """The canary has shown enough. Conflict."""

    def stop(self, number: int, run: int | None, why: str, entry: AuditEntry) -> Done[Plan]:
        """No task is moved after this; with a ``run``, only if it is the newest. Conflict."""

    def resolve(self, fingerprint: bytes, by: str | None, entry: AuditEntry) -> Done[Group]:
        """The group is resolved, or (None) open again. Conflict."""


class Store(Protocol):
    """Where the tasks are."""

    url: str
    capabilities: Capabilities

    @property
    def control(self) -> Control | None:
        """None where ``capabilities.plans`` is False."""

    def push(self, items: Sequence[NewTask]) -> Done[list[Found]]:
        """All items are stored, in order, or none. QueueFull, Conflict."""

    def lease(self, n: int, ttl: int, owner: str, settle: Sequence[Token]) -> Done[list[Found]]:
        """``settle`` is acknowledged first, in the same commit (LeaseLost: nothing happened); then up to
        ``n`` serves of the rotation at one instant, after all due and expired tasks have moved."""

    def heartbeat(self, token: Token, ttl: int | None) -> Done[Found]:
        """The lease has a new token and expires no earlier. LeaseLost."""

    def settle(self, tokens: Sequence[Token], ending: Ending) -> Done[list[Found]]:
        """All leases end so, each attempt closed once, or none. LeaseLost names the stale ones."""

    def change(self, id: bytes, change: Change, entry: AuditEntry | None = None) -> Done[Found]:
        """Compare-and-set by id; ``entry`` goes to the audit, where there is one. Conflict, TaskNotFound."""

    def adopt(self, items: Sequence[Adopted]) -> Done[list[str | None]]:
        """Tasks from elsewhere, each taken in as it was, or why not."""

    def reclaim(self, cutoff: int | None, reason: str | None) -> Done[int]:
        """Leases silent since ``cutoff`` or before end as expired, back to their places; with a
        ``reason`` they are dead. In pieces; how many."""

    def configure(
        self, tag: str | None, changes: dict[str, int | bool | None], entry: AuditEntry | None = None
    ) -> Done[Settings]:
        """Settings of one tag, or of the queue (None), seen by every process from the next serve."""

    def report(self, worker: WorkerRecord) -> Done[None]:
        """The worker's record is what was given."""

    def storage(self) -> Storage:
        """How much room the store takes, and how much it may take."""

    def view(self) -> AbstractContextManager[Reader]:
        """All reads inside see one commit."""

    def mark(self) -> int:
        """A number that differs after every commit of any process. Cheap."""

    def wait(self, mark: int, timeout: float) -> None:
        """Return when ``mark()`` is no longer ``mark``, within 50 ms, or after ``timeout`` seconds."""

    def next_moment(self) -> int | None:
        """When, with no further commit, something may become eligible or must be moved; None: never."""

    def close(self) -> None:
        """Give the handle back. Further verbs raise StoreGone."""
