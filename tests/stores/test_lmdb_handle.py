"""One handle per directory and process: opened twice, replaced, forked."""

import os
import shutil
from pathlib import Path

import lmdb
import msgspec
import pytest
from breaking import in_child, pushing

from queue_core import (
    InvalidArgument,
    StoreCorrupt,
    StoreError,
    StoreGone,
    StoreVersion,
    codec,
    keys,
    open_queue,
)
from queue_core.ledger import Counts, Meta, Totals


def test_a_second_open_by_any_path_shares_one_counted_handle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "q")
    by_path, relative, by_link = open_queue(tmp_path / "q"), open_queue("q"), open_queue("lmdb://link")
    by_path.push(1)
    by_path.close()
    relative.push(2)
    relative.close()
    assert by_link.counts().pending == 2
    with pytest.raises(StoreGone, match="was closed"):
        relative.push(3)
    assert by_link.check() == []
    by_link.close()
    with open_queue("q") as again:
        assert again.counts().pending == 2


def test_two_durabilities_in_one_process_are_refused(tmp_path: Path) -> None:
    with open_queue(tmp_path), pytest.raises(InvalidArgument, match="open in this process with durability='full'"):
        open_queue(tmp_path, durability="none")


def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="one of full, relaxed, none"):
        open_queue(tmp_path, durability="much")


def test_opening_what_is_not_there_without_create(tmp_path: Path) -> None:
    with pytest.raises(StoreGone, match="there is no store at"):
        open_queue(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()


def test_a_path_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidArgument, match="is a file: a queue is a directory"):
        open_queue(tmp_path / "file")
    with pytest.raises(StoreError, match="cannot be made"):
        open_queue("/proc/queue")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_file_that_is_not_lmdb_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"certainly not a database" * 1000)
    with pytest.raises(StoreCorrupt, match="not a readable LMDB file"):
        open_queue(tmp_path)


def test_another_programs_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as env, env.begin(write=True) as txn:
        txn.put(b"theirs", b"1")
    with pytest.raises(StoreCorrupt, match="another program"):
        open_queue(tmp_path)
    with lmdb.open(str(tmp_path)) as env, env.begin() as txn:
        assert list(txn.cursor()) == [(b"theirs", b"1")]


def test_a_newer_format_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as env, env.begin(write=True) as txn:
        txn.put(keys.META, codec.encode(Meta(Counts(), Totals(), format=99)))
    with pytest.raises(StoreVersion, match="format 99; this queue_core knows 3: upgrade queue_core"):
        open_queue(tmp_path)


def test_a_store_of_format_1_is_upgraded_when_it_is_opened(tmp_path: Path) -> None:
    """Before there was history: shorter records, and nothing of what is older."""
    with open_queue(tmp_path) as queue:
        queue.push_many([(n, tag) for n in range(3) for tag in "ab"])
        queue.ack_many(queue.lease_many(2))
    with lmdb.open(str(tmp_path)) as env, env.begin(write=True) as txn:
        for key, value in list(txn.cursor()):
            if key == keys.META or key[:1] == keys.TAG:
                fields = msgspec.msgpack.decode(value[1:])
                fields = [*fields[:2], 1, *fields[3:24]] if key == keys.META else fields[:18]
                txn.put(key, b"\x01" + msgspec.msgpack.encode(fields))
            elif key[:1] in (keys.PAST, keys.TOUCHED, keys.BUCKET):
                txn.delete(key)
    with open_queue(tmp_path) as queue:
        assert queue.check() == []
        before = queue.series()
        assert (before.buckets, before.remainder.pushed, before.remainder.acked) == ((), 6, 2)
        queue.push(1, tag="c")
        assert [lease.tag for lease in queue.lease_many(4)] == list("abca")
        times = queue.snapshot().waits
        assert (times.count, times.sum) == (4, pytest.approx(4 * (times.mean or 0))), "of these leases alone"
        assert times.sum < 60
        assert queue.series().remainder.pushed == 6
        assert queue.series().whole("pushed") == [1]
        assert queue.check() == []


def test_an_older_queue_core_cannot_write_a_store_that_was_upgraded(tmp_path: Path) -> None:
    """It would cut off what it does not know; it takes the version byte of the records for damage."""
    with open_queue(tmp_path) as queue:
        queue.push(1, tag="a")
    with lmdb.open(str(tmp_path)) as env, env.begin() as txn:
        assert ((txn.get(keys.META) or b"")[:1], (txn.get(keys.tag(1)) or b"")[:1]) == (b"\x03", b"\x02")


def test_a_store_that_is_upgraded_while_it_is_open_is_left_alone(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        queue.push(1)
        with queue._store._environment.writing() as txn:  # type: ignore[attr-defined]
            meta = codec.decode_meta(txn.get(keys.META) or b"")
            meta.format = 99
            txn.put(keys.META, codec.encode(meta))
            txn.commit()
        for verb in (lambda: queue.push(2), queue.lease, queue.snapshot):
            with pytest.raises(StoreVersion, match="format 99"):
                verb()


@pytest.mark.parametrize("replace", [False, True])
def test_a_removed_or_replaced_directory_is_store_gone(tmp_path: Path, replace: bool) -> None:
    store = tmp_path / "q"
    queue = open_queue(store)
    queue.push(1)
    shutil.rmtree(store)
    if replace:
        fresh = open_queue(store)
    for verb in (lambda: queue.push(2), queue.lease, queue.snapshot, queue.storage, lambda: queue.lease(wait=5)):
        with pytest.raises(StoreGone, match="removed or replaced"):
            verb()
    queue.close()
    if replace:
        assert fresh.counts().pending == 0
        fresh.push(3)
        assert fresh.check() == []
        fresh.close()


def test_a_directory_that_goes_while_its_room_is_asked_is_store_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "q"
    queue = open_queue(store)
    told = os.statvfs

    def late(path: str) -> os.statvfs_result:
        shutil.rmtree(store)
        return told(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "statvfs", late)
        with pytest.raises(StoreGone, match="removed or replaced"):
            queue.storage()
    queue.close()


# --- fork -----------------------------------------------------------------------------------------


def test_a_forked_child_has_a_handle_of_its_own(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        queue.push("parent")
        assert in_child(lambda: queue.lease().payload == "parent" and queue.push("child")) == 0
        assert queue.counts().inflight == 1
        assert queue.lease().payload == "child"
        assert queue.check() == []


def test_a_fork_waits_for_the_transactions_of_other_threads(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        with pushing(queue):
            for _ in range(5):
                assert in_child(lambda: queue.push("child").id and not queue.check()) == 0
        assert queue.check() == []


def test_the_forked_childs_close_leaves_the_parent_alone(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        assert in_child(lambda: queue.push(1) and not queue.close()) == 0
        queue.push(2)
        assert in_child(lambda: open_queue(tmp_path).counts().pending == 2) == 0
        assert queue.check() == []
