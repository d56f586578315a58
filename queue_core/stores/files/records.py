"""The engine's seam over one transaction's view of the directory.

A task's file counts only where the link of its id points to it: a copy that somebody has left in a task's place is a
foreign file. One that does not decode is set aside when its turn comes, and one that is missing is written off.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice

from queue_core.errors import StoreCorrupt
from queue_core.history import Entry, Kind
from queue_core.series import Bucket
from queue_core.stores.base import Logged
from queue_core.stores.engine import moves
from queue_core.stores.files import documents, names
from queue_core.stores.files.queue_records import QueueRecords
from queue_core.stores.files.tree import Tree
from queue_core.task import LIVE, Record, State


class FilesRecords(QueueRecords):
    """``Records`` over a tree; ``finish`` adds what has changed to the tree's writes."""

    history = False
    book = None

    def __init__(self, tree: Tree, now: int, directories: dict[int, str], *, writing: bool) -> None:
        super().__init__(tree, now, directories)
        self.logged: list[Logged] = []
        self._writing = writing
        self._put: dict[str, Record] = {}  # to be encoded when all is done: a task may change more than once

    def finish(self) -> int:
        """Write everything that has changed; the number of this commit."""
        for path, record in self._put.items():
            self._tree.put(path, documents.dump_task(record, self.tag(record.tag).name))
        return self._finish_queue()

    # --- tasks

    def find(self, id: bytes) -> Record | None:
        path = self._path(id)
        record = self._load(path) if path is not None else None
        if path is None or record is None:
            return None  # unknown, or somebody has removed its file
        if isinstance(record, Record):
            return record
        if self._writing and path.split("/")[0] in LIVE:
            return self._set_aside(path, record)
        return self._stand_in(path, record)

    def find_many(self, ids: Sequence[bytes]) -> list[Record | None]:
        return list(map(self.find, ids))

    def _path(self, id: bytes) -> str | None:
        """Where the link of an id says that the task is."""
        target = self._tree.link(names.id(id))
        at = names.located(target) if target is not None else None
        if at is None:
            return None
        state, number, order, place = at
        directory = self._find_directory(number)
        return names.task_in(state, directory, order, place, id) if directory is not None else None

    def _load(self, path: str) -> "Record | bytes | None":
        """The record of a file, its bytes when they do not decode, None when there is none."""
        if path in self._put:
            return self._put[path]
        data = self._tree.read(path)
        if data is None:
            return None
        try:
            record = documents.load_task(data)
        except StoreCorrupt:
            return data
        directory = self._find_directory(record.tag)
        return record if directory is not None and names.task(record, directory) == path else data

    def _take(self, path: str) -> Record | None:
        """A record on its way through the line; None for a file that is not ours, or is set aside now."""
        at = names.task_at(path)
        if at is None or self._path(at.id) != path:
            return None
        record = self._load(path)
        if isinstance(record, Record):
            return record
        if not self._writing:
            return self._stand_in(path, record) if record is not None else None
        if record is None:
            self._write_off(path)
        else:
            self._set_aside(path, record)
        return None

    def put(self, old: Record | None, new: Record | None) -> None:
        before = names.task(old, self._directory(old.tag)) if old is not None else None
        after = names.task(new, self._directory(new.tag)) if new is not None else None
        if old is not None and before is not None:
            self._tree.remove(before)
            self._put.pop(before, None)
            if (mark := names.in_order(old)) is not None:
                self._tree.remove(mark)
        if new is None or after is None:
            assert old is not None
            self._tree.remove(names.id(old.id))
            return
        self._put[after] = new
        self._tree.put(after, b"")  # its place; finish() writes it
        if (mark := names.in_order(new)) is not None:
            self._tree.mark(mark)
        if before != after:
            self._tree.point(names.id(new.id), names.location(new.state, new.tag, new.order, new.place))

    def _line(self, state: State, directory: str, start: str | None = None, *, reverse: bool = False) -> Iterator[str]:
        """Paths of the tasks of a tag in one state."""
        return self._tree.walk(f"{state}/{directory}", names.DEPTH[state], names.TASK[state], start, reverse=reverse)

    def head(self, tag: int, after: int = 0) -> Record | None:
        directory, start = self._directory(tag), names.place_in(State.PENDING, after + 1, 0)
        shard, _, first = start.rpartition("/")
        near = f"{State.PENDING}/{directory}/{shard}"  # most often it is there, and nothing else has to be read
        for name in self._tree.files(near, names.TASK[State.PENDING], minimum=first):
            if (record := self._take(f"{near}/{name}")) is not None:
                return record
        for path in self._line(State.PENDING, directory, start):
            if (record := self._take(path)) is not None:
                return record
        if self._writing and after < self.tag(tag).head:  # asked for what must be there
            self._write_off_pending(tag, directory)
        return None

    def _ordered(self, state: State, start: str | None = None, *, reverse: bool = False) -> Iterator[str]:
        """Marks of the tasks of a state, in its order."""
        return self._tree.walk(f"{names.ORDER}/{state}", names.DEPTH[state], names.ORDERED, start, reverse=reverse)

    def first(self, state: State, upto: int, limit: int) -> list[Record]:
        found = []
        for mark in list(islice(self._ordered(state), limit)):
            if names.order_parts(mark)[0] > upto:
                break
            record = self._marked(state, mark)
            if record is not None and names.in_order(record) == mark:
                found.append(record)
            elif self._writing:  # it leads to no task, or to one whose times somebody has edited
                self._tree.remove(mark)
                if record is not None and (right := names.in_order(record)) is not None:
                    self._tree.mark(right)
        return found

    def _marked(self, state: State, mark: str) -> Record | None:
        """The task that a mark stands for."""
        path = self._marked_path(state, mark)
        return self._take(path) if path is not None else None

    def _marked_path(self, state: State, mark: str) -> str | None:
        order, place, number = names.order_parts(mark)
        directory = self._find_directory(number)
        return names.task_in(state, directory, order, place, names.order_id(mark)) if directory is not None else None

    def index(self, state: State, upto: int, limit: int) -> list[tuple[int, int, int]]:
        found = map(names.order_parts, islice(self._ordered(state), limit))
        return [parts for parts in found if parts[0] <= upto]

    def inflight_after(self, after: tuple[int, int], limit: int) -> list[Record]:
        return self.page(State.INFLIGHT, None, after, limit, False)

    def page(
        self, state: State, tag: int | None, after: tuple[int, int] | None, limit: int, reverse: bool
    ) -> list[Record]:
        paths = self._paths(state, tag, after, reverse)
        return list(islice((record for path in paths if (record := self._take(path)) is not None), limit))

    def _paths(self, state: State, tag: int | None, after: tuple[int, int] | None, reverse: bool) -> Iterator[str]:
        order, place = after or (0, 0)
        if not reverse:  # a walk begins with its start, and backwards before it
            timed = state in (State.SCHEDULED, State.INFLIGHT)
            order, place = (order, place + 1) if timed else (order + 1, place)
        if tag is not None and state is not State.INFLIGHT:
            start = None if after is None else names.place_in(state, order, place)
            return self._line(state, self._directory(tag), start, reverse=reverse)
        if state is State.PENDING:
            start = None if after is None else names.place_in(state, order, place)
            lines = [
                self._line(state, directory, start, reverse=reverse)
                for directory in self._tree.directories(state, names.TAG_DIRECTORY)
            ]
            return merge(*lines, key=lambda path: path.rsplit("/", 1)[1], reverse=reverse)
        start = None if after is None else names.place_in_order(state, order, place)
        marks = self._ordered(state, start, reverse=reverse)
        mine = (mark for mark in marks if tag is None or names.order_parts(mark)[2] == tag)
        return (path for mark in mine if (path := self._marked_path(state, mark)) is not None)

    def ahead(self, tag: int, place: int, limit: int) -> int:
        end = f"{place:012d}"
        line = islice(self._line(State.PENDING, self._directory(tag)), limit)
        return sum(path.rsplit("/", 1)[1] < end for path in line)

    # --- files that are damaged or missing

    def _stand_in(self, path: str, data: bytes) -> Record:
        """A task that does not decode, as far as its path tells."""
        at = names.task_at(path)
        assert at is not None
        due = at.order if at.state is State.SCHEDULED else 0
        entry = at.order if at.state not in LIVE else 0
        return Record(
            at.id, names.tag_number(at.tag), at.place, at.state, 0, data, 0, 0, due, reason=_REASON, entry=entry
        )

    def _set_aside(self, path: str, data: bytes) -> Record:
        """Into the dead-letter queue, with its bytes as payload; the line goes on."""
        at = names.task_at(path)
        assert at is not None
        number, version = names.tag_number(at.tag), self.meta.version()
        self._forget(path)
        new = Record(
            at.id, number, at.place, State.DEAD, version, data, self.now, self.now, 0, reason=_REASON, entry=version,
            entered=self.now, aged=self.meta.aged,
        )  # fmt: skip
        self.put(None, new)
        self._count(number, at.state, 1)
        tag = self.tag(number)
        for counts, totals in ((tag.counts, tag.totals), (self.meta.counts, self.meta.totals)):
            counts.add(State.DEAD, 1)
            totals.dead_lettered += 1
        moves.log(self, Kind.DEAD_LETTER, tag, new, detail=_REASON)
        moves.review(self, tag)
        return new

    def _write_off(self, path: str) -> None:
        """A task whose file somebody has removed: it counts as expunged."""
        at = names.task_at(path)
        assert at is not None
        tag = self.tag(names.tag_number(at.tag))
        self._forget(path)
        self._tree.remove(names.id(at.id))
        self._count(tag.number, at.state, 1)
        moves.count(self, tag, expunged=1)
        self.log(Entry(Kind.EXPUNGE, self.now, tag.number, at.id, detail=_REMOVED), tag.name)
        moves.review(self, tag)

    def _write_off_pending(self, number: int, directory: str) -> None:
        """All that the tag counts as pending, none of which is there. Rare, so that looking through all ids will do."""
        if not self.tag(number).counts.pending:
            return
        for link in list(self._tree.walk(names.IDS, 1, names.ID)):
            path = self._path(names.id_of(link)) or ""
            if path.startswith(f"{State.PENDING}/{directory}/") and self._load(path) is None:
                self._write_off(path)

    def _forget(self, path: str) -> None:
        """Remove a task's file, and the link and the mark that its file would name."""
        at = names.task_at(path)
        assert at is not None
        self._tree.remove(path)
        for key in list(self._tree.files(f"{names.KEYS}/{at.tag}", names.DIGEST)):
            if self._tree.link(f"{names.KEYS}/{at.tag}/{key}") == names.to_id(at.id):
                self._tree.remove(f"{names.KEYS}/{at.tag}/{key}")
        if at.state in names.LISTED:
            for mark in list(self._ordered(at.state)):
                if names.order_id(mark) == at.id:
                    self._tree.remove(mark)

    def _count(self, number: int, state: State, gone: int) -> None:
        tag = self.tag(number)
        moves.touch(self, tag)
        for counts in (tag.counts, self.meta.counts):
            counts.add(state, -gone)

    # --- rotation

    def ready(self, number: int) -> int | None:
        start = f"{names.tag_shard(number)}/{number:09d}"
        found = next(self._tree.walk(names.ELIGIBLE, 1, names.TAG_DIRECTORY, start), None)
        return None if found is None else names.tag_number(found.rsplit("/", 1)[1])

    def set_ready(self, number: int, ready: bool) -> None:
        directory = self._directory(number)
        if ready:
            self._tree.mark(names.eligible(directory))
        else:
            self._tree.remove(names.eligible(directory))

    def _timers(self) -> Iterator[tuple[int, int]]:
        return map(names.timer_parts, self._tree.walk(names.TIMERS, 2, names.TIMER))

    def timers(self, upto: int, limit: int) -> list[int]:
        return [number for at, number in islice(self._timers(), limit) if at <= upto]

    def set_timer(self, number: int, old: int, new: int) -> None:
        directory = self._directory(number)
        if old:
            self._tree.remove(names.timer(old, directory))
        if new:
            self._tree.mark(names.timer(new, directory))

    def next_moment(self) -> int | None:
        firsts = [at for at, _ in islice(self._timers(), 1)]
        for state in (State.SCHEDULED, State.INFLIGHT):
            firsts += [names.order_parts(mark)[0] for mark in islice(self._ordered(state), 1)]
        return min(firsts, default=None)

    # --- keys, events

    def holder(self, tag: int, key: str) -> bytes | None:
        target = self._tree.link(names.key(self._directory(tag), key))
        return names.id_of(target) if target is not None else None

    def set_holder(self, tag: int, key: str, id: bytes | None) -> None:
        path = names.key(self._directory(tag), key)
        if id is None:
            self._tree.remove(path)
        else:
            self._tree.point(path, names.to_id(id))

    def log(self, entry: Entry, name: str | None) -> int:
        self.logged.append((0, name, entry))
        return 0

    def entries(self, after: int, limit: int) -> list[tuple[int, Entry]]:
        return []

    # --- history: none is kept

    def short(self) -> bool:
        return False

    def touch(self, number: int) -> None:
        """Not kept."""

    def touched(self) -> list[int]:
        return []

    def clear_touched(self) -> None:
        """None is kept."""

    def buckets(self, tier: int, reverse: bool = False) -> Iterator[tuple[int, Bucket]]:
        return iter(())

    def put_bucket(self, tier: int, number: int, bucket: Bucket | None) -> None:
        """Not kept."""


_REASON = "the task's file does not decode: somebody has edited it, or the disk has damaged it"
_REMOVED = "somebody has removed the task's file"
