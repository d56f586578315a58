"""A directory that appears whole, or not at all."""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex

from queue_core.errors import InvalidArgument, StoreError, StoreFull
from queue_core.stores.files.flush import flush

UNFINISHED = ".queue-core-unfinished-"
NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


def real_path(path: str | os.PathLike[str]) -> str:
    """Absolute, without links. Raises InvalidArgument for what is no path."""
    try:
        if os.fsencode(path):
            return os.path.realpath(os.fspath(path))
        raise ValueError("it is empty")
    except ValueError as error:
        raise InvalidArgument(f"{path!r:.100} is no path of a directory ({error}): name one") from None


@contextmanager
def appearing(target: str) -> Iterator[str]:
    """A directory to fill, which becomes ``target`` when all went well, flushed; else it goes.

    What a killed process has left beside it goes as well. Raises InvalidArgument when ``target`` is there and not an
    empty directory, or has no directory to be in; StoreFull and StoreError when the disk cannot do it.
    """
    parent = os.path.dirname(target)
    try:
        _refuse(target, parent)
        _clear(parent)
        directory, lock = os.path.join(parent, UNFINISHED + token_hex(8)), -1
        try:
            os.mkdir(directory)
            lock = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX)  # a sign of life: see _clear
            yield directory
            for name in os.listdir(directory):
                flush(os.path.join(directory, name))
            flush(directory)
            os.rename(directory, target)  # refused by the system when something has come there meanwhile
            flush(parent)
        finally:
            shutil.rmtree(directory, ignore_errors=True)  # has another name already, if all went well
            if lock >= 0:
                os.close(lock)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StoreFull(
                f"{parent} has no room for {target} ({error.strerror}): nothing was left there; free space, or choose "
                "another disk"
            ) from error
        left = "it may be there, and not on the disk" if os.path.exists(target) else "nothing was left there"
        raise StoreError(f"{target} cannot be made ({error}): {left}") from error


def _refuse(target: str, parent: str) -> None:
    if not os.path.isdir(parent):
        raise InvalidArgument(f"there is no directory {parent} to make {target} in: make it first, or mount its disk")
    try:
        there = os.listdir(target)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise InvalidArgument(f"{target} is a file: name a directory that is not there yet") from None
    if there:
        raise InvalidArgument(
            f"{target} is not empty, and nothing is overwritten: name another directory, or move this one away "
            f"(mv {target} {target}.old)"
        )


def _clear(parent: str) -> None:
    """Remove what others have begun and can no longer finish: who is alive holds a lock on it."""
    for name in os.listdir(parent):
        if not name.startswith(UNFINISHED):
            continue
        path = os.path.join(parent, name)
        try:
            lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # gone meanwhile, or somebody else's
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            pass  # alive
        finally:
            os.close(lock)
