"""What backup, restore and verify tell."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

import msgspec

from queue_core.errors import StoreCorrupt, StoreError

MANIFEST = "backup.json"
CHUNK = 1 << 20
Told = Callable[[int, int], None]  # bytes done, and how many there will be


def silent(done: int, total: int) -> None:
    """Progress that nobody follows."""


def read(file: str, told: Told) -> tuple[int, str]:
    """The size of a file, and BLAKE2b of what it holds, in hexadecimal digits."""
    digest, done = blake2b(), 0
    with open(file, "rb", buffering=0) as source:
        size = os.fstat(source.fileno()).st_size
        while data := source.read(CHUNK):
            digest.update(data)
            done += len(data)
            told(done, size)
    return done, digest.hexdigest()


class Backup(msgspec.Struct, frozen=True):
    """A backup, as the ``backup.json`` beside its data tells."""

    store: str  # the name of the directory that it was taken from
    taken_at: datetime  # by the store's clock, after the copy: the copy is no younger
    format: int
    epoch: int
    last_version: int  # of the last change that is in it
    counts: dict[str, int]  # tasks by state
    tags: int
    bytes: int  # of its data.mdb
    blake2b: str  # of its data.mdb, in hexadecimal digits

    @property
    def tasks(self) -> int:
        return sum(self.counts.values())

    def write(self, directory: str) -> None:
        """As ``backup.json``; not flushed."""
        text = msgspec.json.format(msgspec.json.encode(self), indent=2)
        Path(directory, MANIFEST).write_bytes(text + b"\n")

    @classmethod
    def read(cls, directory: str) -> "Backup | None":
        """What the directory's ``backup.json`` says; None where there is none. Raises StoreCorrupt."""
        path = Path(directory, MANIFEST)
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error.strerror}): see to its rights, and its disk") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreCorrupt(f"{path} does not decode ({error}): take another backup") from None


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it should be. ``part`` says where: checksum, file, structure, records, invariant 2, …"""

    part: str
    message: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What ``verify`` has found. Numbers are None where the data could not be read."""

    path: str
    backup: Backup | None  # None: it is a store
    bytes: int | None  # of the file
    tasks: int | None
    tags: int | None
    unreadable: int | None  # payloads that are not JSON: damage that no count can show, or a record that was set aside
    faults: tuple[Fault, ...]

    @property
    def sound(self) -> bool:
        return not self.faults


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What was read of a damaged store, and what was not. Nothing is known of what is not counted here."""

    path: str  # of the new store
    tasks: int  # that are in it
    expected: int | None  # that the damaged store counted; None: its count could not be read
    older: bool  # whether its last commit may be missing
    left_out: dict[str, int]  # tasks that were read and not taken in, by reason
    unreadable: int  # tasks of which the key was read, and the rest does not decode or contradicts itself
    unreadable_bytes: int  # of those
    spoiled: int  # payloads that are no JSON any longer: their bytes are kept
    nameless: int  # tags whose names could not be read: they are named after their numbers
    damaged_pages: int  # that are not what something points to
    broken_entries: int  # that do not hold together
    unclear_pages: int  # that may have held tasks, or be free: which are free could not be read
    faults: tuple[Fault, ...]  # of the new store

    @property
    def whole(self) -> bool:
        """Whether everything that the damaged store counted is here."""
        return self.tasks == self.expected and not (self.older or self.unreadable or self.nameless or self.faults)


@dataclass(frozen=True, slots=True)
class Restored:
    """A store that was made of a backup. ``requeued`` tasks were in flight, and are pending again."""

    path: str
    backup: Backup
    epoch: int
    requeued: int
