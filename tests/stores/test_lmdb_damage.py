"""A damaged store is refused, or says what is wrong with it; it kills nobody who opens it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest
from breaking import in_child
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from queue_core import QueueError, StoreCorrupt, StoreError, StoreVersion, open_queue
from queue_core.backup import Verified, verify
from queue_core.stores.lmdb import health

PAGE = 4096
FILES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of some hundred pages: tasks in every state, large payloads, history, pages that are free."""
    path = tmp_path_factory.mktemp("whole")
    with open_queue(path) as queue:
        queue.push_many([({"n": n, "text": "y" * 100}, f"tag{n % 7}") for n in range(2_000)])
        queue.push_many([("large" * 4_000, "large") for _ in range(10)])
        queue.ack_many(queue.lease_many(700))
        queue.lease_many(50)
        for task in queue.tasks("pending", limit=60).items:
            queue.dead_letter(task.id, "no")
        for task in queue.tasks("dead", limit=20).items:
            queue.purge(task.id)
        queue.push("later", delay=3600)
        assert queue.check() == []
    return path


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    shutil.copytree(whole, tmp_path / "store")
    return tmp_path / "store"


def fresh(whole: Path, store: Path) -> Path:
    """The copy as it was, and its file."""
    file = store / "data.mdb"
    shutil.copyfile(whole / "data.mdb", file)
    return file


def overwrite(file: Path, at: int, data: bytes) -> None:
    with open(file, "r+b") as target:
        target.seek(at)
        target.write(data)


def pages_used(file: Path) -> int:
    """Pages up to the last one in use, as the meta pages of LMDB 0.9 tell."""
    data = file.read_bytes()
    return 1 + max(int.from_bytes(data[start + 136 : start + 144], "little") for start in (0, PAGE))


def opening(path: Path) -> str:
    """What becomes of a process that opens the store and counts: "opened", an error's name, or how it was killed."""
    names = ["opened", "StoreCorrupt", "StoreError", "StoreFull", "StoreVersion"]

    def attempt() -> bool:
        try:
            with open_queue(path, create=False) as queue:
                queue.counts()
            name = "opened"
        except QueueError as error:
            name = type(error).__name__
        os._exit(10 + names.index(name))

    code = in_child(attempt)
    return names[code - 10] if 10 <= code < 10 + len(names) else f"ended with {code}"


def parts(path: Path) -> set[str]:
    """In what parts something was found."""
    return parts_of(verify(path))


def parts_of(found: Verified) -> set[str]:
    return {fault.part.split()[0] for fault in found.faults}


def test_the_store_as_it_is(store: Path) -> None:
    found = verify(store)
    assert found.sound
    assert (found.tasks, found.tags, found.unreadable) == (1_311, 9, 0)
    assert opening(store) == "opened"


# --- cut off ---


@FILES
@given(size=st.integers(0, 1_500_000))
@example(size=1)
@example(size=100)
@example(size=PAGE)
@example(size=PAGE + 152)
@example(size=2 * PAGE)
def test_a_file_that_was_cut_off_is_refused_before_it_can_kill(whole: Path, store: Path, size: int) -> None:
    file = fresh(whole, store)
    os.truncate(file, min(size, pages_used(file) * PAGE - 1))
    found = opening(store)
    if found == "opened":  # what was cut off was free
        assert verify(store).sound
    else:
        assert found == "StoreCorrupt"
        assert parts(store) & {"file", "structure"}


def test_only_as_much_as_is_in_use_has_to_be_there(store: Path) -> None:
    """LMDB leaves a page at the end unwritten that was freed by the commit that made it."""
    file = store / "data.mdb"
    with open_queue(store) as queue:
        for number in range(100):
            queue.push(number)
            data, pages = file.read_bytes(), pages_used(file)
            (store / "cut").write_bytes(data[: (pages - 1) * PAGE])
            if health.structure(str(store / "cut")) == []:
                break
    os.truncate(file, (pages - 1) * PAGE)
    assert health.structure(str(file)) == [], "after none of the commits the last page was free"
    while health.structure(str(file)) == []:
        pages -= 1
        os.truncate(file, (pages - 1) * PAGE)
    assert opening(store) == "StoreCorrupt"
    file.write_bytes(data[: pages * PAGE])
    assert opening(store) == "opened"
    assert verify(store).sound


def test_an_empty_file_is_no_new_store(store: Path) -> None:
    os.truncate(store / "data.mdb", 0)
    with pytest.raises(StoreCorrupt, match="is empty, and was not"):
        open_queue(store)
    assert parts(store) == {"file"}
    assert (store / "data.mdb").stat().st_size == 0


def test_a_store_that_was_never_made_whole_is_made_now(tmp_path: Path) -> None:
    """A process was killed between two calls of LMDB: nobody has ever pushed into this one."""
    (tmp_path / "data.mdb").touch()
    (tmp_path / "lock.mdb").touch()
    with open_queue(tmp_path) as queue:
        queue.push(1)
        assert queue.check() == []


# --- overwritten ---


@pytest.mark.parametrize("data", [b"\0", b"\xff", b"\xa5"])
@pytest.mark.parametrize(("page", "pages"), [(0, 1), (1, 1), (0, 2)])
def test_meta_pages_that_are_lost_are_refused(store: Path, page: int, pages: int, data: bytes) -> None:
    overwrite(store / "data.mdb", page * PAGE, data * pages * PAGE)
    assert opening(store) == "StoreCorrupt"
    assert parts(store) == {"file"}


@FILES
@given(page=st.integers(0, 1), at=st.integers(0, 151), data=st.binary(min_size=1, max_size=64))
@example(page=1, at=128, data=b"\xff")  # the root
@example(page=0, at=128, data=b"\x05")
@example(page=1, at=136, data=b"\x03\0")  # the last page
@example(page=1, at=144, data=b"\xff" * 8)  # the number of the commit
def test_a_torn_meta_page_kills_nobody_who_opens(whole: Path, store: Path, page: int, at: int, data: bytes) -> None:
    file = fresh(whole, store)
    overwrite(file, page * PAGE + at, data)
    found = opening(store)
    assert not found.startswith("ended with")
    if found == "StoreVersion":  # as the page says
        with pytest.raises(StoreVersion):
            verify(store)
    else:
        bad = parts(store)
        assert bad <= {"file", "structure"}
        assert bad or found == "opened"


@FILES
@given(page=st.integers(2, 330), at=st.integers(0, PAGE - 1), data=st.binary(min_size=1, max_size=PAGE))
@example(page=100, at=0, data=b"\xff" * PAGE)
def test_bytes_in_the_middle_are_found_or_do_no_harm(whole: Path, store: Path, page: int, at: int, data: bytes) -> None:
    file = fresh(whole, store)
    overwrite(file, page * PAGE + at, data[: PAGE - at])
    assert not opening(store).startswith("ended with")
    found = verify(store)
    assert parts_of(found) <= {"file", "structure", "records", "invariant"}
    if found.sound:  # then every task can be read
        assert found.tasks == 1_311


def test_damage_that_kills_its_reader_is_told_by_the_one_that_waits(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walker finds what would; were it to miss anything, the answer is the same."""
    for page in range(2, 300):
        data = (store / "data.mdb").read_bytes()[page * PAGE : (page + 1) * PAGE]
        if data[10] == 2 and data[:8] == page.to_bytes(8, "little"):  # a leaf
            overwrite(store / "data.mdb", page * PAGE + 10, b"\x01")
    assert parts(store) == {"structure"}
    (store.parent / "sitecustomize.py").write_text(
        "from queue_core.stores.lmdb import health\nhealth.structure = lambda file: []\n"
    )
    monkeypatch.syspath_prepend(str(store.parent))
    (fault,) = verify(store).faults
    assert fault.part == "records"
    assert "the process that read it ended with signal" in fault.message


# --- something else ---


def directory(store: Path) -> None:
    (store / "data.mdb").unlink()
    (store / "data.mdb").mkdir()


def pipe(store: Path) -> None:
    (store / "data.mdb").unlink()
    os.mkfifo(store / "data.mdb")


def foreign(store: Path) -> None:
    shutil.rmtree(store)
    store.mkdir()
    with lmdb.open(str(store)) as env, env.begin(write=True) as txn:
        txn.put(b"theirs", b"1")


def text(store: Path) -> None:
    (store / "data.mdb").write_text("certainly not a database" * 1_000)


@pytest.mark.parametrize("make", [directory, pipe, foreign, text])
def test_what_is_no_store_is_refused(store: Path, make: Callable[[Path], None]) -> None:
    make(store)
    with pytest.raises(StoreCorrupt):
        open_queue(store)
    assert parts(store) & {"file", "structure", "records"}


def test_a_file_that_may_not_be_read_is_no_damage(store: Path) -> None:
    (store / "data.mdb").chmod(0)

    def attempt() -> bool:
        if os.getuid() == 0:
            os.chmod(store.parent, 0o755)
            os.setuid(65_534)
        for look in (open_queue, verify):
            with pytest.raises(StoreError, match="may not be read") as caught:
                look(store)
            assert type(caught.value) is StoreError
        return True

    for parent in [store, *store.parents][:-2]:
        parent.chmod(parent.stat().st_mode | 0o055)
    assert in_child(attempt) == 0
