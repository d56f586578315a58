"""Stores of format 2, from before there were error groups, edits, plans and an audit, are upgraded when opened."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import msgspec
import pytest
from planned import planned, to_the_end, undone

from queue_core import Queue, QueueError, State, StoreBusy, codec, keys, open_queue
from queue_core.ledger import FORMAT, Meta, Past, Tag, Totals, WorkerRecord
from queue_core.series import Bucket
from queue_core.stores.base import PIECE, Change
from queue_core.stores.engine import upgrade
from queue_core.stores.lmdb import store
from queue_core.task import Attempt, Hold, Record, parse_id

RECORD, META = 23, 36  # fields in format 2
NEW_SPACES = (
    keys.GROUP, keys.GROUPED, keys.GROUP_TAG, keys.PLAN, keys.SELECTION, keys.RESULTS, keys.AUDIT,
)  # fmt: skip


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as path:
        yield Path(path)


def filled(url: str, dead: int) -> dict[str, list[str]]:
    """A store with tasks in every state; the ids by state. Each tenth dead letter is in the trash."""
    with open_queue(url, durability="none") as queue:
        queue.push_many([(n, "ab"[n % 2]) for n in range(dead)])
        for number, lease in enumerate(queue.lease_many(dead)):
            queue.dead_letter(lease, ("timeout after {} s", "no row {}", "boom")[number % 3].format(number))
        for task in queue.tasks("dead", limit=dead).items[::10]:
            queue.purge(task.id)
        queue.cancel(queue.push("cancelled", tag="c").id)
        queue.push("later", tag="c", delay=3600)
        queue.push("held", tag="c", dedupe_key="k")
        queue.lease(ttl=3600)
        queue.push("waits", tag="c")
        return {state: [task.id for task in queue.tasks(state, limit=10_000)] for state in State}


def as_it_was_in_lmdb(path: Path) -> None:
    """Shorter records, with the version bytes of then, and nothing of what is kept since."""
    with lmdb.open(str(path)) as env, env.begin(write=True) as txn:
        for key, value in list(txn.cursor()):
            if key[:1] in NEW_SPACES:
                txn.delete(key)
            elif key == keys.META or key[:1] == keys.TASK:
                fields = msgspec.msgpack.decode(value[1:])
                if key == keys.META:
                    fields[2] = 2
                byte, kept = (b"\x02", META) if key == keys.META else (b"\x01", RECORD)
                txn.put(key, byte + msgspec.msgpack.encode(fields[:kept]))


def as_it_was_in_files(path: Path) -> None:
    for file in path.rglob("*.json"):
        document = json.loads(file.read_bytes())
        for name in ("error_group", "edits", "groups", "plans", "audits", "plan_check"):
            document.pop(name, None)
        if "format" in document:
            document["format"] = 2
        file.write_text(json.dumps(document))


OLDER = {"lmdb": as_it_was_in_lmdb, "files": as_it_was_in_files}


@pytest.fixture(params=OLDER)
def url(request: pytest.FixtureRequest, directory: Path) -> str:
    return f"{request.param}://{directory}/queue"


def old_store(url: str, dead: int = 60) -> dict[str, list[str]]:
    """A store of format 2."""
    ids = filled(url, dead)
    kind, _, path = url.partition("://")
    OLDER[kind](Path(path))
    return ids


def change(queue: Queue, id: str, action: str, **asked: Any) -> None:
    queue.perform(lambda store: store.change(parse_id(id), Change(action, **asked)))


def groups(queue: Queue) -> dict[str, tuple[int, int, int]]:
    """Of each text: dead letters, their tags, deaths."""
    return {group.text: (group.count, group.tags, group.deaths) for group in queue.groups()}


def counted(queue: Queue, text: str) -> dict[str, int]:
    with queue.view() as view:
        return view.group_tags(next(group.fingerprint.hex() for group in view.groups() if group.text == text))


def test_its_dead_letters_are_in_groups_when_it_is_opened(url: str) -> None:
    ids = old_store(url)
    with open_queue(url, durability="none") as queue:
        assert queue.check() == []
        assert groups(queue) == {"timeout after <n> s": (18, 2, 18), "no row <n>": (18, 2, 18), "boom": (18, 2, 18)}
        assert {state: [task.id for task in queue.tasks(state, limit=10_000)] for state in State} == ids
        for group in queue.groups():
            died = [task for task in queue.tasks("dead", limit=100) if task.reason == group.error]
            assert group.sample == parse_id(died[-1].id)
            assert group.last == died[-1].record.entered
            with queue.view() as view:
                found, _ = view.reader.grouped(group.fingerprint, None, 100)
            assert len(found) == group.count
        with queue.view() as view:
            assert view.reader.meta.format == FORMAT


def test_it_works_as_any_other_from_then_on(url: str) -> None:
    ids = old_store(url)
    with open_queue(url, durability="none") as queue:
        boom = [task.id for task in queue.tasks("dead", limit=100) if task.reason == "boom"]
        queue.redrive(boom[0])
        queue.purge(boom[1])
        purged = [id for id in ids["trash"] if queue.get(id).reason == "boom"]
        assert queue.restore(purged[0]).state == State.DEAD
        queue.dead_letter(ids["pending"][0], "boom")
        change(queue, boom[2], "edit", payload=b'"new"')
        change(queue, boom[2], "move_tag", tag="z")
        deaths = 19 if queue.capabilities.plans else 18
        assert groups(queue)["boom"] == (18, 4, deaths)
        assert sum(counted(queue, "boom").values()) == 18
        assert counted(queue, "boom")["z"] == counted(queue, "boom")["c"] == 1
        assert queue.check() == []
    with open_queue(url, durability="none") as queue:
        assert (queue.get(boom[2]).payload, len(queue.get(boom[2]).record.edits)) == ("new", 1)
        assert groups(queue)["boom"] == (18, 4, deaths), "opened again, nothing is counted twice"
        assert queue.check() == []


def test_more_of_them_than_are_looked_at_in_one_go_come_into_groups(directory: Path) -> None:
    url = f"lmdb://{directory}/queue"
    old_store(url, 1_200)
    with open_queue(url, durability="none") as queue:
        assert sum(count for count, _, _ in groups(queue).values()) == queue.counts().dead == 1_080 > PIECE
        assert queue.check() == []


def test_whoever_comes_second_finds_it_done(url: str) -> None:
    old_store(url)
    with open_queue(url, durability="none") as queue:
        before = queue.groups()
        for again in (upgrade.upgrade, upgrade.group):
            queue._store._write(again)  # type: ignore[attr-defined]
        assert queue.groups() == before
        assert queue.check() == []


def test_what_is_in_trash_makes_no_group_before_it_is_restored(directory: Path) -> None:
    url = f"lmdb://{directory}/queue"
    with open_queue(url, durability="none") as queue:
        id = queue.dead_letter(queue.push("x").id, "no row 7").id
        queue.purge(id)
    as_it_was_in_lmdb(directory / "queue")
    with open_queue(url, durability="none") as queue:
        assert queue.groups() == []
        queue.restore(id)
        (found,) = queue.groups()
        assert (found.fingerprint, found.count, found.deaths) == (queue.get(id).record.group, 1, 0)
        assert found.first == found.last == queue.get(id).record.entered
        assert queue.check() == []


def test_a_dead_letter_that_does_not_decode_keeps_nothing_from_being_opened(directory: Path) -> None:
    url = f"lmdb://{directory}/queue"
    ids = old_store(url)
    with lmdb.open(f"{directory}/queue") as env, env.begin(write=True) as txn:
        key = next(key for key, _ in txn.cursor() if key[:1] == keys.TASK and keys.task_state(key) is State.DEAD)
        txn.put(key, b"\x01damaged")
    with open_queue(url, durability="none") as queue:
        assert sum(count for count, _, _ in groups(queue).values()) == len(ids["dead"]) - 1
        assert queue.tasks("dead").total == len(ids["dead"])
        assert any("does not decode" in finding.message for finding in queue.check())


@pytest.fixture
def halfway(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    """A store in which the first ten of its dead letters are in groups: then another held the lock for too long."""
    url = f"lmdb://{directory}/queue"
    old_store(url)
    turns = iter([True, False])

    def once(tx: Any) -> bool:
        if not next(turns):
            raise StoreBusy("somebody holds the lock")
        return upgrade.group(tx)

    with monkeypatch.context() as patch:
        patch.setattr(upgrade, "PIECE", 10)
        patch.setattr(store, "group", once)
        queue = open_queue(url, durability="none")
    yield queue
    assert queue.check() == []
    queue.close()
    with open_queue(url, durability="none") as queue:
        assert queue.check() == []
        assert sum(count for count, _, _ in groups(queue).values()) == queue.counts().dead
        assert all(task.record.group for task in queue.tasks("dead", limit=100))


def test_an_upgrade_that_was_held_up_is_gone_on_with_at_the_next_open(halfway: Queue) -> None:
    assert sum(count for count, _, _ in groups(halfway).values()) == 10
    assert halfway.check() == []


WAYS: dict[str, Callable[[Queue, str], object]] = {
    "redrive": lambda queue, id: queue.redrive(id),
    "purge": lambda queue, id: queue.purge(id),
    "back and forth": lambda queue, id: [queue.purge(id), queue.restore(id), queue.redrive(id)],
    "expunge": lambda queue, id: [queue.purge(id), queue.expunge(id)],
    "replace": lambda queue, id: queue.replace(queue.get(id), payload="new"),
    "push again": lambda queue, id: queue.push("new", tag=queue.get(id).tag, id=id),
    "edit": lambda queue, id: change(queue, id, "edit", payload=b"1"),
    "move_tag": lambda queue, id: change(queue, id, "move_tag", tag="z"),
    "retention": lambda queue, _: queue.configure(dead_retention=0),
    "plan": lambda queue, id: planned(queue, "purge", id),
    "plan of a move": lambda queue, id: planned(queue, "move_tag", id, tag="z"),
    "plan and undo": lambda queue, id: to_the_end(queue, undone(queue, planned(queue, "redrive", id).number).number),
}


@pytest.mark.parametrize("go", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("which", [0, -1])
def test_halfway_a_dead_letter_goes_any_way_whether_it_is_in_a_group_yet_or_not(
    halfway: Queue, which: int, go: Callable[[Queue, str], object]
) -> None:
    task = halfway.tasks("dead", limit=100).items[which]
    assert bool(task.record.group) == (which == 0)
    go(halfway, task.id)
    halfway.configure()
    assert halfway.check() == []


def test_a_store_of_an_older_day_with_no_dead_letters(url: str) -> None:
    with open_queue(url, durability="none") as queue:
        queue.push("x")
    kind, _, path = url.partition("://")
    OLDER[kind](Path(path))
    with open_queue(url, durability="none", create=False) as queue:
        assert queue.groups() == []
        queue.nack(queue.lease() or "", "boom 1", retry_in=0)
        assert queue.check() == []


# --- who may write


THEN: dict[Any, tuple[bytes, int]] = {  # the version byte of what was stored in format 2, and its fields
    Record: (b"\x01", 23), Attempt: (b"\x01", 7), Hold: (b"\x01", 7), Tag: (b"\x02", 19), Meta: (b"\x02", 36),
    Past: (b"\x01", 7), Totals: (b"\x01", 23), Bucket: (b"\x01", 5), WorkerRecord: (b"\x01", 9),
}  # fmt: skip


@pytest.mark.parametrize("kind", THEN)
def test_what_has_got_more_fields_is_written_with_another_byte(kind: Any) -> None:
    """An older queue_core would cut off fields that it does not know: it has to take the record for damaged."""
    byte, fields = THEN[kind]
    newest, grown = codec.VERSIONS.get(kind, codec.VERSION), len(kind.__struct_fields__) > fields
    assert newest > byte if grown else newest == byte


def test_a_queue_core_of_format_2_writes_nothing_into_a_store_of_today(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its codec knows version 2 of the queue's numbers and version 1 of tasks; to it ours are damaged or newer."""
    url = f"lmdb://{directory}/queue"
    with open_queue(url, durability="none") as queue:
        queue.dead_letter(queue.push("x").id, "boom")
    data = (directory / "queue" / "data.mdb").read_bytes()
    record = codec.encode(queue_record(url))
    monkeypatch.setattr(codec, "VERSIONS", {Meta: b"\x02", Tag: b"\x02"})
    with pytest.raises(QueueError):
        open_queue(url, durability="none")
    with pytest.raises(QueueError):
        codec.decode_record(record)
    assert (directory / "queue" / "data.mdb").read_bytes() == data


def queue_record(url: str) -> Record:
    with open_queue(url, durability="none") as queue:
        return queue.tasks("dead").items[0].record
