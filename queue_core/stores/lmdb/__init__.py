"""The LMDB store, the default: one directory on a local disk, for any number of threads and processes of one host.

``environment`` holds the one handle per process and path, and what the files need: the write lock, growth,
fork. ``records`` is the engine's seam over a transaction, ``commit`` lets concurrent callers share one.
"""

from queue_core.stores.lmdb.store import LmdbStore, open_lmdb

__all__ = ["LmdbStore", "open_lmdb"]
