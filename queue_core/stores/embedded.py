"""A store inside this process: the engine's verbs over transactions of records."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import TypeVar

from msgspec.structs import replace

from queue_core.errors import StoreBusy, StoreFull
from queue_core.groups import Group
from queue_core.ledger import Meta, WorkerRecord
from queue_core.plans import AuditEntry, Plan, Result, Verdict
from queue_core.series import Series
from queue_core.snapshot import Explanation, Settings, Snapshot
from queue_core.stores.base import (
    Adopted,
    Capabilities,
    Change,
    Control,
    Done,
    Ending,
    Found,
    Inventory,
    Logged,
    NewTask,
)
from queue_core.stores.control import EmbeddedControl
from queue_core.stores.engine import adopt, deliver, explain, groups, measure, operate, plan, read
from queue_core.stores.engine import settle as settling
from queue_core.stores.engine.records import Records
from queue_core.task import State, Token

T = TypeVar("T")
Operation = Callable[[Records], T]
WORKER_RETENTION = 3600_000_000  # a worker that stopped, or was last seen, an hour ago is forgotten


class RecordReader:
    """``Reader`` over the records of one transaction."""

    def __init__(self, records: Records, inventory: Callable[[], Inventory]) -> None:
        self._records = records
        self.inventory = inventory

    @property
    def now(self) -> int:
        return self._records.now

    @property
    def meta(self) -> Meta:
        return self._records.meta

    def get(self, id: bytes) -> Found:
        return read.get(self._records, id)

    def page(
        self, state: State, tag: str | None, after: str | None, limit: int, reverse: bool
    ) -> tuple[list[Found], str | None, int]:
        return read.page(self._records, state, tag, after, limit, reverse)

    def snapshot(self) -> Snapshot:
        return read.snapshot(self._records)

    def explain(self, id: bytes) -> tuple[Found, Explanation]:
        return explain.explain(self._records, id)

    def journal(self, after: int, limit: int, tag: str | None) -> list[Logged]:
        return read.journal(self._records, after, limit, tag)

    def series(self, since: int | None, until: int | None) -> Series:
        return measure.series(self._records, since, until)

    def find(self, id: bytes) -> Found | None:
        record = self._records.find(id)
        return Found(record, self._records.tag(record.tag).name) if record is not None else None

    def holder(self, tag: str, key: str) -> bytes | None:
        known = self._records.find_tag(tag)
        return self._records.holder(known.number, key) if known is not None else None

    def groups(self) -> list[Group]:
        return groups.groups(self._records)

    def group_tags(self, fingerprint: bytes) -> dict[str, int]:
        return groups.tags(self._records, fingerprint)

    def grouped(self, fingerprint: bytes, after: str | None, limit: int) -> tuple[list[Found], str | None]:
        return groups.page(self._records, fingerprint, after, limit)

    def plans(self, limit: int) -> list[Plan]:
        book = self._records.book
        return list(islice(book.plans(), limit)) if book is not None else []

    def plan(self, number: int) -> Plan:
        return plan.known(plan.book_of(self._records), number)

    def outcome(self, number: int, verdict: Verdict | None, after: int, limit: int) -> list[tuple[int, bytes, Result]]:
        book = plan.book_of(self._records)
        return plan.outcome(book, plan.known(book, number), verdict, after, limit)

    def audits(self, after: int, limit: int) -> list[AuditEntry]:
        book, last = self._records.book, self._records.meta.audits
        return book.audits(after if after >= 0 else max(last - limit, 0), limit) if book is not None else []


class EmbeddedStore(ABC):
    """The verbs of ``Store``. A subclass offers transactions, and ways to wait and to close.

    ``now`` is injected per queue: handles on one store may have different clocks in tests, never in life.
    """

    url: str
    capabilities: Capabilities

    @abstractmethod
    def _write(self, operation: Operation[T], *, grows: int = 0) -> Done[T]:
        """Run the operation in a write transaction and commit.

        ``grows`` is about how many bytes it adds for good: it is refused when the room that is left after it
        would not do for draining the store.
        """

    @abstractmethod
    def _read(self) -> AbstractContextManager[Records]:
        """Records of one read transaction."""

    @abstractmethod
    def _inventory(self, records: Records) -> Inventory: ...

    def push(self, items: Sequence[NewTask]) -> Done[list[Found]]:
        size = sum(len(item.payload) + 500 for item in items)
        return self._write(lambda tx: deliver.push(tx, items), grows=size)

    def lease(self, n: int, ttl: int, owner: str, settle: Sequence[Token]) -> Done[list[Found]]:
        if not settle:
            with self._read() as tx:
                if not deliver.promising(tx):
                    return Done([], [])
        logged: list[Logged] = []
        moved = False
        while True:
            try:
                done = self._write(lambda tx, settle=tuple(settle): deliver.lease(tx, n, ttl, owner, settle))  # type: ignore[misc]
            except (StoreBusy, StoreFull):
                if not moved:
                    raise
                return Done([], logged)  # what was settled and moved before stands, and nothing has been leased
            moved = True
            logged += done.logged
            if done.result is not None:
                return Done(done.result, logged)
            settle = ()  # they were settled with the first piece

    def heartbeat(self, token: Token, ttl: int | None) -> Done[Found]:
        return self._write(lambda tx: settling.heartbeat(tx, token, ttl))

    def settle(self, tokens: Sequence[Token], ending: Ending) -> Done[list[Found]]:
        return self._write(lambda tx: settling.settle(tx, tokens, ending))

    @property
    def control(self) -> Control | None:
        return EmbeddedControl(self._write) if self.capabilities.plans else None

    def change(self, id: bytes, change: Change, entry: AuditEntry | None = None) -> Done[Found]:
        def write(tx: Records) -> Found:
            found = operate.change(tx, id, change)
            if entry is not None and tx.book is not None:
                now = "gone" if tx.find(id) is None else f"{found.record.state}, version {found.record.version}"
                plan.note(tx, tx.book, replace(entry, count=1, outcome=now))
            return found

        return self._write(write, grows=len(change.payload) if change.action == "edit" else 0)

    def adopt(self, items: Sequence[Adopted]) -> Done[list[str | None]]:
        size = sum(len(item.record.payload) + 1_000 for item in items)
        return self._write(lambda tx: adopt.adopt(tx, items), grows=size)

    def reclaim(self, cutoff: int | None, reason: str | None) -> Done[int]:
        with self._read() as tx:
            upto = tx.meta.fence
        done, after = 0, (0, 0)
        logged: list[Logged] = []
        while True:
            try:
                piece = self._write(
                    lambda tx, after=after: operate.reclaim(tx, cutoff, reason, upto, after)  # type: ignore[misc]
                )
            except StoreFull as error:
                error.done = done
                raise
            count, following = piece.result
            done += count
            logged += piece.logged
            if following is None:
                return Done(done, logged)
            after = following

    def configure(
        self, tag: str | None, changes: dict[str, int | bool | None], entry: AuditEntry | None = None
    ) -> Done[Settings]:
        def write(tx: Records) -> Settings:
            settings = operate.configure(tx, tag, changes)
            if entry is not None and tx.book is not None:
                plan.note(tx, tx.book, entry)
            return settings

        return self._write(write)

    def report(self, worker: WorkerRecord) -> Done[None]:
        def write(tx: Records) -> None:
            for known in tx.workers():
                if known.id != worker.id and tx.now - known.seen > WORKER_RETENTION:
                    tx.put_worker(None, known.id)
            tx.put_worker(worker)

        return self._write(write)

    @contextmanager
    def view(self) -> Iterator[RecordReader]:
        with self._read() as records:
            yield RecordReader(records, lambda: self._inventory(records))

    def next_moment(self) -> int | None:
        with self._read() as tx:
            moments = [tx.next_moment(), tx.meta.open_at if tx.meta.open_at > tx.now else None]
        return min((at for at in moments if at is not None), default=None)
