"""The engine's seam over one LMDB transaction: tags, tasks, the rotation."""

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from msgspec.structs import replace

from queue_core import codec, keys
from queue_core.errors import StoreCorrupt
from queue_core.history import Kind
from queue_core.ledger import Counts, Meta, Tag, copied
from queue_core.stores.engine import moves
from queue_core.stores.lmdb.book import BookRecords
from queue_core.task import Hold, Record, State, nonce

CARRIED = 1_000  # tags kept from one transaction to the next


class Carried(NamedTuple):
    """What a commit wrote, as objects, for the next transaction if it is the very next of the store.

    So a process that commits alone reads neither the queue's numbers nor the tags that it works on.
    """

    txn: int
    meta: Meta
    tags: dict[int, tuple[Tag, bytes]]
    tail: list[bytes] | None


class LmdbRecords(BookRecords):
    """``Records`` over a transaction; ``finish`` writes what has changed."""

    def __init__(
        self, txn: Any, now: int, names: dict[str, int], carried: Carried | None = None,
        short: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        super().__init__(txn, *((carried.meta, carried.tail) if carried is not None else (None, None)))
        self.short = short
        self.now = now
        self.new_names: dict[str, int] = {}
        self._names = names
        self._tags: dict[int, tuple[Tag, bytes]] = {}
        self._heads: dict[int, tuple[int, Record | None]] = {}  # tag -> (after, the next pending one)
        self._ready_on: set[int] = set()
        self._ready_off: set[int] = set()
        self._pending_put = False
        self._carried = carried.tags if carried is not None else {}

    def flush(self) -> None:
        super().flush()
        self._ready_on.clear()
        self._ready_off.clear()
        self._pending_put = False

    def finish(self) -> None:
        """Write everything that has changed."""
        self.write_history()
        for number, (tag, before) in self._tags.items():
            after = codec.encode(tag)
            if after != before:
                self._writes[keys.tag(number)] = after
            self._carried[number] = (tag, after)
        self._writes[keys.META] = codec.encode(self.meta)
        self.flush()

    def carry(self, txn: int) -> Carried:
        """After ``finish``: what the next transaction may begin with, if ``txn`` is committed."""
        return Carried(txn, self.meta, self._carried if len(self._carried) <= CARRIED else {}, self.tail)

    # --- tags

    def tag(self, number: int) -> Tag:
        tag = self._tag(number)
        if tag is None:
            raise StoreCorrupt(f"tag number {number} is not stored; run queue-core check")
        return tag

    def _tag(self, number: int) -> Tag | None:
        known = self._tags.get(number)
        if known is None and number in self._carried:
            known = self._tags[number] = self._carried[number]
        if known is None:
            data = self._get(keys.tag(number))
            if data is None:
                return None
            known = self._tags[number] = (codec.decode_tag(data), data)
        return known[0]

    def find_tag(self, name: str) -> Tag | None:
        number = self.new_names.get(name) or self._names.get(name)
        tag = self._tag(number) if number is not None else None
        if tag is None:  # not known to this process, or forgotten since
            data = self._get(keys.name(name))
            if data is None:
                return None
            number = self.new_names[name] = keys.unpack_tag(data)
            tag = self.tag(number)
        return tag

    def add_tag(self, name: str) -> Tag:
        self.meta.last_tag += 1
        number = self.meta.last_tag
        tag = Tag(number, name, self.now, Counts())
        self._tags[number] = (tag, b"")
        self.new_names[name] = number
        self._write(keys.name(name), keys.pack_tag(number))
        return tag

    def remove_tag(self, tag: Tag) -> None:
        self._tags.pop(tag.number, None)
        self._carried.pop(tag.number, None)
        self._write(keys.tag(tag.number), None)
        self._write(keys.name(tag.name), None)

    def tags(self) -> Iterator[Tag]:
        """All of them, to read only."""
        self.flush()
        cursor, last = self._txn.cursor(), keys.tag((1 << 32) - 1)
        if cursor.set_range(keys.TAG):
            for key, data in cursor.iternext():  # there may be many, and a range costs more
                if key > last:
                    return
                yield codec.tag_to_read(data)

    def look(self, numbers: Sequence[int]) -> list[Tag]:
        self.flush()
        found = self._cursor.getmulti([keys.tag(number) for number in numbers if number not in self._tags])
        loaded = [copied(self._tags[number][0]) for number in numbers if number in self._tags]
        return loaded + [codec.decode_tag(data) for _, data in found]

    def known(self, number: int) -> int | None:
        self.flush()
        if self._cursor.set_range(keys.tag(number)) and (key := self._cursor.key()).startswith(keys.TAG):
            return keys.tag_number(key)
        return None

    def last_known(self) -> int:
        return next((keys.tag_number(key) for key, _ in self.range(keys.TAG, reverse=True)), 0)

    # --- tasks

    def find(self, id: bytes) -> Record | None:
        location = self._get(keys.id(id))
        if location is None:
            return None
        tag, place, state, order = keys.located(location)
        if state is State.PENDING:
            data = self._get(keys.task(tag, State.INFLIGHT, place)) or self._get(keys.task(tag, state, place))
        else:
            data = self._get(keys.task(tag, state, order, place))
        if data is None:
            raise StoreCorrupt(f"task {id.hex()} is not where its id points; run queue-core check")
        return codec.decode_record(data)

    def find_many(self, ids: Sequence[bytes]) -> list[Record | None]:
        """In two calls for all of them: one for each would give up the GIL for each."""
        self.flush()
        places = dict(self._cursor.getmulti([keys.id(id) for id in ids]))
        wanted: dict[bytes, list[bytes]] = {}
        for id in ids:
            if (location := places.get(keys.id(id))) is not None:
                tag, place, state, order = keys.located(location)
                likely = [keys.task(tag, state, order or place, place)]
                wanted[id] = [keys.task(tag, State.INFLIGHT, place), *likely] if state is State.PENDING else likely
        found = dict(self._cursor.getmulti([key for likely in wanted.values() for key in likely]))
        records: list[Record | None] = []
        for id in ids:
            data = next((found[key] for key in wanted.get(id, ()) if key in found), None)
            if data is None and id in wanted:
                raise StoreCorrupt(f"task {id.hex()} is not where its id points; run queue-core check")
            records.append(
                self._seen(next(key for key in wanted[id] if key in found), data) if data is not None else None
            )
        return records

    def grouped(self, fingerprint: bytes, after: int | None, limit: int) -> list[Record]:
        start = None if after is None else keys.grouped(fingerprint, after + 1)
        entries = islice(self.range(keys.grouped(fingerprint, 0)[:-8], start), limit)
        found = [keys.task(keys.unpack_tag(value), State.DEAD, keys.grouped_entry(key)) for key, value in entries]
        return [self._seen(key, self._bytes(key)) for key in found]

    def put(self, old: Record | None, new: Record | None) -> None:
        writes = self._writes
        self.changes += 1
        before = after = entry = None
        if old is not None:
            before, entry = keys.task_of(old), keys.index_of(old)
            writes[before] = None
            if entry is not None:
                writes[entry] = None
            if old.state is State.PENDING:
                self._heads.pop(old.tag, None)
            if old.state is State.DEAD and old.group:
                writes[keys.grouped(old.group, old.entry)] = None
        if new is not None:
            after, index = keys.task_of(new), keys.index_of(new)
            writes[after] = codec.encode(new)
            if index is not None:
                writes[index] = keys.pack_tag(new.tag)
            if new.state is State.PENDING:
                self._heads.pop(new.tag, None)
                self._pending_put = True
            if new.state is State.DEAD and new.group:
                writes[keys.grouped(new.group, new.entry)] = keys.pack_tag(new.tag)
        if new is None:
            assert old is not None
            writes[keys.id(old.id)] = None
        elif old is None or not _in_line(old, new):
            writes[keys.id(new.id)] = keys.location(new)

    def head(self, tag: int, after: int = 0) -> Record | None:
        known = self._heads.get(tag)
        if known is not None and known[0] <= after and (known[1] is None or known[1].place > after):
            return known[1]
        if self._pending_put:
            self.flush()
        found, start = None, keys.task(tag, State.PENDING, after + 1)
        while found is None and self._cursor.set_range(start):
            key, data = self._cursor.item()
            if not key.startswith(keys.tasks(tag, State.PENDING)):
                break
            if key not in self._writes:  # else it has left the line, and its removal is among what is collected
                found = self._decode(key, data, State.PENDING)
            start = key + b"\0"
        self._heads[tag] = (after, found)
        return found

    def _decode(self, key: bytes, data: bytes, state: State, index: bytes | None = None) -> Record | None:
        """A record on its way through the line; one that does not decode is set aside, so that the line goes on.

        It goes to the dead-letter queue as a task of its own id whose payload is the undecodable bytes, unchanged.
        """
        try:
            return codec.decode_record(data)
        except StoreCorrupt as error:
            reason = f"the stored record does not decode: {error}"
        tag = self.tag(keys.task_tag(key))
        id, place = self._name_of(key, tag.number, state)
        version = self.meta.version()
        new = Record(id, tag.number, place, State.DEAD, version, data, self.now, self.now, 0, reason=reason,
                     entry=version, entered=self.now, aged=self.meta.aged)  # fmt: skip
        for entry, holder in list(self.range(keys.DEDUPE)):  # its dedupe key is among what does not decode
            if holder == id:
                self._write(entry, None)
        self._write(key, None)
        if index is not None:
            self._write(index, None)
        if state is State.DEAD and index is not None:
            self._ungroup(keys.number(index), tag.number)
        new = replace(new, group=moves.group_of(self, new))
        self.put(None, new)
        moves.regroup(self, self, new, death=True)
        moves.touch(self, tag)
        for counts, totals in ((tag.counts, tag.totals), (self.meta.counts, self.meta.totals)):
            counts.add(state, -1)
            counts.add(State.DEAD, 1)
            totals.dead_lettered += 1
        moves.log(self, Kind.DEAD_LETTER, tag, new, detail=reason)
        moves.review(self, tag)
        return None

    def _seen(self, key: bytes, data: bytes) -> Record:
        """A record to look at; for one that does not decode, a stand-in of version 0 that holds its bytes."""
        try:
            return codec.decode_record(data)
        except StoreCorrupt as error:
            reason = f"the stored record does not decode: {error}"
        tag, state = keys.task_tag(key), keys.task_state(key)
        id, place = self._name_of(key, tag, state)
        order = keys.task_order(key)
        hold = Hold(0, 0, "", 0, 0, self._expiry(tag, place), 0) if state is State.INFLIGHT else None
        return Record(
            id, tag, place, state, 0, data, 0, 0, order if state is State.SCHEDULED else 0, hold=hold, reason=reason,
            entry=order if state in (State.DEAD, State.TRASH) else 0,
        )  # fmt: skip

    def _expiry(self, tag: int, place: int) -> int:
        entries = (keys.index_parts(key) for key, value in self.range(keys.EXPIRY) if keys.unpack_tag(value) == tag)
        return next((order for order, at in entries if at == place), 0)

    def _name_of(self, key: bytes, tag: int, state: State) -> tuple[bytes, int]:
        """(id, place) of a task that does not decode, by the id that points to it."""
        last = keys.task_place(key)  # of a dead letter and in trash, its entry
        dead = state in (State.DEAD, State.TRASH)
        for entry, value in self.range(keys.ID):
            number, place, located, order = keys.located(value)
            if number == tag and (order == last and located is state if dead else place == last):
                return entry[1:], place
        return nonce().to_bytes(16), self.meta.place() if dead else last

    def _ungroup(self, entry: int, tag: int) -> None:
        """A dead letter that does not decode leaves its error group, which only the index can tell."""
        for key, _ in [one for one in self.range(keys.GROUPED) if keys.grouped_entry(one[0]) == entry]:
            self._write(key, None)
            moves.leave_group(self, keys.grouped_mark(key), tag)

    def _indexed(self, state: State, upto: int, start: bytes | None = None) -> Iterator[tuple[bytes, int]]:
        """(index key, tag) of tasks of a state, in order, up to an order."""
        end = keys.index_end(state, upto)
        for key, value in self.range(keys.INDEX[state], start):
            if key >= end:
                return
            yield key, keys.unpack_tag(value)

    def _bytes(self, key: bytes) -> bytes:
        data = self._get(key)
        if data is None:
            raise StoreCorrupt(f"an index entry has no task at {key.hex()}; run queue-core check")
        return data

    def first(self, state: State, upto: int, limit: int) -> list[Record]:
        found = list(islice(self._indexed(state, upto), limit))
        records = []
        for index, tag in found:
            key = keys.indexed_task(state, index, tag)
            record = self._decode(key, self._bytes(key), state, index)
            if record is not None:
                records.append(record)
        return records

    def index(self, state: State, upto: int, limit: int) -> list[tuple[int, int, int]]:
        return [(*keys.index_parts(key), tag) for key, tag in islice(self._indexed(state, upto), limit)]

    def inflight_after(self, after: tuple[int, int], limit: int) -> list[Record]:
        return self.page(State.INFLIGHT, None, after, limit, False)

    def page(
        self, state: State, tag: int | None, after: tuple[int, int] | None, limit: int, reverse: bool
    ) -> list[Record]:
        if tag is not None and state is State.INFLIGHT:  # few, and kept by place: sorted here
            found = [self._seen(key, data) for key, data in self.range(keys.tasks(tag, state))]
            found.sort(key=lambda record: (record.order, record.place), reverse=reverse)
            if after is not None:
                found = [r for r in found if ((r.order, r.place) < after if reverse else (r.order, r.place) > after)]
            return found[:limit]
        if tag is not None:
            return [self._seen(*entry) for entry in islice(self._tasks(state, tag, after, reverse), limit)]
        if state is State.PENDING:
            tags = [known.number for known in self.tags() if known.counts.pending]
            lines = [self._tasks(state, number, after, reverse) for number in tags]
            merged = merge(*lines, key=lambda entry: entry[0][-8:], reverse=reverse)
            return [self._seen(*entry) for entry in islice(merged, limit)]
        start = None if after is None else keys.index_at(state, *after, past=not reverse)
        entries = islice(self.range(keys.INDEX[state], start, reverse=reverse), limit)
        found_keys = [keys.indexed_task(state, key, keys.unpack_tag(value)) for key, value in entries]
        return [self._seen(key, self._bytes(key)) for key in found_keys]

    def _tasks(
        self, state: State, tag: int, after: tuple[int, int] | None, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        start = None
        if after is not None:
            order, place = after
            step = 0 if reverse else 1
            start = keys.task(tag, state, *((order, place + step) if state is State.SCHEDULED else (order + step,)))
        return self.range(keys.tasks(tag, state), start, reverse=reverse)

    def ahead(self, tag: int, place: int, limit: int) -> int:
        self.flush()
        cursor, end = self._txn.cursor(), keys.task(tag, State.PENDING, place)
        if not cursor.set_range(keys.tasks(tag, State.PENDING)):
            return 0
        count = 0
        for key in cursor.iternext(keys=True, values=False):
            if key >= end or count == limit:
                break
            count += 1
        return count

    # --- rotation

    def ready(self, number: int) -> int | None:
        added = min((on for on in self._ready_on if on >= number), default=None) if self._ready_on else None
        found = self._cursor.set_range(keys.eligible(number))
        while found and (key := self._cursor.key()).startswith(keys.ELIGIBLE):
            stored = keys.tag_number(key)
            if stored not in self._ready_off:
                return stored if added is None else min(stored, added)
            found = self._cursor.next()
        return added

    def set_ready(self, number: int, ready: bool) -> None:
        (self._ready_on if ready else self._ready_off).add(number)
        (self._ready_off if ready else self._ready_on).discard(number)
        self._write(keys.eligible(number), b"" if ready else None)

    def timers(self, upto: int, limit: int) -> list[int]:
        out: list[int] = []
        for key, _ in self.range(keys.TIMER):
            at, number = keys.timer_parts(key)
            if at > upto or len(out) == limit:
                break
            out.append(number)
        return out

    def set_timer(self, number: int, old: int, new: int) -> None:
        if old:
            self._write(keys.timer(old, number), None)
        if new:
            self._write(keys.timer(new, number), b"")

    def next_moment(self) -> int | None:
        self.flush()
        moments = []
        for prefix in (keys.TIMER, keys.EXPIRY, keys.DUE):
            if self._cursor.set_range(prefix) and (key := self._cursor.key()).startswith(prefix):
                moments.append(keys.first_number(key))
        return min(moments, default=None)

    # --- dedupe keys

    def holder(self, tag: int, key: str) -> bytes | None:
        return self._get(keys.dedupe(tag, key))

    def set_holder(self, tag: int, key: str, id: bytes | None) -> None:
        self._write(keys.dedupe(tag, key), id)


def _in_line(old: Record, new: Record) -> bool:
    """Whether the id's location stays: pending and in flight are told apart by looking."""
    return (
        old.place == new.place
        and (old.state is State.PENDING or old.state is State.INFLIGHT)
        and (new.state is State.PENDING or new.state is State.INFLIGHT)
    )
