"""The files store when the power goes: what was not flushed is lost, all of it or any part of it.

Every call that changes the file system is recorded, with what has been flushed. For each moment, a directory is made
that holds what a disk would hold: names and bytes that were flushed, and of the rest nothing, or what chance leaves.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from breaking_files import VERBS, contents, ids, opened

from queue_core import Item, Queue
from queue_core.stores.files import flush


@dataclass
class Call:
    """One change. ``flushes`` is what has to be flushed for it to last: a directory for names, a file for bytes."""

    flushes: str
    apply: Callable[["Disk"], None]


@dataclass
class Disk:
    """Paths below the root: bytes are a file, text is where a link points to, None is a directory."""

    there: dict[str, bytes | str | None]

    def write(self, path: str, at: int, data: bytes) -> None:
        before = self.there.get(path)
        if isinstance(before, bytes):
            self.there[path] = before[:at].ljust(at, b"\0") + data + before[at + len(data) :]

    def cut(self, path: str, size: int) -> None:
        before = self.there.get(path)
        if isinstance(before, bytes):
            self.there[path] = before[:size]

    def move(self, source: str, target: str) -> None:
        if source in self.there and self.has_parent(target):
            self.there[target] = self.there.pop(source)

    def add(self, path: str, what: bytes | str | None) -> None:
        if self.has_parent(path):
            self.there.setdefault(path, what)

    def has_parent(self, path: str) -> bool:
        parent = os.path.dirname(path)
        return not parent or (parent in self.there and self.there[parent] is None)

    def remove(self, path: str) -> None:
        if not any(other.startswith(f"{path}/") for other in self.there):
            self.there.pop(path, None)

    def remove_all(self, path: str) -> None:
        """A directory that was empty: what had been removed from it before goes with it."""
        for other in [other for other in self.there if other == path or other.startswith(f"{path}/")]:
            del self.there[other]


def read(root: Path) -> Disk:
    found: dict[str, bytes | str | None] = {}
    for file in sorted(root.rglob("*")):
        name = str(file.relative_to(root))
        found[name] = os.readlink(file) if file.is_symlink() else None if file.is_dir() else file.read_bytes()
    return Disk(found)


def make(root: Path, disk: Disk) -> None:
    root.mkdir()
    for name, what in sorted(disk.there.items()):
        path = root / name
        if what is None:
            path.mkdir()
        elif isinstance(what, str):
            path.symlink_to(what)
        else:
            path.write_bytes(what)


@dataclass
class Recorder:
    """Calls and flushes in the order in which they were made."""

    root: Path
    calls: list[Call | str] = field(default_factory=list)

    def below(self, path: Any) -> str:
        return os.path.relpath(path, self.root) if path is not None else ""

    def of(self, file: int) -> str:
        return self.below(os.readlink(f"/proc/self/fd/{file}"))

    def name(self, path: str, apply: Callable[[Disk], None]) -> None:
        self.calls.append(Call(os.path.dirname(path) or ".", apply))

    def bytes(self, path: str, apply: Callable[[Disk], None]) -> None:
        self.calls.append(Call(path, apply))

    def open(self, path: Any, flags: int, *_: Any) -> None:
        name = self.below(path)
        if not name.startswith("..") and flags & os.O_CREAT and not os.path.lexists(path):
            self.name(name, lambda disk: disk.add(name, b""))
        if flags & os.O_TRUNC:
            self.bytes(name, lambda disk: disk.cut(name, 0))

    def write(self, file: int, data: bytes) -> None:
        name, at = self.of(file), os.lseek(file, 0, os.SEEK_CUR)
        self.bytes(name, lambda disk: disk.write(name, at, bytes(data)))

    def pwrite(self, file: int, data: bytes, at: int) -> None:
        name = self.of(file)
        self.bytes(name, lambda disk: disk.write(name, at, bytes(data)))

    def replace(self, source: str, target: str) -> None:
        names = self.below(source), self.below(target)
        self.name(names[1], lambda disk: disk.move(*names))

    def symlink(self, target: str, path: str) -> None:
        name = self.below(path)
        if not os.path.lexists(path):
            self.name(name, lambda disk: disk.add(name, target))

    def unlink(self, path: str) -> None:
        name = self.below(path)
        self.name(name, lambda disk: disk.remove(name))

    def mkdir(self, path: str) -> None:
        name = self.below(path)
        if not os.path.lexists(path):
            self.name(name, lambda disk: disk.add(name, None))

    def rmdir(self, path: str) -> None:
        name = self.below(path)
        if not os.listdir(path):
            self.name(name, lambda disk: disk.remove_all(name))

    def fsync(self, file: int) -> None:
        self.calls.append(self.of(file))

    fdatasync = fsync


@contextmanager
def recorded(root: Path) -> Iterator[Recorder]:
    recorder = Recorder(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flush, "THREADS", 1)  # one order of calls
        patch.setattr(flush, "_pool", None)
        for name in ("open", "write", "pwrite", "replace", "symlink", "unlink", "mkdir", "rmdir", "fsync", "fdatasync"):
            function, note = getattr(os, name), getattr(recorder, name)

            def call(*args: Any, function: Any = function, note: Any = note, **options: Any) -> Any:
                note(*args)
                return function(*args, **options)

            patch.setattr(os, name, call)
        yield recorder


def left_by(calls: list[Call | str], start: Disk, chance: Callable[[], bool]) -> Disk:
    """The disk after the power has gone behind the last of the calls."""
    disk = Disk(dict(start.there))
    for number, call in enumerate(calls):
        if isinstance(call, Call) and (call.flushes in calls[number + 1 :] or chance()):
            call.apply(disk)
    return disk


SECOND: Callable[[Queue], object] = lambda queue: queue.push_many(  # noqa: E731 - as those of VERBS
    [Item("second", tag, id) for tag, id in zip("ab", ids(31, 32), strict=True)]
)


@pytest.mark.parametrize("verb", ["push", "lease past what does not decode", "all that is left", "nack"])
def test_when_the_power_goes_what_was_acknowledged_is_there(template: Path, place: Path, verb: str) -> None:
    start = read(template)
    with opened(template) as queue:
        states = [contents(queue)]
        with recorded(template) as recorder:
            VERBS[verb](queue)
        states.append(contents(queue))
        with recorded(template) as more:
            SECOND(queue)
        states.append(contents(queue))
    calls, first = recorder.calls + more.calls, len(recorder.calls)
    assert left_by(calls, start, lambda: True).there == read(template).there, "the recording is whole"
    draw = random.Random(7)
    found = []
    for number in range(len(calls) + 1):
        for chance in (lambda: False, lambda: draw.random() < 0.5):
            path = place / "disk"
            make(path, left_by(calls[:number], start, chance))
            with opened(path) as queue:
                state = states.index(contents(queue))
                assert state >= (number >= first) + (number == len(calls)), f"lost what was acknowledged, at {number}"
                queue.push("on", id=UUID(int=50))
                queue.lease_many(20)
                assert queue.check() == []
                found.append(state)
            shutil.rmtree(path)
    assert set(found) == {0, 1, 2}
    print(f"{len(calls)} calls")
