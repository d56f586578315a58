"""The tree of a filter: frozen, comparable, and written back as canonical text by ``str``. Pure.

Trees are made by ``parse`` and by ``both``, ``either`` and ``negated``, which keep them flat, so that a tree and its
text say the same.
"""

import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from queue_core.query.facts import MISSING, Facts
from queue_core.query.fields import CONTAINS, EQUAL, FIELDS, WRITE, Kind
from queue_core.query.words import Pattern, quote, quoted

Path = tuple[str | int | None, ...]  # keys, indexes, and None for each item of a list

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, EQUAL: operator.eq,
}  # fmt: skip
_KEY = re.compile(r"[\w$@-]+")
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class Match(msgspec.Struct, frozen=True):
    """A field of text fits a pattern."""

    field: str
    pattern: Pattern

    def matches(self, facts: Facts) -> bool:
        field = FIELDS[self.field]
        if field.kind is Kind.NAME:
            value = field.of(facts)
            return value is not None and self.pattern.fits(str(value))
        folded = facts.folded(self.field) if facts.record.state in field.states else None
        return folded is not None and self.pattern.fits_folded(folded)

    def __str__(self) -> str:
        pattern = self.pattern
        if FIELDS[self.field].kind is Kind.NAME:
            return f"{self.field}:{pattern}"
        if pattern.before and pattern.after:
            return f"{self.field}:{quote(pattern.text) if pattern.text else '*'}"
        return f"{self.field}={pattern}"


class Compare(msgspec.Struct, frozen=True):
    """A number, a size in bytes or a span in microseconds compares so with a value."""

    field: str
    operator: str
    value: int

    def matches(self, facts: Facts) -> bool:
        value = FIELDS[self.field].of(facts)
        return value is not None and _COMPARE[self.operator](value, self.value)

    def __str__(self) -> str:
        return f"{self.field}{self.operator}{WRITE[FIELDS[self.field].kind](self.value)}"


class Within(msgspec.Struct, frozen=True):
    """Some value at a path of the payload compares so. A ``bare`` text that spells a number, true, false or null
    means that, too."""

    path: Path
    operator: str
    pattern: Pattern
    bare: bool

    def matches(self, facts: Facts) -> bool:
        document = facts.document
        return document is not MISSING and any(map(self._holds, _values(document, self.path)))

    def _holds(self, value: Any) -> bool:
        literal = spelled(self.pattern.text) if self.bare else MISSING
        if self.operator == EQUAL:
            if isinstance(value, str):
                return self.pattern.fits(value)
            return self.pattern.anything or (self.pattern.exact and _same(value, literal))
        if _is_number(literal):
            return _is_number(value) and _COMPARE[self.operator](value, literal)
        return isinstance(value, str) and _COMPARE[self.operator](value, self.pattern.text)

    def __str__(self) -> str:
        sign = CONTAINS if self.operator == EQUAL and self.path else self.operator
        text = self.pattern.text
        word = quoted(text) if self.pattern.exact and not self.bare else quote(text)
        return f"payload{path_text(self.path)}{sign}{self.pattern.word(word)}"


class And(msgspec.Struct, frozen=True):
    """All of its parts hold; without any, it is everything."""

    parts: tuple["Expression", ...]

    def matches(self, facts: Facts) -> bool:
        return all(part.matches(facts) for part in self.parts)

    def __str__(self) -> str:
        return " ".join(f"({part})" if isinstance(part, Or) else str(part) for part in self.parts)


class Or(msgspec.Struct, frozen=True):
    """One of its parts holds; without any, it is nothing."""

    parts: tuple["Expression", ...]

    def matches(self, facts: Facts) -> bool:
        return any(part.matches(facts) for part in self.parts)

    def __str__(self) -> str:
        return " OR ".join(map(str, self.parts))


class Not(msgspec.Struct, frozen=True):
    """Its part does not hold: also where the task has no such fact at all."""

    part: "Expression"

    def matches(self, facts: Facts) -> bool:
        return not self.part.matches(facts)

    def __str__(self) -> str:
        return f"-({self.part})" if isinstance(self.part, And | Or) else f"-{self.part}"


Expression = And | Or | Not | Match | Compare | Within

EVERYTHING: Expression = And(())
NOTHING: Expression = Or(())


def both(parts: Iterable[Expression]) -> Expression:
    """All of the parts, flat."""
    flat: list[Expression] = []
    for part in parts:
        if part == NOTHING:
            return NOTHING
        flat += part.parts if isinstance(part, And) else (part,)
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def either(parts: Iterable[Expression]) -> Expression:
    """Any of the parts, flat."""
    flat: list[Expression] = []
    for part in parts:
        if part == EVERYTHING:
            return EVERYTHING
        flat += part.parts if isinstance(part, Or) else (part,)
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def negated(part: Expression) -> Expression:
    if isinstance(part, Not):
        return part.part
    if part == NOTHING:
        return EVERYTHING
    return NOTHING if part == EVERYTHING else Not(part)


# --- what can be known without a task -------------------------------------------------------------


def given(expression: Expression, known: Mapping[str, str]) -> Expression:
    """What remains to be asked of tasks of which some names are known, the state among them."""
    match expression:
        case And(parts):
            return both(given(part, known) for part in parts)
        case Or(parts):
            return either(given(part, known) for part in parts)
        case Not(part):
            return negated(given(part, known))
        case Match(field, pattern) if field in known:
            return EVERYTHING if pattern.fits(known[field]) else NOTHING
        case Match(field) | Compare(field) if known["state"] not in FIELDS[field].states:
            return NOTHING
    return expression


def named(expression: Expression, field: str) -> frozenset[str] | None:
    """The values that a name must have one of, in any task that matches; None: it may have any."""
    match expression:
        case Match(name, pattern) if name == field and pattern.exact:
            return frozenset({pattern.text})
        case And(parts):
            limits = [limit for part in parts if (limit := named(part, field)) is not None]
            return frozenset.intersection(*limits) if limits else None
        case Or(parts):
            values: frozenset[str] = frozenset()
            for part in parts:
                limit = named(part, field)
                if limit is None:
                    return None
                values |= limit
            return values
    return None


def highest(expression: Expression, field: str) -> int | None:
    """What a number is at most in any task that matches; None: it may be any."""
    match expression:
        case Compare(name, "<" | "<=" | "=", value) if name == field:
            return value
        case And(parts):
            return min((top for part in parts if (top := highest(part, field)) is not None), default=None)
        case Or(parts) if parts:
            tops = [top for part in parts if (top := highest(part, field)) is not None]
            return max(tops) if len(tops) == len(parts) else None
    return None


# --- payloads -------------------------------------------------------------------------------------


def path_text(path: Path) -> str:
    parts = []
    for step in path:
        if isinstance(step, str):
            parts.append("." + (step if _KEY.fullmatch(step) and step.isprintable() else quoted(step)))
        else:
            parts.append("[*]" if step is None else f"[{step}]")
    return "".join(parts)


def _values(document: Any, path: Path) -> list[Any]:
    found = [document]
    for step in path:
        if step is None:
            found = [item for value in found if isinstance(value, list) for item in value]
        elif isinstance(step, int):
            found = [value[step] for value in found if isinstance(value, list) and step < len(value)]
        else:
            found = [value[step] for value in found if isinstance(value, dict) and step in value]
    return found


@lru_cache(1_024)
def spelled(word: str) -> Any:
    """The number, true, false or null that a bare word spells; ``MISSING`` when it is only text."""
    if word in ("true", "false", "null") or NUMBER.fullmatch(word):
        try:
            value = json.loads(word)
        except ValueError:  # 007, or more digits than a payload may have
            return MISSING
        return MISSING if value in (math.inf, -math.inf) else value
    return MISSING


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(value: Any, literal: Any) -> bool:
    """Whether a JSON value is that literal: true is not 1."""
    if _is_number(literal):
        return _is_number(value) and bool(value == literal)
    return literal is not MISSING and value is literal
