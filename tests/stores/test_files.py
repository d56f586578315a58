"""What a person sees in the directory of a files store, does to it, and may not reach through it."""

import json
import os
import re
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest
from browsing import NOW, lease_of, opened, tasks, uuid

from queue_core import (
    Finding,
    LeaseLost,
    Queue,
    StoreCorrupt,
    Undecodable,
)
from queue_core.stores.files import names
from queue_core.task import SECOND

# --- what a person sees -----------------------------------------------------------------------------


def test_ls_and_cat_tell_where_and_what_a_task_is(path: Path, queue: Queue) -> None:
    queue.push({"url": "https://example.org", "n": 2**70}, tag="example.org", id=UUID(int=1), dedupe_key="k")
    queue.push("later", tag="a/b", id=UUID(int=2), delay=60)
    queue.push("next", tag="example.org", id=UUID(int=3))
    queue.push("no", tag="a/b", id=UUID(int=4))
    queue.dead_letter(uuid(4), "refused by\nhand")
    assert tasks(path) == [
        f"dead/000000002-a_b/000000/000/000000000005-{uuid(4)}.json",
        f"pending/000000001-example.org/000000/000/000000000001-{uuid(1)}.json",
        f"pending/000000001-example.org/000000/000/000000000003-{uuid(3)}.json",
        f"scheduled/000000002-a_b/001750000/060/001750000060000000-000000000002-{uuid(2)}.json",
    ]
    lease = queue.lease(owner="worker-1", ttl=30)
    assert lease is not None
    held = path / "inflight" / "000000001-example.org" / f"000000000001-{uuid(1)}.json"
    assert os.readlink(path / "ids" / "01" / uuid(1)) == "inflight/000000001/000000000001", "an id says so"
    nonce = f"{lease.hold.nonce:016x}"
    expected = """{
  "id": "00000000-0000-0000-0000-000000000001",
  "tag": "example.org",
  "state": "inflight",
  "payload": {"url":"https://example.org","n":1180591620717411303424},
  "attempts": 1,
  "max_attempts": 5,
  "error": null,
  "reason": null,
  "created": "2025-06-15T15:06:40.000000Z",
  "pending_since": "2025-06-15T15:06:40.000000Z",
  "due": null,
  "lease": {"fence": 1, "nonce": "NONCE", "owner": "worker-1", "leased": "2025-06-15T15:06:40.000000Z", "beat": "2025-06-15T15:06:40.000000Z", "expires": "2025-06-15T15:07:10.000000Z", "ttl": 30000000},
"""  # noqa: E501 - as it is
    assert held.read_text().startswith(expected.replace("NONCE", nonce))
    queue.nack(lease, "boom", retry_in=5)
    (retry,) = (path / "scheduled" / "000000001-example.org").rglob("*.json")
    (attempt,) = json.loads(retry.read_text())["history"]
    assert (attempt["owner"], attempt["outcome"], attempt["error"]) == ("worker-1", "nacked", "boom")
    dead = json.loads(next((path / "dead").rglob("*.json")).read_text())
    assert (dead["reason"], dead["entered"]) == ("refused by\nhand", "2025-06-15T15:06:40.000000Z")
    assert queue.check() == []


def test_the_records_of_the_queue_and_of_tags_can_be_read(path: Path, queue: Queue) -> None:
    queue.configure("acme", weight=3, min_interval=2)
    queue.push_many([(1, "acme"), (2, "other")])
    meta = json.loads((path / "queue.json").read_text())
    assert meta["counts"] == {"pending": 2, "scheduled": 0, "inflight": 0, "dead": 0, "trash": 0}
    assert (meta["totals"]["pushed"], meta["created"]) == (2, "2025-06-15T15:06:40.000000Z")
    tag = json.loads((path / "tags" / "000000" / "000000001-acme.json").read_text())
    assert (tag["name"], tag["weight"], tag["min_interval"], tag["counts"]["pending"]) == ("acme", 3, 2_000_000, 1)
    assert sorted(os.listdir(path / "eligible" / "000000")) == ["000000001-acme", "000000002-other"]
    assert "Files of your own are left alone" in (path / "README.txt").read_text()
    assert queue.check() == []


ODD = ["", ".", "..", "a/b", "../../etc/passwd", "A", "a", "\0", "\n", "🙂", "con", ".hidden", "-rf", "é" * 100,
       "x" * 65_535, "a" * 24, "a" * 25, "nul\0", "~", "a b"]  # fmt: skip


def test_every_tag_is_a_safe_directory_of_its_own(path: Path, queue: Queue) -> None:
    queue.push_many([(i, tag) for i, tag in enumerate(ODD)])
    found = sorted(os.listdir(path / "pending"))
    assert len({name.lower() for name in found}) == len(ODD)
    assert all(re.fullmatch(r"\d{9}(-[A-Za-z0-9._-]{1,24})?", name) for name in found)
    assert [name[10:] for name in found][:7] == ["", ".", "..", "a_b", ".._.._etc_passwd", "A", "a"]
    assert [lease.tag for lease in queue.lease_many(len(ODD))] == ODD
    assert queue.requeue_inflight() == len(ODD)
    assert [queue.tasks("pending", tag=tag).items[0].payload for tag in ODD] == list(range(len(ODD)))
    assert sorted(os.listdir(path.parent)) == ["queue"]
    assert queue.check() == []


def test_directories_that_are_empty_go(path: Path, queue: Queue) -> None:
    for number in range(3):
        queue.push(number, tag=f"t{number}", dedupe_key="k", delay=number)
    queue.dead_letter(queue.lease_many(1)[0], "no")
    for task in [*queue.tasks("dead"), *queue.tasks("scheduled")]:
        (queue.purge if task.state == "dead" else queue.cancel)(task.id)
        queue.expunge(task.id)
    for name in ("pending", "scheduled", "inflight", "dead", "trash", "keys"):
        assert os.listdir(path / name) == []
    assert [os.listdir(path / "order" / name) for name in os.listdir(path / "order")] == []
    assert queue.check() == []


def test_places_of_more_than_a_directory_come_in_order(queue: Queue) -> None:
    """Shards of a thousand places: sorted by number, also where a tag has few in each."""
    queue.push_many([(number, "abc"[number % 3]) for number in range(2_500)])
    queue.push_many([(number, "b") for number in range(2_500, 2_510)])
    page = queue.tasks("pending", limit=10_000)
    assert [task.payload for task in page] == list(range(2_510))
    assert [task.payload for task in queue.tasks("pending", limit=3, reverse=True)] == [2509, 2508, 2507]
    assert [task.payload for task in queue.tasks("pending", tag="b", limit=3, reverse=True)] == [2509, 2508, 2507]
    assert queue.explain(page.items[-1].id).ahead == 833 + 9
    assert [lease.payload for lease in queue.lease_many(2_500)][-1] == 2_499
    assert queue.check() == []


# --- what cannot be reached -------------------------------------------------------------------------


def test_tokens_are_no_paths(path: Path, queue: Queue) -> None:
    outside = path.parent / "outside.json"
    outside.write_text("mine")
    queue.push("x")
    lease = queue.lease()
    assert lease is not None
    before = {file: (path / file).read_bytes() for file in tasks(path)}
    hexes = lease.token.split(".")[0]
    attacks = [
        str(outside), "../outside.json", f"../../{outside.name}", f"{path}/queue.json", "queue.json", "redo",
        f"inflight/000000001/000000000001-{lease.id}.json", f"000000000001-{lease.id}.json", lease.id,
        lease.token.upper(), f"{lease.token} ", f"./{lease.token}", f"{hexes}.01.{lease.token.split('.')[2]}",
        f"{hexes}/../{lease.token}", f"\0{lease.token}", f"{lease.token}\n",
    ]  # fmt: skip
    for token in attacks:
        for verb in (queue.ack, queue.heartbeat, queue.release, lambda token: queue.nack(token, "no")):
            with pytest.raises(LeaseLost):
                verb(token)
        with pytest.raises(LeaseLost):
            queue.lease(ack=token)
    assert {file: (path / file).read_bytes() for file in tasks(path)} == before
    assert outside.read_text() == "mine"
    assert sorted(os.listdir(path.parent)) == ["outside.json", "queue"]
    queue.ack(lease.token)
    assert queue.check() == []


def test_links_out_of_the_directory_are_not_followed(path: Path, queue: Queue) -> None:
    secret = path.parent / "secret.json"
    secret.write_text('{"payload": "secret"}')
    task = queue.push("x", id=UUID(int=1))
    link = path / "ids" / "02" / uuid(2)
    link.parent.mkdir()
    link.symlink_to(secret)
    (path / "pending" / "000000001" / "000000" / "000" / f"000000000009-{uuid(2)}.json").symlink_to(secret)
    assert queue.get(task.id).payload == "x"
    with pytest.raises(Exception, match="no task"):
        queue.get(uuid(2))
    assert [lease.payload for lease in queue.lease_many(5)] == ["x"]
    assert secret.read_text() == '{"payload": "secret"}'


def test_a_link_in_a_tasks_place_is_not_followed(path: Path, queue: Queue) -> None:
    secret = path.parent / "secret.json"
    queue.push("x", tag="a")
    file = path / tasks(path)[0]
    file.rename(secret)
    file.symlink_to(secret)
    kept = secret.read_bytes()
    assert list(queue.tasks("pending")) == []
    assert queue.lease() is None
    assert (queue.counts().all, queue.snapshot().totals.expunged) == (0, 1), "as if its file had been removed"
    assert secret.read_bytes() == kept
    assert not file.is_symlink()
    assert queue.check() == []


# --- files of others, and damage --------------------------------------------------------------------


def test_foreign_files_are_left_alone_and_stop_nothing(path: Path, queue: Queue) -> None:
    queue.push_many([(number, "a") for number in range(3)])
    queue.push("later", tag="a", delay=60)
    queue.dead_letter(queue.push("no", tag="b").id, "no")
    queue.lease_many(1)
    copy = next((path / "pending").rglob("*.json"))
    directories = [file for file in [path, *path.rglob("*")] if file.is_dir() and not file.is_symlink()]
    for directory in directories:
        if directory != path / names.NEW:  # that one is the store's own
            (directory / ".DS_Store").write_bytes(b"\0\1")
            (directory / "notes.txt").write_text("mine")
            (directory / f"{copy.name}~").write_text("a backup")
            (directory / "2024 archive").mkdir()
    foreign = sorted(str(file) for file in path.rglob("*") if file.name in (".DS_Store", "notes.txt", "2024 archive"))
    assert queue.check() == []
    assert [lease.payload for lease in queue.lease_many(10)] == [1, 2]
    queue.ack_many([lease_of(task) for task in queue.tasks("inflight")])
    queue.redrive(next(iter(queue.tasks("dead"))).id)
    assert queue.snapshot().pending == 1
    assert queue.check() == []
    assert foreign == sorted(
        str(file) for file in path.rglob("*") if file.name in (".DS_Store", "notes.txt", "2024 archive")
    )


def test_a_copy_in_a_tasks_place_is_nobodys_task(path: Path, queue: Queue) -> None:
    """Somebody brings back the file of a task that is done: its id points nowhere."""
    queue.push("x", tag="a")
    file = path / tasks(path)[0]
    data = file.read_bytes()
    queue.ack_many(queue.lease_many(1))
    file.parent.mkdir(parents=True)
    file.write_bytes(data)
    queue.push("y", tag="a")
    assert [lease.payload for lease in queue.lease_many(5)] == ["y"]
    assert file.read_bytes() == data
    (finding,) = queue.check()
    assert "somebody's copy" in finding.message
    file.unlink()
    assert queue.check() == []


DAMAGE = [b"", b"{", b"\0" * 500, b'{"id": 1}', b"null", b"not json at all", b"\xff\xfe", b"[" * 100_000]


@pytest.mark.parametrize("data", DAMAGE, ids=range(len(DAMAGE)))
def test_a_file_that_does_not_decode_is_set_aside_with_its_bytes(path: Path, queue: Queue, data: bytes) -> None:
    bad = queue.push("bad", tag="a", dedupe_key="k")
    for number in range(3):
        queue.push(number, tag="a")
    (path / tasks(path)[0]).write_bytes(data)
    assert next(iter(queue.tasks("pending"))).id == bad.id, "reading moves nothing"
    assert queue.get(bad.id).record.payload == data
    assert queue.get(bad.id).pending_since is None, "it cannot be told"
    assert [lease.payload for lease in queue.lease_many(10)] == list(range(3))
    (dead,) = queue.tasks("dead")
    assert (dead.id, dead.tag) == (bad.id, "a")
    assert dead.record.payload == data
    assert isinstance(dead.payload, Undecodable) or json.loads(data) == dead.payload
    assert "does not decode" in (dead.reason or "")
    assert queue.snapshot().totals.dead_lettered == 1
    assert queue.push("good", tag="a", dedupe_key="k").payload == "good"
    assert queue.check() == []
    queue.purge(dead.id)
    assert queue.check() == []
    queue.expunge(dead.id)
    assert queue.check() == []


def cut(file: Path) -> bytes:
    data = file.read_bytes()[:-20]
    file.write_bytes(data)
    return data


def test_cut_off_files_in_every_state_stop_nothing(path: Path) -> None:
    now = NOW
    with opened(path, clock=lambda: now) as queue:
        for number in range(10):
            queue.push(number, tag="a", id=UUID(int=number + 1))
        queue.push("later", tag="b", delay=5, id=UUID(int=20))
        queue.lease_many(1, ttl=5)
        for number in (3, 4):
            queue.dead_letter(uuid(number), "no")
        queue.purge(uuid(4))
        before = {file: cut(path / file) for file in tasks(path)}
        assert len(before) == 11
        assert queue.lease_many(3) == []
        assert queue.counts().pending == 0
        now += 6 * SECOND
        good = queue.push("good", tag="a")
        assert [lease.payload for lease in queue.lease_many(9)] == ["good"]
        kept = {task.id: task.payload.data for state in ("dead", "trash") for task in queue.tasks(state)}
        assert sorted(kept.values()) == sorted(before.values())
        messages = [finding.message for finding in queue.check()]
        assert sum("does not decode" in message for message in messages) == 2, "those that were dead already"
        queue.redrive(uuid(3))
        queue.expunge(uuid(4))
        assert queue.get(uuid(3)).state == "pending"
        assert queue.lease_many(9) == [], "what no worker can read is set aside again"
        assert queue.get(uuid(3)).payload.data == kept[uuid(3)]
        assert queue.requeue_inflight() == 1
        assert queue.get(good.id).state == "pending"
        assert queue.check() == []


def test_a_person_may_edit_a_payload(path: Path, queue: Queue) -> None:
    task = queue.push({"n": 1}, tag="a")
    file = path / tasks(path)[0]
    document = json.loads(file.read_text()) | {"payload": {"n": [2, "é"]}, "max_attempts": 1}
    file.write_text(json.dumps(document, indent=4))
    assert queue.get(task.id).payload == {"n": [2, "é"]}
    lease = queue.lease()
    assert lease is not None
    assert queue.nack(lease, "no").state == "dead"
    assert queue.check() == []


def test_a_person_may_edit_when_a_lease_ends(path: Path) -> None:
    now = NOW
    with opened(path, clock=lambda: now) as queue:
        queue.push("x", tag="a")
        queue.lease(ttl=600)
        file = path / tasks(path)[0]
        file.write_text(file.read_text().replace("2025-06-15T15:16:40", "2025-06-15T15:36:40"))
        now += 601 * SECOND
        assert queue.lease() is None
        now += 1200 * SECOND
        assert queue.lease() is not None
        assert queue.check() == []


def test_a_task_whose_file_was_removed_is_written_off(path: Path, queue: Queue) -> None:
    for number in range(3):
        queue.push(number, tag="a", dedupe_key=f"k{number}")
    queue.push("later", tag="a", delay=1)
    kept = queue.push("other", tag="b")
    for file in tasks(path):
        if "000000001-a" in file:
            (path / file).unlink()
    assert [lease.payload for lease in queue.lease_many(10)] == ["other"]
    assert queue.get(kept.id).state == "inflight"
    with opened(path, clock=lambda: NOW + 2 * SECOND) as later:
        assert later.lease() is None
        assert (later.counts().all, later.snapshot().totals.expunged) == (1, 4)
        assert later.push("again", tag="a", dedupe_key="k0").payload == "again"
        assert later.check() == []


def remove(file: Path) -> bytes | str:
    """What it held: bytes, or where it pointed to."""
    kept: bytes | str = os.readlink(file) if file.is_symlink() else file.read_bytes()
    file.unlink()
    return kept


def test_check_finds_what_is_missing(path: Path, queue: Queue) -> None:
    queue.push("one", tag="a", dedupe_key="k")
    queue.push("two", tag="b", delay=60)
    queue.push("three", tag="c", dedupe_key="k")
    queue.configure("c", min_interval=60)
    queue.lease_many(2)
    queue.push("four", tag="a")
    ours = {names.LOCK, names.TURN, names.REDO, names.RESERVE, names.README, names.QUEUE, names.PAST}
    every = [file for file in path.rglob("*") if not file.is_dir() and file.name not in ours]
    kinds = Counter(file.relative_to(path).parts[0] for file in every)
    assert kinds == {
        "ids": 4, "pending": 1, "scheduled": 1, "inflight": 2, "order": 3, "tags": 3, "names": 3, "keys": 2,
        "eligible": 1, "timers": 1,
    }  # fmt: skip
    for file in every:
        kept = remove(file)
        found: list[Finding] | list[str]
        try:
            found = queue.check()
        except StoreCorrupt as error:
            found = [str(error)]
        assert found, f"removing {file} is not noticed"
        if isinstance(kept, str):
            file.symlink_to(kept)
        else:
            file.write_bytes(kept)
    assert queue.check() == []


def test_a_record_of_the_queue_that_cannot_be_read_is_named(path: Path, queue: Queue) -> None:
    queue.push(1, tag="a")
    tag = path / "tags" / "000000" / "000000001-a.json"
    data = tag.read_bytes()
    tag.write_bytes(data[:50])
    with pytest.raises(StoreCorrupt, match=r"tags/000000/000000001-a.json cannot be read.*repair it by hand"):
        queue.lease()
    tag.write_bytes(data)
    (path / "queue.json").rename(path / "queue.json~")
    with pytest.raises(StoreCorrupt, match=r"queue.json is missing: restore it"):
        queue.push(2)
    (path / "queue.json~").rename(path / "queue.json")
    assert queue.check() == []
