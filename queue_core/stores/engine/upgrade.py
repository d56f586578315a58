"""Stores of older formats, brought up to date in one transaction when they are opened."""

from msgspec.structs import replace

from queue_core.groups import mark_of
from queue_core.ledger import FORMAT
from queue_core.stores.base import PIECE
from queue_core.stores.engine import moves
from queue_core.stores.engine.records import Book, Records
from queue_core.task import State


def upgrade(tx: Records) -> None:
    """To the present format; another process may have been faster."""
    meta = tx.meta
    if meta.format == 1:
        _measure(tx)
    if meta.format <= 2 and tx.book is not None:
        _group(tx, tx.book)
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


def _group(tx: Records, book: Book) -> None:
    """From format 2: dead letters come into error groups, those in trash know theirs."""
    for state in (State.DEAD, State.TRASH):
        after = None
        while records := tx.page(state, None, after, PIECE, False):
            for old in records:
                if state is State.DEAD:
                    new = replace(old, group=moves.group_of(tx, old))
                    tx.put(old, new)
                    moves.regroup(tx, book, new, death=True)
                elif old.origin is State.DEAD:
                    tx.put(old, replace(old, group=mark_of(old)))
            after = (records[-1].order, records[-1].place)
