"""A store as one small file, and back: what ships with the package as the sample of the notebooks.

It holds keys and values, whose numbers have a byte order of their own, and not the file of LMDB, which another kind of
processor, or another LMDB, may not read: as the MessagePack of ``Packed``, compressed by zlib, which adds a checksum.
"""

import os
import zlib
from collections.abc import Callable

import lmdb
import msgspec
from msgspec.structs import replace

from queue_core import codec, keys
from queue_core.errors import StoreCorrupt
from queue_core.groups import Group
from queue_core.plans import Plan
from queue_core.stores.lmdb.backup import Still
from queue_core.task import Record

ROOM = 1 << 30  # bytes of address space for the file while it is filled
HOST = "recorded"  # stands for the name of the machine

Scrub = Callable[[str], str]


class Packed(msgspec.Struct, frozen=True):
    """All of a store. ``at`` is the moment at which it was so, in microseconds since the epoch, by its own clock."""

    at: int
    keys: list[bytes]
    values: list[bytes]

    def pour(self, directory: str | os.PathLike[str]) -> None:
        """Make a store of it in a directory that is there, and holds none. It is of the format that it was recorded
        in: opening it upgrades it, as any other."""
        file = os.fspath(directory)
        with lmdb.open(file, map_size=ROOM, sync=False) as environment, environment.begin(write=True) as txn:
            txn.cursor().putmulti(zip(self.keys, self.values, strict=True), append=True)


def packed(directory: str | os.PathLike[str], at: int, scrub: Scrub) -> bytes:
    """A backup (its directory) as bytes. ``scrub`` takes out of errors, reasons and names of runners what others shall
    not see; hosts of workers are not kept."""
    environment = Still(os.fspath(directory), shared=False)
    try:
        with environment.reading() as txn:
            stored = {bytes(key): bytes(value) for key, value in txn.cursor()}
    finally:
        environment.close()
    scrubbing = _Scrubbing(scrub)
    values = [scrubbing.value(key, value) for key, value in stored.items()]
    return zlib.compress(msgspec.msgpack.encode(Packed(at, list(stored), values)), 9)


def unpacked(data: bytes) -> Packed:
    """What ``packed`` gave. Raises StoreCorrupt."""
    try:
        return msgspec.msgpack.decode(zlib.decompress(data), type=Packed)
    except (zlib.error, msgspec.DecodeError) as error:
        raise StoreCorrupt(f"the recorded sample cannot be read ({error}): install queue_core anew") from error


class _Scrubbing:
    """Takes the values of a store, in the order of their keys: tasks come before the groups that show their errors, and
    plans before how far they are."""

    def __init__(self, scrub: Scrub) -> None:
        self._scrub = scrub
        self._tasks: dict[bytes, Record] = {}  # by id
        self._plans: dict[bytes, Plan] = {}  # by what follows the prefix of their keys

    def value(self, key: bytes, value: bytes) -> bytes:
        """The value as it may be seen."""
        match key[:1]:
            case keys.TASK:
                task = self._task(codec.decode_record(value))
                self._tasks[task.id] = task
                return codec.encode(task)
            case keys.GROUP:
                return codec.encode(_shown(codec.decode_group(value), self._tasks))
            case keys.WORKER:
                return codec.encode(replace(codec.decode_worker(value), host=HOST))
            case keys.PLAN:
                self._plans[key[1:]] = codec.decode_plan(value)
            case keys.PROGRESS:
                plan = codec.with_progress(self._plans[key[1:]], value)
                return codec.encode_progress(replace(plan, runner=self._scrub(plan.runner)))
        return value

    def _task(self, task: Record) -> Record:
        history = tuple(replace(attempt, error=self._text(attempt.error)) for attempt in task.history)
        return replace(task, history=history, error=self._text(task.error), reason=self._text(task.reason))

    def _text(self, text: str | None) -> str | None:
        return None if text is None else self._scrub(text)


def _shown(group: Group, tasks: dict[bytes, Record]) -> Group:
    """A group with the error of its newest death as it is by now; with none, when that is no longer known."""
    fresh, newest = Group(group.fingerprint, group.text), tasks.get(group.sample)
    if newest is not None and newest.group == group.fingerprint:
        fresh.came(newest)
    return replace(group, error=fresh.error)
