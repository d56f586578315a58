"""The files store as one directory for many: opened, replaced, locked, forked, and what a verb costs."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from breaking import HOLD, in_child, process, pushing
from browsing import lease_of, opened
from waiting import until

from queue_core import (
    InvalidArgument,
    Queue,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreGone,
    StoreVersion,
    open_queue,
)
from queue_core.stores.files import names
from queue_core.stores.files.tree import Tree

# --- the directory as a whole -----------------------------------------------------------------------


def test_a_directory_with_other_things_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(StoreCorrupt, match=r"holds 'thesis.txt' and no queue: choose another directory"):
        opened(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.txt"]
    with open_queue(tmp_path / "lmdb") as other:
        other.push(1)
    with pytest.raises(InvalidArgument, match="holds an LMDB store: open it as lmdb://"):
        opened(tmp_path / "lmdb")
    with opened(tmp_path / "files") as queue:
        queue.push(1)
    for url in (f"lmdb://{tmp_path / 'files'}", str(tmp_path / "files")):
        with pytest.raises(InvalidArgument, match="holds a files store: open it as files://"):
            open_queue(url)
    with pytest.raises(InvalidArgument, match="write two slashes"):
        open_queue(f"files:{tmp_path / 'files'}")
    (tmp_path / "empty").mkdir()
    with opened(tmp_path / "empty") as queue:
        assert queue.check() == []


def test_a_newer_format_is_refused_with_the_way_out(path: Path, queue: Queue) -> None:
    queue.push(1)
    file = path / "queue.json"
    file.write_text(re.sub(r'"format": \d+', '"format": 99', file.read_text()))
    with pytest.raises(StoreVersion, match=r"format 99; this queue_core knows \d+: upgrade"):
        opened(path)


def test_opening_what_cannot_be_one(tmp_path: Path) -> None:
    with pytest.raises(StoreGone, match="there is no store at"):
        opened(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidArgument, match="is a file: a queue is a directory"):
        opened(tmp_path / "file")
    with pytest.raises(StoreError, match="cannot be made"):
        opened(Path("/proc/queue"))
    with pytest.raises(InvalidArgument, match="one of full, none"):
        opened(tmp_path / "q", durability="relaxed")
    with pytest.raises(InvalidArgument, match="names no directory"):
        open_queue("files://")
    assert os.listdir(tmp_path) == ["file"]


def test_what_is_empty_between_two_verbs_may_be_swept_away(path: Path) -> None:
    """By a tool that removes empty files and directories, or a copy that has left them out."""
    with opened(path, durability="full") as queue:
        queue.push(1)
        queue.lease()
    for name in (names.LOCK, names.TURN, names.REDO, names.RESERVE):
        (path / name).unlink()
    (path / names.NEW).rmdir()
    with opened(path, durability="full") as queue:
        assert queue.counts().inflight == 1
        queue.push(2)
        assert queue.check() == []


@pytest.mark.parametrize("replace", [False, True])
def test_a_removed_or_replaced_directory_is_store_gone(path: Path, replace: bool) -> None:
    queue = opened(path)
    queue.push(1)
    shutil.rmtree(path)
    if replace:
        fresh = opened(path)
    for verb in (lambda: queue.push(2), queue.lease, queue.snapshot, lambda: queue.lease(wait=5), queue.mark):
        with pytest.raises(StoreGone, match="removed or replaced"):
            verb()
    queue.close()
    assert path.exists() == replace
    if replace:
        assert fresh.counts().pending == 0
        fresh.push(3)
        assert fresh.check() == []
        fresh.close()


def test_a_closed_handle_is_of_no_use_and_another_goes_on(path: Path, queue: Queue) -> None:
    with opened(path) as other:
        other.push(1)
    with pytest.raises(StoreGone, match="was closed"):
        other.push(2)
    other.close()
    assert queue.counts().pending == 1
    assert queue.check() == []


def test_the_store_says_what_it_does_not_keep(path: Path, queue: Queue) -> None:
    assert not queue.capabilities.durable, "without flushes"
    with opened(path, durability="full") as flushed:
        can = flushed.capabilities
    assert (can.durable, can.multi_process, can.journal, can.history, can.parallel_views) == (
        True, True, False, False, False,
    )  # fmt: skip
    queue.push(1)
    assert queue.journal() == []
    assert queue.series().buckets == ()
    with pytest.raises(InvalidArgument, match="keeps no history"):
        queue.configure(history=True)


# --- others at the same time ------------------------------------------------------------------------


def test_a_view_holds_writers_up_and_they_give_up_in_time(path: Path, queue: Queue) -> None:
    queue.push(1)
    with opened(path, busy_timeout=0.2) as other, queue.view() as view:
        failed: list[BaseException] = []

        def push() -> None:
            try:
                other.push(2)
            except StoreBusy as error:
                failed.append(error)

        thread = threading.Thread(target=push)
        thread.start()
        thread.join()
        assert "a view() that stays open" in str(failed[0])
        assert view.counts().pending == 1
        assert queue.counts().pending == 1, "inside its own view a thread reads on"
    assert queue.check() == []


def test_readers_do_not_keep_a_writer_out(path: Path, queue: Queue) -> None:
    """Readers one after the other, so that at every moment one of them is inside."""
    done = threading.Event()
    inside = threading.Semaphore(0)

    def read() -> None:
        with opened(path) as mine:
            while not done.is_set():
                with mine.view() as view:
                    inside.release()
                    view.counts()
                    time.sleep(0.02)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(6):
        assert inside.acquire(timeout=30)
    try:
        for number in range(5):
            queue.push(number)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert queue.counts().pending == 5
    assert queue.check() == []


def test_a_stopped_writer_holds_others_up_and_its_end_frees_them(path: Path, queue: Queue) -> None:
    queue.push("x")
    with opened(path, busy_timeout=0.2) as hasty, process(HOLD, queue.url) as child:
        with pytest.raises(StoreBusy, match="locked by others"):
            hasty.push("no")
        with pytest.raises(StoreBusy):
            hasty.counts()
        child.kill()
        child.wait()
        assert hasty.push("yes").place == 2
    assert queue.check() == []


def test_a_forked_child_goes_on_by_itself(path: Path, queue: Queue) -> None:
    queue.push("parent")
    assert in_child(lambda: queue.lease().payload == "parent" and queue.push("child")) == 0
    assert queue.counts().inflight == 1
    with queue.view():  # the child has no part in its parent's lock
        assert in_child(lambda: opened(path, busy_timeout=5).counts().pending == 1) == 0
    lease = queue.lease()
    assert lease is not None
    assert lease.payload == "child"
    assert queue.check() == []


def test_forks_while_other_threads_write(queue: Queue) -> None:
    with pushing(queue):
        for _ in range(5):
            assert in_child(lambda: queue.push("child").id and not queue.check()) == 0
    assert queue.check() == []


LEASE_ALL = """
import sys, queue_core
with queue_core.open_queue(sys.argv[1], durability="none") as queue:
    while (lease := queue.lease(ttl=600)) is not None:
        print(lease.fence, lease.tag, lease.payload)
"""


def test_processes_lease_disjointly_in_the_order_of_the_rotation(queue: Queue) -> None:
    queue.configure("a", weight=2)
    queue.push_many([(number, tag) for tag in "abc" for number in range(20)])
    running = [
        subprocess.Popen([sys.executable, "-c", LEASE_ALL, queue.url], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    lines = [line.split() for process in running for line in process.communicate(timeout=60)[0].splitlines()]
    assert [process.returncode for process in running] == [0, 0, 0]
    served = [(tag, int(payload)) for _, tag, payload in sorted(lines, key=lambda line: int(line[0]))]
    assert [tag for tag, _ in served[:40]] == ["a", "a", "b", "c"] * 10
    assert Counter(tag for tag, _ in served) == {"a": 20, "b": 20, "c": 20}
    for tag in "abc":
        assert [payload for of, payload in served if of == tag] == list(range(20))
    assert queue.check() == []


def test_many_make_the_same_directory_at_once(path: Path) -> None:
    code = "import sys, queue_core; queue_core.open_queue(sys.argv[1]).push(1, tag='a')"
    running = [subprocess.Popen([sys.executable, "-c", code, f"files://{path}"]) for _ in range(4)]
    assert [process.wait(60) for process in running] == [0] * 4
    with opened(path) as queue:
        assert queue.counts().pending == 4
        assert queue.check() == []


def test_a_waiter_is_woken_by_a_commit_of_this_handle_at_once(queue: Queue) -> None:
    mark = queue.mark()
    woken = threading.Event()

    def wait() -> None:
        queue._store.wait(mark, 30)
        woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    queue.push(1)
    until(woken.is_set)
    thread.join()
    assert queue.mark() > mark


# --- what a verb costs ------------------------------------------------------------------------------


def listed_by(queue: Queue, verb: Any) -> int:
    """How many names a verb reads from directories."""
    trees: list[Tree] = []
    make = queue._store._tree  # type: ignore[attr-defined]

    def keep() -> Tree:
        trees.append(make())
        return trees[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue._store, "_tree", keep)
        verb()
    return sum(tree.listed for tree in trees)


def test_leasing_does_not_list_the_backlog(queue: Queue) -> None:
    """With thirty times as much waiting, no more than a directory or two of a thousand names."""
    verbs = {
        "lease": lambda: queue.lease(),
        "push": lambda: queue.push("x", tag="a"),
        "lease with ack": lambda: queue.lease(ack=lease_of(next(iter(queue.tasks("inflight"))))),
        "get": lambda: queue.get(next(iter(queue.tasks("inflight"))).id),
        "requeue": lambda: queue.requeue(next(iter(queue.tasks("inflight"))).id),
        "snapshot": queue.snapshot,
        "page": lambda: queue.tasks("pending", limit=10),
    }
    costs = []
    for number in (300, 9_000):
        queue.push_many([(i, "ab"[i % 2]) for i in range(number)])
        queue.push_many([(i, "c") for i in range(number // 3)])
        costs.append({name: listed_by(queue, verb) for name, verb in verbs.items()})
    print(costs)
    for name, cost in costs[1].items():
        assert cost < 2_100, name
    assert costs[1]["push"] < 50
    assert queue.check() == []
