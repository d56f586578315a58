"""Looks at a store or a backup, and says in lines of JSON what it finds.

``python -m queue_core.backup.inspection PATH shared|still``: a process of its own, which damage may kill. It says in
what part it is before it looks there.
"""

import json
import signal
import sys
from collections.abc import Iterator
from typing import Any

from queue_core import codec, keys
from queue_core.check import check
from queue_core.errors import StoreBusy, StoreCorrupt, StoreError, StoreVersion
from queue_core.ledger import FORMAT
from queue_core.queue import system_clock
from queue_core.stores.lmdb import LmdbStore, health
from queue_core.stores.lmdb.backup import Still
from queue_core.stores.lmdb.environment import Environment
from queue_core.task import Record

LOOKS = 3  # at the structure of a store that goes on meanwhile, while there is something to find


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def inspect(path: str, *, shared: bool) -> None:
    """Say what is found. ``shared``: others may have it open, and what is read must not be used again meanwhile."""
    say(part="file")
    environment = Still(path, shared=shared)
    say(part="structure")
    with environment.reading():
        faults = _structure(environment)
    say(faults=[["structure", fault] for fault in faults])
    if faults:
        return  # LMDB would trust what must not be trusted
    say(part="records")
    with environment.reading() as txn:
        if txn.get(keys.META) is None:
            raise StoreCorrupt("the file is a database of another program, or of none: it holds no queue")
    _records(LmdbStore(environment, system_clock))


def _structure(environment: Environment) -> list[str]:
    """A commit in between may mislead the look at it, so what is found then is looked at again."""
    for _ in range(LOOKS):
        before = environment.lmdb.info()["last_txnid"]
        faults = health.structure(environment.file)
        if not faults or environment.lmdb.info()["last_txnid"] == before:
            break
    return faults


def _records(store: LmdbStore) -> None:
    with store.view() as reader:
        meta = reader.meta
        say(format=meta.format, version=meta.last_version, tasks=meta.counts.all)
        if meta.format < FORMAT:
            return  # from before some of the invariants
        inventory = reader.inventory()
        seen = {"tasks": 0, "unreadable": 0}
        inventory.records = _counted(inventory.records, seen)
        findings = check(inventory)
        say(faults=[[f"invariant {finding.invariant}", finding.message] for finding in findings])
        say(tags=len(inventory.tags), **seen)


def _counted(records: Iterator[Record], seen: dict[str, int]) -> Iterator[Record]:
    for record in records:
        seen["tasks"] += 1
        try:
            codec.load_payload(record.payload)
        except ValueError:
            seen["unreadable"] += 1
        yield record


def main(path: str, how: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the one that waits for this one
    try:
        inspect(path, shared=how == "shared")
    except (StoreVersion, StoreBusy) as error:
        say(raised=type(error).__name__, words=str(error))
    except StoreError as error:
        say(fault=str(error).removesuffix(f": {health.WAY_OUT}"))


if __name__ == "__main__":
    main(*sys.argv[1:])
