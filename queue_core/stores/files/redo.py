"""A commit as a list of steps that may be taken again: what a crash has left is finished by whoever comes next.

New files lie flushed under ``new/`` when the redo record is written; the record says what goes where. It is one file
that stays, written over from its start, so that a commit costs one flush of data here and none of a directory. Its
first line has the state (``W``: to be done; ``D``: done), the number of the commit, and length and digest of the rest:
a record that was cut off is none.
"""

import os
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from queue_core.stores.files import names

HEAD = 64
KEPT = 64 << 10  # bytes that the file keeps, so that most records find their blocks there
LARGEST = 1 << 20  # above, the file is cut again


class Step(NamedTuple):
    """``source`` is put in place as ``path``; or ``path`` becomes a link that holds ``target``, an empty file when that
    is nothing; or, with neither, it goes."""

    path: str
    source: str | None = None
    target: str | None = None


_decode = msgspec.json.Decoder(list[Step]).decode


def encode(commit: int, steps: list[Step]) -> bytes:
    body = msgspec.json.encode(steps) + b"\n"
    digest = blake2b(b"%d %b" % (commit, body), digest_size=16).hexdigest()
    head = b"W %012d %010d %b" % (commit, len(body), digest.encode())
    return head.ljust(HEAD - 1) + b"\n" + body


def commit_of(head: bytes) -> int:
    """The number of the commit that was begun last; 0 when it cannot be told."""
    number = head[2:14]
    return int(number) if number.isdigit() else 0


def unfinished(read: Callable[[int, int], bytes]) -> list[Step] | None:
    """The steps of a commit that is to be finished; None when there is none. ``read(size, offset)`` reads the file."""
    head = read(HEAD, 0)
    parts = head.split()
    if len(parts) != 4 or parts[0] != b"W" or not (parts[1].isdigit() and parts[2].isdigit()):
        return None
    body = read(int(parts[2]), HEAD)
    digest = blake2b(b"%d %b" % (int(parts[1]), body), digest_size=16).hexdigest()
    return _decode(body) if digest.encode() == parts[3] and len(body) == int(parts[2]) else None


class Apply:
    """Takes the steps in a directory; each may have been taken before."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._flush: dict[str, None] = {}  # directories whose names have changed

    def run(self, steps: Iterable[Step]) -> list[str]:
        """The directories that have to be flushed, in the order in which they were changed."""
        gone = []
        for step in steps:
            if step.source is not None:
                self._place(step.source, step.path)
            elif step.target is not None:
                self._link(step.path, step.target)
            else:
                gone.append(step.path)
        for path in gone:
            self._remove(path)
        for directory in dict.fromkeys(map(os.path.dirname, gone)):
            self._prune(directory)
        return list(self._flush)

    def _place(self, source: str, path: str) -> None:
        self._parents(path)
        try:
            os.replace(f"{self._root}/{source}", f"{self._root}/{path}")
        except FileNotFoundError:
            if not os.path.lexists(f"{self._root}/{path}"):  # else it was placed before
                raise

    def _link(self, path: str, target: str) -> None:
        self._parents(path)
        path = f"{self._root}/{path}"
        if not target:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
            return
        try:
            os.symlink(target, path)
        except FileExistsError:
            os.unlink(path)
            os.symlink(target, path)

    def _remove(self, path: str) -> None:
        try:
            os.unlink(f"{self._root}/{path}")
        except (FileNotFoundError, NotADirectoryError):
            return
        self._flush[os.path.dirname(path)] = None

    def _parents(self, path: str) -> None:
        """Make the directories on the way."""
        directory = os.path.dirname(path)
        if directory in self._flush:
            return
        self._flush[directory] = None
        missing = []
        while directory and not os.path.isdir(f"{self._root}/{directory}"):
            missing.append(directory)
            directory = os.path.dirname(directory)
        for directory in reversed(missing):
            os.mkdir(f"{self._root}/{directory}")
            self._flush[os.path.dirname(directory)] = None

    def _prune(self, directory: str) -> None:
        """Remove directories that are empty now; those on top stay, and the few that ids and names are spread over."""
        while directory.count("/") and not directory.startswith((names.IDS, names.NAMES)):
            try:
                os.rmdir(f"{self._root}/{directory}")
            except OSError:  # not empty, or gone already
                return
            self._flush.pop(directory, None)
            directory = os.path.dirname(directory)
            self._flush[directory] = None  # else it may be there again, with what was removed from it
