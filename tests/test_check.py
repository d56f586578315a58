"""check() finds what is broken: each test breaks a sound store in one way."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import pytest
from msgspec.structs import replace

from queue_core import Finding, Queue, codec, keys, open_queue
from queue_core.ledger import Counts, Meta, Past, Totals
from queue_core.rotation import Turn
from queue_core.series import FINE, compose, row_of
from queue_core.stores.memory import MemoryRecords, MemoryStore
from queue_core.task import State


def fill(queue: Queue) -> None:
    """A task in every state, a key that is held, an interval that runs, and something eligible."""
    queue.configure("a", min_interval=3_600)
    queue.push_many([(i, tag) for i in range(3) for tag in "abc"])
    queue.push("later", tag="b", delay=60, dedupe_key="k")
    one, two, three = queue.lease_many(3)
    queue.dead_letter(one, "no")
    queue.purge(queue.dead_letter(two, "no").id)
    queue.heartbeat(three)
    assert queue.check() == []


def records(queue: Queue) -> MemoryRecords:
    store = queue._store
    assert isinstance(store, MemoryStore)
    return store._core.records


def change(state: State, **fields: Any) -> Callable[[MemoryRecords], None]:
    """Change a task of the state behind the store's back."""

    def act(found: MemoryRecords) -> None:
        old = next(record for record in found._tasks.values() if record.state is state)
        found._put(old, replace(old, **fields))

    return act


def drop(state: State) -> Callable[[MemoryRecords], None]:
    """Lose a task, with its index entries."""
    return lambda found: found._put(next(r for r in found._tasks.values() if r.state is state), None)


def lose_entry(found: MemoryRecords) -> None:
    for (state, _), entries in found._ordered.items():
        if state is State.INFLIGHT:
            entries.clear()


def unfair(found: MemoryRecords) -> None:
    leases = [entry for _, entry in found._journal if entry.kind == "lease"]
    last = leases[-1]
    for step, tag in enumerate((1, 1, last.tag), 1):
        entry = replace(last, tag=tag, serve=last.serve + step, since=0)
        found.meta.events += 1
        found._journal.append((found.meta.events, entry))


def past(found: MemoryRecords) -> Past:
    assert found._past is not None
    return found._past


ACKED = codec.encode(Totals(acked=1))
CLOSED = compose(0, FINE, 0, {}, row_of(Totals(pushed=1), Counts(), 0, 0))

BREAKS: dict[str, tuple[int, str, Callable[[MemoryRecords], object]]] = {
    "a task that is lost": (2, "a full count gives", drop(State.PENDING)),
    "a dead task that is lost": (2, "a full count gives", drop(State.DEAD)),
    "an index entry that is lost": (1, "no such task|not those in all|in no index", lose_entry),
    "an unknown tag": (1, "which is not known", change(State.DEAD, tag=99)),
    "a lease without holder": (1, "is inflight and its lease is None", change(State.INFLIGHT, hold=None)),
    "attempts without leases": (5, "counts 9 attempts of", change(State.PENDING, attempts=9)),
    "an attempt that is lost": (5, "0 closed attempts after 1 leases", change(State.DEAD, history=())),
    "a version never given": (1, "never given out", change(State.PENDING, version=10**9)),
    "a key without its task": (1, "dedupe keys", lambda found: found._set_holder(1, "x", bytes(16))),
    "a key that nobody holds": (1, "dedupe keys", lambda found: found._holders.clear()),
    "a wrong head": (4, "takes place 1 for its next", lambda found: setattr(found._tags[2], "head", 1)),
    "a tag that is never served": (3, "view of it is not its state", lambda found: found._ready.clear()),
    "a tag that is served though paused": (3, "view of it", lambda found: setattr(found._tags[2], "paused", True)),
    "a timer that never ends": (3, "not the one in the index", lambda found: found._timers.clear()),
    "an unknown tag in the rotation": (3, "and not known", lambda found: found._ready.add(99)),
    "a cursor outside": (3, "outside the ring", lambda found: setattr(found.meta, "turn", Turn(99))),
    "a counter of a tag": (2, "tag 'b' counts", lambda found: found._tags[2].counts.add(State.DEAD, 1)),
    "a counter of the queue": (2, "the queue counts", lambda found: found.meta.counts.add(State.PENDING, 1)),
    "a total": (2, "total acked of the queue", lambda found: setattr(found.meta.totals, "acked", 1)),
    "a negative total": (2, "is negative", lambda found: setattr(found._tags[1].totals, "nacked", -1)),
    "a push that is not counted": (6, "came", lambda found: setattr(found._tags[1].totals, "pushed", 0)),
    "a gap in the journal": (7, "has a gap", lambda found: found._journal.pop(3)),
    "an unfair serve": (3, "eligible throughout", unfair),
    "a remainder": (
        7,
        "the buckets and their remainder sum pushed to 11",
        lambda found: setattr(past(found).expired, "pushed", 1),
    ),
    "a bucket too many": (7, "and their remainder sum", lambda found: found._put_bucket(0, 9, CLOSED)),
    "a tag's part of a bucket": (
        7,
        "part of the open bucket",
        lambda found: setattr(found._tags[1].measured, "mark", ACKED),
    ),
    "a tag that did nothing": (7, "list of tags that have changed", lambda found: found._touched.pop(1)),
    "a history without a past": (7, "nothing is known of what is older", lambda found: setattr(found, "_past", None)),
    "a histogram": (2, "histogram of waits", lambda found: setattr(found._tags[1].measured, "waits", {5: 9})),
    "what was forgotten": (2, "total acked of the queue", lambda found: setattr(past(found).forgotten, "acked", 1)),
    "the ring's end": (3, "the ring ends at tag number 9", lambda found: setattr(found.meta, "end_tag", 9)),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_invariant_is_found(name: str) -> None:
    invariant, message, act = BREAKS[name]
    with open_queue("memory://") as queue:
        fill(queue)
        act(records(queue))
        findings = queue.check()
    assert any(
        finding.invariant == invariant and any(part in finding.message for part in message.split("|"))
        for finding in findings
    ), findings


def test_findings_of_a_kind_are_limited() -> None:
    with open_queue("memory://") as queue:
        queue.push_many([("x", str(i)) for i in range(300)])
        records(queue)._ready.clear()
        findings = queue.check()
    assert len([finding for finding in findings if finding.invariant == 3]) == 100
    assert isinstance(findings[0], Finding)


@contextmanager
def opened(path: Path) -> Iterator[lmdb.Transaction]:
    """The files without the engine."""
    with lmdb.open(str(path), max_dbs=0, map_size=1 << 30) as environment, environment.begin(write=True) as txn:
        yield txn


SPACES = [
    "TASK",
    "ID",
    "DEDUPE",
    "JOURNAL",
    "ELIGIBLE",
    "TIMER",
    "EXPIRY",
    "DUE",
    "DEAD",
    "TRASH",
    "NAME",
    "PAST",
    "TOUCHED",
]


@pytest.mark.parametrize("space", SPACES)
def test_every_lost_key_of_an_lmdb_store_is_found(tmp_path: Path, space: str) -> None:
    with open_queue(tmp_path) as queue:
        fill(queue)
    with opened(tmp_path) as txn:
        cursor = txn.cursor()
        assert cursor.set_range(getattr(keys, space))
        assert bytes(cursor.key()).startswith(getattr(keys, space))
        assert txn.delete(cursor.key())
    with open_queue(tmp_path) as queue:
        assert queue.check() != []


@pytest.mark.parametrize("space", ["EXPIRY", "DUE", "DEAD", "TRASH", "ELIGIBLE", "TIMER", "DEDUPE", "ID"])
def test_every_extra_key_of_an_lmdb_store_is_found(tmp_path: Path, space: str) -> None:
    with open_queue(tmp_path) as queue:
        fill(queue)
    with opened(tmp_path) as txn:
        cursor = txn.cursor()
        cursor.set_range(getattr(keys, space))
        key, value = bytes(cursor.key()), cursor.value()
        assert txn.put(key[:-1] + bytes([key[-1] ^ 0x40]), value, overwrite=False)
    with open_queue(tmp_path) as queue:
        assert queue.check() != []


def test_a_task_that_does_not_decode_is_reported_with_its_key(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        fill(queue)
    with opened(tmp_path) as txn:
        cursor = txn.cursor()
        cursor.set_range(keys.TASK)
        key = cursor.key()
        txn.put(key, b"\x01garbage")
    with open_queue(tmp_path) as queue:
        assert any(f"the task at {key.hex()} does not decode" in finding.message for finding in queue.check())


def test_a_changed_counter_of_an_lmdb_store_is_found(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        fill(queue)
    with opened(tmp_path) as txn:
        meta: Meta = codec.decode_meta(bytes(txn.get(keys.META) or b""))
        meta.counts.dead += 1
        txn.put(keys.META, codec.encode(meta))
    with open_queue(tmp_path) as queue:
        assert [finding.invariant for finding in queue.check()] == [2, 6]
