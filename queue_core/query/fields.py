"""Every field that a filter may name, once: what it compares, how, and in which states a task has it."""

import re
from collections.abc import Callable
from enum import StrEnum
from operator import attrgetter
from types import MappingProxyType
from uuid import UUID

import msgspec

from queue_core.query.facts import Facts
from queue_core.query.values import parse_count, parse_size, parse_span, size_text, span_text
from queue_core.query.words import Pattern
from queue_core.task import State

EQUAL, CONTAINS = "=", ":"
COMPARISONS = (">=", "<=", ">", "<")


class Kind(StrEnum):
    """What a field holds, and so how it is compared."""

    NAME = "name"  # the whole text, exactly
    TEXT = "text"  # a part of the text, upper and lower case alike
    COUNT = "count"
    SIZE = "size"
    SPAN = "span"
    PAYLOAD = "payload"


# An equal span is hardly ever meant, so age:2h is a mistake; age=2h is exact.
OPERATORS = {
    Kind.NAME: (":", "="), Kind.TEXT: (":", "="), Kind.COUNT: (":", "=", *COMPARISONS),
    Kind.SIZE: (":", "=", *COMPARISONS), Kind.SPAN: (*COMPARISONS, "="), Kind.PAYLOAD: (":", "=", *COMPARISONS),
}  # fmt: skip
PARSE: dict[Kind, Callable[[str], int]] = {Kind.COUNT: parse_count, Kind.SIZE: parse_size, Kind.SPAN: parse_span}
WRITE: dict[Kind, Callable[[int], str]] = {Kind.COUNT: str, Kind.SIZE: size_text, Kind.SPAN: span_text}


class Field(msgspec.Struct, frozen=True):
    """One field. ``states`` are those in which a task can have it; ``ordered`` is the state whose pages are in its
    order. ``check`` brings a pattern into the form in which it is compared; it raises ValueError with what was
    expected."""

    name: str
    kind: Kind
    help: str
    example: str
    read: Callable[[Facts], str | int | None]
    states: frozenset[State] = frozenset(State)
    ordered: State | None = None
    check: Callable[[Pattern], Pattern] | None = None

    def of(self, facts: Facts) -> str | int | None:
        """Its value; None: the task has none."""
        return self.read(facts) if facts.record.state in self.states else None


def _tag(pattern: Pattern) -> Pattern:
    if any("\ud800" <= sign <= "\udfff" for sign in pattern.text):
        raise ValueError("text without lone surrogates, which no tag has")
    return pattern


def _state(pattern: Pattern) -> Pattern:
    if not pattern.exact or pattern.text.lower() not in tuple(State):
        raise ValueError(f"one of {', '.join(State)}")
    return Pattern(pattern.text.lower())


def _id(pattern: Pattern) -> Pattern:
    digits = pattern.text.lower().replace("-", "")
    if pattern.before or not re.fullmatch("[0-9a-f]{1,32}" if pattern.after else "[0-9a-f]{32}", digits):
        raise ValueError(f"an id such as {UUID(int=0)}, or the beginning of one and a star, such as 0195f2*")
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return Pattern("-".join(part for part in parts if part), after=pattern.after)


def _group(pattern: Pattern) -> Pattern:
    digits = pattern.text.lower()
    if pattern.before or not re.fullmatch("[0-9a-f]{1,16}" if pattern.after else "[0-9a-f]{16}", digits):
        raise ValueError("the 16 hexadecimal digits of an error group, or the beginning of them and a star")
    return Pattern(digits, after=pattern.after)


_BURIED = frozenset({State.DEAD, State.TRASH})
_INFLIGHT = frozenset({State.INFLIGHT})
_SCHEDULED = frozenset({State.SCHEDULED})


def _fields() -> list[Field]:
    name, text, count, size, span = Kind.NAME, Kind.TEXT, Kind.COUNT, Kind.SIZE, Kind.SPAN
    return [
        Field("tag", name, "the tag, exactly", "tag:acme", attrgetter("tag"), check=_tag),
        Field("state", name, f"one of {', '.join(State)}", "state:dead", attrgetter("record.state"), check=_state),
        Field("error", text, "part of the last error; free words mean this, too", 'error:"read timeout"',
              attrgetter("error")),
        Field("reason", text, "part of the reason for which it died", "reason:expired", attrgetter("reason"), _BURIED),
        Field("group", name, "the error group of a dead letter", "group:9f86d081884c7d65", attrgetter("group"), _BURIED,
              check=_group),
        Field("id", name, "the id of the task", "id:0195f2*", attrgetter("id"), check=_id),
        Field("age", span, "time in its present state: since it was ready, scheduled, leased, or died", "age>2h",
              attrgetter("age")),
        Field("created", span, "time since the push", "created>1d", attrgetter("created")),
        Field("due", span, "scheduled: time until it may run, below 0 when that has come", "due<10m",
              attrgetter("due"), _SCHEDULED, State.SCHEDULED),
        Field("silence", span, "in flight: time since the last heartbeat", "silence>30s", attrgetter("silence"),
              _INFLIGHT),
        Field("expires", span, "in flight: time until the lease runs out, below 0 when it has", "expires<0s",
              attrgetter("expires"), _INFLIGHT, State.INFLIGHT),
        Field("owner", name, "who holds it, or held it when it died", "owner:worker-1", attrgetter("owner"),
              _INFLIGHT | _BURIED),
        Field("attempts", count, "attempts counted in this cycle", "attempts>=3", attrgetter("record.attempts")),
        Field("max_attempts", count, "attempts that it may take", "max_attempts<3", attrgetter("record.max_attempts")),
        Field("leases", count, "leases ever", "leases>10", attrgetter("record.leases")),
        Field("cycle", count, "1, and one more for every redrive", "cycle>1", attrgetter("record.cycle")),
        Field("defers", count, "how often it was put off", "defers>5", attrgetter("record.defers")),
        Field("version", count, "number of its last change", "version<=120000", attrgetter("record.version")),
        Field("dedupe", name, "the dedupe key, exactly", "dedupe:order-42", attrgetter("dedupe")),
        Field("size", size, "bytes of the payload as JSON", "size>64KiB", attrgetter("size")),
        Field("payload", Kind.PAYLOAD, "part of the payload as JSON text, or one value in it by its path",
              "payload.user.id:42", attrgetter("payload")),
    ]  # fmt: skip


FIELDS = MappingProxyType({field.name: field for field in _fields()})

SYNTAX = (
    ("tag:acme state:dead", "both hold"),
    ("tag:a OR tag:b", "one of them holds; side by side binds closer than OR"),
    ("-tag:acme   -(tag:a OR tag:b)", "does not hold"),
    ("read timeout", "free words: each is part of the error, upper and lower case alike"),
    ('tag:"a b" error:"say \\"hi\\"\\n"', "odd text in double quotes, with the escapes of JSON"),
    ("tag:acme*   tag:*.example.org", "begins with, ends with; a star in quotes is a star"),
    ("dedupe:*   payload.user:*", "has one at all"),
    ('error="no route"', "with = the whole text of an error, a reason or the payload"),
    ("attempts>=3 age>1h30m size<=64KiB", "compared with > >= < <= ="),
    ("payload.user.id:42", "the number 42, or the text 42; true, false and null alike"),
    ('payload.user.id:"42"', "only the text 42"),
    ('payload.items[0].sku:x   payload.items[*]."a.b":x', "the first item, any item; odd keys in quotes"),
    ("payload.total>99.5   payload.day>=2026-11-01", "numbers with numbers, else text with text, by its characters"),
)
"""(example, what it means) of all that the grammar has beside the fields."""
