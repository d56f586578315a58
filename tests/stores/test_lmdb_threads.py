"""Threads that are interrupted, that fork, that close what others use, or that end what others began."""

import errno
import fcntl
import linecache
import opcode
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from waiting import until

from queue_core import OutcomeUnknown, Queue, QueueError, StoreBusy, StoreGone, open_queue
from queue_core.stores.lmdb.commit import Committer


@contextmanager
def process(code: str, *arguments: object) -> Iterator[Callable[[str], str]]:
    """A Python process; a line goes in, a line comes back."""
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip

    def ask(line: str) -> str:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(line + "\n")
        child.stdin.flush()
        return child.stdout.readline().strip()

    try:
        yield ask
    finally:
        child.kill()
        child.communicate()


def outcome(verb: Callable[[], object], into: list[object]) -> threading.Thread:
    """Start the verb in a thread; its result, or its error, goes into the list."""

    def run() -> None:
        try:
            into.append(verb())
        except QueueError as error:
            into.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def internals(queue: Queue) -> Any:
    return queue._store._environment  # type: ignore[attr-defined]


# --- interrupts -------------------------------------------------------------------------------------

ASK_FOR_THE_LOCK = """
    import fcntl, os, sys
    for line in sys.stdin:
        file = os.open(line.strip(), os.O_RDWR)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            print("free", flush=True)
        except OSError:
            print("held", flush=True)
        os.close(file)
"""
HOLD_THE_LOCK = """
    import fcntl, os, sys
    file = os.open(sys.argv[1], os.O_RDWR)
    for line in sys.stdin:
        fcntl.lockf(file, fcntl.LOCK_EX if line == "take\\n" else fcntl.LOCK_UN)
        print("done", flush=True)
"""
AFTER = ("CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD", "RESUME")  # where the interpreter lets a signal's handler run


class Interrupt:
    """Raises KeyboardInterrupt at the n-th point of the store's own code at which Ctrl-C could."""

    def __init__(self, n: int) -> None:
        self.left = n
        self.where = ""
        self._before: dict[int, str] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if "stores/lmdb/" not in code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            name, before = opcode.opname[code.co_code[frame.f_lasti]], self._before.get(id(frame))
            self._before[id(frame)] = name
            if before in AFTER:
                self.left -= 1
                if not self.left:
                    line = linecache.getline(code.co_filename, frame.f_lineno).strip()
                    self.where = f"{Path(code.co_filename).name}:{frame.f_lineno} {line}"
                    raise KeyboardInterrupt
        elif event == "return":
            self._before.pop(id(frame), None)
        return self


def interrupted(queue: Queue, n: int) -> str:
    """Push with an interrupt at point ``n``; where that is, "" when there is no such point."""
    interrupt, before = Interrupt(n), sys.gettrace()
    sys.settrace(interrupt)
    try:
        queue.push("interrupted")
    except KeyboardInterrupt:
        assert interrupt.where
    finally:
        sys.settrace(before)
    return interrupt.where


@pytest.mark.parametrize("followers", [0, 2])
def test_an_interrupt_at_any_point_of_a_commit_harms_nobody_else(tmp_path: Path, followers: int) -> None:
    point = 0
    with open_queue(tmp_path, durability="none", busy_timeout=5) as queue, process(ASK_FOR_THE_LOCK) as ask:
        environment = internals(queue)
        acquire = environment.lock.acquire
        results: list[object] = []
        threads: list[threading.Thread] = []

        def gather(timeout: float) -> None:
            acquire(timeout)
            if not threads:  # it is the thread to be interrupted that leads
                threads.extend(outcome(lambda: queue.push("follower").payload, results) for _ in range(followers))
                until(lambda: len(environment.committer._waiting) == 1 + followers)

        while True:
            point += 1
            results.clear()
            threads.clear()
            environment.lock.acquire = gather
            where = interrupted(queue, point)
            environment.lock.acquire = acquire
            for thread in threads:
                thread.join(20)
                assert not thread.is_alive(), f"a follower hangs after an interrupt at {where}"
            assert all(result == "follower" or isinstance(result, OutcomeUnknown) for result in results), where
            assert ask(str(tmp_path / "write.lock")) == "free", where
            assert not environment.gate._inside, where
            last: list[object] = []
            outcome(lambda: queue.push("next").payload, last).join()
            assert last == ["next"], where
            if not where:
                break
        assert point > 50
        assert queue.check() == []


def test_an_interrupt_while_waiting_for_another_process_does_not_keep_the_lock(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        queue.push(1)
        lock = internals(queue).lock
        with process(HOLD_THE_LOCK, tmp_path / "write.lock") as ask, process(ASK_FOR_THE_LOCK) as third:
            ask("take")

            def interrupt() -> None:
                until(lambda: lock._wanted)
                os.kill(os.getpid(), signal.SIGINT)

            thread = threading.Thread(target=interrupt)
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                queue.push(2)
            thread.join()
            ask("give")
            until(lambda: third(str(tmp_path / "write.lock")) == "free")
        queue.push(3)
        assert queue.check() == []


def test_a_follower_that_gives_up_as_it_is_made_the_leader_hands_on_the_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_late(self: Committer, call: Any) -> None:
        until(lambda: self._leader is call)
        assert self._withdraw(call)
        raise StoreBusy("no commit within the time limit")

    with open_queue(tmp_path) as queue:
        environment = internals(queue)
        environment.committer._leader = leader = object()
        results: list[object] = []
        with monkeypatch.context() as patch:
            patch.setattr(Committer, "_wait_turn", too_late)
            thread = outcome(lambda: queue.push(1), results)
            until(lambda: environment.committer._waiting)
            (environment.committer._leader,) = environment.committer._waiting
            thread.join()
        assert [type(result) for result in results] == [StoreBusy]
        assert environment.committer._leader is not leader
        queue.push(2)
        assert queue.counts().pending == 1
        assert queue.check() == []


# --- the lock ---------------------------------------------------------------------------------------


def test_what_the_kernel_takes_for_a_deadlock_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process is one waiter to it: when two processes work on two stores in threads, each may wait for the other."""
    lockf, refused = fcntl.lockf, threading.Event()

    def refuse_once(file: int, flags: int) -> None:
        if flags == fcntl.LOCK_EX and not refused.is_set():
            refused.set()
            raise OSError(errno.EDEADLK, "Resource deadlock avoided")
        lockf(file, flags)

    with open_queue(tmp_path) as queue, process(HOLD_THE_LOCK, tmp_path / "write.lock") as ask:
        ask("take")
        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "lockf", refuse_once)
            results: list[object] = []
            thread = outcome(lambda: queue.push(1).payload, results)
            assert refused.wait(20)
            ask("give")
            thread.join(20)
        assert results == [1]
        assert queue.push(2).payload == 2
        assert queue.check() == []


def test_closing_under_a_leader_is_store_gone_to_it_and_to_its_followers(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    queue.push(0)
    environment = internals(queue)
    acquire, release = environment.lock.acquire, threading.Event()

    def slowly(timeout: float) -> None:
        acquire(timeout)
        release.wait(20)

    environment.lock.acquire = slowly
    results: list[object] = []
    threads = [outcome(lambda: queue.push(1), results) for _ in range(3)]
    until(lambda: len(environment.committer._waiting) == 3 and environment.lock._held)
    queue.close()
    with pytest.raises(StoreGone, match="was closed"):
        queue.push(2)
    release.set()
    for thread in threads:
        thread.join(20)
    assert [type(result) for result in results] == [StoreGone] * 3
    with pytest.raises(StoreGone, match="was closed"):
        acquire(1)
    with open_queue(tmp_path) as again:
        assert again.counts().pending == 1
        assert again.check() == []


# --- views ------------------------------------------------------------------------------------------


def test_a_view_may_be_left_by_another_thread(tmp_path: Path) -> None:
    """As when a web server hands a generator from thread to thread."""

    def pages(queue: Queue) -> Iterator[int]:
        with queue.view() as view:
            yield view.counts().pending

    with open_queue(tmp_path) as queue:
        queue.push(1)
        generator = pages(queue)
        assert next(generator) == 1
        thread = threading.Thread(target=generator.close)  # type: ignore[attr-defined]
        thread.start()
        thread.join()
        queue.push(2)
        assert not internals(queue).gate._inside
        assert queue.check() == []


def in_child(work: Callable[[], object]) -> int:
    """Fork, and run the work in the child; its exit status is 0 when that gave something true."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_view_that_is_open_at_a_fork_ends_in_both(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        queue.push(1)
        context = queue.view()
        view = context.__enter__()

        def leave() -> bool:
            context.__exit__(None, None, None)
            queue.push(2)
            return queue.counts().pending == 2

        assert in_child(leave) == 0
        assert view.counts().pending == 1
        context.__exit__(None, None, None)
        assert queue.counts().pending == 2
        assert queue.check() == []


def test_a_fork_waits_for_a_thread_that_is_in_two_stores(tmp_path: Path) -> None:
    with open_queue(tmp_path / "a") as a, open_queue(tmp_path / "b") as b:
        inside = threading.Event()

        def move() -> None:
            with b.view():
                inside.set()
                until(lambda: internals(a).gate._shut_by)  # the fork has begun, and shut it first
                a.push(1)

        thread = threading.Thread(target=move)
        thread.start()
        assert inside.wait(20)
        assert in_child(lambda: a.counts().pending == 1) == 0
        thread.join()
        assert a.check() == b.check() == []
