"""The stores, opened by URL; a driver is imported when its store is opened."""

from typing import Any

from queue_core.errors import InvalidArgument, MissingDriver
from queue_core.stores.base import Clock, Store


def open_store(url: str, clock: Clock, **options: Any) -> Store:
    """A store by URL: ``lmdb:///path`` or a bare path, ``memory://``, ``memory://name``.

    Raises InvalidArgument for an unknown scheme or option, MissingDriver when its package is missing.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "lmdb", url
    match scheme:
        case "lmdb":
            try:
                from queue_core.stores.lmdb import open_lmdb
            except ModuleNotFoundError as error:
                raise MissingDriver(f"the lmdb store needs the package lmdb: pip install lmdb ({error})") from error
            if not rest:
                raise InvalidArgument(f"{url!r} names no directory: write lmdb:///path/to/queue")
            return open_lmdb(rest, clock, **options)
        case "memory":
            from queue_core.stores.memory import open_memory

            return open_memory(rest, clock, **options)
        case _:
            raise InvalidArgument(
                f"{url!r} names no store: use lmdb:///path (or a bare path), or memory:// or memory://name"
            )
