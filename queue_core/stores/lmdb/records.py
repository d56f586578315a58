"""The engine's seam over one LMDB transaction.

Every LMDB call gives up the GIL, and a worker that waits for it in a write transaction keeps the whole
host waiting: so what a transaction writes is collected and handed over in one call, and reads that need
no range look at what is collected first.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from queue_core import codec, keys
from queue_core.errors import StoreCorrupt
from queue_core.history import JOURNAL_LIMIT, Entry, Kind
from queue_core.ledger import Counts, Meta, Past, Tag, Totals, WorkerRecord
from queue_core.series import Bucket
from queue_core.stores.base import Logged
from queue_core.stores.engine import moves
from queue_core.task import Record, State, nonce

TOUCHED_BLOCK = 256
BLOCK = 16  # journal entries in one value: below the size at which LMDB gives a value pages of its own
CARRIED = 1_000  # tags kept from one transaction to the next
TRIM_EVERY = 256  # journal entries between two looks at its length


class Carried(NamedTuple):
    """What a commit wrote, as objects, for the next transaction if it is the very next of the store.

    So a process that commits alone reads neither the queue's numbers nor the tags that it works on.
    """

    txn: int
    meta: Meta
    tags: dict[int, tuple[Tag, bytes]]


class LmdbRecords:
    """``Records`` over a transaction; ``finish`` writes what has changed."""

    history = True

    def __init__(self, txn: Any, now: int, names: dict[str, int], carried: Carried | None = None) -> None:
        self.now = now
        self.logged: list[Logged] = []
        self.changes = 0  # grows with every change, so that a failed operation can tell whether it made any
        self.new_names: dict[str, int] = {}
        self._names = names
        self._txn = txn
        self._cursor = txn.cursor()
        self._writes: dict[bytes, bytes | None] = {}
        self._tags: dict[int, tuple[Tag, bytes]] = {}
        self._heads: dict[int, tuple[int, Record | None]] = {}  # tag -> (after, the next pending one)
        self._ready_on: set[int] = set()
        self._ready_off: set[int] = set()
        self._pending_put = False
        self._touched: list[int] = []
        self._carried = carried.tags if carried is not None else {}
        if carried is not None:
            self.meta = carried.meta
        else:
            data = txn.get(keys.META)
            self.meta = codec.decode_meta(data) if data is not None else Meta(Counts(), Totals())

    # --- bytes

    def _get(self, key: bytes) -> bytes | None:
        if key in self._writes:
            return self._writes[key]
        found: bytes | None = self._txn.get(key)
        return found

    def raw(self, key: bytes) -> bytes | None:
        """The stored bytes, past everything that is collected: for ``check``."""
        found: bytes | None = self._txn.get(key)
        return found

    def _write(self, key: bytes, value: bytes | None) -> None:
        self._writes[key] = value
        self.changes += 1

    def flush(self) -> None:
        """Hand over what is collected, so that ranges see it."""
        if self._writes:
            for key, value in self._writes.items():
                if value is None:
                    self._txn.delete(key)
            puts = [(key, value) for key, value in self._writes.items() if value is not None]
            if puts:
                self._cursor.putmulti(puts)
            self._writes.clear()
            self._ready_on.clear()
            self._ready_off.clear()
            self._pending_put = False

    def finish(self) -> None:
        """Write everything that has changed."""
        journal = [entry for number, _, entry in self.logged if number]
        first = self.meta.events + 1 - len(journal)
        for start in range(0, len(journal), BLOCK):
            self._writes[keys.journal(first + start)] = codec.encode(journal[start : start + BLOCK])
        if self.meta.events // TRIM_EVERY != (first - 1) // TRIM_EVERY:
            self._trim_journal()
        if self._touched:
            self._write_touched()
        for number, (tag, before) in self._tags.items():
            after = codec.encode(tag)
            if after != before:
                self._writes[keys.tag(number)] = after
            self._carried[number] = (tag, after)
        self._writes[keys.META] = codec.encode(self.meta)
        self.flush()

    def carry(self, txn: int) -> Carried:
        """After ``finish``: what the next transaction may begin with, if ``txn`` is committed."""
        return Carried(txn, self.meta, self._carried if len(self._carried) <= CARRIED else {})

    def range(
        self, prefix: bytes, start: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries under a prefix from ``start`` on; backwards from before ``start`` when reversed."""
        self.flush()
        cursor = self._txn.cursor()
        if reverse:
            end = start if start is not None else prefix + b"\xff" * 17
            found = cursor.prev() if cursor.set_range(end) else cursor.last()
            entries = cursor.iterprev()
        else:
            found = cursor.set_range(start if start is not None else prefix)
            entries = cursor.iternext()
        if not found:
            return
        for key, value in entries:
            if not key.startswith(prefix):
                return
            yield key, value

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
        self.flush()
        cursor, last = self._txn.cursor(), keys.tag((1 << 32) - 1)
        if cursor.set_range(keys.TAG):
            for key, data in cursor.iternext():  # there may be many, and a range costs more
                if key > last:
                    return
                yield codec.decode_tag(data)

    def look(self, numbers: Sequence[int]) -> list[Tag]:
        self.flush()
        found = self._cursor.getmulti(list(map(keys.tag, numbers)))
        return [codec.decode_tag(data) for _, data in found]

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
        if new is not None:
            after, index = keys.task_of(new), keys.index_of(new)
            writes[after] = codec.encode(new)
            if index is not None:
                writes[index] = keys.pack_tag(new.tag)
            if new.state is State.PENDING:
                self._heads.pop(new.tag, None)
                self._pending_put = True
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
        tag, place = self.tag(keys.task_tag(key)), keys.task_place(key)
        id = next(
            (entry[1:] for entry, value in self.range(keys.ID) if keys.located(value)[:2] == (tag.number, place)),
            nonce().to_bytes(16),
        )
        version = self.meta.version()
        new = Record(id, tag.number, place, State.DEAD, version, data, self.now, self.now, 0, reason=reason,
                     entry=version, entered=self.now, aged=self.meta.aged)  # fmt: skip
        for entry, holder in list(self.range(keys.DEDUPE)):  # its dedupe key is among what does not decode
            if holder == id:
                self._write(entry, None)
        self._write(key, None)
        if index is not None:
            self._write(index, None)
        self.put(None, new)
        moves.touch(self, tag)
        for counts, totals in ((tag.counts, tag.totals), (self.meta.counts, self.meta.totals)):
            counts.add(state, -1)
            counts.add(State.DEAD, 1)
            totals.dead_lettered += 1
        moves.log(self, Kind.DEAD_LETTER, tag, new, detail=reason)
        moves.review(self, tag)
        return None

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
            found = [codec.decode_record(data) for _, data in self.range(keys.tasks(tag, state))]
            found.sort(key=lambda record: (record.order, record.place), reverse=reverse)
            if after is not None:
                found = [r for r in found if ((r.order, r.place) < after if reverse else (r.order, r.place) > after)]
            return found[:limit]
        if tag is not None:
            return [codec.decode_record(data) for _, data in islice(self._tasks(state, tag, after, reverse), limit)]
        if state is State.PENDING:
            tags = [known.number for known in self.tags() if known.counts.pending]
            lines = [self._tasks(state, number, after, reverse) for number in tags]
            merged = merge(*lines, key=lambda entry: entry[0][-8:], reverse=reverse)
            return [codec.decode_record(data) for _, data in islice(merged, limit)]
        start = None if after is None else keys.index_at(state, *after, past=not reverse)
        entries = islice(self.range(keys.INDEX[state], start, reverse=reverse), limit)
        found_keys = [keys.indexed_task(state, key, keys.unpack_tag(value)) for key, value in entries]
        return [codec.decode_record(self._bytes(key)) for key in found_keys]

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

    # --- keys, journal, workers

    def holder(self, tag: int, key: str) -> bytes | None:
        return self._get(keys.dedupe(tag, key))

    def set_holder(self, tag: int, key: str, id: bytes | None) -> None:
        self._write(keys.dedupe(tag, key), id)

    def log(self, entry: Entry, name: str | None) -> int:
        self.meta.events += self.meta.history
        number = self.meta.events if self.meta.history else 0
        self.logged.append((number, name, entry))
        self.changes += 1
        return number

    def entries(self, after: int, limit: int) -> list[tuple[int, Entry]]:
        start = keys.journal(after + 1)
        cursor = self._txn.cursor()
        if not (cursor.set_range(start) and cursor.key() == start) and cursor.prev():
            start = cursor.key()  # the block before may reach past ``after``
        out: list[tuple[int, Entry]] = []
        for key, data in self.range(keys.JOURNAL, max(start, keys.JOURNAL)):
            number = keys.number(key)
            entries = enumerate(codec.decode_entries(data), number)
            out += [(at, entry) for at, entry in entries if at > after]
            if len(out) >= limit:
                break
        return out[:limit]

    def _trim_journal(self) -> None:
        oldest = self.meta.events - JOURNAL_LIMIT - TRIM_EVERY
        blocks: list[bytes] = []
        if oldest > 0:
            for key, _ in self.range(keys.JOURNAL):
                if keys.number(key) + BLOCK > oldest or len(blocks) >= 4 * TRIM_EVERY:
                    break
                blocks.append(key)
        for key in blocks:
            self._writes[key] = None

    # --- history

    def past(self) -> Past | None:
        data = self._get(keys.PAST)
        return codec.decode_past(data) if data is not None else None

    def put_past(self, past: Past) -> None:
        self._write(keys.PAST, codec.encode(past))

    def touch(self, number: int) -> None:
        self._touched.append(number)
        self.changes += 1

    def touched(self) -> list[int]:
        found = [number for _, data in self.range(keys.TOUCHED) for number in keys.unpack_tags(data)]
        return [*found[: self.meta.touched], *self._touched]

    def clear_touched(self) -> None:
        for key in [key for key, _ in self.range(keys.TOUCHED)]:
            self._write(key, None)
        self._touched.clear()
        self.meta.touched = 0

    def _write_touched(self) -> None:
        """In blocks, so that clearing takes few calls."""
        begin = self.meta.touched // TOUCHED_BLOCK * TOUCHED_BLOCK
        before = self._get(keys.touched(begin)) if begin < self.meta.touched else None
        numbers = [*(keys.unpack_tags(before) if before is not None else ()), *self._touched]
        for start in range(0, len(numbers), TOUCHED_BLOCK):
            self._writes[keys.touched(begin + start)] = keys.pack_tags(numbers[start : start + TOUCHED_BLOCK])
        self.meta.touched += len(self._touched)

    def buckets(self, tier: int, reverse: bool = False) -> Iterator[tuple[int, Bucket]]:
        for key, data in self.range(keys.buckets(tier), reverse=reverse):
            yield keys.bucket_number(key), codec.decode_bucket(data)

    def put_bucket(self, tier: int, number: int, bucket: Bucket | None) -> None:
        self._write(keys.bucket(tier, number), codec.encode(bucket) if bucket is not None else None)

    def workers(self) -> list[WorkerRecord]:
        return [codec.decode_worker(data) for _, data in self.range(keys.WORKER)]

    def put_worker(self, worker: WorkerRecord | None, id: str = "") -> None:
        key = keys.worker(worker.id if worker is not None else id)
        self._write(key, codec.encode(worker) if worker is not None else None)


def _in_line(old: Record, new: Record) -> bool:
    """Whether the id's location stays: pending and in flight are told apart by looking."""
    return (
        old.place == new.place
        and (old.state is State.PENDING or old.state is State.INFLIGHT)
        and (new.state is State.PENDING or new.state is State.INFLIGHT)
    )
