"""Backup and restore that end early, or run while everybody works: nothing half is ever taken for whole."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from queue_core import LeaseLost, Queue, StoreError, open_queue
from queue_core.backup import backup, placing, restore, verify
from queue_core.stores.lmdb import backup as copying

TASKS = 3_000


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Queue]:
    with open_queue(tmp_path / "queue") as queue:
        queue.push_many([("x" * 1_000, f"tag{n % 5}") for n in range(TASKS)])
        queue.lease_many(100)
        yield queue
        assert queue.check() == []


def leftovers(directory: Path) -> list[Path]:
    return [path for path in directory.iterdir() if path.name.startswith(placing.UNFINISHED)]


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed(work: Callable[[], object]) -> None:
    """Run it in a forked child, which is to be killed in it."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            work()
        os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), "it went on to its end"
    assert os.WTERMSIG(status) == signal.SIGKILL


def dying_at(share: float) -> Callable[[int, int], None]:
    """Progress that ends at a share of the bytes."""
    return lambda done, total: die() if done >= share * total else None


MOMENTS: dict[str, tuple[object, str]] = {
    "before the flush": (placing, "flush"),
    "before the rename": (os, "rename"),
    "before the new epoch": (copying, "begin_epoch"),
    "before the lock files go": (os, "unlink"),
}


# --- killed ---


@pytest.mark.parametrize("moment", [0.01, 0.3, 0.5, 0.99, "before the flush", "before the rename"])
def test_a_backup_that_was_killed_is_never_taken_for_one(
    stored: Queue, tmp_path: Path, moment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        if isinstance(moment, str):
            monkeypatch.setattr(*MOMENTS[moment], die)
            backup(stored, tmp_path / "backup")
        else:
            backup(stored, tmp_path / "backup", told=dying_at(moment))

    killed(work)
    assert not (tmp_path / "backup").exists()
    assert len(leftovers(tmp_path)) == 1
    backup(stored, tmp_path / "backup")
    assert leftovers(tmp_path) == [], "what the dead one left goes with the next"
    assert verify(tmp_path / "backup").sound


@pytest.mark.parametrize("moment", [0.01, 0.6, 1.0, *MOMENTS])
def test_a_restore_that_was_killed_leaves_no_store(
    stored: Queue, tmp_path: Path, moment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup(stored, tmp_path / "backup")

    def work() -> None:
        if isinstance(moment, str):
            monkeypatch.setattr(*MOMENTS[moment], die)
            restore(tmp_path / "backup", tmp_path / "restored")
        else:
            restore(tmp_path / "backup", tmp_path / "restored", told=dying_at(moment))

    killed(work)
    assert not (tmp_path / "restored").exists()
    done = restore(tmp_path / "backup", tmp_path / "restored")
    assert (done.epoch, done.requeued) == (1, 100)
    assert leftovers(tmp_path) == []
    with open_queue(tmp_path / "restored") as queue:
        assert queue.counts().pending == TASKS
        assert queue.check() == []


def test_what_is_being_made_is_left_alone_by_others(stored: Queue, tmp_path: Path) -> None:
    during: list[int] = []

    def meanwhile(done: int, total: int) -> None:
        if not during:
            during.append(len(leftovers(tmp_path)))
            backup(stored, tmp_path / "second")

    backup(stored, tmp_path / "first", told=meanwhile)
    assert during == [1]
    assert verify(tmp_path / "first").sound
    assert verify(tmp_path / "second").sound
    assert leftovers(tmp_path) == []


def test_it_appears_after_all_of_it_is_on_the_disk(
    stored: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes of the files, then their names, then the directory's own name."""
    happened: list[tuple[str, str]] = []
    flush, rename = placing.flush, os.rename
    monkeypatch.setattr(placing, "flush", lambda path: (happened.append(("flush", Path(path).name)), flush(path)))
    monkeypatch.setattr(os, "rename", lambda old, new: (happened.append(("rename", Path(new).name)), rename(old, new)))
    backup(stored, tmp_path / "backup")
    unfinished = happened[2][1]
    assert sorted(happened[:2]) == [("flush", "backup.json"), ("flush", "data.mdb")]
    assert unfinished.startswith(placing.UNFINISHED)
    assert happened[2:] == [("flush", unfinished), ("rename", "backup"), ("flush", tmp_path.name)]


# --- interrupted ---


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("share", [0.01, 0.4, 0.8])
def test_an_interrupted_backup_leaves_nothing(
    stored: Queue, tmp_path: Path, error: type[BaseException], share: float
) -> None:
    def interrupt(done: int, total: int) -> None:
        if done >= share * total:
            raise error

    before = threading.active_count()
    with pytest.raises(error):
        backup(stored, tmp_path / "backup", told=interrupt)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["queue"]
    assert threading.active_count() == before
    stored.push("it goes on")
    backup(stored, tmp_path / "backup")
    assert verify(tmp_path / "backup").tasks == TASKS + 1


def test_a_target_that_appears_meanwhile_is_not_overwritten(stored: Queue, tmp_path: Path) -> None:
    def appear(done: int, total: int) -> None:
        (tmp_path / "backup").mkdir(exist_ok=True)
        (tmp_path / "backup" / "mine").write_text("mine")

    with pytest.raises(StoreError, match="cannot be made"):
        backup(stored, tmp_path / "backup", told=appear)
    assert [path.name for path in (tmp_path / "backup").iterdir()] == ["mine"]
    assert leftovers(tmp_path) == []


def test_a_store_that_is_closed_meanwhile_waits_for_the_copy(tmp_path: Path) -> None:
    queue = open_queue(tmp_path / "queue")
    queue.push_many(["x" * 1_000] * 1_000)
    closing = threading.Thread(target=queue.close)

    def close(done: int, total: int) -> None:
        if not closing.ident:
            closing.start()

    backup(queue, tmp_path / "backup", told=close)
    closing.join(30)
    assert not closing.is_alive()
    assert verify(tmp_path / "backup").tasks == 1_000
    with open_queue(tmp_path / "queue") as queue:
        assert queue.check() == []


# --- no room ---


LIMITED = """
    import os, resource, signal, sys
    from queue_core import StoreFull, open_queue
    from queue_core.backup import backup, restore
    what, source, target, limit = sys.argv[1:]
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open_queue(source + "/queue") as queue:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
        try:
            if what == "backup":
                backup(queue, target)
            else:
                restore(source + "/backup", target)
        except StoreFull as error:
            assert "has no room" in str(error), error
            assert queue.check() == []
            sys.exit(7)
"""


@pytest.mark.parametrize("what", ["backup", "restore"])
@pytest.mark.parametrize("limit", [1, 100_000, 1_000_000])
def test_a_disk_without_room_is_store_full_and_nothing_is_left(
    stored: Queue, tmp_path: Path, what: str, limit: int
) -> None:
    backup(stored, tmp_path / "backup")
    (tmp_path / "disk").mkdir()
    command = [sys.executable, "-c", textwrap.dedent(LIMITED), what, tmp_path, tmp_path / "disk" / "target", str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    assert list((tmp_path / "disk").iterdir()) == []
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


# --- while everybody works ---


WORK = """
    import sys
    from queue_core import open_queue
    queue = open_queue(sys.argv[1])
    owner, number = sys.argv[2], 0
    held = []
    while True:
        number += 1
        queue.push_many([({"owner": owner, "number": number, "text": "x" * 300}, f"tag{number % 50}")] * 3)
        held += queue.lease_many(2, ttl=3600, owner=owner)
        if len(held) > 20:
            queue.ack_many(held[:10])
            queue.nack(held[10], "no")
            queue.dead_letter(held[11], "enough")
            held = held[12:]
        print(held[0].token, flush=True)
"""


@contextlib.contextmanager
def working(path: Path, number: int, tokens: Path) -> Iterator[list[Path]]:
    """Processes that push, lease and settle, each printing a token that it holds."""
    files = [tokens / f"tokens{n}" for n in range(number)]
    processes = []
    try:
        for n, file in enumerate(files):
            command = [sys.executable, "-c", textwrap.dedent(WORK), str(path), f"worker{n}"]
            with open(file, "w") as output:
                processes.append(subprocess.Popen(command, stdout=output))
        until(lambda: all(file.stat().st_size > 1_000 for file in files))
        yield files
        assert all(process.poll() is None for process in processes), "a worker has ended"
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_backup_while_four_processes_work_is_one_moment_of_them(tmp_path: Path) -> None:
    with open_queue(tmp_path / "queue") as queue, working(tmp_path / "queue", 4, tmp_path) as files:
        queue.push_many([("x" * 1_000, "before") for _ in range(5_000)])
        first = queue.snapshot().totals
        for number in range(3):
            backup(queue, tmp_path / f"backup{number}")
        last = queue.snapshot().totals
        assert verify(tmp_path / "queue").faults == ()
        held = [file.read_text().splitlines()[-2] for file in files]
    with open_queue(tmp_path / "queue") as queue:
        assert queue.check() == []
    before = first
    for number in range(3):
        restore(tmp_path / f"backup{number}", tmp_path / f"restored{number}")
        with open_queue(tmp_path / f"restored{number}") as queue:
            assert queue.check() == []
            totals, counts = queue.snapshot().totals, queue.counts()
            assert before.pushed <= totals.pushed <= last.pushed
            assert before.acked <= totals.acked <= last.acked
            assert totals.pushed == totals.acked + counts.all
            assert counts.inflight == 0
            for token in held:
                with pytest.raises(LeaseLost):
                    queue.heartbeat(token)
            before = totals
    assert first.pushed < last.pushed, "nobody worked meanwhile"
