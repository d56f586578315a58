"""Verify: of a backup, of a store that goes on, and of what has changed or is of another format."""

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import lmdb
import pytest
from backups import busy, leftovers

from queue_core import InvalidArgument, Queue, StoreCorrupt, StoreVersion, Undecodable, codec, keys, open_queue
from queue_core.backup import Backup, backup, restore, verify
from queue_core.backup.records import read, silent
from queue_core.ledger import FORMAT


@pytest.fixture
def stored(tmp_path: Path) -> Any:
    with open_queue(tmp_path / "queue") as queue:
        yield queue
        assert queue.check() == []


# --- verify ---


def test_verify_tells_of_a_backup_and_of_a_store_that_goes_on(stored: Queue, tmp_path: Path) -> None:
    busy(stored)
    taken = backup(stored, tmp_path / "backup")
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            stored.ack_many([lease for lease in [stored.lease()] if lease is not None])
            stored.push("more", tag="a")

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        for target in (tmp_path / "backup", tmp_path / "queue", stored.url):
            found = verify(target)
            assert found.faults == ()
            assert (found.backup == taken) == (target == tmp_path / "backup")
            assert (found.tasks or 0) > 200
            assert (found.tags or 0) >= 11
            assert found.unreadable == 0
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def test_verify_reads_a_files_store_and_refuses_memory(tmp_path: Path) -> None:
    with open_queue(f"files://{tmp_path}/files") as queue:
        queue.push_many([(1, "a"), (2, "b")])
    found = verify(f"files://{tmp_path}/files")
    assert (found.sound, found.tasks, found.tags, found.backup) == (True, 2, 2, None)
    with pytest.raises(InvalidArgument, match="in the memory of a process"):
        verify("memory://x")


def test_a_payload_that_is_not_json_is_counted(tmp_path: Path) -> None:
    with open_queue(tmp_path / "damaged") as queue:
        task = queue.push("marked payload", tag="a")
    file = tmp_path / "damaged" / "data.mdb"
    file.write_bytes(file.read_bytes().replace(b'"marked payload"', b'"marked payload}'))
    found = verify(tmp_path / "damaged")
    assert (found.sound, found.tasks, found.unreadable) == (True, 1, 1)
    with open_queue(tmp_path / "damaged") as queue:
        assert isinstance(queue.get(task.id).payload, Undecodable)
        assert queue.check() == []


@pytest.mark.parametrize("damage", ["bit", "cut", "longer", "empty", "manifest", "no json", "swapped"])
def test_a_backup_that_has_changed_is_not_restored(stored: Queue, tmp_path: Path, damage: str) -> None:
    busy(stored)
    backup(stored, tmp_path / "backup")
    file, manifest = tmp_path / "backup" / "data.mdb", tmp_path / "backup" / "backup.json"
    data = file.read_bytes()
    match damage:
        case "bit":
            file.write_bytes(data[:-1000] + bytes([data[-1000] ^ 1]) + data[-999:])
        case "cut":
            file.write_bytes(data[:-4096])
        case "longer":
            file.write_bytes(data + b"\0")
        case "empty":
            file.write_bytes(b"")
        case "manifest":
            manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"last_version": 1}))
        case "no json":
            manifest.write_bytes(manifest.read_bytes()[:50])
        case "swapped":
            stored.push("more")
            backup(stored, tmp_path / "other")
            shutil.copyfile(tmp_path / "other" / "data.mdb", file)
    found = verify(tmp_path / "backup")
    assert "checksum" in {fault.part for fault in found.faults}
    with pytest.raises(StoreCorrupt):
        restore(tmp_path / "backup", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
    assert leftovers(tmp_path) == []


# --- other formats ---


def rewritten(directory: Path, number: int) -> None:
    """The backup claims to be of another format, and is whole."""
    with lmdb.open(str(directory), map_size=1 << 30) as env, env.begin(write=True) as txn:
        meta = codec.decode_meta(txn.get(keys.META) or b"")
        meta.format = number
        txn.put(keys.META, codec.encode(meta))
    (directory / "lock.mdb").unlink()
    manifest = json.loads((directory / "backup.json").read_text())
    manifest["bytes"], manifest["blake2b"] = read(str(directory / "data.mdb"), silent)
    (directory / "backup.json").write_text(json.dumps(manifest))


def test_a_backup_of_an_older_format_is_upgraded_when_it_is_restored(stored: Queue, tmp_path: Path) -> None:
    stored.push_many([(n, "a") for n in range(3)])
    backup(stored, tmp_path / "backup")
    rewritten(tmp_path / "backup", FORMAT - 1)
    assert verify(tmp_path / "backup").sound
    assert verify(tmp_path / "backup").tasks == 3
    restore(tmp_path / "backup", tmp_path / "restored")
    with open_queue(tmp_path / "restored") as queue:
        assert queue.counts().pending == 3
        assert queue.check() == []
    assert verify(tmp_path / "backup").sound, "it was not written"


def test_a_backup_of_a_newer_format_needs_a_newer_queue_core(stored: Queue, tmp_path: Path) -> None:
    backup(stored, tmp_path / "backup")
    rewritten(tmp_path / "backup", FORMAT + 1)
    for call in (lambda: verify(tmp_path / "backup"), lambda: restore(tmp_path / "backup", tmp_path / "restored")):
        with pytest.raises(StoreVersion, match="upgrade queue_core"):
            call()
    assert not (tmp_path / "restored").exists()


def test_the_manifest_reads_back(tmp_path: Path, stored: Queue) -> None:
    stored.push(1)
    taken = backup(stored, tmp_path / "backup")
    assert Backup.read(str(tmp_path / "backup")) == taken
    assert Backup.read(str(tmp_path)) is None
    assert taken.bytes == (tmp_path / "backup" / "data.mdb").stat().st_size
    assert taken.taken_at.tzinfo is not None


def test_progress_goes_up_to_the_end(stored: Queue, tmp_path: Path) -> None:
    stored.push_many(["x" * 1_000] * 5_000)
    told: list[tuple[int, int]] = []
    taken = backup(stored, tmp_path / "backup", told=lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (2 * taken.bytes, 2 * taken.bytes)
    assert len(told) > 10
