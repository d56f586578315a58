"""What a damaged file still tells of a queue: its numbers, its tags, and those of its tasks that can be read."""

from collections.abc import Iterator

from queue_core import codec, keys
from queue_core.errors import StoreCorrupt
from queue_core.ledger import Meta, Tag
from queue_core.stores.lmdb.pages import Entry, Pages
from queue_core.task import HISTORY_EDGE, LIVE, Record, State


class Wreck:
    """Read once through on making: ``tasks`` reads those again that it found.

    ``unreadable`` counts tasks of which the key was found, and the rest does not decode or contradicts itself;
    ``spoiled`` those whose payload is no JSON.
    """

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self.meta: Meta | None = None
        self.tags: dict[int, Tag] = {}
        self.unreadable = 0
        self.unreadable_bytes = 0
        self.spoiled = 0
        self.fence = self.version = 0  # the greatest that are seen
        self._found: list[tuple[bool, int, Entry]] = []  # (whether it is over, its order, where it is)
        for entry in pages.entries():
            self._note(entry)
        self._found.sort()

    def __len__(self) -> int:
        return len(self._found)

    def tasks(self) -> Iterator[Record]:
        """Live ones by place, then the others by entry."""
        for _, _, entry in self._found:
            record = self._record(entry)
            assert record is not None  # it was read before, and nobody writes here
            yield record

    def _note(self, entry: Entry) -> None:
        kind = entry.key[:1]
        if kind == keys.TASK:
            record = self._record(entry)
            if record is None:
                self.unreadable += 1
                self.unreadable_bytes += self._pages.size(entry)
                return
            self.spoiled += not _is_json(record.payload)
            over = record.state not in LIVE
            self._found.append((over, record.entry if over else record.place, entry))
            self.version = max(self.version, record.version)
            self.fence = max(self.fence, record.hold.fence if record.hold is not None else 0)
        elif kind in (keys.TAG, keys.META) and (data := self._pages.value(entry)) is not None:
            try:
                if kind == keys.TAG:
                    tag = codec.decode_tag(data)
                    self.tags[tag.number] = tag
                else:
                    self.meta = meta = codec.decode_meta(data)
                    self.version, self.fence = max(self.version, meta.last_version), max(self.fence, meta.fence)
            except StoreCorrupt:
                return  # tasks need neither; what is missing is told

    def _record(self, entry: Entry) -> Record | None:
        data = self._pages.value(entry)
        try:
            record = codec.decode_record(data) if data is not None else None
            return record if record is not None and _holds_together(entry.key, record) else None
        except StoreCorrupt:
            return None


def _is_json(payload: bytes) -> bool:
    try:
        codec.load_payload(payload)
    except ValueError:
        return False
    return True


def _holds_together(key: bytes, record: Record) -> bool:
    """Whether the record is where it says, and its story adds up: damage may decode."""
    leased = record.state is State.INFLIGHT
    return (
        keys.task_of(record) == key
        and len(record.id) == 16
        and 0 <= record.attempts <= record.leases
        and len(record.history) == min(record.leases - leased, 2 * HISTORY_EDGE)
        and (record.state not in LIVE or (record.hold is not None) == leased)
    )
