"""The redactor: payloads, texts and whole tasks as they may be seen."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from msgspec.structs import replace

from queue_core import codec
from queue_core.errors import InvalidArgument
from queue_core.redact.boxes import Box, Change, path, rebuilt
from queue_core.redact.cut import completed
from queue_core.redact.keys import KEYS, NO_SECRET, Name, Names, words
from queue_core.redact.masks import MASKED, cover, covered
from queue_core.redact.pairs import pairs
from queue_core.redact.shapes import SHAPES, Shape, is_card, own
from queue_core.task import Record, Task

RULES = frozenset(SHAPES) - {"email"}
AHEAD = 2_048  # bytes of a payload that are looked at beyond what is shown: a secret that is cut off is still one
PASSES = 5  # at most: a secret that is glued to another is seen when that is masked
REMEMBERED = 4_096  # fields
LONG = 200  # characters of a field's name that is not remembered


class Seen(NamedTuple):
    """A task as it may be seen, and what of it is masked: ``payload.user.token``, ``error``, …"""

    task: Task
    masked: tuple[str, ...]


class _Field(NamedTuple):
    """A name in a payload: what it says of its value, and how it is shown, as it may hold a secret itself."""

    name: Name
    shown: str


@dataclass(frozen=True)
class Redactor:
    """Hides secrets: by the names of fields, and by their shape.

    ``keys`` are rules for names (see ``queue_core.redact.keys``), ``rules`` the shapes that are masked (some of
    ``SHAPES``), ``patterns`` further shapes, as (name, regular expression). What is masked already stays as it is.
    Raises InvalidArgument for a rule that cannot work.
    """

    keys: tuple[str, ...] = KEYS
    rules: frozenset[str] = RULES
    patterns: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for key in self.keys:
            if not words(key):
                raise InvalidArgument(f"the key {key!r:.60} has no letter: write words, such as 'api key' or '*token'")
        for rule in sorted(self.rules - set(SHAPES)):
            raise InvalidArgument(f"there is no rule {rule!r:.60}: use some of {', '.join(SHAPES)}")
        for name, pattern in self.patterns:
            _check_pattern(name, pattern)

    @cached_property
    def _names(self) -> Names:
        return Names(self.keys)

    @cached_property
    def _shapes(self) -> list[Shape]:
        known = [shape for name, shape in SHAPES.items() if name in self.rules]
        return known + [own(pattern) for _, pattern in self.patterns]

    @cached_property
    def _fields(self) -> dict[str, _Field]:
        return {}

    # --- text

    def text(self, text: str) -> str:
        """An error, a reason or a traceback with its secrets masked; the same object when there are none."""
        masked = text
        for _ in range(PASSES):
            masked, before = self._passed(masked), masked
            if masked == before:
                break
        return text if masked == text else masked

    def _passed(self, text: str) -> str:
        small, size = text.lower(), len(text)
        for shape in self._shapes:
            if size >= shape.least and shape.hint in small:
                text = covered(text, shape.spans(text))
        return pairs(text, self._names) if self.keys else text  # last: a value may be cut where a shape goes on

    # --- payloads

    def value(self, payload: Any) -> Any:
        """A JSON value with its secrets masked; the same object when there are none.

        A text stays a text, a number becomes 0, and null and booleans are shown: whatever reads payloads reads this.
        All that is below the name of a secret is hidden. What is no JSON value is left as it is.
        """
        boxes, changes, _ = self._looked_at(payload)
        return rebuilt(boxes, changes) if changes else payload

    def masked(self, payload: Any) -> list[str]:
        """Where ``value`` hides something: ``payload.user.token``, ``payload.urls[2]``."""
        boxes, _, hidden = self._looked_at(payload)
        return [path(boxes, place, shown) for place, shown in hidden]

    def _looked_at(self, payload: Any) -> tuple[list[Box], dict[int, list[Change]], list[tuple[int, Any]]]:
        """Every box of a payload; what changes in which; and in which, under which name, something is hidden."""
        boxes = [Box([payload], -1, None, None, False)]
        changes: dict[int, list[Change]] = {}
        found: list[tuple[int, Any]] = []
        for place, box in enumerate(boxes):  # which grow meanwhile
            for key, shown, item, hidden in self._entries(box):
                new = item
                if isinstance(item, dict | list):
                    boxes.append(Box(item, place, key, shown, hidden))
                    hidden = False
                else:
                    new, hidden = self._leaf(item, hidden)
                if hidden or shown != key:
                    found.append((place, shown))
                if new is not item or shown != key:
                    changes.setdefault(place, []).append(Change(key, shown, new))
        return boxes, changes, found

    def _entries(self, box: Box) -> Iterator[tuple[Any, Any, Any, bool]]:
        """Key, how it is shown, what is there, and whether it is hidden because of where it is."""
        if isinstance(box.items, list):
            for place, item in enumerate(box.items):
                yield place, place, item, box.hidden
            return
        for key, item in box.items.items():
            name, shown = self._field(key)
            secret = name.hides and not (name.counts and isinstance(item, int | float))
            yield key, shown, item, box.hidden or secret

    def _field(self, key: Any) -> _Field:
        if not isinstance(key, str):
            return _Field(NO_SECRET, key)
        field = self._fields.get(key)
        if field is None:
            shown = self.text(key)
            field = _Field(self._names.of(MASKED.sub(" ", shown)), shown)  # by what is left when it is masked
            if len(key) <= LONG:
                if len(self._fields) >= REMEMBERED:
                    self._fields.clear()
                self._fields[key] = field
        return field

    def _leaf(self, item: Any, hidden: bool) -> tuple[Any, bool]:
        """What stands for a value that is no box, and whether it hides something."""
        if isinstance(item, str):
            new = cover(item) if hidden else self.text(item)
            return new, new is not item or (hidden and item != "")
        if isinstance(item, bool) or not isinstance(item, int | float):
            return item, False
        hidden = hidden or ("card" in self.rules and isinstance(item, int) and _is_card(item))
        if hidden and item:
            return (0.0 if isinstance(item, float) else 0), True
        return item, hidden

    # --- what is stored

    def stored(self, data: bytes) -> bytes:
        """Stored JSON text with its secrets masked; the same object when there are none. What does not decode is
        masked as a text."""
        return self._stored(data)[0]

    def head(self, data: bytes, limit: int) -> tuple[str, bool]:
        """The beginning of stored JSON text, masked, at least ``limit`` characters of it unless masks make it shorter,
        and whether that is all. The time does not grow with the payload."""
        reach = 4 * limit + AHEAD
        if len(data) <= reach:
            return self.stored(data).decode("utf-8", "replace"), True
        begun = completed(data[:reach].decode("utf-8", "replace"))
        return self.stored(begun.encode()).decode("utf-8", "replace"), False

    def seen(self, task: Task) -> Seen:
        """The task as it may be seen: see ``record``. Its version stays, so that one can act on what one has seen."""
        record, masked = self._record(task.record)
        return Seen(task if record is task.record else Task(record, task.tag, task._load), masked)

    def record(self, record: Record) -> Record:
        """The record with its words masked: payload, edited payloads, error, reason, the errors of its attempts, and
        dedupe key; the same object when nothing is. Id, tag and owner are names, and shown."""
        return self._record(record)[0]

    def _record(self, record: Record) -> tuple[Record, tuple[str, ...]]:
        new: dict[str, Any] = {name: self._text(getattr(record, name)) for name in ("error", "reason", "dedupe_key")}
        new["history"] = tuple(replace(attempt, error=self._text(attempt.error)) for attempt in record.history)
        new["edits"] = tuple(replace(edit, payload=self.stored(edit.payload)) for edit in record.edits)
        told = [name for name, value in new.items() if value != getattr(record, name)]
        new["payload"], paths = self._stored(record.payload)
        if told or new["payload"] is not record.payload:
            record = replace(record, **new)
        return record, (*paths, *told)

    def _text(self, text: str | None) -> str | None:
        return text and self.text(text)

    def _stored(self, data: bytes) -> tuple[bytes, list[str]]:
        """Stored JSON text, masked, and where something is hidden in it."""
        try:
            boxes, changes, found = self._looked_at(codec.load_payload(data))
            masked = _dumped(rebuilt(boxes, changes)) if changes else data
        except (ValueError, RecursionError):  # bytes that were set aside, or nested deeper than can be read here
            text = data.decode("utf-8", "surrogateescape")
            shown = self.text(text)
            return (data, []) if shown is text else (shown.encode("utf-8", "surrogateescape"), ["payload"])
        return masked, [path(boxes, place, name) for place, name in found]


UNMASKED = Redactor((), frozenset())


def _check_pattern(name: str, pattern: str) -> None:
    try:
        empty = re.compile(pattern).search("")
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidArgument(f"pattern {name!r:.60}, {pattern!r:.200}, is no regular expression: {error}") from None
    if empty:
        raise InvalidArgument(f"pattern {name!r:.60}, {pattern!r:.200}, fits the empty text: let it want a character")


def _is_card(number: int) -> bool:
    return 10**13 <= number < 10**19 and is_card(str(number))


def _dumped(payload: Any) -> bytes:
    try:
        return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(payload, separators=(",", ":")).encode()
