"""Task, attempt and lease: the records, their tokens, and the pure transitions between states."""

from queue_core.task.handles import Lease, Task
from queue_core.task.records import (
    EPOCH,
    HISTORY_EDGE,
    LAST_MOMENT,
    LIVE,
    SECOND,
    TEXT_LIMIT,
    Attempt,
    Edit,
    Hold,
    Outcome,
    Record,
    State,
    microseconds,
    moment,
)
from queue_core.task.rules import backoff, clean_text
from queue_core.task.tokens import Token, id_text, is_token, nonce, parse_id, parse_token
from queue_core.task.transitions import beaten, closed, dead, leased, pending, revived, scheduled, trashed

__all__ = [
    "EPOCH",
    "HISTORY_EDGE",
    "LAST_MOMENT",
    "LIVE",
    "SECOND",
    "TEXT_LIMIT",
    "Attempt",
    "Edit",
    "Hold",
    "Lease",
    "Outcome",
    "Record",
    "State",
    "Task",
    "Token",
    "backoff",
    "beaten",
    "clean_text",
    "closed",
    "dead",
    "id_text",
    "is_token",
    "leased",
    "microseconds",
    "moment",
    "nonce",
    "parse_id",
    "parse_token",
    "pending",
    "revived",
    "scheduled",
    "trashed",
]
