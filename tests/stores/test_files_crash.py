"""The files store stopped at every step, and without room: all or nothing, and what was acknowledged stays."""

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from breaking import in_child
from breaking_files import VERBS, contents, held, opened

from queue_core import OutcomeUnknown, StoreError, StoreFull
from queue_core.stores.files import flush, names, redo

CHANGING = (
    "replace", "symlink", "unlink", "mkdir", "rmdir", "fsync", "fdatasync", "pwrite", "write", "truncate", "ftruncate",
    "posix_fallocate",
)  # fmt: skip
GROWING = ("write", "pwrite", "symlink", "mkdir", "posix_fallocate")


class Stopped(BaseException):
    """Stands for the end of the process."""


class Meddler:
    """Stands before every call that changes the file system; ``trouble`` is asked before each, with its number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, trouble: Callable[[int, str], None]) -> None:
        self.calls: list[str] = []
        self._lock = threading.Lock()
        self._trouble = trouble
        for name in CHANGING:
            monkeypatch.setattr(os, name, self._before(name, getattr(os, name)))

    def _before(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                self.calls.append(name)
                number = len(self.calls)
            self._trouble(number, name)
            return function(*arguments, **options)

        return call


@contextmanager
def stopping_before(step: int) -> Iterator[None]:
    """The process ends before its call number ``step``: neither that one nor any later one is made."""

    def stop(number: int, _: str) -> None:
        if number >= step:
            raise Stopped

    with pytest.MonkeyPatch.context() as patch:
        Meddler(patch, stop)
        yield


@contextmanager
def stopping_once_it_stands() -> Iterator[None]:
    """The process ends when the redo record is written, and nothing of it is done."""

    def stop(*_: object) -> None:
        raise Stopped

    with pytest.raises(Stopped), pytest.MonkeyPatch.context() as patch:  # noqa: PT012 - what is inside differs
        patch.setattr(redo.Apply, "run", stop)
        yield


@pytest.mark.parametrize("verb", VERBS)
def test_stopped_at_any_step_a_verb_has_happened_or_not(template: Path, place: Path, verb: str) -> None:
    with opened(template) as queue:
        before = contents(queue)
    shutil.copytree(template, place / "whole", symlinks=True)
    with opened(place / "whole") as queue:
        VERBS[verb](queue)
        after = contents(queue)
        assert len(os.listdir(place / "whole" / names.NEW)) == 0
    assert before != after
    found = []
    for step in count(1):
        path = place / "stopped"
        shutil.copytree(template, path, symlinks=True)
        queue = opened(path)
        try:
            with stopping_before(step):
                VERBS[verb](queue)
        except Stopped:
            pass
        else:
            break
        finally:
            queue.close()
        with opened(path) as queue:
            now = contents(queue)
            assert now in (before, after), f"half of it, stopped before step {step}"
            assert os.listdir(path / names.NEW) == []
            found.append(now == after)
            queue.push("on", id=UUID(int=50))
            assert queue.lease_many(20) != []
            assert queue.check() == []
        shutil.rmtree(path)
    assert found == sorted(found), "once it stands, it stands"
    assert {False, True} == set(found)
    print(f"{verb}: {len(found)} steps, it stands from {found.index(True)} on")


def test_an_interrupted_verb_leaves_its_handle_of_use(template: Path, place: Path) -> None:
    """As by Ctrl-C: the process goes on, and with it the handle."""
    for step in count(1):
        path = place / "interrupted"
        shutil.copytree(template, path, symlinks=True)
        with opened(path) as queue:
            try:
                with interrupting_at(step):
                    VERBS["all that is left"](queue)
            except KeyboardInterrupt:
                assert queue.counts().inflight in (0, 2)
                queue.push("on", tag="a")
                assert queue.lease_many(20) != []
                assert queue.check() == []
            else:
                break
        shutil.rmtree(path)
    assert step > 20


@contextmanager
def interrupting_at(step: int) -> Iterator[None]:
    """One interrupt, before call number ``step``."""

    def interrupt(number: int, _: str) -> None:
        if number == step:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        Meddler(patch, interrupt)
        yield


def test_stopped_while_it_is_made(place: Path) -> None:
    for step in count(1):
        path = place / f"{step}"
        try:
            with stopping_before(step):
                opened(path).close()
        except Stopped:
            with opened(path) as queue:
                queue.push(1)
                assert queue.check() == []
        else:
            break
    assert step > 10


def test_what_mending_has_not_finished_is_finished_later(template: Path, place: Path) -> None:
    """A crash in the middle of finishing what a crash has left."""
    shutil.copytree(template, place / "whole", symlinks=True)
    with opened(place / "whole") as queue:
        VERBS["all that is left"](queue)
        after = contents(queue)
    queue = opened(template)
    steps = 0
    with stopping_once_it_stands():
        VERBS["all that is left"](queue)
    queue.close()
    for step in count(1):
        try:
            with stopping_before(step):
                opened(template).close()
        except Stopped:
            steps += 1
        else:
            break
    assert steps > 5
    with opened(template) as queue:
        assert contents(queue) == after


@pytest.mark.parametrize("size", [0, 1, 40, 64, 100, 200])
def test_a_redo_record_that_is_cut_off_never_happened(template: Path, size: int) -> None:
    with opened(template) as queue:
        before = contents(queue)
        with stopping_once_it_stands():
            queue.push("x", tag="new")
    record = template / names.REDO
    record.write_bytes(record.read_bytes()[:size] + b"\0" * 1000)
    with opened(template) as queue:
        assert contents(queue) == before
        queue.push("x", tag="new")
        assert queue.counts().pending == before[1].pending + 1


# --- flushes ----------------------------------------------------------------------------------------


def test_files_are_flushed_before_the_record_and_directories_before_it_returns(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push: list[tuple[str, str]] = []
    guard = threading.Lock()

    def spy(name: str, told: Callable[..., str]) -> None:
        function = getattr(os, name)

        def call(*arguments: Any) -> Any:
            with guard:
                push.append((name, os.path.relpath(told(*arguments), template)))
            return function(*arguments)

        monkeypatch.setattr(os, name, call)

    with opened(template) as queue:
        for name in ("fsync", "fdatasync"):
            spy(name, lambda file: os.readlink(f"/proc/self/fd/{file}"))
        spy("replace", lambda source, target: target)
        spy("symlink", lambda target, path: path)
        spy("unlink", lambda path: path)
        queue.push("x", tag="new", id=UUID(int=77))
    (record,) = [i for i, (name, _) in enumerate(push) if name == "fdatasync"]
    files = {path for name, path in push[:record] if name == "fsync"}
    changes = [path for name, path in push[record:] if name in ("replace", "symlink")]
    directories = [path for name, path in push[record:] if name == "fsync"]
    assert push[record][1] == names.REDO
    assert {path.split("/")[0] for path in files} == {names.NEW}
    assert len(files) == 4, "the task, its tag, the queue; and their directory"
    last_change = max(i for i, (name, _) in enumerate(push) if name in ("replace", "symlink", "unlink"))
    assert all(name == "fsync" for name, _ in push[last_change + 1 :]), "all directories after all changes"
    changed = {os.path.dirname(path) or "." for path in changes}
    assert changed <= set(directories)
    assert {"pending", "pending/000000004-new", "pending/000000004-new/000000"} <= set(directories), "new ones, too"


def test_flushing_goes_on_in_a_forked_child_and_without_threads(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(template) as queue:
        queue.push(1)
        assert in_child(lambda: queue.push(2).payload == 2) == 0

        def refuse() -> None:
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")

        monkeypatch.setattr(flush, "_threads", refuse)
        assert queue.get(queue.push(3).id).payload == 3
        assert queue.counts().pending == 7


# --- no room ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_without_room_at_any_step_nothing_has_changed_or_all_has(template: Path, place: Path, verb: str) -> None:
    """The disk refuses one call; for what does not grow the store, giving up the reserve makes up for it."""
    with opened(template) as queue:
        before = contents(queue)
    shutil.copytree(template, place / "whole", symlinks=True)
    with opened(place / "whole") as queue:
        VERBS[verb](queue)
        after = contents(queue)
    refused = 0
    for step in count(1):
        shutil.copytree(template, place / "full", symlinks=True)
        full = False

        def trouble(number: int, name: str, step: int = step) -> None:
            nonlocal full
            if number >= step and name in GROWING and not full:
                full = True
                raise OSError(errno.ENOSPC, "No space left on device")

        with opened(place / "full") as queue:
            with pytest.MonkeyPatch.context() as patch:
                Meddler(patch, trouble)
                try:
                    VERBS[verb](queue)
                    expected = after
                except StoreFull:
                    expected = before
                    refused += 1
            assert contents(queue) == expected
            assert os.listdir(place / "full" / names.NEW) == []
        shutil.rmtree(place / "full")
        if not full:
            break
    assert (refused > 0) == verb.startswith("push")


def test_a_commit_that_cannot_be_finished_is_told_and_finished_later(template: Path, place: Path) -> None:
    shutil.copytree(template, place / "whole", symlinks=True)
    with opened(place / "whole") as queue:
        VERBS["push again"](queue)
        after = contents(queue)

    def stuck(_: int, name: str) -> None:
        if name == "replace":
            raise OSError(errno.EIO, "Input/output error")

    with opened(template) as queue:
        with pytest.MonkeyPatch.context() as patch:
            Meddler(patch, stuck)
            with pytest.raises(OutcomeUnknown, match="the commit stands and could not be finished"):
                VERBS["push again"](queue)
            with pytest.raises(StoreError, match="Input/output error"):
                queue.counts()
        assert contents(queue) == after


def test_a_full_disk_refuses_pushes_and_can_be_drained(template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reserve = template / names.RESERVE

    def full(_: int, name: str) -> None:
        if name == "posix_fallocate" or (name in GROWING and reserve.stat().st_size):
            raise OSError(errno.ENOSPC, "No space left on device")

    with opened(template) as queue:
        with pytest.MonkeyPatch.context() as patch:
            Meddler(patch, full)
            with pytest.raises(StoreFull, match="nothing was changed"):
                queue.push("refused")
            queue.ack_many(held(queue))
            assert reserve.stat().st_size == 0
            with pytest.raises(StoreFull):
                queue.push("refused as well: the reserve comes first")
            while (lease := queue.lease()) is not None:
                queue.ack(lease)
            assert queue.check() == []
        queue.push("room again")
        assert reserve.stat().st_size > 0
        assert queue.check() == []
