"""queue-core work and queue-core demo, in real processes."""

import json
import re
import shlex
import signal
from pathlib import Path

import pytest
from terminal import ended, program, run
from waiting import until

from queue_core import Queue


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with handlers, where the program is run."""
    (tmp_path / "handlers.py").write_text(
        "import time\n"
        "from pathlib import Path\n"
        "def note(job):\n"
        "    with open('seen', 'a') as file:\n"
        "        print(job.payload, file=file)\n"
        "def fail(job):\n"
        "    raise ValueError('no good')\n"
        "def hang(job):\n"
        "    Path('begun').touch()\n"
        "    while not job.stopping:\n"
        "        time.sleep(0.01)\n"
        "    time.sleep(job.payload)\n"
    )
    (tmp_path / "lacking.py").write_text("import module_that_is_not_there\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    return tmp_path


def test_work_until_idle(queue: Queue, app: Path) -> None:
    queue.push_many([(n, "t") for n in range(20)])
    _, err = ended(program("work", "handlers:note", "--stop-when-idle", "--concurrency", "2"), 0)
    assert sorted(map(int, (app / "seen").read_text().split())) == list(range(20))
    assert "20 done, 0 failed" in err
    assert queue.counts().all == 0


def test_work_in_processes(queue: Queue, app: Path) -> None:
    queue.push_many([(n, "t") for n in range(20)])
    options = ("--processes", "2", "--ttl", "10s", "--max-runtime", "1m", "--grace", "1s", "--verbose")
    _, err = ended(program("work", "handlers:note", "--stop-when-idle", *options), 0)
    assert sorted(map(int, (app / "seen").read_text().split())) == list(range(20))
    assert "20 done" in err


def test_what_a_handler_raises_is_the_error_of_its_task(queue: Queue, app: Path) -> None:
    task = queue.push(1, tag="t", max_attempts=1)
    _, err = ended(program("work", "handlers:fail", "--stop-when-idle"), 0)
    assert "WARNING" in err
    assert "1 failed" in err
    assert "ValueError: no good" in (queue.get(task.id).error or "")


def test_a_handler_module_that_lacks_something_says_what(queue: Queue, app: Path) -> None:
    process = program("work", "lacking:handler")
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "module_that_is_not_there" in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_work_in_order(queue: Queue, app: Path, number: int, code: int) -> None:
    queue.push(0.0, tag="t")
    process = program("work", "handlers:hang")
    until((app / "begun").exists)
    process.send_signal(number)
    _, err = ended(process, code)
    assert "1 done" in err
    assert queue.counts().all == 0


def test_a_second_signal_gives_the_task_back_at_once(queue: Queue, app: Path) -> None:
    task = queue.push(60.0, tag="t")
    process = program("work", "handlers:hang", "--grace", "60s")
    until((app / "begun").exists)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    until(lambda: "worker stopping" in process.stderr.readline())  # type: ignore[union-attr]
    process.send_signal(signal.SIGINT)
    _, err = ended(process, 130)
    assert "1 given back" in err
    assert queue.get(task.id).state == "pending"
    assert queue.get(task.id).attempts == 0


def test_demo_takes_the_census_and_prints_a_table(queue: Queue, tmp_path: Path) -> None:
    results = tmp_path / "out.ndjson"
    options = ("--only", "click", "--processes", "0", "--results", str(results))
    told = json.loads(run("demo", *options, "--json").stdout)
    files = len(results.read_text().splitlines())
    assert told["all"]["files"] == files > 5
    assert [row["distribution"] for row in told["distributions"]] == ["click"]
    assert told["all"]["lines"] > 1_000
    table = run("demo", *options).stdout.splitlines()
    assert table[0].split() == ["DISTRIBUTION", "FILES", "LINES", "FUNCTIONS", "CLASSES", "BYTES", "FAILURES"]
    assert table[1].startswith("click")
    assert queue.counts().all == 0


def test_demo_in_processes(queue: Queue, tmp_path: Path) -> None:
    results = str(tmp_path / "out.ndjson")
    out, err = ended(program("demo", "--only", "click", "--processes", "2", "--results", results), 0)
    assert "click" in out
    assert "files measured" in err
    assert queue.counts().all == 0


def test_demo_push_only(queue: Queue) -> None:
    result = run("demo", "--only", "click", "--push-only", "--pace", "0.5")
    assert result.stdout == ""
    assert result.stderr == f"{queue.counts().pending} files pushed.\n"
    assert next(iter(queue.tasks("pending"))).payload["results"].endswith("queue.census.ndjson")


def test_demo_wants_a_queue_of_its_own(queue: Queue) -> None:
    queue.push({"user": 1}, tag="acme")
    assert "acme" in run("demo", "--only", "click", code=2).stderr
    assert queue.counts().all == 1


def test_the_demo_of_the_procfile_runs_until_it_is_told_to_stop(queue: Queue) -> None:
    procfile = (Path(__file__).parents[2] / "Procfile").read_text()
    demo = re.search(r"^demo: exec queue-core (.*)$", procfile, re.MULTILINE)
    worker = re.search(r"^worker: exec queue-core (.*)$", procfile, re.MULTILINE)
    assert demo is not None
    assert worker is not None
    processes = [program(*shlex.split(line[1])) for line in (demo, worker)]
    until(lambda: queue.counts().inflight > 1 or any(process.poll() is not None for process in processes))
    until(lambda: queue.snapshot().totals.acked > 3 or any(process.poll() is not None for process in processes))
    for process in processes:
        process.send_signal(signal.SIGTERM)
    _, err = ended(processes[0], 143)
    assert "files pushed" in err
    ended(processes[1], 0)
    assert queue.counts().inflight == 0
