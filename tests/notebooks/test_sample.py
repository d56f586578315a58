"""The recorded sample: what ships is small, sound, and names nothing of a machine; a copy goes with its process."""

from __future__ import annotations

import argparse
import json.tool
import os
import re
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from queue_core import Item, Kind, Queue, StoreCorrupt, open_queue
from queue_core.backup import backup, verify
from queue_core.control import Operator
from queue_core.ledger import FORMAT, Counts, WorkerRecord
from queue_core.notebook import about, opened, record, sample
from queue_core.notebook.packing import HOST, packed, unpacked
from queue_core.notebook.sample import FRESH, PREFIX, RECORD
from queue_core.task import moment

MOST = 300 << 10  # bytes that ship
ABSOLUTE = re.compile(rb"(?<![\w.:/])/(?:[\w.-]+/)+[\w.-]*")
OWNER = re.compile(r"census:[0-9a-f]{8}|")


# --- what ships -------------------------------------------------------------------------------------------


def test_what_ships_is_small_and_names_nothing_of_a_machine() -> None:
    data = RECORD.read_bytes()
    assert len(data) <= MOST
    values = unpacked(data).values
    assert ABSOLUTE.search(b'File "/usr/lib/x.py"')
    assert [found for value in values for found in ABSOLUTE.findall(value)] == []
    with sample() as queue:
        workers, journal, plans = queue.snapshot().workers, queue.journal(limit=100_000), queue.plans()
        assert {worker.host for worker in workers} == {HOST}
        assert all(re.fullmatch(rf"ann at {HOST}:\d+", plan.runner) for plan in plans)
        assert all(
            OWNER.fullmatch(owner) for owner in [w.id for w in workers] + [event.owner or "" for event in journal]
        )
        assert queue.check() == []


def test_it_is_sound_of_the_present_format_and_has_something_of_everything() -> None:
    with sample() as queue:
        assert verify(queue.url).sound
        with queue.view() as view:
            assert view.reader.meta.format == FORMAT
            snapshot, counts, plans = view.snapshot(), view.counts(), view.plans()
            journal = view.journal(limit=100_000)
        assert min(getattr(counts, state) for state in Counts.__struct_fields__) > 0
        assert {str(plan.state) for plan in plans} == {"finished"}
        assert {event.kind for event in journal} >= {Kind.NACK, Kind.PROMOTE, Kind.EXPIRE, Kind.REDRIVE, Kind.PURGE}
        assert {tag.why_not for tag in snapshot.tags} >= {None, "paused", "empty"}
        assert len(queue.groups()) > 5
        silent = [snapshot.at - worker.seen_at for worker in snapshot.workers]
        assert min(silent) < timedelta(seconds=30) < max(silent)
        assert queue.check() == []


def test_its_clock_goes_on_from_when_it_was_recorded() -> None:
    at = moment(unpacked(RECORD.read_bytes()).at)
    with sample() as queue:
        snapshot = queue.snapshot()
        assert at <= snapshot.at < at + timedelta(seconds=20)
        assert queue.snapshot().at > snapshot.at
        assert snapshot.expired < snapshot.inflight
        assert max(tag.oldest_wait or 0 for tag in snapshot.tags) < 1_300
        told = f"A recorded sample of the census, recorded on {at:%Y-%m-%d} until {at:%H:%M} UTC"
        assert about(queue).startswith(told)
        task = queue.push({"n": 1}, tag="fresh")
        assert task.created_at < at + timedelta(seconds=20)
        assert queue.explain(task.id).turns > 0
        assert queue.check() == []


def test_two_samples_are_alike_and_a_second_call_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUEUE_URL", raising=False)
    first, second = opened(), sample()
    assert opened() is first
    assert first.url != second.url
    assert first.counts() == second.counts()
    assert first.groups() == second.groups()
    before = second.counts().all
    first.push(1)
    assert first.counts() != second.counts()
    for queue in (first, second):
        assert queue.check() == []
        queue.close()
    again = opened()
    assert again is not first
    assert again.counts().all == before
    again.close()


def test_what_is_recorded_names_files_from_where_they_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    for path in (json.tool.__file__, str(Path(pytest.__file__).with_name("__main__.py"))):
        named = record.scrub(path)
        assert not Path(named).is_absolute()
        record.measure(SimpleNamespace(payload={"path": named}, tag="acme"))
    with pytest.raises(ValueError, match=r"too long: \d,\d{3} lines"):
        record.measure(SimpleNamespace(payload={"path": record.scrub(argparse.__file__)}, tag="acme"))
    assert len(slept) == 3
    assert max(slept) <= 6.0


# --- a store as a file ------------------------------------------------------------------------------------


def test_a_store_as_a_file_and_back_is_the_same_but_for_what_is_scrubbed(tmp_path: Path) -> None:
    frames = '  File "/home/me/jobs.py", line 1, in do\n' * 40  # more than a group shows of an error
    trace = f"Traceback (most recent call last):\n{frames}ValueError: no\n"
    with open_queue(tmp_path / "queue") as queue:
        queue.push_many(Item({"n": n}, "ab"[n % 2], max_attempts=1 + n % 3) for n in range(20))
        for lease in queue.lease_many(6, owner="census"):
            queue.nack(lease, trace, retry_in=0)
        for lease in queue.lease_many(4):
            queue.dead_letter(lease, "see /home/me/src/lib/notes")
        queue.lease(ttl=600)
        queue.report(WorkerRecord("census", "my-machine", 1, 1, 1))
        ann = Operator(queue, "ann")
        ann.run(ann.plan("redrive", "tag:a", reason="mended").number)
        backup(queue, tmp_path / "backup")
        runner = queue.plans()[0].runner
        data = packed(tmp_path / "backup", 7, lambda text: text.replace("/home/me/", "").replace(runner, "somebody"))
        assert unpacked(data).at == 7
        (tmp_path / "again").mkdir()
        unpacked(data).pour(tmp_path / "again")
        with open_queue(tmp_path / "again", create=False) as again:
            assert everything(again) == everything(queue).replace("/home/me/", "").replace("my-machine", HOST).replace(
                runner, "somebody"
            )
            assert all("/home" not in group.error for group in again.groups())
            assert {group.said(str) for group in again.groups()} == {"ValueError: no", "see <path>"}
            assert again.check() == []
        assert queue.check() == []


def everything(queue: Queue) -> str:
    """What can be read of it but for times that go on."""
    states = [queue.tasks(state).items for state in Counts.__struct_fields__]
    groups = [(group.said(str), group.count, group.deaths, group.sample) for group in queue.groups()]
    workers = [(worker.id, worker.host, worker.pid) for worker in queue.snapshot().workers]
    plans, audit = queue.plans(), queue.audit()
    return repr(
        [[task.record for task in tasks] for tasks in states] + [queue.journal(), groups, workers, plans, audit]
    )


@pytest.mark.parametrize("data", [b"", b"no", packed.__doc__.encode()])
def test_what_is_no_recorded_sample_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(StoreCorrupt, match="install queue_core anew"):
        unpacked(data)


# --- where it is ------------------------------------------------------------------------------------------


def test_its_directory_goes_with_its_process_and_not_with_a_fork_of_it(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom queue_core.notebook import sample\nqueue = sample()\n"
        "if os.fork() == 0: sys.exit()\nassert os.wait()[1] == 0\n"
        "assert queue.counts().dead\nprint(*os.listdir(os.environ['TMPDIR']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"TMPDIR": str(tmp_path)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stdout.startswith(PREFIX), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_has_left_goes_with_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left, making, other = (tmp_path / name for name in (f"{PREFIX}left", f"{PREFIX}making", "other"))
    for directory in (left, making, other):
        directory.mkdir()
    with sample() as mine:
        held, old = Path(mine.url.removeprefix("lmdb://")), time.time() - 2 * FRESH
        for directory in (left, other, held):
            os.utime(directory, (old, old))
        sample().close()
        assert mine.check() == []
    assert {*tmp_path.iterdir()} >= {making, other, held}
    assert not left.exists()
