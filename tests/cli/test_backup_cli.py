"""queue-core backup, restore and verify."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from terminal import ended, program, run
from waiting import until

from queue_core import Queue, keys, open_queue
from queue_core.backup.placing import UNFINISHED
from queue_core.cli.backup import size
from queue_core.stores.lmdb.pages import Pages


@pytest.fixture
def filled(queue: Queue) -> Queue:
    queue.push_many([(n, f"tag{n % 3}") for n in range(1_234)])
    queue.lease_many(5)
    return queue


def test_there_and_back_in_words(filled: Queue, tmp_path: Path) -> None:
    target, store = str(tmp_path / "monday"), str(tmp_path / "restored")
    told = run("backup", target)
    assert told.stdout == ""
    assert re.fullmatch(rf"Backed up 1,234 tasks of 3 tags to {target}: [\d.]+ kB in [\d.]+ s\.\n", told.stderr)
    told = run("verify", target)
    assert told.stdout == ""
    assert re.fullmatch(
        rf"Sound: the backup {target}, 1,234 tasks, 3 tags, [\d.]+ kB, read in [\d.]+ s\.\n", told.stderr
    )
    told = run("restore", target, "--to", store)
    assert f"Restored 1,234 tasks of 3 tags to {store}, epoch 1, in " in told.stderr
    assert told.stderr.endswith("5 tasks that had been in flight are pending again.\n")
    assert run("verify", store).stderr.startswith(f"Sound: the store {store}, 1,234 tasks, 3 tags, ")
    assert run("verify").stderr.startswith(f"Sound: the store {os.environ['QUEUE_URL']}, 1,234 tasks")
    with open_queue(store) as queue:
        assert queue.counts().pending == 1_234
        assert queue.check() == []


def test_there_and_back_in_json(filled: Queue, tmp_path: Path) -> None:
    target, store = str(tmp_path / "monday"), str(tmp_path / "restored")
    taken = json.loads(run("backup", target, "--json").stdout)
    assert (taken["path"], taken["store"], taken["tags"], taken["counts"]["inflight"]) == (target, "queue", 3, 5)
    assert taken["bytes"] == (tmp_path / "monday" / "data.mdb").stat().st_size
    found = json.loads(run("verify", target, "--json").stdout)
    assert (found["sound"], found["tasks"], found["faults"]) == (True, 1_234, [])
    assert found["backup"]["blake2b"] == taken["blake2b"]
    done = json.loads(run("restore", target, "--to", store, "--json").stdout)
    assert (done["path"], done["epoch"], done["requeued"]) == (store, 1, 5)
    assert done["backup"] == found["backup"]
    found = json.loads(run("verify", "--url", f"lmdb://{store}", "--json").stdout)
    assert (found["sound"], found["backup"], found["path"]) == (True, None, store)


def test_faults_are_printed_one_a_line_and_end_with_1(filled: Queue, tmp_path: Path) -> None:
    run("backup", str(tmp_path / "monday"))
    file = tmp_path / "monday" / "data.mdb"
    data = file.read_bytes()
    file.write_bytes(data[:40_960] + b"\xff" * 4_096 + data[45_056:])
    told = run("verify", str(tmp_path / "monday"), code=1)
    lines = told.stdout.splitlines()
    assert lines[0] == "checksum: data.mdb holds other bytes than were written"
    assert len(lines) > 1
    assert all(line.startswith("structure: ") for line in lines[1:])
    assert f"Not sound: {len(lines)} faults in the backup" in told.stderr
    told = run("verify", str(tmp_path / "monday"), "--json", code=1)
    found = json.loads(told.stdout)
    assert (found["sound"], found["tasks"], len(found["faults"])) == (False, None, len(lines))
    assert "is not sound" in run("restore", str(tmp_path / "monday"), "--to", str(tmp_path / "x"), code=4).stderr
    assert not (tmp_path / "x").exists()


def test_the_way_out_of_a_damaged_store(filled: Queue, tmp_path: Path) -> None:
    """As it is written: verify, move it away, restore the last backup, go on."""
    store = tmp_path / "queue"
    run("backup", str(tmp_path / "monday"))
    filled.push("lost")
    data = (store / "data.mdb").read_bytes()
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "data.mdb").write_bytes(data[:20_000])
    assert "brings the last backup back" in run("stats", "--url", str(damaged), code=4).stderr
    assert run("verify", str(damaged), code=1).stdout.startswith("file: ")
    assert "move this one away" in run("restore", str(tmp_path / "monday"), "--to", str(damaged), code=2).stderr
    damaged.rename(tmp_path / "damaged.old")
    run("restore", str(tmp_path / "monday"), "--to", str(damaged))
    assert json.loads(run("stats", "--url", str(damaged), "--json").stdout)["pending"] == 1_234
    run("check", "--url", str(damaged))


def test_what_is_left_of_a_store_without_a_backup(filled: Queue, tmp_path: Path) -> None:
    new, damaged = str(tmp_path / "new"), str(tmp_path / "damaged")
    shutil.copytree(tmp_path / "queue", damaged)
    told = run("salvage", damaged, "--to", new)
    assert re.fullmatch(rf"Salvaged 1,234 tasks to {new} in [\d.]+ s: of 1,234 there were\.\n", told.stderr)
    file = tmp_path / "damaged" / "data.mdb"
    with Pages(str(file)) as pages:
        page = next(entry.page for entry in pages.entries() if entry.key.startswith(keys.TASK))
    data = file.read_bytes()
    file.write_bytes(data[: page * 4_096] + b"\xff" * 4_096 + data[(page + 1) * 4_096 :])
    told = run("salvage", damaged, "--to", str(tmp_path / "less"), "--json", code=1)
    done = json.loads(told.stdout)
    assert (done["whole"], done["expected"], done["damaged_pages"]) == (False, 1_234, 1)
    assert 1_200 < done["tasks"] < 1_234
    assert "Damaged: 1 page and 0 single entries; what stood there is not known." in told.stderr
    run("check", "--url", str(tmp_path / "less"))


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["backup", "."], 2, "not empty"),
        (["backup", "queue/inside"], 2, "in the directory of the store"),
        (["backup", "missing/x"], 2, "make it first"),
        (["backup", "x", "--url", "none"], 4, "no store at"),
        (["backup", "x", "--url", "memory://"], 2, "cannot be backed up"),
        (["backup"], 2, "Missing argument"),
        (["restore", "queue", "--to", "x"], 2, "is no backup"),
        (["restore", "none", "--to", "x"], 2, "is no backup"),
        (["restore", "queue"], 2, "--to"),
        (["salvage", "none", "--to", "x"], 4, "no file"),
        (["salvage", "queue", "--to", "queue"], 2, "not empty"),
        (["verify", "none"], 4, "no store and no backup at"),
        (["verify", "memory://"], 2, "memory of a process"),
    ],
)
def test_what_cannot_be_done_says_why(
    filled: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    told = run(*args, code=code)
    assert message in " ".join(told.stderr.split())
    assert told.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["queue"]


def test_restore_is_of_tasks_or_of_a_backup(filled: Queue, tmp_path: Path) -> None:
    trashed = filled.cancel(filled.tasks("pending", limit=1).items[0].id)
    assert run("restore", trashed.id).stderr.startswith("1 task restored")
    assert filled.get(trashed.id).state == "pending"
    tasks, backups = run("restore", "--help").stdout, run("restore", "--to", "x", "--help").stdout
    assert "restore BACKUP --to DIR" in tasks
    assert "queue-core restore /backups/monday --to /var/lib/app/queue" in backups


def test_a_backup_is_looked_into_by_its_own_commands_only(filled: Queue, tmp_path: Path) -> None:
    run("backup", str(tmp_path / "monday"))
    for args in (["stats"], ["check"], ["push", "-"]):
        told = run(*args, "--url", str(tmp_path / "monday"), code=2, stdin="1\n")
        assert "queue-core restore" in told.stderr
    run("verify", str(tmp_path / "monday"))


def test_ctrl_c_leaves_no_backup(filled: Queue, tmp_path: Path) -> None:
    filled.push_many(["x" * 100_000] * 300)
    process = program("backup", str(tmp_path / "monday"))
    until(lambda: any(path.name.startswith(UNFINISHED) for path in tmp_path.iterdir()))
    process.send_signal(signal.SIGINT)
    _, err = ended(process, 130)
    assert err == "Interrupted.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["queue"]


@pytest.mark.parametrize(
    ("bytes", "shown"),
    [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (4_700_000, "4.7 MB"), (120_000_000_000, "120 GB"),
     (1_500, "1.5 kB"), (2**70, "1,180,591,621 TB")],
)  # fmt: skip
def test_sizes_for_a_person(bytes: int, shown: str) -> None:
    assert size(bytes) == shown
