"""Workers as processes: real signals, real deaths, on a real store."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from waiting import until

from queue_core import InvalidArgument, Queue, QueueError, open_queue
from queue_core.worker import Summary, Worker
from queue_core.worker import processes as processes_module

SCRIPT = """
import json, sys
from dataclasses import asdict
from queue_core.worker import Worker
url, handler, options = json.loads(sys.argv[1])
print(json.dumps(asdict(Worker(url, handler, **options).run())))
"""


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    """A queue on disk, sound at the end."""
    with open_queue(tmp_path / "queue") as queue:
        yield queue
        assert queue.check() == []


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where the handlers write what they do."""
    path = tmp_path / "log"
    path.touch()
    return path


def notes(log: Path, word: str) -> list[tuple[int, int]]:
    """(process, attempt) of every note of a word."""
    lines = [line.split() for line in log.read_text().splitlines()]
    return [(int(pid), int(attempt)) for found, pid, attempt in lines if found == word]


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a worker in a process and a session of its own, as a supervisor does; what is left is killed."""
    started: list[subprocess.Popen[str]] = []

    def begin(queue: Queue, handler: str, **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, json.dumps([queue.url, f"worker_handlers:{handler}", options])],
            cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def end(process: subprocess.Popen[str]) -> Summary:
    """What it says at its end."""
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    return Summary(**json.loads(out))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def forever(log: Path, seconds: float = 60) -> dict[str, Any]:
    return {"log": str(log), "seconds": seconds}


# --- one process


def test_sigterm_lets_the_running_handler_finish_and_leases_no_more(start: Start, queue: Queue, log: Path) -> None:
    queue.push_many([forever(log)] * 2)
    worker = start(queue, "sleep", grace=20)
    until(lambda: notes(log, "began"))
    worker.send_signal(signal.SIGTERM)
    until(lambda: notes(log, "heard"))
    log.with_name("go").touch()
    assert end(worker) == Summary(done=1)
    assert (queue.counts().pending, queue.counts().inflight) == (1, 0)
    (record,) = queue.snapshot().workers
    assert (record.done, record.pid) == (1, worker.pid)
    assert record.stopped_at is not None


def test_sigterm_gives_back_what_is_left_after_the_grace(start: Start, queue: Queue, log: Path) -> None:
    task = queue.push(forever(log), max_attempts=1)
    worker = start(queue, "sleep", grace=0.3)
    until(lambda: notes(log, "began"))
    worker.send_signal(signal.SIGTERM)
    assert end(worker) == Summary(released=1)
    task = queue.get(task.id)
    assert (task.state, task.attempts, task.history[0].outcome) == ("pending", 0, "released")


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_stops_at_once(start: Start, queue: Queue, log: Path, second: signal.Signals) -> None:
    task = queue.push(forever(log))
    worker = start(queue, "sleep", grace=60)
    until(lambda: notes(log, "began"))
    worker.send_signal(signal.SIGTERM)
    until(lambda: notes(log, "heard"))
    assert worker.poll() is None
    worker.send_signal(second)
    assert end(worker) == Summary(released=1)
    assert queue.get(task.id).attempts == 0


def test_a_killed_worker_loses_its_lease_and_the_task_is_delivered_again(start: Start, queue: Queue, log: Path) -> None:
    task = queue.push(forever(log))
    worker = start(queue, "sleep", ttl=0.5)
    until(lambda: notes(log, "began"))
    worker.kill()
    worker.communicate()
    lease = queue.lease(wait=10)
    assert lease is not None
    assert (lease.id, lease.attempt, lease.task.history[0].outcome) == (task.id, 2, "expired")
    queue.ack(lease)


def test_a_task_that_kills_its_worker_three_times_is_dead(start: Start, queue: Queue, log: Path) -> None:
    task = queue.push({"log": str(log)}, max_attempts=3)
    for _ in range(3):
        worker = start(queue, "die", ttl=0.3)
        worker.communicate(timeout=20)
        assert worker.returncode == -signal.SIGKILL
    assert queue.lease(wait=0.6) is None
    task = queue.get(task.id)
    assert (task.state, task.attempts) == ("dead", 3)
    assert "lease expired" in (task.reason or "")
    assert [attempt for _, attempt in notes(log, "began")] == [1, 2, 3]
    assert queue.counts().dead == 1


# --- processes=


def test_processes_share_the_work_of_a_handler_that_computes(
    queue: Queue, log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue.push_many([{"log": str(log), "upto": 100_000}] * 30)
    with caplog.at_level(logging.INFO, "queue_core.worker"):
        worker = Worker(queue.url, "worker_handlers:compute", processes=2, stop_when_idle=True, owner="census")
        assert worker.run() == Summary(done=30)
    ran = {pid for pid, _ in notes(log, str(sum(n * n for n in range(100_000))))}
    assert len(notes(log, str(sum(n * n for n in range(100_000))))) == 30
    assert os.getpid() not in ran
    records = queue.snapshot().workers
    assert ran <= {record.pid for record in records}
    assert sum(record.done for record in records) == 30
    assert all(record.id.startswith("census:") and record.stopped_at for record in records)
    told = [record for record in caplog.records if record.__dict__.get("event") == "started"]
    assert {record.__dict__["worker"] for record in told} == {record.id for record in records}
    assert {record.process for record in told} == {record.pid for record in records}


def test_a_process_that_dies_is_replaced(start: Start, queue: Queue, log: Path) -> None:
    task = queue.push({"log": str(log)})
    worker = start(queue, "die_once", processes=1, ttl=0.5)
    until(lambda: notes(log, "ended"))
    worker.send_signal(signal.SIGTERM)
    assert end(worker) == Summary(done=1)
    (died, first), (lived, second) = notes(log, "began") + notes(log, "ended")
    assert (first, second) == (1, 2)
    assert len({died, lived, worker.pid}) == 3
    assert [event.kind for event in queue.journal() if event.task_id == task.id] == [
        "push", "lease", "expire", "lease", "ack",
    ]  # fmt: skip


def test_a_signal_to_the_whole_group_counts_once(start: Start, queue: Queue, log: Path) -> None:
    queue.push_many([forever(log)] * 3)
    worker = start(queue, "sleep", processes=2, grace=20)
    until(lambda: len(notes(log, "began")) == 2)
    os.killpg(worker.pid, signal.SIGTERM)
    until(lambda: len(notes(log, "heard")) == 2)
    assert worker.poll() is None
    log.with_name("go").touch()
    assert end(worker) == Summary(done=2)
    assert (queue.counts().pending, queue.counts().inflight) == (1, 0)


def test_a_second_signal_reaches_the_processes(start: Start, queue: Queue, log: Path) -> None:
    queue.push_many([forever(log)] * 2)
    worker = start(queue, "sleep", processes=2, grace=60)
    until(lambda: len(notes(log, "began")) == 2)
    os.killpg(worker.pid, signal.SIGTERM)
    until(lambda: len(notes(log, "heard")) == 2)
    assert worker.poll() is None
    worker.send_signal(signal.SIGTERM)
    assert end(worker) == Summary(released=2)
    assert [task.attempts for task in queue.tasks("pending")] == [0, 0]


def test_a_signal_to_the_group_right_after_the_start_is_no_error(start: Start, queue: Queue) -> None:
    worker = start(queue, "sleep", processes=2)
    until(psutil.Process(worker.pid).children)
    os.killpg(worker.pid, signal.SIGTERM)
    assert end(worker) == Summary()


def test_processes_end_when_their_parent_is_killed(start: Start, queue: Queue, log: Path) -> None:
    queue.push_many([forever(log)] * 2)
    worker = start(queue, "sleep", processes=2, grace=0.3)
    until(lambda: len(notes(log, "began")) == 2)
    pids = [pid for pid, _ in notes(log, "began")]
    worker.kill()
    worker.communicate()
    until(lambda: not any(map(alive, pids)))
    assert [task.attempts for task in queue.tasks("pending")] == [0, 0]  # they gave their tasks back


def test_a_process_that_hangs_is_killed_and_its_lease_runs_out(
    queue: Queue, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "MARGIN", 0.2)
    task = queue.push(forever(log))
    worker = Worker(queue, "worker_handlers:stop_itself", processes=1, ttl=0.5, grace=0)

    def stop_when_it_hangs() -> None:
        until(lambda: notes(log, "began"))
        pid = notes(log, "began")[0][0]
        until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        worker.stop()

    thread = threading.Thread(target=stop_when_it_hangs)
    thread.start()
    assert worker.run() == Summary()
    thread.join()
    lease = queue.lease(wait=10)
    assert lease is not None
    assert (lease.id, lease.attempt) == (task.id, 2)
    queue.ack(lease)


def test_an_error_of_a_process_ends_the_worker_with_it(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(queue, "worker_handlers:fail", processes=2)
    monkeypatch.setitem(worker._crew._config, "url", "nonsense://")  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgument, match="nonsense"):
        worker.run()
    monkeypatch.setattr(processes_module, "BOOT", "raise SystemExit(3)")
    with pytest.raises(QueueError, match="ended with code 3 before it was ready"):
        Worker(queue, "worker_handlers:fail", processes=1).run()
