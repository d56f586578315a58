"""One transaction's view of the directory: what is stored, and over it what the transaction has changed."""

import errno
import os
from collections.abc import Callable, Iterator
from re import Pattern
from typing import Any, NamedTuple

from sortedcontainers import SortedList

from queue_core.stores.files import names

Listing = tuple["SortedList[str]", "SortedList[str]"]  # (files and links, directories)
REMEMBERED = 1_000  # directories
READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a link or a pipe in a task's place is no task


class Link(NamedTuple):
    """A symbolic link with what it holds; with nothing, an empty file: a mark."""

    target: str


class Tree:
    """Paths are relative to the root, with ``/``. Nothing is written: ``writes`` is what a commit has to do."""

    def __init__(self, root: str, failed: Callable[[OSError], Exception]) -> None:
        self._root = root
        self._failed = failed  # what to raise for a failure of the file system
        self.writes: dict[str, bytes | Link | None] = {}
        self.listed = 0  # names read from directories, for tests of what a verb costs
        self._listings: dict[str, Listing] = {}
        self._changed: dict[str, dict[str, bool]] = {}  # directory -> name -> whether it is there
        self._added: dict[str, set[str]] = {}  # directory -> directories that files were added under

    # --- files and links

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None when there is none."""
        if path in self.writes:
            found = self.writes[path]
            return found if not isinstance(found, Link) else None
        try:
            file = os.open(f"{self._root}/{path}", READ)
        except OSError as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError) or error.errno == errno.ELOOP:
                return None
            raise self._failed(error) from error
        try:
            size = os.fstat(file).st_size
            parts = [os.read(file, size + 1)]
            while parts[-1]:
                parts.append(os.read(file, 1 << 20))
            return b"".join(parts)
        except IsADirectoryError:
            return None
        except OSError as error:
            raise self._failed(error) from error
        finally:
            os.close(file)

    def link(self, path: str) -> str | None:
        """What a link holds; None when there is no such link."""
        if path in self.writes:
            found = self.writes[path]
            return found.target if isinstance(found, Link) else None
        try:
            return os.readlink(f"{self._root}/{path}")
        except OSError as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError) or error.errno == errno.EINVAL:
                return None
            raise self._failed(error) from error

    def put(self, path: str, data: bytes) -> None:
        self._write(path, data)

    def point(self, path: str, target: str) -> None:
        """Make a link."""
        self._write(path, Link(target))

    def mark(self, path: str) -> None:
        """Make an empty file."""
        self._write(path, Link(""))

    def remove(self, path: str) -> None:
        """Remove a file or a link; one that is not there does no harm."""
        self._write(path, None)

    def _write(self, path: str, value: bytes | Link | None) -> None:
        self.writes[path] = value
        directory, _, name = path.rpartition("/")
        there = value is not None
        self._changed.setdefault(directory, {})[name] = there
        listing = self._listings.get(directory)
        if listing is not None:
            if there and name not in listing[0]:
                listing[0].add(name)
            elif not there:
                listing[0].discard(name)
        while there and directory:
            directory, _, name = directory.rpartition("/")
            self._added.setdefault(directory, set()).add(name)
            listing = self._listings.get(directory)
            if listing is not None and name not in listing[1]:
                listing[1].add(name)

    # --- directories

    def _list(self, directory: str) -> Listing:
        found = self._listings.get(directory)
        if found is None:
            files: set[str] = set()
            directories: set[str] = set()
            try:
                with os.scandir(f"{self._root}/{directory}") as entries:
                    for entry in entries:
                        (directories if entry.is_dir(follow_symlinks=False) else files).add(entry.name)
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as error:
                raise self._failed(error) from error
            self.listed += len(files) + len(directories)
            for name, there in self._changed.get(directory, {}).items():
                (files.add if there else files.discard)(name)
            directories |= self._added.get(directory, set())
            if len(self._listings) > REMEMBERED:
                self._listings.clear()
            found = self._listings[directory] = (SortedList(files), SortedList(directories))
        return found

    def files(self, directory: str, pattern: Pattern[str], **bounds: Any) -> Iterator[str]:
        """Names of files and links that fit the pattern, in order; ``bounds`` as those of ``SortedList.irange``."""
        return (name for name in list(self._list(directory)[0].irange(**bounds)) if pattern.fullmatch(name))

    def directories(self, directory: str, pattern: Pattern[str], **bounds: Any) -> Iterator[str]:
        return (name for name in list(self._list(directory)[1].irange(**bounds)) if pattern.fullmatch(name))

    def walk(
        self, directory: str, depth: int, pattern: Pattern[str], start: str | None = None, *, reverse: bool = False
    ) -> Iterator[str]:
        """Paths of files ``depth`` levels below a directory, in order, from ``start`` on (a path below it).

        Backwards from before ``start`` when reversed. Directories are read when the walk comes to them.
        """
        first, _, rest = (start or "").partition("/") if depth else (start or "", "", "")
        bounds: dict[str, Any] = {"reverse": reverse}
        if start is not None:
            bounds |= {"maximum": first} if reverse else {"minimum": first}
        if not depth:
            bounds |= {"inclusive": (True, False)} if reverse else {}
            for name in self.files(directory, pattern, **bounds):
                yield f"{directory}/{name}"
            return
        for name in self.directories(directory, names.SHARD, **bounds):
            inner = rest if start is not None and name == first else None
            yield from self.walk(f"{directory}/{name}", depth - 1, pattern, inner, reverse=reverse)
