"""Salvaging: what can still be read of a damaged store, as a store of its own. For when there is no backup."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from queue_core.backup.placing import appearing, real_path
from queue_core.backup.records import Fault, Salvaged, Told, silent
from queue_core.errors import StoreGone
from queue_core.ledger import Counts, Meta, Totals
from queue_core.queue import Queue, open_queue, system_clock
from queue_core.stores.base import PIECE, Adopted, Clock
from queue_core.task import Record

if TYPE_CHECKING:
    from queue_core.stores.lmdb.wreck import Wreck

BATCH_BYTES = 16 << 20  # of payloads, in one commit
MOST_PAYLOAD = 1 << 30
TAG_SETTINGS = ("weight", "paused", "max_inflight", "min_interval", "max_pending")
QUEUE_SETTINGS = (
    "paused", "max_inflight", "min_interval", "max_pending", "dead_retention", "max_payload", "tag_retention",
    "history",
)  # fmt: skip


def salvage(
    source: str | os.PathLike[str], to: str | os.PathLike[str], *, clock: Clock = system_clock, told: Told = silent
) -> Salvaged:
    """Make a store of the tasks and settings that can still be read in a damaged one that nobody has open.

    Live tasks keep their order, and so do dead ones and those in the trash; each keeps its id, state, attempts and
    payload. What was in flight is pending. Totals, series, journal, plans and audit begin anew, under a new epoch. The
    damaged store is only read, as bytes, without LMDB. ``told`` is called with the tasks that were taken in, and how
    many were found.

    Raises StoreGone when nothing is there, StoreCorrupt when nothing tells where its data begins, InvalidArgument when
    the target is taken, StoreFull and StoreError when the disk cannot take it: nothing is left there then.
    """
    from queue_core.stores.lmdb.backup import begin_epoch, forget_locks
    from queue_core.stores.lmdb.health import FILE
    from queue_core.stores.lmdb.pages import Pages
    from queue_core.stores.lmdb.wreck import Wreck

    file = os.path.join(real_path(source), FILE)
    if not os.path.isfile(file):
        raise StoreGone(f"there is no file {file}: check the path")
    place = real_path(to)
    with appearing(place) as directory, Pages(file) as pages:
        wreck = Wreck(pages)
        with open_queue(directory, clock=clock, durability="none") as queue:
            nameless, left_out = _take_in(queue, wreck, told)
            store: Any = queue._store
            number = wreck.meta.epoch if wreck.meta is not None else 0
            begin_epoch(store, epoch=number, fence=wreck.fence, version=wreck.version)
            faults = tuple(Fault(f"invariant {found.invariant}", found.message) for found in queue.check())
            tasks = queue.counts().all
        forget_locks(directory)
    return Salvaged(
        place, tasks, wreck.meta.counts.all if wreck.meta is not None else None, pages.older, dict(left_out),
        wreck.unreadable, wreck.unreadable_bytes, wreck.spoiled, nameless, len(pages.damaged), pages.broken,
        pages.unclear, faults,
    )  # fmt: skip


def _take_in(queue: Queue, wreck: "Wreck", told: Told) -> tuple[int, Counter[str]]:
    """(how many tags have lost their names, tasks that were left out by reason)."""
    names = {number: tag.name for number, tag in wreck.tags.items()}
    nameless: dict[int, str] = {}
    left_out: Counter[str] = Counter()

    def adopted(record: Record) -> Adopted:
        name = names.get(record.tag)
        if name is None:
            name = nameless.setdefault(record.tag, _free(f"salvaged-{record.tag}", names.values()))
        return Adopted(name, record)

    for _, tag in sorted(wreck.tags.items()):
        if not tag.plain:
            _configure(queue, tag.name, {field: getattr(tag, field) for field in TAG_SETTINGS})
    _configure(queue, None, {"max_payload": MOST_PAYLOAD})
    done = 0
    for batch in _batches(map(adopted, wreck.tasks())):
        left_out.update(why for why in queue.perform(lambda store, batch=batch: store.adopt(batch)) if why is not None)  # type: ignore[misc]
        done += len(batch)
        told(done, len(wreck))
    queue_wide = wreck.meta if wreck.meta is not None else Meta(Counts(), Totals())
    _configure(queue, None, {field: getattr(queue_wide, field) for field in QUEUE_SETTINGS})
    return len(nameless), left_out


def _configure(queue: Queue, tag: str | None, changes: dict[str, int | bool | None]) -> None:
    queue.perform(lambda store: store.configure(tag, changes))


def _free(name: str, taken: Collection[str]) -> str:
    """A name that no tag has."""
    while name in taken:
        name += "'"
    return name


def _batches(items: Iterable[Adopted]) -> Iterator[list[Adopted]]:
    batch: list[Adopted] = []
    size = 0
    for item in items:
        batch.append(item)
        size += len(item.record.payload)
        if len(batch) == PIECE or size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
