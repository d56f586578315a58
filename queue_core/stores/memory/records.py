"""``Records`` over plain containers."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from sortedcontainers import SortedDict, SortedList, SortedSet

from queue_core.history import JOURNAL_KEPT, JOURNAL_LIMIT, Entry
from queue_core.ledger import Counts, Meta, Past, Tag, Totals, WorkerRecord, copied, copied_past
from queue_core.series import TIERS, Bucket
from queue_core.stores.base import Inventory, Logged
from queue_core.stores.memory.book import BookRecords
from queue_core.task import Record, State


class MemoryRecords(BookRecords):
    """``Records`` over plain containers; ``undo`` takes back everything since ``begin``."""

    history = True

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.meta = Meta(Counts(), Totals())
        self._tasks: dict[bytes, Record] = {}
        self._ordered: dict[tuple[State, int | None], Any] = {}  # (state, tag or all) -> (order, place, tag, id)
        self._tags: Any = SortedDict()
        self._names: dict[str, int] = {}
        self._ready: Any = SortedSet()
        self._timers: Any = SortedSet()
        self._holders: dict[tuple[int, str], bytes] = {}
        self._workers: dict[str, WorkerRecord] = {}
        self._journal: list[tuple[int, Entry]] = []
        self._past: Past | None = None
        self._touched: dict[int, None] = {}
        self._buckets: list[dict[int, Bucket]] = [{} for _ in TIERS]
        self._grouped: dict[bytes, Any] = {}  # fingerprint -> (entry, id) of its dead letters
        self.logged: list[Logged] = []

    def begin(self, now: int) -> None:
        self.now = now
        self._undo.clear()
        self.logged = []
        self._saved_meta = copied(self.meta)
        self._saved_tags: dict[int, Tag] = {}

    def undo(self) -> None:
        for step in reversed(self._undo):
            step()
        self._undo.clear()
        self.meta = self._saved_meta
        self._tags.update(self._saved_tags)

    def commit(self) -> None:
        self._journal += [(number, entry) for number, _, entry in self.logged if number]
        if len(self._journal) > JOURNAL_KEPT:
            del self._journal[:-JOURNAL_LIMIT]

    # --- tags

    def tag(self, number: int) -> Tag:
        tag: Tag = self._tags[number]
        if number not in self._saved_tags:
            self._saved_tags[number] = copied(tag)
        return tag

    def find_tag(self, name: str) -> Tag | None:
        number = self._names.get(name)
        return None if number is None else self.tag(number)

    def add_tag(self, name: str) -> Tag:
        self.meta.last_tag += 1
        number = self.meta.last_tag
        tag = Tag(number, name, self.now, Counts())
        self._tags[number] = tag
        self._names[name] = number
        self._saved_tags[number] = tag

        def take_back() -> None:
            self._saved_tags.pop(number)
            del self._tags[number], self._names[name]

        self._undo.append(take_back)
        return tag

    def remove_tag(self, tag: Tag) -> None:
        del self._tags[tag.number], self._names[tag.name]
        saved = self._saved_tags.pop(tag.number, tag)

        def take_back() -> None:
            self._tags[tag.number], self._names[tag.name] = saved, tag.number

        self._undo.append(take_back)

    def tags(self) -> Iterator[Tag]:
        return (copied(tag).whole() for tag in self._tags.values())

    def look(self, numbers: Sequence[int]) -> list[Tag]:
        return [copied(self._tags[number]) for number in numbers if number in self._tags]

    def known(self, number: int) -> int | None:
        return next(self._tags.irange(number), None)

    def last_known(self) -> int:
        return self._tags.peekitem()[0] if self._tags else 0

    # --- tasks

    def find(self, id: bytes) -> Record | None:
        return self._tasks.get(id)

    def find_many(self, ids: Sequence[bytes]) -> list[Record | None]:
        return list(map(self._tasks.get, ids))

    def put(self, old: Record | None, new: Record | None) -> None:
        self._put(old, new)
        self._undo.append(lambda: self._put(new, old))

    def _put(self, old: Record | None, new: Record | None) -> None:
        if old is not None:
            for key in ((old.state, None), (old.state, old.tag)):
                self._ordered[key].remove((old.order, old.place, old.tag, old.id))
            del self._tasks[old.id]
            if old.state is State.DEAD:
                self._grouped[old.group].remove((old.entry, old.id))
        if new is not None:
            for key in ((new.state, None), (new.state, new.tag)):
                self._ordered.setdefault(key, SortedList()).add((new.order, new.place, new.tag, new.id))
            self._tasks[new.id] = new
            if new.state is State.DEAD:
                self._grouped.setdefault(new.group, SortedList()).add((new.entry, new.id))

    def grouped(self, fingerprint: bytes, after: int | None, limit: int) -> list[Record]:
        found = self._grouped.get(fingerprint, SortedList())
        start = 0 if after is None else found.bisect_left((after + 1,))
        return [self._tasks[id] for _, id in found[start : start + limit]]

    def _list(self, state: State, tag: int | None = None) -> Any:
        return self._ordered.get((state, tag), ())

    def head(self, tag: int, after: int = 0) -> Record | None:
        found = self._list(State.PENDING, tag)
        at = bisect_left(found, (after + 1,))
        return self._tasks[found[at][3]] if at < len(found) else None

    def first(self, state: State, upto: int, limit: int) -> list[Record]:
        found = islice(self._list(state), limit)
        return [self._tasks[id] for order, _, _, id in found if order <= upto]

    def index(self, state: State, upto: int, limit: int) -> list[tuple[int, int, int]]:
        found = islice(self._list(state), limit)
        return [(order, place, tag) for order, place, tag, _ in found if order <= upto]

    def inflight_after(self, after: tuple[int, int], limit: int) -> list[Record]:
        return self.page(State.INFLIGHT, None, after, limit, False)

    def page(
        self, state: State, tag: int | None, after: tuple[int, int] | None, limit: int, reverse: bool
    ) -> list[Record]:
        found = self._list(state, tag)
        if reverse:
            end = len(found) if after is None else bisect_left(found, after)
            chosen = found[max(end - limit, 0) : end][::-1]
        else:
            start = 0 if after is None else bisect_left(found, (after[0], after[1] + 1))
            chosen = found[start : start + limit]
        return [self._tasks[id] for _, _, _, id in chosen]

    def ahead(self, tag: int, place: int, limit: int) -> int:
        return min(bisect_left(self._list(State.PENDING, tag), (place,)), limit)

    # --- rotation

    def ready(self, number: int) -> int | None:
        at = self._ready.bisect_left(number)
        return self._ready[at] if at < len(self._ready) else None

    def set_ready(self, number: int, ready: bool) -> None:
        (self._ready.add if ready else self._ready.discard)(number)
        self._undo.append(lambda: (self._ready.discard if ready else self._ready.add)(number))

    def timers(self, upto: int, limit: int) -> list[int]:
        return [number for at, number in islice(self._timers, limit) if at <= upto]

    def set_timer(self, number: int, old: int, new: int) -> None:
        self._set_timer(number, old, new)
        self._undo.append(lambda: self._set_timer(number, new, old))

    def _set_timer(self, number: int, old: int, new: int) -> None:
        if old:
            self._timers.discard((old, number))
        if new:
            self._timers.add((new, number))

    def next_moment(self) -> int | None:
        firsts = [self._list(State.SCHEDULED)[:1], self._list(State.INFLIGHT)[:1], self._timers[:1]]
        return min((found[0][0] for found in firsts if found), default=None)

    # --- keys, journal, workers

    def holder(self, tag: int, key: str) -> bytes | None:
        return self._holders.get((tag, key))

    def set_holder(self, tag: int, key: str, id: bytes | None) -> None:
        before = self._holders.get((tag, key))
        self._set_holder(tag, key, id)
        self._undo.append(lambda: self._set_holder(tag, key, before))

    def _set_holder(self, tag: int, key: str, id: bytes | None) -> None:
        if id is None:
            self._holders.pop((tag, key), None)
        else:
            self._holders[tag, key] = id

    def log(self, entry: Entry, name: str | None) -> int:
        self.meta.events += self.meta.history
        number = self.meta.events if self.meta.history else 0
        self.logged.append((number, name, entry))
        return number

    def entries(self, after: int, limit: int) -> list[tuple[int, Entry]]:
        if not self._journal:
            return []
        start = max(after + 1 - self._journal[0][0], 0)
        return self._journal[start : start + limit]

    # --- history

    def short(self) -> bool:
        return False

    def past(self) -> Past | None:
        return None if self._past is None else copied_past(self._past)

    def put_past(self, past: Past) -> None:
        before, self._past = self._past, past
        self._undo.append(lambda: setattr(self, "_past", before))

    def touch(self, number: int) -> None:
        self._touched[number] = None
        self.meta.touched += 1
        self._undo.append(lambda: self._touched.pop(number, None))

    def touched(self) -> list[int]:
        return list(self._touched)

    def clear_touched(self) -> None:
        before, self._touched = self._touched, {}
        self.meta.touched = 0
        self._undo.append(lambda: setattr(self, "_touched", before))

    def buckets(self, tier: int, reverse: bool = False) -> Iterator[tuple[int, Bucket]]:
        return iter(sorted(self._buckets[tier].items(), reverse=reverse))

    def put_bucket(self, tier: int, number: int, bucket: Bucket | None) -> None:
        before = self._buckets[tier].get(number)
        self._put_bucket(tier, number, bucket)
        self._undo.append(lambda: self._put_bucket(tier, number, before))

    def _put_bucket(self, tier: int, number: int, bucket: Bucket | None) -> None:
        if bucket is None:
            del self._buckets[tier][number]
        else:
            self._buckets[tier][number] = bucket

    def workers(self) -> list[WorkerRecord]:
        return [self._workers[id] for id in sorted(self._workers)]

    def put_worker(self, worker: WorkerRecord | None, id: str = "") -> None:
        key = worker.id if worker is not None else id
        before = self._workers.get(key)
        self._put_worker(key, worker)
        self._undo.append(lambda: self._put_worker(key, before))

    def _put_worker(self, key: str, worker: WorkerRecord | None) -> None:
        if worker is None:
            self._workers.pop(key, None)
        else:
            self._workers[key] = worker

    # --- for check

    def inventory(self) -> Inventory:
        problems: list[str] = []
        for state in State:
            listed = self._list(state)
            if sorted(entry for tag in self._tags for entry in self._list(state, tag)) != list(listed):
                problems.append(f"the {state} tasks by tag are not those in all")
            for order, place, tag, id in listed:
                task = self._tasks.get(id)
                if task is None or (task.state, task.order, task.place, task.tag) != (
                    state,
                    order,
                    place,
                    tag,
                ):
                    problems.append(f"index entry {state} {id.hex()} has no such task")
        if sum(len(self._list(state)) for state in State) != len(self._tasks):
            problems.append("a task is in no index, or in two")
        return Inventory(
            self.meta, list(self._tags.values()), iter(self._tasks.values()),
            [bucket for tier in self._buckets for bucket in tier.values()], self._past, self.touched(),
            set(self._ready),
            {number: at for at, number in self._timers}, [(tag, id) for (tag, _), id in self._holders.items()],
            iter(self._journal), problems, list(self.groups()), dict(self._group_tags),
        )  # fmt: skip
