"""What the engine's seam keeps for control, over one LMDB transaction: error groups, plans, the audit."""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, Self

from queue_core import codec, keys
from queue_core.groups import Group
from queue_core.plans import AuditEntry, Plan, Result
from queue_core.stores.lmdb.history import HistoryRecords


class BookRecords(HistoryRecords):
    """``Book``; the dead letters of a group are indexed where tasks are put."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._groups: dict[bytes, Group] = {}  # put, and encoded once, however many dead letters come and go

    def flush(self) -> None:
        for mark, group in self._groups.items():
            self._writes[keys.group(mark)] = codec.encode(group)
        self._groups.clear()
        super().flush()

    @property
    def book(self) -> Self:
        return self

    # --- error groups

    def group(self, fingerprint: bytes) -> Group | None:
        if fingerprint in self._groups:
            return self._groups[fingerprint]
        data = self._get(keys.group(fingerprint))
        return codec.decode_group(data) if data is not None else None

    def put_group(self, group: Group) -> None:
        self.changes += 1
        self._groups[group.fingerprint] = group

    def remove_group(self, fingerprint: bytes) -> None:
        self._groups.pop(fingerprint, None)
        self._write(keys.group(fingerprint), None)

    def groups(self) -> Iterator[Group]:
        return (codec.decode_group(data) for _, data in self.range(keys.GROUP))

    def group_tags(self, fingerprint: bytes) -> dict[int, int]:
        counts = self.range(keys.group_tags(fingerprint))
        return {keys.tag_number(key): keys.unpack_count(data) for key, data in counts}

    def group_tag(self, fingerprint: bytes, tag: int) -> int:
        data = self._get(keys.group_tag(fingerprint, tag))
        return keys.unpack_count(data) if data is not None else 0

    def set_group_tag(self, fingerprint: bytes, tag: int, count: int) -> None:
        self._write(keys.group_tag(fingerprint, tag), keys.pack_count(count) if count else None)

    # --- plans

    def plan(self, number: int) -> Plan | None:
        data = self._get(keys.plan(number))
        return self._with_progress(data) if data is not None else None

    def _with_progress(self, data: bytes) -> Plan:
        plan = codec.decode_plan(data)
        progress = self._get(keys.progress(plan.number))
        return codec.with_progress(plan, progress) if progress is not None else plan

    def put_plan(self, plan: Plan) -> None:
        self._write(keys.plan(plan.number), codec.encode(plan))
        self.put_progress(plan)

    def put_progress(self, plan: Plan) -> None:
        self._write(keys.progress(plan.number), codec.encode_progress(plan))

    def remove_plan(self, number: int) -> None:
        self._write(keys.plan(number), None)
        self._write(keys.progress(number), None)

    def plans(self) -> Iterator[Plan]:
        return (self._with_progress(data) for _, data in self.range(keys.PLAN, reverse=True))

    def plans_from(self, number: int, limit: int) -> list[Plan]:
        found = list(islice(self.range(keys.PLAN, keys.plan(number)), limit))
        return [self._with_progress(data) for _, data in found]

    def selection(self, plan: int, part: int) -> bytes:
        return self._get(keys.selection(plan, part)) or b""

    def put_selection(self, plan: int, part: int, data: bytes) -> None:
        self._write(keys.selection(plan, part), data)

    def results(self, plan: int, first: int = 0) -> Iterator[tuple[int, list[Result]]]:
        prefix, start = keys.results(plan, 0)[:-4], keys.results(plan, first)
        if first:
            before = next(self.range(prefix, keys.results(plan, first + 1), reverse=True), None)
            start = before[0] if before is not None else start
        for key, data in self.range(prefix, start):
            yield keys.part_number(key), codec.decode_results(data)

    def put_results(self, plan: int, first: int, results: list[Result]) -> None:
        self._write(keys.results(plan, first), codec.encode_results(results))

    def drop_parts(self, plan: int, limit: int) -> bool:
        prefixes = (keys.selection(plan, 0)[:-4], keys.results(plan, 0)[:-4])
        found = [key for key, _ in islice(chain.from_iterable(map(self.range, prefixes)), limit)]
        for key in found:
            self._write(key, None)
        return len(found) == limit

    # --- audit

    def put_audit(self, entry: AuditEntry) -> None:
        self._write(keys.audit(entry.number), codec.encode(entry))

    def audits(self, after: int, limit: int) -> list[AuditEntry]:
        entries = islice(self.range(keys.AUDIT, keys.audit(after + 1)), limit)
        return [codec.decode_audit(data) for _, data in entries]
