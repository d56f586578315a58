"""What LMDB's files need, broken for real: forks, full disks, grown maps, dead readers, stopped writers."""

import collections
import contextlib
import functools
import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb
import pytest

from queue_core import (
    InvalidArgument,
    Queue,
    QueueError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreGone,
    StoreVersion,
    codec,
    keys,
    open_queue,
)
from queue_core.ledger import Counts, Meta, Totals


def wait_for(condition: Callable[[], object], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "the condition did not come true"
        time.sleep(0.005)


@contextmanager
def process(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python process that runs the code; its first line of output says that it is ready."""
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def consume(endless: Iterable[object]) -> None:
    collections.deque(endless, maxlen=0)


def in_child(work: Callable[[], object]) -> int:
    """Fork, run the work, and give the exit status: 0 when it returned something true."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    pytest.fail("the forked child hangs")


# --- one handle -----------------------------------------------------------------------------------


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
    with pytest.raises(StoreVersion, match="format 99; this queue_core knows 1: upgrade queue_core"):
        open_queue(tmp_path)


@pytest.mark.parametrize("replace", [False, True])
def test_a_removed_or_replaced_directory_is_store_gone(tmp_path: Path, replace: bool) -> None:
    store = tmp_path / "q"
    queue = open_queue(store)
    queue.push(1)
    shutil.rmtree(store)
    if replace:
        fresh = open_queue(store)
    for verb in (lambda: queue.push(2), queue.lease, queue.snapshot, lambda: queue.lease(wait=5)):
        with pytest.raises(StoreGone, match="removed or replaced"):
            verb()
    queue.close()
    if replace:
        assert fresh.counts().pending == 0
        fresh.push(3)
        assert fresh.check() == []
        fresh.close()


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
        stop = threading.Event()

        def push() -> None:
            while not stop.is_set():
                queue.push(1)

        pushers = [threading.Thread(target=push) for _ in range(3)]
        for thread in pushers:
            thread.start()
        try:
            for _ in range(5):
                assert in_child(lambda: queue.push("child").id and not queue.check()) == 0
        finally:
            stop.set()
            for thread in pushers:
                thread.join()
        assert queue.check() == []


def test_the_forked_childs_close_leaves_the_parent_alone(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        assert in_child(lambda: queue.push(1) and not queue.close()) == 0
        queue.push(2)
        assert in_child(lambda: open_queue(tmp_path).counts().pending == 2) == 0
        assert queue.check() == []


# --- growth and room --------------------------------------------------------------------------------


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


def test_a_full_disk_is_store_full_and_leaves_what_was_accepted(tmp_path: Path) -> None:
    code = """
        import resource, signal, sys
        from queue_core import StoreFull, open_queue
        queue = open_queue(sys.argv[1])
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
        accepted = 0
        try:
            while True:
                queue.push("x" * 3000)
                accepted += 1
        except StoreFull as error:
            assert "no room" in str(error), error
        assert queue.counts().pending == accepted > 20, accepted
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
    with process(code, tmp_path) as child:
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
    assert (tmp_path / "data.mdb").stat().st_size < 1 << 20


def test_no_read_transaction_stays_open_between_calls(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        task = queue.push("x" * 4000)
        page = queue.tasks("pending")
        snapshot = queue.snapshot()
        for number in range(1000):
            queue.replace(task, payload=str(number) * 1000)
        assert len(page) == snapshot.pending == 1
        assert queue.check() == []
    assert (tmp_path / "data.mdb").stat().st_size < 1 << 20


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


# --- the write lock -----------------------------------------------------------------------------------

HOLD = """
    import sys, time
    from queue_core import open_queue
    from queue_core.stores.embedded import EmbeddedStore
    queue = open_queue(sys.argv[1])
    def stay(tx):
        tx.meta.last_place += 1000  # half a change, never committed
        print("ready", flush=True)
        time.sleep(60)
    queue._store._write(stay)
"""


def test_a_killed_writer_frees_the_lock_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        before = queue.push(1).place
        with process(HOLD, tmp_path) as child:
            child.send_signal(signal.SIGKILL)
            child.wait()
            start = time.monotonic()
            assert queue.push(2).place == before + 1
            assert time.monotonic() - start < 5
        assert queue.check() == []


def test_a_stopped_writer_leaves_reads_working_and_writes_busy(tmp_path: Path) -> None:
    with open_queue(tmp_path, busy_timeout=0.3) as queue:
        queue.push(1)
        with process(HOLD, tmp_path) as child:
            child.send_signal(signal.SIGSTOP)
            assert queue.snapshot().pending == 1
            results: list[type[BaseException] | None] = []

            def push() -> None:
                try:
                    queue.push(2)
                    results.append(None)
                except QueueError as error:
                    results.append(type(error))

            threads = [threading.Thread(target=push) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(20)
            assert results == [StoreBusy] * 4
            with pytest.raises(StoreBusy, match="look for a stopped process"):
                queue.push(2)
            opens_and_reads = """
                import sys
                from queue_core import open_queue
                assert open_queue(sys.argv[1]).snapshot().pending == 1
                print("ready")
            """
            with process(opens_and_reads, tmp_path) as other:
                assert other.wait(20) == 0
            child.send_signal(signal.SIGCONT)
            child.kill()
            child.wait()
        assert queue.counts().pending == 1, "what was withdrawn did not happen"
        queue.push(3)
        assert queue.counts().pending == 2
        assert queue.check() == []


def test_an_empty_poll_takes_no_write_lock(tmp_path: Path) -> None:
    with open_queue(tmp_path, busy_timeout=0.3) as queue, process(HOLD, tmp_path):
        assert queue.lease() is None
        assert queue.lease(wait=0.2) is None
        assert queue.check() == []


def test_two_handles_in_two_processes_take_turns(tmp_path: Path) -> None:
    code = """
        import sys
        from queue_core import open_queue
        queue = open_queue(sys.argv[1])
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(300):
            queue.push(number, tag=sys.argv[2])
    """
    with open_queue(tmp_path) as queue, process(code, tmp_path, "a") as one, process(code, tmp_path, "b") as two:
        for child in (one, two):
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        assert one.wait(60) == two.wait(60) == 0
        assert [tag.pending for tag in queue.snapshot().tags] == [300, 300]
        for tag in "ab":
            assert [task.payload for task in queue.tasks("pending", tag=tag, limit=300)] == list(range(300))
        assert queue.check() == []


def run_threads(queue: Queue, works: list[Callable[[Queue], object]]) -> list[object]:
    results: list[object] = [None] * len(works)

    def run(index: int) -> None:
        try:
            results[index] = works[index](queue)
        except QueueError as error:
            results[index] = type(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_an_error_in_a_shared_commit_reaches_only_its_own_caller(tmp_path: Path) -> None:
    """While another process holds the lock, callers gather; then they share a commit."""
    from queue_core import Conflict, InvalidPayload, Item

    with open_queue(tmp_path) as queue:
        taken = queue.push(0, tag="taken")
        works: list[Callable[[Queue], object]] = [lambda q, n=n: q.push(n).payload for n in range(8)]  # type: ignore[misc]
        works.append(lambda q: q.push(1, tag="other", id=taken.id))  # refused before it writes
        works.append(lambda q: q.push_many([(8, "new"), Item(9, "other", id=taken.id)]))  # refused after it has written
        works.append(lambda q: q.push("x" * 2_000_000))
        with process(HOLD, tmp_path) as child:
            results: list[object] = []
            runner = threading.Thread(target=lambda: results.extend(run_threads(queue, works)))
            runner.start()
            committer = queue._store._committer  # type: ignore[attr-defined]
            wait_for(lambda: len(committer._waiting) == len(works))
            child.kill()
            runner.join()
        assert results == [*range(8), Conflict, Conflict, InvalidPayload]
        assert queue.counts().pending == 9
        assert [tag.name for tag in queue.snapshot().tags] == ["taken", ""]
        assert queue.check() == []


def test_commits_are_shared(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        queue.push(0)
        with process(HOLD, tmp_path) as child:
            works: list[Callable[[Queue], object]] = [lambda q, n=n: q.push(n).id for n in range(20)]  # type: ignore[misc]
            runner = threading.Thread(target=lambda: run_threads(queue, works))
            runner.start()
            committer = queue._store._committer  # type: ignore[attr-defined]
            wait_for(lambda: len(committer._waiting) == len(works))
            before = queue._store.mark()
            child.kill()
            runner.join()
        assert queue._store.mark() - before == 1
        assert queue.counts().pending == 21
        assert queue.check() == []
