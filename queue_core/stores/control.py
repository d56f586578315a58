"""The verbs of control over the transactions of a store that keeps plans."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from queue_core.errors import Conflict
from queue_core.groups import Group
from queue_core.plans import AuditEntry, Plan
from queue_core.stores.base import Done
from queue_core.stores.engine import plan as plans
from queue_core.stores.engine.records import Book, Records

T = TypeVar("T")


class EmbeddedControl:
    """``Control``: each verb is one write transaction."""

    def __init__(self, write: Callable[..., Done[Any]]) -> None:
        self._write = write

    def _do(self, operation: Callable[[Records, Book], T], *, grows: int = 0) -> Done[T]:
        def run(tx: Records) -> T:
            assert tx.book is not None
            return operation(tx, tx.book)

        return self._write(run, grows=grows)

    def note(self, entry: AuditEntry) -> Done[AuditEntry]:
        return self._do(lambda tx, book: plans.note(tx, book, entry))

    def draft(self, plan: Plan) -> Done[Plan]:
        return self._do(lambda tx, book: plans.draft(tx, book, plan))

    def fill(self, number: int, first: int, parts: Sequence[bytes]) -> Done[None]:
        def put(_: Records, book: Book) -> None:
            plans.drafted(book, number)
            for part, data in enumerate(parts, first):
                book.put_selection(number, part, data)

        return self._do(put)  # small, and what a full store is drained by

    def freeze(self, plan: Plan, entry: AuditEntry) -> Done[Plan]:
        return self._do(lambda tx, book: plans.freeze(tx, book, plan, entry))

    def undo(self, plan: Plan, entry: AuditEntry) -> Done[Plan]:
        return self._do(lambda tx, book: plans.undo(tx, book, plan, entry))

    def claim(
        self, number: int, runner: str, entry: AuditEntry, *, rate: float | None = None, skip_canary: bool = False
    ) -> Done[Plan]:
        return self._do(lambda tx, book: plans.claim(tx, book, number, runner, rate, skip_canary, entry))

    def advance(self, number: int, run: int, limit: int, entry: AuditEntry, *, grows: int = 0) -> Done[Plan]:
        return self._do(lambda tx, book: plans.advance(tx, book, number, run, limit, entry), grows=grows)

    def passed(self, number: int, run: int) -> Done[Plan]:
        return self._do(lambda _, book: plans.passed(book, number, run))

    def stop(self, number: int, run: int | None, why: str, entry: AuditEntry) -> Done[Plan]:
        return self._do(lambda tx, book: plans.stop(tx, book, number, run, why, entry))

    def resolve(self, fingerprint: bytes, by: str | None, entry: AuditEntry) -> Done[Group]:
        def change(tx: Records, book: Book) -> Group:
            group = book.group(fingerprint)
            if group is None:
                raise Conflict(f"there is no error group {fingerprint.hex()}: queue-core dead groups names them")
            group.resolved, group.resolved_by = (tx.now, by) if by is not None else (0, "")
            book.put_group(group)
            plans.note(tx, book, replace(entry, count=group.count))
            return group

        return self._do(change)
