"""Records that do not decode, and how many LMDB calls a verb makes: each gives up the GIL."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import pytest

from queue_core import Finding, State, Undecodable, keys, open_queue
from queue_core.stores.lmdb import environment


def damage(store: Path, key: bytes, data: bytes) -> None:
    with lmdb.open(str(store)) as env, env.begin(write=True) as txn:
        assert txn.get(key) is not None
        txn.put(key, data)


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x09garbage", b"\x01\xff\x00\xc1", b"\x01" + b"\x00" * 300])
def test_a_pending_record_that_does_not_decode_is_set_aside_with_its_bytes(tmp_path: Path, data: bytes) -> None:
    with open_queue(tmp_path) as queue:
        bad = queue.push("bad", tag="a", dedupe_key="k")
        for number in range(5):
            queue.push(number, tag="a")
    damage(tmp_path, keys.task(1, State.PENDING, bad.place), data)
    with open_queue(tmp_path) as queue:
        assert [lease.payload for lease in queue.lease_many(10)] == list(range(5))
        (dead,) = queue.tasks("dead")
        assert dead.id == bad.id
        assert isinstance(dead.payload, Undecodable)
        assert dead.payload.data == data
        assert dead.reason is not None
        assert "does not decode" in dead.reason
        assert queue.push("good", tag="a", dedupe_key="k").payload == "good"
        assert queue.check() == []
        queue.purge(dead.id)
        queue.expunge(dead.id)
        assert queue.check() == []


def test_a_scheduled_and_an_expired_record_that_do_not_decode_are_set_aside(tmp_path: Path) -> None:
    now = 1_000_000_000_000_000
    with open_queue(tmp_path, clock=lambda: now) as queue:
        later = queue.push("later", delay=5)
        queue.push("held")
        held = queue.lease(ttl=5)
        assert held is not None
        due, place = later.record.due, later.place
    damage(tmp_path, keys.task(1, State.SCHEDULED, due, place), b"\x01no")
    damage(tmp_path, keys.task(1, State.INFLIGHT, held.task.place), b"\x01no")
    with open_queue(tmp_path, clock=lambda: now + 6_000_000) as queue:
        queue.push("good")
        assert [lease.payload for lease in queue.lease_many(10)] == ["good"]
        assert {task.id for task in queue.tasks("dead")} == {later.id, held.id}
        assert queue.check() == []


def test_a_dead_letter_that_does_not_decode_leaves_its_error_group(tmp_path: Path, clock: Any) -> None:
    """Retention comes upon it; it is dead still, of another error."""
    with open_queue(tmp_path, clock=clock) as queue:
        tasks = [queue.push(n, tag="acme") for n in range(2)]
        for task in tasks:
            queue.dead_letter(task.id, "boom")
        queue.configure(dead_retention=60)
        entry = queue.get(tasks[0].id).record.entry
    damage(tmp_path, keys.task(1, State.DEAD, entry), b"\x01no")
    with open_queue(tmp_path, clock=clock) as queue:
        for _ in range(2):
            clock.advance(100)
            queue.push("x")
        assert queue.check() == []
        groups = {group.text: group.count for group in queue.groups() if group.count}
        assert "boom" not in groups


def test_check_finds_what_is_missing_or_too_much(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        queue.push("one", tag="a", dedupe_key="k")
        queue.push("two", tag="b", delay=60)
        queue.lease()
    with lmdb.open(str(tmp_path)) as env:
        with env.begin() as txn:
            every = list(txn.cursor())
        for key, value in every:
            if key == keys.META or key[:1] == keys.JOURNAL:
                continue
            with env.begin(write=True) as txn:
                txn.delete(key)
            found = _check(tmp_path, env)
            assert found, f"removing {key.hex()} is not noticed"
            with env.begin(write=True) as txn:
                txn.put(key, value)
        assert _check(tmp_path, env) == []


def _check(store: Path, env: lmdb.Environment) -> list[Finding]:
    """Check through the handle that is open already: LMDB allows one a process."""
    from queue_core.check import check
    from queue_core.stores.lmdb.records import LmdbRecords
    from queue_core.stores.lmdb.store import LmdbStore

    with env.begin() as txn:
        return check(LmdbStore._inventory(None, LmdbRecords(txn, 0, {})))  # type: ignore[arg-type]


# --- calls ------------------------------------------------------------------------------------------


class Counted:
    """Stands before a transaction or a cursor and counts the calls into LMDB."""

    def __init__(self, inner: Any, calls: Counter[str]) -> None:
        self._inner = inner
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self._calls[name] += 1
            result = method(*arguments, **options)
            return Counted(result, self._calls) if name == "cursor" else result

        return call


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    calls: Counter[str] = Counter()
    begin = environment.Environment._begin
    with monkeypatch.context() as patch:
        patch.setattr(environment.Environment, "_begin", lambda *given: Counted(begin(*given), calls))
        yield calls


GIVES_UP_THE_GIL = {"get", "set_range", "putmulti", "delete", "commit", "next", "prev", "last", "put"}


def test_a_verb_makes_few_lmdb_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside begin and the lock; each call may wait for the GIL while the host-wide write lock is held."""
    with open_queue(tmp_path) as queue:
        for number in range(30):
            queue.push(number, tag="abc"[number % 3])
        first = queue.lease()
        assert first is not None

        def calls_of(verb: Any) -> int:
            with counting(monkeypatch) as calls:
                verb()
            return sum(count for name, count in calls.items() if name in GIVES_UP_THE_GIL)

        assert calls_of(lambda: queue.push(1, tag="a")) == 2  # one putmulti, commit
        assert calls_of(lambda: queue.lease(ack=first)) <= 12
        assert calls_of(queue.snapshot) <= 16
        small, large = (calls_of(lambda n=n: queue.push_many([(1, "a")] * n)) for n in (1, 500))
        assert small == large
        assert queue.check() == []
