"""What the engine's seam keeps of the past, over one LMDB transaction: journal, buckets, workers."""

from collections.abc import Iterator
from itertools import groupby, islice, pairwise
from typing import Any

from queue_core import codec, keys
from queue_core.errors import StoreVersion
from queue_core.history import JOURNAL_LIMIT, Entry
from queue_core.ledger import FORMAT, Counts, Meta, Past, Totals, WorkerRecord
from queue_core.series import Bucket
from queue_core.stores.base import Logged
from queue_core.stores.lmdb.collected import Collected

BLOCK = 950  # bytes of journal entries in one value: four fill a page, and LMDB splits them where little is lost
TRIM_EVERY = 256  # journal entries between two looks at its length
PART = 1_900  # bytes of a bucket in one value: a larger one needs pages side by side, which a full store has not
TOUCHED_BLOCK = 256  # tags in one value


class HistoryRecords(Collected):
    """That part of ``Records``; ``write_history`` comes last, before the queue's numbers are written."""

    history = True

    def __init__(self, txn: Any, meta: Meta | None, tail: list[bytes] | None) -> None:
        super().__init__(txn)
        self.tail = tail  # the entries of the newest block of the journal, encoded; None: not known
        self.logged: list[Logged] = []
        self._touched: list[int] = []
        if meta is None:
            data = txn.get(keys.META)
            meta = codec.decode_meta(data) if data is not None else Meta(Counts(), Totals())
            if meta.format > FORMAT:  # it was upgraded by another process meanwhile
                raise StoreVersion(
                    f"the store has format {meta.format}; this queue_core knows {FORMAT}: upgrade queue_core"
                )
        self.meta = meta

    def write_history(self) -> None:
        """Journal entries in blocks, and the tags that have changed."""
        journal = [codec.encode_entry(entry) for number, _, entry in self.logged if number]
        first = self.meta.events + 1 - len(journal)
        if journal:
            self._write_journal(first, journal)
        if self.meta.events // TRIM_EVERY != (first - 1) // TRIM_EVERY:
            self._trim_journal()
        if self._touched:
            self._write_touched()

    def _write_journal(self, first: int, new: list[bytes]) -> None:
        """Fill the newest block up, then begin others: few large values leave pages fuller than many small ones."""
        tail = self._newest_block() if self.tail is None else self.tail
        begin, size = first - len(tail), sum(map(len, tail))
        for number, part in enumerate(new, first):
            if tail and size + len(part) > BLOCK:
                self._writes[keys.journal(begin)] = codec.join_entries(tail)
                begin, tail, size = number, [], 0
            tail.append(part)
            size += len(part)
        self._writes[keys.journal(begin)] = codec.join_entries(tail)
        self.tail = tail

    def _newest_block(self) -> list[bytes]:
        if self._cursor.set_range(keys.META) and self._cursor.prev() and self._cursor.key()[:1] == keys.JOURNAL:
            return list(map(codec.encode_entry, codec.decode_entries(self._cursor.value())))
        return []

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
        """Remove the blocks that end before what is kept; how far one reaches, the next one tells."""
        oldest = self.meta.events - JOURNAL_LIMIT - TRIM_EVERY
        if oldest <= 0:
            return
        blocks = (key for key, _ in islice(self.range(keys.JOURNAL), 4 * TRIM_EVERY))
        for key, following in pairwise(blocks):
            if keys.number(following) > oldest:
                break
            self._writes[key] = None

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
        parts = self.range(keys.buckets(tier), reverse=reverse)
        for number, found in groupby(parts, key=lambda part: keys.bucket_number(part[0])):
            pieces = [data for _, data in found]
            yield number, codec.decode_bucket(b"".join(reversed(pieces) if reverse else pieces))

    def put_bucket(self, tier: int, number: int, bucket: Bucket | None) -> None:
        for key in [key for key, _ in self.range(keys.bucket(tier, number))]:
            self._write(key, None)
        data = codec.encode(bucket) if bucket is not None else b""
        for part, start in enumerate(range(0, len(data), PART)):
            self._write(keys.bucket_part(tier, number, part), data[start : start + PART])

    def workers(self) -> list[WorkerRecord]:
        return [codec.decode_worker(data) for _, data in self.range(keys.WORKER)]

    def put_worker(self, worker: WorkerRecord | None, id: str = "") -> None:
        key = keys.worker(worker.id if worker is not None else id)
        self._write(key, codec.encode(worker) if worker is not None else None)
