"""Whether a store's file can be opened at all, looked at as plain bytes.

LMDB maps the file and trusts it: what is not there ends the process with a signal, when it is read and not before.
So this is looked at first, and cheaply. Damage inside of pages is not seen here: ``queue-core verify`` looks for it.
"""

import os
from stat import S_ISREG
from struct import Struct
from typing import NamedTuple

from queue_core.errors import InvalidArgument, StoreCorrupt, StoreError

FILE, READERS, LOCK, MANIFEST = "data.mdb", "lock.mdb", "write.lock", "backup.json"
WAY_OUT = "queue-core verify tells more, queue-core restore BACKUP --to DIR brings the last backup back"
# A page begins with its number and flags; a meta page goes on with two trees, the last page, the number of its commit.
PAGE_HEAD = Struct("=QHHI")
_meta = Struct("=QHHI IIQQ IHHQQQQQ IHHQQQQQ QQ")
BRANCH, LEAF, OVERFLOW, META = 0x01, 0x02, 0x04, 0x08
MAGIC = 0xBEEFC0DE
NO_PAGE = (1 << 64) - 1


class Header(NamedTuple):
    """What a meta page says of its commit."""

    number: int
    last_page: int
    roots: tuple[int, int]  # of the free pages, of the entries
    page_size: int


def look(path: str, *, write: bool = True) -> None:
    """Before a directory is opened as a store: raises what speaks against it. Nothing there is a store to come."""
    file = os.path.join(path, FILE)
    try:
        status = os.stat(file)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"{file} cannot be looked at ({error.strerror}): see to its rights, and its owner") from None
    if not S_ISREG(status.st_mode):
        raise StoreCorrupt(f"{file} is no regular file: name another directory, or {WAY_OUT}")
    if not os.access(file, os.R_OK | os.W_OK if write else os.R_OK):
        raise StoreError(
            f"{file} may not be read {'and written ' * write}by this user: see to its rights, or run as its owner, "
            f"uid {status.st_uid}"
        )
    if status.st_size == 0 and (not write or os.path.exists(os.path.join(path, LOCK))):  # else it is being made
        raise StoreCorrupt(f"{file} is empty, and was not: {WAY_OUT}")


def refuse_backup(path: str) -> None:
    """Raises InvalidArgument for a backup: opened as a store it would no longer be what was taken, nor a new epoch."""
    if os.path.exists(os.path.join(path, MANIFEST)):
        raise InvalidArgument(
            f"{path} is a backup: bring it back with queue-core restore {path} --to DIR, and open that"
        )


def examine(file: str, page_size: int) -> None:
    """Raises StoreCorrupt when pages that are in use lie behind the end of the file, or a root is no page of a tree.

    The caller holds a read transaction that began before, so that no page of the newest commit is used again meanwhile.
    """
    with open(file, "rb", buffering=0) as source:
        found = [header for start in (0, page_size) if (header := header_at(source.fileno(), start)) is not None]
        newest = max(found, key=lambda header: header.number)
        size = os.fstat(source.fileno()).st_size
        for page in newest.roots:
            if page != NO_PAGE and (page + 1) * page_size <= size:
                number, _, flags, _ = PAGE_HEAD.unpack(os.pread(source.fileno(), PAGE_HEAD.size, page * page_size))
                if number != page or flags not in (BRANCH, LEAF):
                    raise StoreCorrupt(f"{file} is damaged (page {page} is not the root of a tree): {WAY_OUT}")
    needed = (newest.last_page + 1) * page_size
    if size >= needed:
        return
    # A page at the end that was freed by the commit that made it is never written, so a shorter file may be whole.
    if problems := structure(file):
        raise StoreCorrupt(f"{file} has {size:,} bytes and uses {needed:,}, it was cut off ({problems[0]}): {WAY_OUT}")


def structure(file: str) -> list[str]:
    """What is wrong with the pages in use, and with their trees; reads them as bytes, trusts none, and takes its time.

    To be called like ``examine``. A commit while it looks for the newest may still mislead it.
    """
    from lmdb import verify  # seldom wanted

    try:
        problems: list[str] = verify.verify(file)  # type: ignore[no-untyped-call]
    except verify.VerifyError as error:
        problems = [str(error)]
    return problems


def header_at(file: int, start: int) -> Header | None:
    """The meta page that begins there; None when there is none."""
    data = os.pread(file, _meta.size, start)
    if len(data) < _meta.size:
        return None
    fields = _meta.unpack(data)
    if not fields[2] & META or fields[4] != MAGIC:
        return None
    return Header(fields[25], fields[24], (fields[15], fields[23]), fields[8])
