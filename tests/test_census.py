"""The census: what is found, how a file is measured and fails, and that a queue under it cannot grow without end."""

import json
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import until

from queue_core import Queue, QueueFull, census, open_queue
from queue_core.census import STDLIB, Measure, Producer, Source, measured
from queue_core.worker import Defer

FILES = {
    "big/__init__.py": b"",
    "big/good.py": b"class A:\n    def f(self):\n        async def g(): ...\n\n# end",
    "big/latin.py": b"# -*- coding: latin-1 -*-\nname = '\xe9'\n",
    "big/escape.py": b"pattern = '\\d'\n",
    "small/literal.py": b"x = 1\nif x is 1:\n    pass\n",
    "small/nul.py": b"x = 1\0\n",
    "small/coding.py": b"# coding: no-such-thing\n",
    "small/bytes.py": b"name = '\xff'\n",
    "small/print.py": b"print 'old'\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two installed distributions and a standard library of one file beside site-packages."""
    for name, data in FILES.items():
        path = tmp_path / "lib" / "site-packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "lib" / "abc.py").write_bytes(b"x = 1\n")
    site = tmp_path / "lib" / "site-packages"
    for name in ("big", "small"):
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        records = [path for path in FILES if path.startswith(f"{name}/")]
        (info / "RECORD").write_text("".join(f"{path},,\n" for path in [*records, f"{name}/gone.py", "x.txt"]))
    return tmp_path / "lib"


@pytest.fixture
def queue() -> Iterator[Queue]:
    with open_queue("memory://") as queue:
        yield queue
        assert queue.check() == []


def found(tree: Path) -> list[Source]:
    return census.sources(tree, [str(tree / "site-packages")])


def job(tree: Path, name: str, **more: Any) -> SimpleNamespace:
    path = tree / "site-packages" / name
    results = str(tree / "results.ndjson")
    payload = {"path": str(path), "distribution": "big", "results": results} | more
    return SimpleNamespace(payload=payload, tag="big")


def test_sources_are_each_file_once_under_its_distribution(tree: Path) -> None:
    sources = found(tree)
    names = {(Path(source.path).relative_to(tree).as_posix(), source.distribution) for source in sources}
    assert names == {("abc.py", STDLIB)} | {(f"site-packages/{name}", name.split("/")[0]) for name in FILES}
    assert len(sources) == len(names)


def test_sources_of_this_machine_have_the_standard_library_and_click() -> None:
    sources = census.sources()
    assert {STDLIB, "click"} <= {source.distribution for source in sources}
    assert len({source.path for source in sources}) == len(sources) > 500


def test_files_that_are_gone_are_left_out() -> None:
    assert census._interleaved({__file__: "here", "/gone/a.py": "gone"}) == [Source(__file__, "here")]


def test_every_stretch_holds_each_distribution_in_its_share_smallest_first(tmp_path: Path) -> None:
    files = {}
    for name, number in (("big", 90), ("small", 10)):
        for i in range(number):
            path = tmp_path / f"{name}{i}.py"
            path.write_text("#" * (number - i))
            files[str(path)] = name
    order = census._interleaved(files)
    for start in range(0, 100, 20):
        stretch = [source.distribution for source in order[start : start + 20]]
        assert stretch.count("small") == 2
    sizes = [Path(source.path).stat().st_size for source in order if source.distribution == "big"]
    assert sizes == sorted(sizes)


def test_a_file_is_measured(tree: Path) -> None:
    path = str(tree / "site-packages/big/good.py")
    assert measured(Source(path, "big")) == Measure(path, "big", "utf-8", 59, 5, 2, 1)
    empty = measured(Source(str(tree / "site-packages/big/__init__.py"), "big"))
    assert (empty.size, empty.lines, empty.functions, empty.classes) == (0, 0, 0, 0)
    assert measured(Source(str(tree / "site-packages/big/latin.py"), "big")).encoding == "iso-8859-1"


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("big/escape.py", SyntaxError, r"invalid escape sequence '\\d'.*escape.py, line 1"),
        ("small/literal.py", SyntaxError, r'"is" with .*literal.*literal.py, line 2'),
        ("small/nul.py", (SyntaxError, ValueError), "null bytes"),
        ("small/coding.py", SyntaxError, "unknown encoding.*no-such-thing"),
        ("small/bytes.py", (SyntaxError, UnicodeDecodeError), "encoding|decode"),
        ("small/print.py", SyntaxError, "Missing parentheses"),
        ("small/gone.py", FileNotFoundError, "gone.py"),
    ],
)
def test_a_file_that_does_not_compile_cleanly_fails(
    tree: Path, name: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        census.measure(job(tree, name))
    assert not (tree / "results.ndjson").exists()


def test_measure_appends_a_line_and_takes_its_pace(tree: Path) -> None:
    started = time.monotonic()
    census.measure(job(tree, "big/good.py", pace=0.2))
    assert time.monotonic() - started >= 0.2
    line = json.loads((tree / "results.ndjson").read_text())
    assert line["distribution"] == "big"
    assert line["functions"] == 2


def test_warnings_elsewhere_are_not_errors_while_a_file_compiles(tree: Path) -> None:
    """Only the file's own warnings count, and the filters of the process are as before afterwards."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        with ThreadPoolExecutor(4) as pool:
            jobs = [job(tree, name) for name in ("big/good.py", "big/escape.py") for _ in range(20)]
            failed = [future.exception() for future in [pool.submit(census.measure, job) for job in jobs]]
        assert list(warnings.filters) == before
    assert [type(error) for error in failed] == [type(None)] * 20 + [SyntaxError] * 20
    assert caught == []


def test_appends_of_many_threads_are_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "results.ndjson"
    values = [asdict_of(i) for i in range(200)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda value: census.append(path, value), values))
    assert sorted(one.size for one in census.read(path)) == list(range(200))


def asdict_of(i: int) -> dict[str, Any]:
    return {"path": f"/{i}.py", "distribution": "d" * 300, "encoding": "utf-8", "size": i, "lines": 1,
            "functions": 0, "classes": 0}  # fmt: skip


def test_new_results_keep_the_previous_ones(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "results.ndjson"
    census.begin(path)
    assert list(census.read(path)) == []
    census.append(path, asdict_of(1))
    census.begin(path)
    census.append(path, asdict_of(2))
    census.append(path, asdict_of(2))
    assert [one.size for one in census.read(path)] == [2]
    assert [one.size for one in census.read(path.with_name("results.previous.ndjson"))] == [1]
    census.begin(path)
    assert sorted(file.name for file in path.parent.iterdir()) == ["results.previous.ndjson"]


def test_summary_counts_failures_as_files() -> None:
    results = [Measure("/a", "x", "utf-8", 10, 5, 2, 1), Measure("/b", "x", "utf-8", 1, 1, 0, 0)]
    rows = census.summary(results, {"y": 3, "z": 0})
    assert [(row.distribution, row.files, row.lines, row.size, row.failures) for row in rows] == [
        ("x", 2, 6, 11, 0),
        ("y", 3, 0, 0, 3),
    ]


def test_the_producer_pushes_each_file_once(tree: Path, queue: Queue) -> None:
    producer = Producer(queue, found(tree), tree / "out" / "results.ndjson", pace=0.5)
    producer.start()
    producer.join(20)
    assert producer.error is None
    assert producer.pushed == queue.counts().pending == 10
    task = next(iter(queue.tasks("pending", tag="big", limit=1)))
    assert task.payload["distribution"] == "big"
    assert task.payload["pace"] == 0.5
    assert task.max_attempts == 2


def test_a_census_taken_again_does_not_pile_up(tree: Path, queue: Queue) -> None:
    """What waits is replaced, what is dead is redriven, what is done comes anew."""
    results = tree / "results.ndjson"
    first = [census.item(source, results) for source in found(tree)]
    queue.push_many(first)
    done, failed = queue.lease_many(2)
    queue.ack(done)
    queue.dead_letter(failed, "broken")
    for _ in range(3):
        queue.push_many([census.item(source, results) for source in found(tree)])
    counts = queue.counts()
    assert (counts.pending, counts.dead, counts.all) == (10, 0, 10)
    moved = Source(found(tree)[0].path, "another")
    assert queue.push_many([census.item(moved, results)])[0].tag == "another"


def test_the_backlog_is_bounded_for_ever(tree: Path, queue: Queue) -> None:
    rounds = []

    def again() -> list[Source]:
        rounds.append(1)
        return found(tree)

    producer = Producer(queue, found(tree), tree / "results.ndjson", backlog=4, again=again)
    producer.start()
    seen = []
    while len(rounds) < 3:
        assert producer.is_alive()
        until(lambda: queue.counts().pending > 0)
        seen.append(queue.counts().pending)
        for lease in queue.lease_many(2):
            queue.dead_letter(lease, "broken")
    producer.stop.set()
    producer.join(20)
    assert not producer.is_alive()
    assert producer.error is None
    assert max(seen) <= 4
    assert queue.counts().dead <= 10


def test_the_rate_is_kept(tree: Path, queue: Queue) -> None:
    producer = Producer(queue, found(tree), tree / "results.ndjson", rate=50, again=lambda: found(tree))
    started = time.monotonic()
    producer.start()
    until(lambda: producer.pushed >= 30)
    assert time.monotonic() - started >= 30 / 50 - 0.1
    producer.stop.set()
    producer.join(20)
    assert producer.error is None


def test_a_full_queue_makes_the_producer_wait(tree: Path, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.configure(max_pending=3)
    refused = threading.Event()
    push_many = queue.push_many

    def counting(items: Any) -> Any:
        try:
            return push_many(items)
        except QueueFull:
            refused.set()
            raise

    monkeypatch.setattr(queue, "push_many", counting)
    producer = Producer(queue, found(tree), tree / "results.ndjson")
    producer.start()
    assert refused.wait(20)
    until(lambda: queue.counts().pending == 3)
    while producer.is_alive():
        queue.ack_many(queue.lease_many(3))
        producer.join(0.02)
    queue.ack_many(queue.lease_many(3))
    assert producer.error is None
    assert producer.pushed == queue.snapshot().totals.acked == 10


def test_what_ends_the_producer_early_is_kept(tree: Path, queue: Queue) -> None:
    (tree / "file").write_text("")
    producer = Producer(queue, found(tree), tree / "file" / "results.ndjson")
    producer.start()
    producer.join(20)
    assert isinstance(producer.error, OSError)
    assert producer.pushed == 0


def test_tasks_of_other_work_are_seen(tree: Path, queue: Queue) -> None:
    queue.push_many([census.item(source, tree / "r") for source in found(tree)])
    assert census.foreign_tag(queue, []) is None
    dead = queue.push("other", tag="gone")
    queue.dead_letter(dead.id, "dead tasks are in nobody's way")
    assert census.foreign_tag(queue, []) is None
    queue.push({"user": 1}, tag="acme", delay=60)
    assert census.foreign_tag(queue, []) == "acme"
    assert census.foreign_tag(queue, ["acme"]) is None


@pytest.mark.parametrize(
    "payload", [None, "text", [1], {}, {"path": "/etc/passwd", "distribution": "x", "results": "r"}]
)
def test_a_task_of_other_work_is_put_off_and_not_failed(payload: Any) -> None:
    with pytest.raises(Defer):
        census.measure(SimpleNamespace(payload=payload, tag="acme"))


def test_the_handler_is_named_right() -> None:
    module, _, name = census.HANDLER.partition(":")
    assert (module, getattr(census, name)) == (census.__name__, census.measure)
