"""What can be asked of a queue in one call: each a view of its own."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from datetime import datetime
from uuid import UUID

from queue_core.groups import Group
from queue_core.history import Event
from queue_core.ledger import Counts
from queue_core.plans import AuditEntry, Plan
from queue_core.queue.view import View
from queue_core.series import Series
from queue_core.snapshot import Explanation, Finding, Page, Snapshot
from queue_core.task import State, Task


class Reading(ABC):
    """The reads of a queue."""

    @abstractmethod
    def view(self) -> AbstractContextManager[View]:
        """A context in which all reads come from one read transaction."""

    def get(self, id: str | UUID) -> Task:
        """The task of this id. Raises TaskNotFound."""
        with self.view() as view:
            return view.get(id)

    def tasks(
        self, state: State | str, *, tag: str | None = None, after: str | None = None, limit: int = 100,
        reverse: bool = False,
    ) -> Page:  # fmt: skip
        """One page of a state: see ``View.tasks``."""
        with self.view() as view:
            return view.tasks(state, tag=tag, after=after, limit=limit, reverse=reverse)

    def snapshot(self) -> Snapshot:
        """The whole queue at one instant."""
        with self.view() as view:
            return view.snapshot()

    def counts(self) -> Counts:
        """Tasks by state."""
        with self.view() as view:
            return view.counts()

    def explain(self, id: str | UUID) -> Explanation:
        """Why a task is not running yet."""
        with self.view() as view:
            return view.explain(id)

    def journal(self, *, after: int | None = None, limit: int = 1_000, tag: str | None = None) -> list[Event]:
        """What happened: see ``View.journal``."""
        with self.view() as view:
            return view.journal(after=after, limit=limit, tag=tag)

    def series(self, *, since: datetime | None = None, until: datetime | None = None) -> Series:
        """Measured history: see ``View.series``."""
        with self.view() as view:
            return view.series(since=since, until=until)

    def groups(self) -> list[Group]:
        """Error groups: see ``View.groups``."""
        with self.view() as view:
            return view.groups()

    def plan(self, number: int) -> Plan:
        """A plan: see ``View.plan``."""
        with self.view() as view:
            return view.plan(number)

    def plans(self, limit: int = 100) -> list[Plan]:
        """Plans, the newest first: see ``View.plans``."""
        with self.view() as view:
            return view.plans(limit)

    def audit(self, *, after: int | None = None, limit: int = 1_000) -> list[AuditEntry]:
        """Who did what: see ``View.audit``."""
        with self.view() as view:
            return view.audit(after=after, limit=limit)

    def check(self) -> list[Finding]:
        """Every broken invariant of the whole store; empty = sound."""
        with self.view() as view:
            return view.check()
