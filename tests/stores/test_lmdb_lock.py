"""The write lock: killed, stopped and competing writers, and commits that are shared."""

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from breaking import HOLD, process, run_threads
from waiting import until

from queue_core import (
    Queue,
    QueueError,
    StoreBusy,
    open_queue,
)

# --- the write lock -----------------------------------------------------------------------------------


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
            until(lambda: len(committer._waiting) == len(works))
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
            until(lambda: len(committer._waiting) == len(works))
            before = queue._store.mark()
            child.kill()
            runner.join()
        assert queue._store.mark() - before == 1
        assert queue.counts().pending == 21
        assert queue.check() == []
