"""What the engine's seam keeps for control, in plain containers: error groups, plans, the audit."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from msgspec.structs import replace

from queue_core.groups import Group
from queue_core.plans import AuditEntry, Plan, Result


class BookRecords:
    """``Book``; every change leaves a step that takes it back."""

    def __init__(self) -> None:
        self._groups: dict[bytes, Group] = {}
        self._group_tags: dict[tuple[bytes, int], int] = {}
        self._plans: dict[int, Plan] = {}
        self._selections: dict[tuple[int, int], bytes] = {}
        self._results: dict[tuple[int, int], list[Result]] = {}
        self._audit: dict[int, AuditEntry] = {}
        self._undo: list[Callable[[], None]] = []

    def _set(self, into: dict[Any, Any], key: Any, value: Any) -> None:
        """Put a value, or (None) remove it."""
        before = into.get(key)
        self._place(into, key, value)
        self._undo.append(lambda: self._place(into, key, before))

    @staticmethod
    def _place(into: dict[Any, Any], key: Any, value: Any) -> None:
        if value is None:
            into.pop(key, None)
        else:
            into[key] = value

    @property
    def book(self) -> Self:
        return self

    # --- error groups

    def group(self, fingerprint: bytes) -> Group | None:
        found = self._groups.get(fingerprint)
        return replace(found) if found is not None else None

    def put_group(self, group: Group) -> None:
        self._set(self._groups, group.fingerprint, replace(group))

    def remove_group(self, fingerprint: bytes) -> None:
        self._set(self._groups, fingerprint, None)

    def groups(self) -> Iterator[Group]:
        return (replace(self._groups[mark]) for mark in sorted(self._groups))

    def group_tags(self, fingerprint: bytes) -> dict[int, int]:
        return {tag: count for (mark, tag), count in sorted(self._group_tags.items()) if mark == fingerprint}

    def group_tag(self, fingerprint: bytes, tag: int) -> int:
        return self._group_tags.get((fingerprint, tag), 0)

    def set_group_tag(self, fingerprint: bytes, tag: int, count: int) -> None:
        self._set(self._group_tags, (fingerprint, tag), count or None)

    # --- plans

    def plan(self, number: int) -> Plan | None:
        found = self._plans.get(number)
        return _copied(found) if found is not None else None

    def put_plan(self, plan: Plan) -> None:
        self._set(self._plans, plan.number, _copied(plan))

    put_progress = put_plan

    def remove_plan(self, number: int) -> None:
        self._set(self._plans, number, None)

    def plans(self) -> Iterator[Plan]:
        return (_copied(self._plans[number]) for number in sorted(self._plans, reverse=True))

    def plans_from(self, number: int, limit: int) -> list[Plan]:
        return [_copied(self._plans[known]) for known in sorted(self._plans) if known >= number][:limit]

    def selection(self, plan: int, part: int) -> bytes:
        return self._selections.get((plan, part), b"")

    def put_selection(self, plan: int, part: int, data: bytes) -> None:
        self._set(self._selections, (plan, part), data)

    def results(self, plan: int, first: int = 0) -> Iterator[tuple[int, list[Result]]]:
        blocks = sorted((at, found) for (number, at), found in self._results.items() if number == plan)
        return ((at, list(found)) for at, found in blocks if at + len(found) > first)

    def put_results(self, plan: int, first: int, results: Sequence[Result]) -> None:
        self._set(self._results, (plan, first), list(results))

    def drop_parts(self, plan: int, limit: int) -> bool:
        kept: tuple[dict[tuple[int, int], Any], ...] = (self._selections, self._results)
        found = [(into, key) for into in kept for key in into if key[0] == plan][:limit]
        for into, key in found:
            self._set(into, key, None)
        return len(found) == limit

    # --- audit

    def put_audit(self, entry: AuditEntry) -> None:
        self._set(self._audit, entry.number, entry)

    def audits(self, after: int, limit: int) -> list[AuditEntry]:
        newest = max(self._audit, default=0)
        return [self._audit[number] for number in range(after + 1, min(after + limit, newest) + 1)]


def _copied(plan: Plan) -> Plan:
    """A copy that shares nothing that is changed in place."""
    return replace(plan, why=dict(plan.why), ineligible=dict(plan.ineligible))
