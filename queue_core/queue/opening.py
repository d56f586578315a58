"""Opening a queue."""

import os
import time
from collections.abc import Callable
from typing import Any

from queue_core.errors import InvalidArgument
from queue_core.history import Event
from queue_core.queue.payloads import Serializer, Typed
from queue_core.queue.verbs import Queue
from queue_core.stores import open_store
from queue_core.stores.base import Clock


def system_clock() -> int:
    return time.time_ns() // 1_000


def open_queue(
    url: str | os.PathLike[str], *, clock: Clock = system_clock, on_event: Callable[[Event], None] | None = None,
    payload_type: type | None = None, serializer: Serializer | None = None,
    tag_of: Callable[[Any], str] | None = None, **options: Any,
) -> Queue:  # fmt: skip
    """Open a queue: ``lmdb:///path`` or a bare path, ``files:///path`` (a readable file per task), ``memory://``, or
    ``memory://name`` (shared in this process).

    ``clock`` gives microseconds since the epoch. ``on_event`` is called after each commit with what happened.
    ``payload_type`` is a dataclass or ``msgspec.Struct`` that payloads are given and taken as; ``serializer`` maps
    them to and from JSON values in another way. ``tag_of`` derives the tag of a payload. Further options go to the
    store; for lmdb: ``durability`` ("full", "relaxed", "none"), ``busy_timeout`` in seconds, ``map_size`` and
    ``max_size`` in bytes, ``create``; for files: ``durability`` ("full", "none"), ``busy_timeout``, ``create``.

    Raises InvalidArgument, MissingDriver, StoreGone (with ``create=False``, nothing is there), StoreVersion,
    StoreCorrupt.
    """
    if payload_type is not None and serializer is not None:
        raise InvalidArgument("give payload_type or serializer, not both")
    if payload_type is not None:
        serializer = Typed(payload_type)
    store = open_store(os.fspath(url), clock, **options)
    return Queue(store, clock, on_event=on_event, serializer=serializer, tag_of=tag_of)
