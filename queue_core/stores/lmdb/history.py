"""What the engine's seam keeps of the past, over one LMDB transaction: journal, buckets, workers."""

from collections.abc import Iterator
from typing import Any

from queue_core import codec, keys
from queue_core.history import JOURNAL_LIMIT, Entry
from queue_core.ledger import Counts, Meta, Past, Totals, WorkerRecord
from queue_core.series import Bucket
from queue_core.stores.base import Logged
from queue_core.stores.lmdb.collected import Collected

BLOCK = 16  # journal entries in one value: below the size at which LMDB gives a value pages of its own
TRIM_EVERY = 256  # journal entries between two looks at its length
TOUCHED_BLOCK = 256  # tags in one value


class HistoryRecords(Collected):
    """That part of ``Records``; ``write_history`` comes last, before the queue's numbers are written."""

    history = True

    def __init__(self, txn: Any, meta: Meta | None) -> None:
        super().__init__(txn)
        self.logged: list[Logged] = []
        self._touched: list[int] = []
        if meta is None:
            data = txn.get(keys.META)
            meta = codec.decode_meta(data) if data is not None else Meta(Counts(), Totals())
        self.meta = meta

    def write_history(self) -> None:
        """Journal entries in blocks, and the tags that have changed."""
        journal = [entry for number, _, entry in self.logged if number]
        first = self.meta.events + 1 - len(journal)
        for start in range(0, len(journal), BLOCK):
            self._writes[keys.journal(first + start)] = codec.encode(journal[start : start + BLOCK])
        if self.meta.events // TRIM_EVERY != (first - 1) // TRIM_EVERY:
            self._trim_journal()
        if self._touched:
            self._write_touched()

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
