"""The store: the engine's verbs over shared commits and short reads."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, TypeVar

import lmdb

from queue_core import codec, keys
from queue_core.errors import InvalidArgument, StoreBusy, StoreCorrupt, StoreFull, StoreGone, StoreVersion
from queue_core.history import Entry
from queue_core.ledger import FORMAT
from queue_core.series import TIERS
from queue_core.snapshot import Storage
from queue_core.stores.base import Capabilities, Clock, Done, Inventory
from queue_core.stores.embedded import EmbeddedStore, Operation
from queue_core.stores.engine.records import Records
from queue_core.stores.engine.upgrade import group, upgrade
from queue_core.stores.lmdb.commit import Call, Committer
from queue_core.stores.lmdb.environment import DURABILITY, Environment, acquire, release
from queue_core.stores.lmdb.records import LmdbRecords
from queue_core.task import Record, State

T = TypeVar("T")


class LmdbStore(EmbeddedStore):
    """One user of the process's handle on a directory."""

    def __init__(self, environment: Environment, clock: Clock) -> None:
        self.url = f"lmdb://{environment.path}"
        self.capabilities = Capabilities(
            durable=environment.durability != "none",
            multi_process=True,
            journal=True,
            history=True,
            plans=True,
        )
        self._environment = environment
        self._clock = clock
        self._closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise StoreGone(f"{self.url} was closed: open the queue again")

    @property
    def _committer(self) -> Committer:
        committer: Committer = self._environment.committer
        return committer

    def _write(self, operation: Operation[T], *, grows: int = 0) -> Done[T]:
        self._check_open()
        call = Call(operation, self._clock, grows)
        self._committer.run(call)
        return Done(call.result, call.logged)

    @contextmanager
    def _read(self) -> Iterator[Records]:
        self._check_open()
        with self._environment.reading() as txn:
            yield LmdbRecords(txn, self._clock(), {})  # the names known by now may be newer than this transaction

    def storage(self) -> Storage:
        self._check_open()
        return Storage(*self._environment.room())

    def mark(self) -> int:
        self._check_open()
        return self._environment.last_txnid()

    def wait(self, mark: int, timeout: float) -> None:
        self._check_open()
        self._committer.wait(mark, timeout)
        self._check_open()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._committer.stop_waiting()
            release(self._environment)

    # --- for check

    def _inventory(self, records: Records) -> Inventory:
        assert isinstance(records, LmdbRecords)
        problems: list[str] = []
        every = list(records.tags())
        names = {keys.name(tag.name): tag.number for tag in every}
        stored = {key: keys.unpack_tag(value) for key, value in records.range(keys.NAME)}
        if names != stored:
            problems.append("the names of the tags are not those of the name index")
        return Inventory(
            meta=records.meta,
            tags=every,
            records=_tasks(records, problems),
            buckets=[bucket for tier in range(len(TIERS)) for _, bucket in records.buckets(tier)],
            past=records.past(),
            touched=records.touched(),
            eligible={keys.tag_number(key) for key, _ in records.range(keys.ELIGIBLE)},
            timers={number: at for at, number in (keys.timer_parts(key) for key, _ in records.range(keys.TIMER))},
            holders=[(keys.dedupe_tag(key), id) for key, id in records.range(keys.DEDUPE)],
            journal=_journal(records),
            problems=problems,
            groups=list(records.groups()),
            group_tags={
                (key[1:9], keys.tag_number(key)): keys.unpack_count(data) for key, data in records.range(keys.GROUP_TAG)
            },
        )


def _journal(records: LmdbRecords) -> Iterator[tuple[int, Entry]]:
    blocks = ((keys.number(key), codec.decode_entries(data)) for key, data in records.range(keys.JOURNAL))
    return chain.from_iterable(enumerate(entries, first) for first, entries in blocks)


def _tasks(records: LmdbRecords, problems: list[str]) -> Iterator[Record]:
    """Every task, each held against its index entries; then the indexes against their number."""
    seen = dict.fromkeys(State, 0)
    for key, data in records.range(keys.TASK):
        try:
            record = codec.decode_record(data)
        except StoreCorrupt as error:
            problems.append(f"the task at {key.hex()} does not decode: {error}")
            continue
        seen[record.state] += 1
        if keys.task_of(record) != key:
            problems.append(f"task {record.id.hex()} is stored where it does not belong")
        if records.raw(keys.id(record.id)) != keys.location(record):
            problems.append(f"the id of task {record.id.hex()} does not point to it")
        if record.state is State.DEAD and (record.group or not records.meta.grouped):
            in_group = keys.grouped(record.group, record.entry)
            if records.raw(in_group) != keys.pack_tag(record.tag):
                problems.append(f"dead letter {record.id.hex()} is not in the index of its error group")
        index = keys.index_of(record)
        if index is not None and records.raw(index) != keys.pack_tag(record.tag):
            problems.append(f"task {record.id.hex()} is {record.state} and not in that index")
        yield record
    for state, prefix in keys.INDEX.items():
        entries = sum(1 for _ in records.range(prefix))
        if entries != seen[state]:
            problems.append(f"the index of {state} has {entries} entries for {seen[state]} tasks")
    entries = sum(1 for _ in records.range(keys.GROUPED))
    if entries != seen[State.DEAD] and not records.meta.grouped:
        problems.append(f"the index of error groups has {entries} entries for {seen[State.DEAD]} dead letters")
    ids = sum(1 for _ in records.range(keys.ID))
    if ids != sum(seen.values()):
        problems.append(f"there are {ids} ids for {sum(seen.values())} tasks")


def open_lmdb(
    path: str, clock: Clock, *, durability: str = "full", busy_timeout: float = 10.0, map_size: int | None = None,
    max_size: int | None = None, create: bool = True,
) -> LmdbStore:  # fmt: skip
    """Open, or with ``create`` make, the store in a directory.

    ``durability``: "full" (flushed when a verb returns), "relaxed" (a power cut may undo the last commits), "none"
    (tests only). The map starts at ``map_size`` bytes and grows by itself up to ``max_size`` (1 TiB each unless
    given: address space, not disk). ``busy_timeout``: seconds to wait for the write lock before StoreBusy.
    """
    if durability not in DURABILITY:
        raise InvalidArgument(f"durability is {durability!r}: it is one of {', '.join(DURABILITY)}")
    options = {
        "durability": durability, "map_size": map_size, "max_size": max_size, "busy_timeout": busy_timeout,
    }  # fmt: skip
    environment = acquire(path, create, options)
    try:
        if environment.committer is None:
            environment.committer = Committer(environment)
        store = LmdbStore(environment, clock)
        _prepare(environment, store, clock)
    except BaseException:
        release(environment)
        raise
    return store


def _prepare(environment: Environment, store: LmdbStore, clock: Clock) -> None:
    """Look whether the store is ours, and of our format; a new one gets its first record. Reads, unless it is new."""
    try:
        with environment.reading() as txn:
            data: Any = txn.get(keys.META)
            empty = data is None and txn.stat(environment.lmdb.open_db())["entries"] == 0
    except lmdb.Error as error:
        raise environment.translate(error) from error
    if data is None and not empty:
        raise StoreCorrupt(f"{environment.path} is an LMDB store of another program: choose another directory")
    if data is None:
        store._write(lambda tx: setattr(tx.meta, "created", tx.meta.created or clock()))
        return
    found = codec.decode_meta(data).format
    if found > FORMAT:
        raise StoreVersion(f"{environment.path} has format {found}; this queue_core knows {FORMAT}: upgrade queue_core")
    if found < FORMAT:
        store._write(upgrade)
    with store._read() as tx:
        left = tx.meta.grouped
    if left:
        with suppress(StoreFull, StoreBusy):  # it can be used as it is, and whoever opens it next goes on
            while store._write(group).result:
                pass
