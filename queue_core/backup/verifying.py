"""Verifying a backup or a store: by a process of its own, because LMDB may die of damage."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from subprocess import PIPE
from typing import Any

from queue_core import errors
from queue_core.backup.placing import real_path
from queue_core.backup.records import Backup, Fault, Told, Verified, read, silent
from queue_core.errors import InvalidArgument, StoreCorrupt, StoreError, StoreGone
from queue_core.queue import open_queue

Found = dict[str, Any]


def verify(target: str | os.PathLike[str], *, told: Told = silent) -> Verified:
    """Whether a backup, or a store that others may be working on, is sound.

    Looks at the checksum (of a backup), at the structure of the file without trusting it, at the format, then at every
    invariant (``queue.check``). Writes nothing. ``target`` is a directory or a URL. Damage is told in the answer, not
    raised, that which would kill a process too. A store has no checksum: a payload that has become another is not seen.

    Of an older format only the file is looked at: opening upgrades it, and ``restore`` checks it then.

    Raises StoreGone when nothing is there, StoreVersion when it is of a newer format, StoreError when it may not be
    read, InvalidArgument for memory://.
    """
    url = os.fspath(target)
    scheme, separator, rest = url.partition("://")
    if separator and scheme != "lmdb":
        return _in_this_process(url)
    path = real_path(rest if separator else url)
    from queue_core.stores.lmdb import health

    file = os.path.join(path, health.FILE)
    if not os.path.lexists(file):
        raise StoreGone(f"there is no store and no backup at {path}: check the path")
    backup, faults = None, []
    try:
        backup = Backup.read(path)
    except StoreCorrupt as error:
        faults.append(Fault("checksum", str(error)))
    with suppress(StoreCorrupt):  # of which the inspection will tell
        health.look(path, write=backup is None)  # a place among the readers of a store is written
    size = os.path.getsize(file) if os.path.isfile(file) else None
    if backup is not None and size is not None:
        faults += _checksum(file, size, backup, told)
    found = _inspect(path, still=bool(backup or faults))
    faults += [Fault(*fault) for fault in found["faults"]]
    if backup is not None and found.get("version", backup.last_version) != backup.last_version:
        faults.append(Fault("checksum", "data.mdb is not that of which backup.json tells"))
    return Verified(path, backup, size, found.get("tasks"), found.get("tags"), found.get("unreadable"), tuple(faults))


def _checksum(file: str, size: int, backup: Backup, told: Told) -> list[Fault]:
    if size != backup.bytes:
        return [Fault("checksum", f"data.mdb has {size:,} bytes, {backup.bytes:,} were written")]
    if read(file, told)[1] != backup.blake2b:
        return [Fault("checksum", "data.mdb holds other bytes than were written")]
    return []


def _inspect(path: str, *, still: bool) -> Found:
    """What a process of its own says; how it ended is told as a fault, if it did not end well."""
    command = [sys.executable, "-m", "queue_core.backup.inspection", path, "still" if still else "shared"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # it imports what this one does
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, env=environment) as process:
        try:
            output, words = process.communicate()
        except BaseException:
            process.kill()
            raise
    found: Found = {"faults": []}
    for line in output.splitlines():
        said = json.loads(line)
        found["faults"] += said.pop("faults", [])
        found |= said
    if "part" not in found:
        raise StoreError(f"no process can be started to look at {path}: {words.decode('utf-8', 'replace')[-1_000:]}")
    if process.returncode:
        end = f"signal {-process.returncode}" if process.returncode < 0 else f"exit code {process.returncode}"
        last = words.decode("utf-8", "replace").strip().rpartition("\n")[2]
        found["fault"] = f"the process that read it ended with {end}: {last[:500]}"
    if "raised" in found:
        raise getattr(errors, found["raised"])(found["words"])
    if "fault" in found:
        found["faults"].append([found["part"], found["fault"]])
    return found


def _in_this_process(url: str) -> Verified:
    """A files store: Python reads its files, and does not die of them."""
    if url.startswith("memory:"):
        raise InvalidArgument(f"{url} is in the memory of a process: use queue.check() there")
    try:
        with open_queue(url, create=False) as queue, queue.view() as view:
            faults = tuple(Fault(f"invariant {found.invariant}", found.message) for found in view.check())
            snapshot = view.snapshot()
            tasks, tags = view.counts().all, len(snapshot.tags)
            return Verified(queue.url, None, queue.storage().used, tasks, tags, None, faults)
    except StoreCorrupt as error:
        return Verified(url, None, None, None, None, None, (Fault("records", str(error)),))
