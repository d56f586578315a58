"""The stores, opened by URL; a driver is imported when its store is opened."""

import os
import re
from typing import Any

from queue_core.errors import InvalidArgument, MissingDriver
from queue_core.stores.base import Clock, Store

FILES_MARK, LMDB_MARK = "queue.json", "data.mdb"  # what tells which store a directory is


def open_store(url: str, clock: Clock, **options: Any) -> Store:
    """A store by URL: ``lmdb:///path`` or a bare path, ``files:///path``, ``memory://``, ``memory://name``.

    Raises InvalidArgument for an unknown scheme or option, MissingDriver when its package is missing.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        if re.match(r"[a-z]+:", url):
            raise InvalidArgument(f"{url!r} is no path and names no store: write two slashes, as in files:///path")
        scheme, rest = "lmdb", url
    match scheme:
        case "lmdb":
            try:
                from queue_core.stores.lmdb import open_lmdb
            except ModuleNotFoundError as error:
                raise MissingDriver(f"the lmdb store needs the package lmdb: pip install lmdb ({error})") from error
            if not rest:
                raise InvalidArgument(f"{url!r} names no directory: write lmdb:///path/to/queue")
            if os.path.exists(os.path.join(rest, FILES_MARK)):
                raise InvalidArgument(f"{rest} holds a files store: open it as files://{os.path.abspath(rest)}")
            return open_lmdb(rest, clock, **options)
        case "memory":
            from queue_core.stores.memory import open_memory

            return open_memory(rest, clock, **options)
        case "files":
            from queue_core.stores.files import open_files

            if not rest:
                raise InvalidArgument(f"{url!r} names no directory: write files:///path/to/queue")
            if os.path.exists(os.path.join(rest, LMDB_MARK)):
                raise InvalidArgument(f"{rest} holds an LMDB store: open it as lmdb://{os.path.abspath(rest)}")
            return open_files(rest, clock, **options)
        case _:
            raise InvalidArgument(
                f"{url!r} names no store: use lmdb:///path (or a bare path), files:///path, or memory:// or memory://name"
            )
