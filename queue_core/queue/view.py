"""Reads that all see one commit."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from queue_core.check import check
from queue_core.groups import Group
from queue_core.history import Event
from queue_core.ledger import Counts
from queue_core.plans import AuditEntry, Plan, Result, Verdict
from queue_core.queue.arguments import BATCH_LIMIT, as_group, as_state, as_whole, tag_or_none
from queue_core.series import Series
from queue_core.snapshot import Explanation, Finding, Page, Snapshot
from queue_core.stores.base import Found, Reader
from queue_core.task import State, Task, id_text, microseconds, parse_id

if TYPE_CHECKING:
    from queue_core.query import Masking, Search


class View:
    """Reads that all see one commit. Made by ``Queue.view()``; of no use after it."""

    def __init__(self, reader: Reader, task: Callable[[Found], Task]) -> None:
        self._reader = reader
        self._task = task

    def get(self, id: str | UUID) -> Task:
        """The task of this id. Raises TaskNotFound."""
        return self._task(self._reader.get(parse_id(id)))

    def tasks(
        self, state: State | str, *, tag: str | None = None, after: str | None = None, limit: int = 100,
        reverse: bool = False,
    ) -> Page:  # fmt: skip
        """One page of a state: pending by place, scheduled by due time, inflight by expiry, dead and trash by entry.

        ``after`` is the ``next`` of the page before; ``reverse`` starts at the other end. Raises
        InvalidArgument for an unknown state, a limit outside 1..10,000 or a foreign ``after``.
        """
        limit = as_whole(limit, "limit", 1, BATCH_LIMIT)
        found, following, total = self._reader.page(as_state(state), tag_or_none(tag), after, limit, reverse)
        return Page(tuple(map(self._task, found)), following, total)

    def snapshot(self) -> Snapshot:
        """The whole queue at one instant; cost grows with tags, never with tasks."""
        return self._reader.snapshot()

    def counts(self) -> Counts:
        """Tasks by state."""
        return msgspec.structs.replace(self._reader.meta.counts)

    def explain(self, id: str | UUID) -> Explanation:
        """Why a task is not running yet. Raises TaskNotFound."""
        found, explanation = self._reader.explain(parse_id(id))
        return Explanation(
            self._task(found), explanation.ahead, explanation.ahead_exact, explanation.turns, explanation.serves,
            explanation.blocked_by, explanation.text, explanation.forecast,
        )  # fmt: skip

    def journal(self, *, after: int | None = None, limit: int = 1_000, tag: str | None = None) -> list[Event]:
        """Events numbered above ``after``, oldest first; the newest ``limit`` when ``after`` is None."""
        limit = as_whole(limit, "limit", 1, 1_000_000)
        begin = -1 if after is None else as_whole(after, "after", 0, 1 << 62)
        logged = self._reader.journal(begin, limit, tag_or_none(tag))
        return [Event(*entry) for entry in logged]

    def series(self, *, since: datetime | None = None, until: datetime | None = None) -> Series:
        """The buckets of measured history that reach into the span from ``since`` to ``until`` (aware datetimes).

        10 s each for 2 hours, then 1 min to 24 hours, then 10 min to 30 days. Empty where ``capabilities.history``
        is False. Raises InvalidArgument for a naive datetime.
        """
        begin = None if since is None else microseconds(since, "since")
        return self._reader.series(begin, None if until is None else microseconds(until, "until"))

    def groups(self) -> list[Group]:
        """Error groups, the largest first; those without dead letters, which a new death would join, come last.

        Where ``capabilities.plans`` is False they are counted from the dead letters, one by one.
        """
        return sorted(self._reader.groups(), key=lambda group: (-group.count, -group.last, group.fingerprint))

    def group_tags(self, group: str) -> dict[str, int]:
        """How many dead letters of an error group (16 hex digits) each tag has."""
        return self._reader.group_tags(as_group(group))

    def search(self, where: str, *, states: Iterable[State] | None = None, mask: "Masking | None" = None) -> "Search":
        """What a filter finds, page by page: see ``query.Search``, which gives records; ``task`` makes tasks of them.

        ``mask`` hides secrets from the filter. Raises InvalidFilter.
        """
        from queue_core.query import UNMASKED, search  # most programs never search

        return search(self._reader, where, states=states, mask=UNMASKED if mask is None else mask)

    def plans(self, limit: int = 100) -> list[Plan]:
        """The newest first. None where ``capabilities.plans`` is False."""
        return self._reader.plans(as_whole(limit, "limit", 1, 1_000_000))

    def plan(self, number: int) -> Plan:
        """Raises Conflict for a number that no plan has, InvalidArgument where plans are not kept."""
        return self._reader.plan(as_whole(number, "number", 0, 1 << 62))

    def outcome(
        self, number: int, *, verdict: Verdict | None = None, after: int = 0, limit: int = 1_000
    ) -> list[tuple[int, str, Result]]:
        """What came of the tasks of a plan, in the order of the selection: (number from 1, id of the task, result)."""
        found = self._reader.outcome(number, verdict, after, as_whole(limit, "limit", 1, 1_000_000))
        return [(at, id_text(id), result) for at, id, result in found]

    def audit(self, *, after: int | None = None, limit: int = 1_000) -> list[AuditEntry]:
        """Entries numbered above ``after``, oldest first; the newest ``limit`` when ``after`` is None."""
        begin = -1 if after is None else as_whole(after, "after", 0, 1 << 62)
        return self._reader.audits(begin, as_whole(limit, "limit", 1, 1_000_000))

    @property
    def reader(self) -> Reader:
        """The reads of the store itself, in records."""
        return self._reader

    def task(self, found: Found) -> Task:
        """A record as the task that callers get."""
        return self._task(found)

    def check(self) -> list[Finding]:
        """Every broken invariant of the whole store; empty = sound. Reads every task once."""
        return check(self._reader.inventory())
