"""What can still be read of a damaged store is read, nothing that was over comes back, and what is missing is told."""

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queue_core import InvalidArgument, Queue, StoreCorrupt, StoreGone, keys, open_queue
from queue_core.backup import salvage
from queue_core.stores.lmdb.health import Header, header_at
from queue_core.stores.lmdb.pages import Pages
from queue_core.task import Task

PAGE = 4096


class Tasks(dict[str, tuple[object, ...]]):
    """What is shown of each, by id."""

    def __repr__(self) -> str:
        return f"{len(self):,} tasks"


STATES = ("pending", "scheduled", "inflight", "dead", "trash")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of some hundred pages, among them free ones on which tasks stand that are over."""
    path = tmp_path_factory.mktemp("whole")
    with open_queue(path) as queue:
        queue.push_many([({"n": n, "text": "y" * 100}, f"tag{n % 40}") for n in range(2_000)])
        queue.push_many([("large" * 4_000, "large") for _ in range(10)])
        queue.push({"\ud800": 2**70, "\0": "🦉"}, tag="é☃\0/", dedupe_key="once", max_attempts=2)
        queue.configure("tag3", weight=7, paused=True)
        queue.configure(max_inflight=300, dead_retention=86_400)
        queue.ack_many(queue.lease_many(200))
        leases = queue.lease_many(60, ttl=3600)
        for lease in leases[:9]:
            queue.nack(lease, "no")
        for task in queue.tasks("pending", limit=60).items:
            queue.dead_letter(task.id, "broken")
        for task in queue.tasks("dead", limit=20).items:
            queue.purge(task.id)
        assert queue.check() == []
    return path


@pytest.fixture
def damaged(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "damaged")
    return tmp_path / "damaged"


def shown(task: Task) -> tuple[object, ...]:
    record, flying = task.record, task.state == "inflight"
    return (
        task.tag, record.payload, "pending" if flying else str(task.state), task.attempts, task.max_attempts,
        task.dedupe_key, task.error, task.reason, len(task.history) + flying, record.due, record.created,
    )  # fmt: skip


def everything(queue: Queue) -> Tasks:
    return Tasks((task.id, shown(task)) for state in STATES for task in queue.tasks(state, limit=10_000))


def order(queue: Queue) -> dict[str, list[str]]:
    """Live tasks of each tag by place; dead ones by entry."""
    live = [task for state in STATES[:3] for task in queue.tasks(state, limit=10_000)]
    out: dict[str, list[str]] = {"dead": [task.id for task in queue.tasks("dead", limit=10_000)]}
    for task in sorted(live, key=lambda task: task.place):
        out.setdefault(f"tag {task.tag}", []).append(task.id)
    return out


@pytest.fixture(scope="module")
def original(whole: Path) -> Tasks:
    with open_queue(whole) as queue:
        return everything(queue)


def blank(store: Path, *pages: int, data: bytes = bytes(PAGE)) -> None:
    with open(store / "data.mdb", "r+b") as file:
        for page in pages:
            file.seek(page * PAGE)
            file.write(data)


def roots(store: Path) -> list[Header]:
    """Where the two last commits begin, the newest last."""
    file = os.open(store / "data.mdb", os.O_RDONLY)
    try:
        return sorted(header for at in (0, PAGE) if (header := header_at(file, at)) is not None)
    finally:
        os.close(file)


def leaf_of(store: Path, prefix: bytes) -> int:
    """The page of an entry."""
    with Pages(str(store / "data.mdb")) as pages:
        return next(entry.page for entry in pages.entries() if entry.key.startswith(prefix))


def test_a_whole_store_comes_back_whole(whole: Path, tmp_path: Path, original: Tasks) -> None:
    done = salvage(whole, tmp_path / "new")
    assert done.whole
    assert (done.tasks, done.expected, done.damaged_pages, done.unreadable) == (len(original), len(original), 0, 0)
    with open_queue(whole) as before, open_queue(tmp_path / "new") as queue:
        assert everything(queue) == original
        assert order(queue) == order(before)
        assert queue.counts().inflight == 0
        settings_of = {tag.name: tag.settings for tag in queue.snapshot().tags}
        assert (settings_of["tag3"].weight, settings_of["tag3"].paused) == (7, True)
        assert queue.snapshot().settings == before.snapshot().settings
        lease = queue.lease()
        assert lease is not None
        assert lease.fence > 1 << 32, "beyond every fence of the damaged store"
        assert queue.check() == []


def test_pages_to_which_nothing_leads_are_read_if_they_are_in_use(
    damaged: Path, tmp_path: Path, original: Tasks
) -> None:
    blank(damaged, roots(damaged)[-1].roots[1])
    done = salvage(damaged, tmp_path / "new")
    assert (done.damaged_pages, done.older, done.expected) == (1, False, len(original))
    with open_queue(tmp_path / "new") as queue:
        assert everything(queue) == original, "and free pages are not, where tasks stand that are over"
        assert queue.check() == []


def test_the_commit_before_is_there_when_the_last_one_is_lost(damaged: Path, tmp_path: Path, original: Tasks) -> None:
    with open_queue(damaged) as queue:
        lost = queue.push("the last commit", tag="tag1")
    blank(damaged, *roots(damaged)[-1].roots)
    done = salvage(damaged, tmp_path / "new")
    assert (done.older, done.whole, done.damaged_pages) == (True, False, 0)
    with open_queue(tmp_path / "new") as queue:
        assert everything(queue) == original
        assert lost.id not in original
        assert queue.check() == []


@pytest.mark.parametrize("newest", [True, False])
def test_one_meta_page_is_enough(damaged: Path, tmp_path: Path, original: Tasks, newest: bool) -> None:
    with open_queue(damaged) as queue:
        queue.push("the last commit", tag="tag1")
    blank(damaged, roots(damaged)[-1 if newest else 0].number % 2)
    done = salvage(damaged, tmp_path / "new")
    assert (done.older, done.whole, done.tasks) == (True, False, len(original) + (not newest))


def test_pages_that_may_be_free_are_not_read(damaged: Path, tmp_path: Path, original: Tasks) -> None:
    blank(damaged, roots(damaged)[-1].roots[0], leaf_of(damaged, keys.TASK))
    done = salvage(damaged, tmp_path / "new")
    assert done.damaged_pages == 2
    assert done.unclear_pages > 10
    with open_queue(tmp_path / "new") as queue:
        assert everything(queue).items() < original.items()
        assert queue.check() == []


def test_a_file_without_a_beginning_cannot_be_salvaged(damaged: Path, tmp_path: Path) -> None:
    blank(damaged, 0, 1)
    with pytest.raises(StoreCorrupt, match="nothing can be salvaged"):
        salvage(damaged, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["damaged"]


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_file_that_was_cut_off(damaged: Path, tmp_path: Path, original: Tasks, share: float) -> None:
    file = damaged / "data.mdb"
    os.truncate(file, int(file.stat().st_size * share))
    done = salvage(damaged, tmp_path / "new")
    with open_queue(tmp_path / "new") as queue:
        found = everything(queue)
        assert queue.check() == []
    assert len(found) == done.tasks
    assert done.older or found.keys() <= original.keys()


def test_a_task_that_does_not_decode_is_counted_with_its_bytes(damaged: Path, tmp_path: Path) -> None:
    with Pages(str(damaged / "data.mdb")) as pages:
        tasks = [entry for entry in pages.entries() if entry.key.startswith(keys.TASK)][:2]
        sizes = [pages.size(entry) for entry in tasks]
    with open(damaged / "data.mdb", "r+b") as file:
        for entry in tasks:
            file.seek(entry.page * PAGE + entry.offset + 8 + len(entry.key))
            file.write(b"\xee")  # no version of a record
    done = salvage(damaged, tmp_path / "new")
    assert (done.unreadable, done.unreadable_bytes) == (2, sum(sizes))
    assert (done.expected or 0) - done.tasks == 2
    assert (done.damaged_pages, done.broken_entries, done.whole) == (0, 0, False)


def test_a_payload_that_is_spoiled_is_kept_as_bytes(damaged: Path, tmp_path: Path, original: Tasks) -> None:
    file = damaged / "data.mdb"
    file.write_bytes(file.read_bytes().replace(b'"large', b"/large"))
    done = salvage(damaged, tmp_path / "new")
    assert done.tasks == len(original)
    with open_queue(tmp_path / "new") as queue:
        found = everything(queue)
        assert queue.check() == []
    spoiled = [id for id in found if found[id] != original[id]]
    assert done.spoiled == len(spoiled) > 5
    assert {original[id][0] for id in spoiled} == {"large"}


def test_tags_that_lost_their_names_are_named_after_their_numbers(
    damaged: Path, tmp_path: Path, original: Tasks
) -> None:
    with open_queue(damaged) as queue:
        queue.push("mine", tag="salvaged-2")
        numbers = {tag.name: tag.number for tag in queue.snapshot().tags}
    blank(damaged, leaf_of(damaged, keys.tag(2)))
    done = salvage(damaged, tmp_path / "new")
    assert done.nameless > 1
    assert done.tasks == len(original) + 1
    with open_queue(tmp_path / "new") as queue:
        new = {task.id: task.tag for state in STATES for task in queue.tasks(state, limit=10_000)}
        assert queue.check() == []
    renamed = Counter(new[id] for id, shown in original.items() if new[id] != shown[0])
    assert len(renamed) == done.nameless
    assert {new[id] for id, shown in original.items() if numbers[str(shown[0])] == 2} == {"salvaged-2'"}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pages=st.sets(st.integers(2, 330), max_size=30), fill=st.sampled_from([b"\0", b"\xff", b"\x02"]))
def test_whatever_is_damaged_what_comes_back_was_there(
    whole: Path, damaged: Path, tmp_path_factory: pytest.TempPathFactory, original: Tasks,
    pages: set[int], fill: bytes,
) -> None:  # fmt: skip
    shutil.copyfile(whole / "data.mdb", damaged / "data.mdb")
    blank(damaged, *pages, data=fill * PAGE)
    new = tmp_path_factory.mktemp("salvaged")
    done = salvage(damaged, new)
    with open_queue(new) as queue:
        found = everything(queue)
        assert queue.check() == []
    assert done.faults == ()
    assert len(found) == done.tasks
    if not done.older:
        assert found.keys() <= original.keys(), "nothing that was over"
        assert sum(found[id][1:] != original[id][1:] for id in found) == done.spoiled
        assert done.nameless or done.spoiled or found.items() <= original.items()
        assert done.whole == (done.expected is not None and len(found) == len(original) and not done.nameless)


@pytest.mark.parametrize(
    ("source", "target", "error"),
    [("none", "new", StoreGone), (".", "new", StoreGone), ("damaged", "damaged", InvalidArgument),
     ("damaged", "missing/new", InvalidArgument), ("", "new", InvalidArgument)],
)  # fmt: skip
def test_what_cannot_be_done_changes_nothing(
    damaged: Path, tmp_path: Path, source: str, target: str, error: type[Exception]
) -> None:
    before = (damaged / "data.mdb").read_bytes()
    with pytest.raises(error):
        salvage(source and tmp_path / source, tmp_path / target)
    assert [path.name for path in tmp_path.iterdir()] == ["damaged"]
    assert (damaged / "data.mdb").read_bytes() == before


def test_progress_ends_with_all_that_was_found(whole: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    note: Callable[[int, int], None] = lambda done, total: told.append((done, total))  # noqa: E731
    done = salvage(whole, tmp_path / "new", told=note)
    assert told[-1] == (done.tasks, done.tasks)
    assert len(told) > 1


def test_pages_are_read_without_lmdb(whole: Path) -> None:
    """What the reader of pages finds is what a cursor finds."""
    import lmdb

    with Pages(str(whole / "data.mdb")) as pages:
        entries = list(pages.entries())
        found = [(entry.key, pages.value(entry)) for entry in entries]
        sizes = [pages.size(entry) for entry in entries]
    with lmdb.open(str(whole), readonly=True, lock=False) as env, env.begin() as txn:
        stored = list(txn.cursor())
    assert found == stored
    assert sizes == [len(value) for _, value in stored]
