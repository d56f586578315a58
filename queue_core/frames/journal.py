"""The journal as a DataFrame, declared as those of ``tables`` are."""

from collections.abc import Iterable

import pandas as pd

from queue_core.frames.tables import UTC, Schema, rows
from queue_core.frames.text import one_line, tag_label
from queue_core.history import Event, Kind
from queue_core.redact import Redactor, masking
from queue_core.task import SECOND

JOURNAL: Schema = {
    "event": "int64", "at": UTC, "kind": "str", "number": "Int64", "tag": "str", "label": "str", "id": "str",
    "owner": "str", "serve": "Int64", "since": "Int64", "wait": "float64", "weight": "Int64", "detail": "str",
}  # fmt: skip


def journal_frame(journal: Iterable[Event], mask: Redactor | None = None) -> pd.DataFrame:
    """One row per event, in the order given. ``number``, ``tag`` and ``label`` are missing for what happened to the
    whole queue, ``id`` for what happened to no task. ``serve``, ``since``, ``wait`` (seconds) and ``weight`` are those
    of a lease, and missing for all others."""
    mask = masking(mask)
    return rows(
        JOURNAL,
        (
            (
                event.number, event.at, event.kind, event.entry.tag or None, event.tag,
                None if event.tag is None else tag_label(event.tag), event.task_id, one_line(event.owner),
                *_lease(event), one_line(mask.text(event.detail)),
            )
            for event in journal
        ),
    )  # fmt: skip


def _lease(event: Event) -> tuple[int | None, int | None, float | None, int | None]:
    entry = event.entry
    if entry.kind is not Kind.LEASE:
        return None, None, None, None
    return entry.serve, entry.since, entry.wait / SECOND, entry.weight
