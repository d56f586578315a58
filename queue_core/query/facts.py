"""What a filter may ask of one task at one instant."""

import json
from typing import Any, Protocol

from queue_core import codec
from queue_core.groups import mark_of
from queue_core.stores.base import Found
from queue_core.task import State, id_text

MISSING: Any = object()  # stands for a payload that is not JSON
_UNREAD: Any = object()


class Masking(Protocol):
    """Hides secrets before a filter sees them, so that nobody can guess them by filtering."""

    def value(self, payload: Any) -> Any:
        """The payload, a JSON value, with secrets replaced."""

    def text(self, text: str) -> str:
        """An error or a reason with secrets replaced."""


class _Unmasked:
    def value(self, payload: Any) -> Any:
        return payload

    def text(self, text: str) -> str:
        return text


UNMASKED: Masking = _Unmasked()


class Facts:
    """One task as filters see it, at ``now`` (microseconds since the epoch); each fact is found out when asked for.

    Spans are in microseconds. None is a fact that the task has not.
    """

    __slots__ = ("_document", "_folded", "_mask", "now", "record", "tag")

    def __init__(self, found: Found, now: int, mask: Masking = UNMASKED) -> None:
        self.record, self.tag = found
        self.now = now
        self._mask = mask
        self._document: Any = _UNREAD
        self._folded: dict[str, str | None] = {}

    @property
    def id(self) -> str:
        return id_text(self.record.id)

    @property
    def group(self) -> str | None:
        dead = State.DEAD in (self.record.state, self.record.origin)
        return mark_of(self.record).hex() if dead else None

    @property
    def owner(self) -> str | None:
        return self.record.hold.owner if self.record.hold else None

    @property
    def error(self) -> str | None:
        """The last error of any attempt, else what the newest attempt ended with."""
        record = self.record
        error = record.error
        if error is None and record.history:
            error = record.history[-1].error
        return None if error is None else self._mask.text(error)

    @property
    def dedupe(self) -> str | None:
        return None if self.record.dedupe_key is None else self._mask.text(self.record.dedupe_key)

    @property
    def reason(self) -> str | None:
        return None if self.record.reason is None else self._mask.text(self.record.reason)

    @property
    def document(self) -> Any:
        """The payload as a JSON value, or ``MISSING``."""
        if self._document is _UNREAD:
            try:
                self._document = self._mask.value(codec.load_payload(self.record.payload))
            except (ValueError, RecursionError):  # a record that did not decode was set aside, its bytes as payload
                self._document = MISSING
        return self._document

    @property
    def payload(self) -> str | None:
        """The payload as JSON text."""
        document = self.document
        return None if document is MISSING else json.dumps(document, ensure_ascii=False, separators=(",", ":"))

    def folded(self, name: str) -> str | None:
        """The text of that name without upper and lower case."""
        if name not in self._folded:
            text = getattr(self, name)
            self._folded[name] = None if text is None else text.casefold()
        return self._folded[name]

    @property
    def age(self) -> int | None:
        """Time in its present state."""
        record = self.record
        match record.state:
            case State.PENDING:
                since = record.ready
            case State.SCHEDULED:  # by a push, or by what ended its last attempt
                since = record.history[-1].ended if record.history else record.created
            case State.INFLIGHT:
                since = record.hold.leased if record.hold else record.created
            case _:
                since = record.entered
        return max(self.now - since, 0)

    @property
    def created(self) -> int:
        """Time since the push."""
        return max(self.now - self.record.created, 0)

    @property
    def silence(self) -> int | None:
        """Time since the last heartbeat."""
        return max(self.now - self.record.hold.beat, 0) if self.record.hold else None

    @property
    def due(self) -> int:
        """Time until it may run; negative when that has come."""
        return self.record.due - self.now

    @property
    def expires(self) -> int | None:
        """Time until its lease runs out; negative when it has."""
        return self.record.hold.expires - self.now if self.record.hold else None

    @property
    def size(self) -> int:
        """Bytes of the payload as stored."""
        return len(self.record.payload)
