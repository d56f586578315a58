"""Bytes of one LMDB transaction.

Every LMDB call gives up the GIL, and a worker that waits for it in a write transaction keeps the whole
host waiting: so what a transaction writes is collected and handed over in one call, and reads that need
no range look at what is collected first.
"""

from collections.abc import Iterator
from typing import Any


class Collected:
    """Reads of a transaction, and what it is going to write."""

    def __init__(self, txn: Any) -> None:
        self.changes = 0  # grows with every change, so that a failed operation can tell whether it made any
        self._txn = txn
        self._cursor = txn.cursor()
        self._writes: dict[bytes, bytes | None] = {}

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
