"""The pages of a file that LMDB cannot open, or would die of: read as bytes, and none of them trusted.

A page begins with its number, its flags, and the bounds of its free space. A branch page holds the numbers of other
pages, a leaf page keys and values; a large value stands on overflow pages of its own. (LMDB 0.9, 64 bits.)
"""

import os
from collections.abc import Iterator
from struct import Struct
from types import TracebackType
from typing import NamedTuple

from queue_core.errors import StoreCorrupt
from queue_core.stores.lmdb import health
from queue_core.stores.lmdb.health import BRANCH, LEAF, NO_PAGE, OVERFLOW, PAGE_HEAD

FIRST = METAS = 2  # pages
META_AT = (0, 4_096, 8_192, 16_384, 32_768)  # where the second one may begin, by page size
BIG = 0x01  # the value is on overflow pages
_node = Struct("=HHHH")
_offset = Struct("=H")
_number = Struct("=Q")


class Entry(NamedTuple):
    """Where an entry is, and its key."""

    page: int
    offset: int
    key: bytes


class Pages:
    """What can be reached from the newest commit, and what cannot.

    ``damaged`` are pages that are not what something points to, ``broken`` counts entries that do not hold together.
    Pages in use that nothing leads to any longer, because what led there is damaged, are read as well, if it can be
    told which pages are free: ``unclear`` counts those of which it cannot. ``older``: a meta page is lost, or what it
    points to, so the newest commit may be missing.
    """

    def __init__(self, path: str) -> None:
        """Raises StoreCorrupt when no meta page tells where anything begins."""
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.damaged: set[int] = set()
        self.broken = 0
        self.unclear = 0
        self.older = False
        try:
            self._header = self._newest(path)
        except BaseException:
            os.close(self._file)
            raise
        self._seen = bytearray(self._header.last_page + 1)

    def __enter__(self) -> "Pages":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._file)

    def _newest(self, path: str) -> health.Header:
        """That of the newest commit of which a tree can be read; the one before it, which LMDB keeps, if need be."""
        size = os.fstat(self._file).st_size
        headers = [header for start in META_AT if (header := health.header_at(self._file, start)) is not None]
        for header in sorted(headers, reverse=True):
            self.page_size = header.page_size
            pages = size // header.page_size if header.page_size in META_AT[1:] else 0
            self._header = header._replace(last_page=min(header.last_page, pages - 1))
            free, entries = header.roots
            if self._read(entries, BRANCH, LEAF) is not None or free == NO_PAGE or self._read(free, BRANCH, LEAF):
                self.older = len(headers) < METAS or header != max(headers)
                return self._header
        raise StoreCorrupt(f"{path} has no meta page that tells where its data begins: nothing can be salvaged")

    def _read(self, page: int, *kinds: int) -> bytes | None:
        """A page, if it is one of these kinds."""
        if not FIRST <= page <= self._header.last_page:
            return None
        data = os.pread(self._file, self.page_size, page * self.page_size)
        if len(data) < self.page_size:
            return None
        number, _, flags, _ = PAGE_HEAD.unpack_from(data)
        return data if number == page and flags in kinds else None

    def entries(self) -> Iterator[Entry]:
        """Every entry of the newest commit that can be found."""
        for page, data in self._leaves(self._header.roots[1]):
            yield from self._entries(page, data)
        yield from self._orphans()

    def value(self, entry: Entry) -> bytes | None:
        """None when it cannot be read."""
        data = os.pread(self._file, self.page_size, entry.page * self.page_size)
        low, high, flags, key = _node.unpack_from(data, entry.offset)
        start, size = entry.offset + _node.size + key, low | high << 16
        if not flags & BIG:
            return data[start : start + size] if start + size <= len(data) else None
        if start + _number.size > len(data):
            return None
        first = _number.unpack_from(data, start)[0]
        if self._read(first, OVERFLOW) is None:
            return None
        found = os.pread(self._file, size, first * self.page_size + PAGE_HEAD.size)
        return found if len(found) == size else None

    def size(self, entry: Entry) -> int:
        """Bytes of the value, as the entry says."""
        low, high, _, _ = _node.unpack(os.pread(self._file, _node.size, entry.page * self.page_size + entry.offset))
        return int(low | high << 16)

    def _leaves(self, root: int) -> Iterator[tuple[int, bytes]]:
        """The leaf pages of a tree, in the order of their keys."""
        waiting = [] if root == NO_PAGE else [root]
        while waiting:
            page = waiting.pop()
            data = self._read(page, BRANCH, LEAF)
            if data is None or self._seen[page]:
                self.damaged.add(page)
                continue
            self._seen[page] = 1
            if PAGE_HEAD.unpack_from(data)[2] == LEAF:
                yield page, data
                continue
            children = []
            for offset in self._nodes(data):
                low, high, flags, _ = _node.unpack_from(data, offset)
                children.append(low | high << 16 | flags << 32)
            waiting += reversed(children)

    def _nodes(self, data: bytes) -> Iterator[int]:
        """Where the nodes of a page begin."""
        lower = _offset.unpack_from(data, 12)[0]
        for at in range(PAGE_HEAD.size, min(lower, len(data) - 1), _offset.size):
            offset = _offset.unpack_from(data, at)[0]
            if lower <= offset <= len(data) - _node.size:
                yield offset
            else:
                self.broken += 1

    def _entries(self, page: int, data: bytes) -> Iterator[Entry]:
        for offset in self._nodes(data):
            low, high, flags, size = _node.unpack_from(data, offset)
            start = offset + _node.size
            if not size or start + size > len(data):
                self.broken += 1
                continue
            if flags & BIG and start + size + _number.size <= len(data):
                first = _number.unpack_from(data, start + size)[0]
                pages = (PAGE_HEAD.size - 1 + (low | high << 16)) // self.page_size + 1
                for number in range(first, min(first + pages, len(self._seen))):
                    self._seen[number] = 1
            yield Entry(page, offset, data[start : start + size])

    def _orphans(self) -> Iterator[Entry]:
        """Entries on leaf pages that are in use, and to which nothing leads: only where something is damaged."""
        before = len(self.damaged) + self.broken
        if not before:
            return
        for page, data in self._leaves(self._header.roots[0]):
            for entry in self._entries(page, data):
                listed = self.value(entry)
                if listed is None or len(listed) % _number.size:
                    self.broken += 1
                    continue
                for (number,) in list(_number.iter_unpack(listed))[1:]:  # the first is how many there are
                    if number < len(self._seen):
                        self._seen[number] = 1
        left = [page for page in range(FIRST, len(self._seen)) if not self._seen[page]]
        if len(self.damaged) + self.broken != before:  # it is not known which pages are free
            self.unclear = len(left)
            return
        for page in left:
            orphan = self._read(page, LEAF)
            if orphan is not None and not self._seen[page]:
                yield from self._entries(page, orphan)
