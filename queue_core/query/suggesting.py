"""Completions for a filter while it is typed. Pure."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from queue_core.query.fields import FIELDS, OPERATORS, Field, Kind
from queue_core.query.words import quote
from queue_core.task import State

MOST = 20  # tags offered at a time

_TOKEN = re.compile(r'(?:"(?:[^"\\]|\\.)*+(?:"|\\?$)|[^\s()"])+', re.DOTALL)
_SIGN = re.compile(">=|<=|[:=<>]")


class Suggestion(NamedTuple):
    """``text`` may stand instead of the characters from ``start`` to ``end``."""

    start: int
    end: int
    text: str
    help: str


def suggest(text: str, position: int | None = None, *, tags: Iterable[str] = ()) -> list[Suggestion]:
    """What may stand where the cursor is (at the end unless given): fields, then operators, then values.

    Of ``tags`` at most 20 are offered: those that begin with what was typed first, then those that contain it. Never
    raises, whatever the text is.
    """
    end = len(text) if position is None else max(min(position, len(text)), 0)
    typed = next((token for token in _TOKEN.finditer(text, 0, end) if token.end() == end), None)
    start = end if typed is None else typed.start()
    while start < end and text[start] == "-":
        start += 1
    word = text[start:end]
    sign = _SIGN.search(word)
    name = word if sign is None else word[: sign.start()]
    if sign is None:
        return [Suggestion(start, end, *offer) for offer in _heads(name)]
    field = FIELDS.get(name)
    if field is None:
        return []
    return [Suggestion(start + sign.end(), end, *offer) for offer in _values(field, word[sign.end() :], tags)]


def _heads(name: str) -> list[tuple[str, str]]:
    """Fields that begin with what was typed; for one that is whole, its operators."""
    near = sorted((field for field in FIELDS.values() if field.name.startswith(name)), key=lambda f: f.name != name)
    offers = []
    for field in near:
        signs = OPERATORS[field.kind] if field.name == name else OPERATORS[field.kind][:1]
        offers += [(field.name + sign, field.help) for sign in signs]
    if name == "payload":
        offers.append(("payload.", FIELDS[name].help))
    return offers


def _values(field: Field, typed: str, tags: Iterable[str]) -> list[tuple[str, str]]:
    if field.name == "state":
        return [(str(state), field.help) for state in State if state.startswith(typed)]
    if field.name == "tag":
        begun = typed.removeprefix('"')
        held = sorted((tag for tag in tags if begun in tag), key=lambda tag: (not tag.startswith(begun), tag))
        return [(quote(tag), field.help) for tag in held[:MOST]]
    return (
        [] if typed or field.kind is Kind.PAYLOAD else [(re.split("[:<>=]+", field.example, maxsplit=1)[1], field.help)]
    )
