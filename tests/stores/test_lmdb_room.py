"""Room in the map, on the disk and among the readers, until there is none."""

import contextlib
import functools
import itertools
import os
import resource
import signal
import threading
from pathlib import Path

import pytest
from breaking import consume, process

from queue_core import (
    Queue,
    QueueError,
    StoreBusy,
    StoreFull,
    open_queue,
)


def test_the_map_grows_by_itself(tmp_path: Path) -> None:
    with open_queue(tmp_path, map_size=256 << 10, max_size=64 << 20) as queue:
        for _ in range(40):
            queue.push_many([("x" * 1000, "a")] * 50)
        assert queue.counts().pending == 2000
        assert queue.check() == []
    assert (tmp_path / "data.mdb").stat().st_size > 256 << 10


def test_the_map_grows_under_readers_and_writers(tmp_path: Path) -> None:
    with open_queue(tmp_path, map_size=256 << 10, max_size=64 << 20) as queue:
        errors: list[BaseException] = []
        stop = threading.Event()

        def read() -> None:
            try:
                while not stop.is_set():
                    queue.snapshot()
            except BaseException as error:
                errors.append(error)

        def write() -> None:
            try:
                for _ in range(15):
                    queue.push_many([("x" * 1000, "a")] * 50)
            except BaseException as error:
                errors.append(error)

        readers, writers = ([threading.Thread(target=work) for _ in range(2)] for work in (read, write))
        for thread in readers + writers:
            thread.start()
        for thread in writers:
            thread.join()
        stop.set()
        for thread in readers:
            thread.join()
        assert errors == []
        assert queue.counts().pending == 1500
        assert queue.check() == []


def test_a_map_grown_by_another_process_is_adopted_by_two_threads(tmp_path: Path) -> None:
    with open_queue(tmp_path, map_size=256 << 10, max_size=64 << 20) as queue:
        queue.push("first")
        code = """
            import sys
            from queue_core import open_queue
            queue = open_queue(sys.argv[1], map_size=64 << 20)
            for _ in range(10):
                queue.push_many([("x" * 1000, "b")] * 200)
            print("ready", flush=True)
        """
        with process(code, tmp_path) as child:
            child.wait(30)
        leases: list[object] = []
        threads = [threading.Thread(target=lambda: leases.append(queue.lease())) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(leases) == 2
        assert None not in leases
        assert queue.counts().pending == 1999
        assert queue.check() == []


def test_a_view_that_outlives_a_growth_elsewhere_is_told_so(tmp_path: Path) -> None:
    with open_queue(tmp_path, map_size=256 << 10, max_size=64 << 20, busy_timeout=0.3) as queue:
        queue.push(1)
        with queue.view():
            failed: list[BaseException] = []

            def fill() -> None:
                try:
                    queue.push_many([("x" * 1000, "a")] * 500)
                except QueueError as error:
                    failed.append(error)

            filler = threading.Thread(target=fill)
            filler.start()
            filler.join()
        assert [type(error) for error in failed] == [StoreBusy]
        assert "view() of this process has stayed open" in str(failed[0])
        queue.push_many([("x" * 1000, "a")] * 500)
        assert queue.counts().pending == 501
        assert queue.check() == []


def test_a_full_store_refuses_pushes_and_can_always_be_drained(tmp_path: Path) -> None:
    with open_queue(tmp_path, map_size=256 << 10, max_size=256 << 10) as queue:
        tags = itertools.cycle("abc")
        with pytest.raises(StoreFull, match="keeps the rest for draining"):
            consume(queue.push("x" * 500, tag=tag) for tag in tags)
        accepted = queue.snapshot().totals.pushed
        assert accepted > 50
        assert queue.counts().pending == accepted
        assert queue.check() == []
        done = 0
        while (lease := queue.lease()) is not None:
            queue.ack(lease)
            done += 1
        assert done == accepted
        queue.push("room again")
        assert queue.check() == []


def test_a_full_store_takes_failures_and_lets_the_dead_be_purged(tmp_path: Path) -> None:
    with open_queue(tmp_path, map_size=256 << 10, max_size=256 << 10) as queue:
        with pytest.raises(StoreFull):
            consume(iter(functools.partial(queue.push, "x" * 500, max_attempts=1), None))
        for _ in range(20):
            lease = queue.lease()
            assert lease is not None
            queue.nack(lease, "no")
        for task in queue.tasks("dead"):
            queue.purge(task.id)
            queue.expunge(task.id)
        assert queue.counts().pending == queue.snapshot().totals.pushed - 20
        assert queue.counts().dead == queue.counts().trash == 0
        assert queue.check() == []


@pytest.mark.parametrize(("limit", "size"), [(600_000, 3_000), (524_288, 3_000), (450_000, 500), (800_000, 9_000)])
def test_a_full_disk_is_store_full_and_leaves_what_was_accepted(tmp_path: Path, limit: int, size: int) -> None:
    code = """
        import resource, signal, sys
        from queue_core import StoreFull, open_queue
        queue = open_queue(sys.argv[1])
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limit, size = int(sys.argv[2]), int(sys.argv[3])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        accepted = 0
        try:
            while True:
                queue.push("x" * size, tag="abc"[accepted % 3])
                accepted += 1
        except StoreFull as error:
            assert "no room" in str(error), error
        assert queue.counts().pending == accepted > 10, accepted
        assert queue.check() == []
        done = 0
        while (lease := queue.lease()) is not None:
            queue.ack(lease)
            done += 1
        assert done == accepted, (done, accepted)
        queue.push("room again")
        assert queue.check() == []
        print("ready")
    """
    with process(code, tmp_path, limit, size) as child:
        assert child.wait(30) == 0
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


# --- readers ----------------------------------------------------------------------------------------


def test_a_killed_readers_pages_come_back(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        task = queue.push("x" * 4000)
        code = """
            import sys, time
            from queue_core import open_queue
            with open_queue(sys.argv[1]).view() as view:
                view.counts()
                print("ready", flush=True)
                time.sleep(60)
        """
        with process(code, tmp_path) as child:
            child.send_signal(signal.SIGKILL)
            child.wait()
        for number in range(1000):
            queue.replace(task, payload=str(number) * 1000)
        assert queue.check() == []
    assert (tmp_path / "data.mdb").stat().st_size < 1 << 21  # a tenth of what is written


def test_no_read_transaction_stays_open_between_calls(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        task = queue.push("x" * 4000)
        page = queue.tasks("pending")
        snapshot = queue.snapshot()
        for number in range(1000):
            queue.replace(task, payload=str(number) * 1000)
        assert len(page) == snapshot.pending == 1
        assert queue.check() == []
    assert (tmp_path / "data.mdb").stat().st_size < 1 << 21  # a tenth of what is written


def test_many_readers_at_once_find_slots(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        queue.push(1)
        barrier = threading.Barrier(200)
        seen: list[int] = []

        def read() -> None:
            with queue.view() as view:
                barrier.wait(30)
                seen.append(view.counts().pending)

        threads = [threading.Thread(target=read) for _ in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [1] * 200
        assert queue.check() == []


def test_when_all_reader_slots_are_taken_the_reader_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_core.stores.lmdb.environment.READERS", 3)
    with open_queue(tmp_path) as queue:
        queue.push(1)
        with contextlib.ExitStack() as views:
            for _ in range(3):
                views.enter_context(queue.view())
            with pytest.raises(StoreBusy, match="all 3 reader slots"):
                queue.counts()
        assert queue.counts().pending == 1
        assert queue.check() == []


def test_the_slots_of_dead_readers_are_found_when_all_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_core.stores.lmdb.environment.READERS", 3)
    code = """
        import contextlib, sys, time
        from queue_core import open_queue
        from queue_core.stores.lmdb import environment
        environment.READERS = 3
        queue = open_queue(sys.argv[1])
        with contextlib.ExitStack() as views:
            for _ in range(3):
                views.enter_context(queue.view())
            print("ready", flush=True)
            time.sleep(60)
    """
    with open_queue(tmp_path) as queue:
        queue.push(1)
        with process(code, tmp_path) as child:
            with pytest.raises(StoreBusy, match="all 3 reader slots"):
                queue.counts()
            child.kill()
            child.wait()
        assert queue.counts().pending == 1
        assert queue.check() == []


def test_the_room_that_is_told_ends_at_the_disk_or_at_the_map(tmp_path: Path) -> None:
    with open_queue(tmp_path / "open") as queue:
        told = queue.storage()
        disk = os.statvfs(tmp_path)
        assert told.used is not None
        assert told.file is not None
        assert told.limit is not None
        assert 0 < told.used <= told.file < told.limit < 1 << 40
        assert told.limit <= disk.f_blocks * disk.f_frsize
        assert queue.check() == []
    with open_queue(tmp_path / "small", max_size=1 << 24) as queue:
        assert queue.storage().limit == 1 << 24
        assert queue.check() == []


def fill_up(queue: Queue, now: list[int], tags: int, step: float) -> None:
    """Push until it is refused, in a batch every so many seconds of the store's clock."""
    for number in itertools.count(0, 20):
        try:
            queue.push_many([("x" * 50, f"t{(number + i) % tags}") for i in range(20)])
        except StoreFull:
            return
        now[0] += round(step * 1_000_000)


@pytest.mark.timeout(400)  # tens of thousands of commits
@pytest.mark.parametrize(("tags", "step"), [(100, 0.5), (100, 10.0), (1_000, 10.0)])
def test_a_full_store_can_be_drained_slowly_though_history_goes_on(tmp_path: Path, tags: int, step: float) -> None:
    """Every 10 s a bucket is closed, which takes more room than a task frees: history gives way."""
    now = [1_750_000_000 * 1_000_000]
    with open_queue(tmp_path, clock=lambda: now[0], max_size=2 << 20, durability="none") as queue:
        fill_up(queue, now, tags, step)
        left = queue.counts().pending
        assert left > 1_000
        while (lease := queue.lease(ttl=1e6)) is not None:
            now[0] += round(step * 1_000_000)
            queue.ack(lease)
            left -= 1
        assert left == 0
        assert queue.check() == []
        queue.push_many([("x" * 50, f"t{i}") for i in range(20)])  # and it takes tasks again


def test_heartbeats_on_a_full_store_go_on(tmp_path: Path) -> None:
    now = [1_750_000_000 * 1_000_000]
    with open_queue(tmp_path, clock=lambda: now[0], max_size=2 << 20, durability="none") as queue:
        fill_up(queue, now, 20, 0.5)
        lease = queue.lease(ttl=60)
        assert lease is not None
        for _ in range(2_000):
            now[0] += 10_000_000
            lease = queue.heartbeat(lease)
        queue.ack(lease)
        assert queue.check() == []
