"""Stores of older formats, brought up to date when they are opened."""

from msgspec.structs import replace

from queue_core.ledger import FORMAT
from queue_core.stores.base import PIECE
from queue_core.stores.engine import moves
from queue_core.stores.engine.records import Records
from queue_core.task import State


def upgrade(tx: Records) -> None:
    """To the present format; another process may have been faster. ``group`` does what takes long, in pieces."""
    meta = tx.meta
    if meta.format == 1:
        _measure(tx)
    if meta.format <= 2 and tx.book is not None and meta.counts.dead:
        meta.grouped = 1
    meta.format = max(meta.format, FORMAT)


def _measure(tx: Records) -> None:
    """From format 1: what has been done so far counts as expired history; the journal may name any tag."""
    meta = tx.meta
    meta.end_tag = meta.last_tag
    meta.wait_before, meta.service_before = meta.totals.wait, meta.totals.service
    for known in list(tx.tags()):
        tag = tx.tag(known.number)
        measured, totals = tag.measured, tag.totals
        measured.event, measured.aged = meta.events, meta.aged
        measured.wait_before, measured.service_before = totals.wait, totals.service


def group(tx: Records) -> bool:
    """From format 2: the next dead letters come into error groups; whether there may be more.

    Those that are in none yet are leased and redriven like others. What is in trash finds its group when it is
    restored.
    """
    meta, book = tx.meta, tx.book
    if not meta.grouped or book is None:
        return False
    records = tx.page(State.DEAD, None, (meta.grouped - 1, (1 << 64) - 2), PIECE, False)
    for old in records:
        if old.version and not old.group:
            new = replace(old, group=moves.group_of(tx, old))
            tx.put(old, new)
            moves.regroup(tx, book, new, death=True)
    meta.grouped = records[-1].entry + 1 if len(records) == PIECE else 0
    return bool(meta.grouped)
