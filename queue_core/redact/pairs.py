"""Secrets that stand behind their names in a text: ``password=…``, ``"token": "…"``, ``Cookie: …``, ``--secret …``,
``<password>…</password>``, in escaped JSON, too.

Every sign that joins a name and a value is looked at once, the name before it only so far back, and a value that is
masked is passed over: the time grows with the text.
"""

import re
from collections.abc import Iterator

from queue_core.redact.keys import NO_SECRET, Name, Names
from queue_core.redact.masks import MASK, covered
from queue_core.redact.shapes import Span

BACK = 120  # characters before a joint in which its name is looked for

_JOINT = re.compile(
    r":=|=++>?|:(?![:/])"
    r"|-(?<![\w-]-)-(?P<flag>[A-Za-z][\w-]*+)[\"']?,?[ \t]{1,4}(?=[^\s-])"  # --password x, and as a list of arguments
    r"|<(?P<element>[\w.:-]{1,100}+)[^<>/]*+>"
)
# the name before a joint, read backwards: in quotes, or a word and the one before it
_NAME = re.compile(r"[ \t]*+\]?(?:[\"'`]\\*+(?P<quoted>[^\"'`\n]*+)|(?P<word>[\w.$-]++)(?P<before> [\w.$-]++)?)")

_CLOSING = r",;)\]}>\"'`"  # these end a value, unless it goes on behind them
_MASK = MASK.replace(" ", r"\ ")  # in verbose patterns, too
_MASKED = rf"(?:(?i:bearer|basic)\ |-----BEGIN\ [A-Z0-9\ ]{{0,60}}-----)?{_MASK}(?:-----END\ [A-Z0-9\ ]{{0,60}}-----)?"
_QUOTED = r"\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?"
_VALUE = re.compile(
    rf"""[ \t]{{0,8}}(?:
      (?P<masked> {_MASKED} (?![^\s&{_CLOSING}]) )
    | [bBfFrRuU]{{0,2}} (?: "(?P<double> (?:[^"\\\n]|\\.)*+ ) | '(?P<single> (?:[^'\\\n]|\\.)*+ ) )
    | (?P<quote> \\+["'] )(?P<escaped> .*? )(?= (?<!\\)(?P=quote) | $ )
    | (?P<open> [\[{{(] )
    | (?P<nothing> (?i:true|false|null|none|nil|undefined) (?!\w) )
    | (?P<plain> (?: {_MASK} | [^\s&{_CLOSING}] | (?= [{_CLOSING}](?![\s&{_CLOSING}]|\Z) ) (?: {_QUOTED} | . ) )++ )
    )""",
    re.VERBOSE | re.MULTILINE,
)
# what ends a line, by what stands before its name: a quote, an escaped line break, or none of both
_LINE_ENDS = {
    "": re.compile(r"[\r\n]"),
    "\\": re.compile(r"[\r\n]|\\+[rn]"),
    **{quote: re.compile(rf"[\r\n]|\\+[rn]|\\*{quote}") for quote in "\"'`"},
}
_HIDDEN = re.compile(_MASKED)
_NUMBER = re.compile(r"[\d.,_]+")
_BRACKETS = re.compile(rf"{_QUOTED}|[\[{{(]|[\]}})]")


def pairs(text: str, names: Names) -> str:
    """The text with the values behind names of secrets masked. What stands in brackets is masked as one."""
    return covered(text, _values(text, names)) if _JOINT.search(text) and names.hinted(text) else text


def _values(text: str, names: Names) -> Iterator[Span]:
    at = 0
    while joint := _JOINT.search(text, at):
        at = joint.end()
        if joint["element"] is not None:
            if names.of(joint["element"]).hides:
                end = text.find("<", at)
                end = len(text) if end < 0 else end
                yield at, end
                at = end
            else:
                at = joint.start() + 1  # attributes may be secrets
            continue
        name, before = (names.of(joint["flag"]), "") if joint["flag"] else _name(text, joint.start(), names)
        if name.hides:
            start, end = _value(text, at, name, before)
            yield start, end
            at = max(at, end)


def _name(text: str, at: int, names: Names) -> tuple[Name, str]:
    """What the name that ends here says of the value behind it, and the sign before it."""
    back = text[max(at - BACK, 0) : at][::-1]
    found = _NAME.match(back)
    if found is None:
        return NO_SECRET, ""
    if found["word"] is None:
        return names.of(found["quoted"][::-1]), ""
    word, before = found["word"][::-1], back[found.end("word") :][:1]
    name = names.of(word[1:] if before == "\\" else word)  # the n of an escaped line break is none of its letters
    if not name.hides and found["before"] and names.ends((found["word"] + found["before"])[::-1]):
        return Name(True, False, False), ""
    return name, before


def _value(text: str, at: int, name: Name, before: str) -> Span:
    """Where the value is that begins here; nowhere when there is nothing to mask."""
    found = _VALUE.match(text, at)
    kind = found.lastgroup if found else None
    if found is None or kind is None:
        return at, at
    start, end = found.span(kind)
    if name.line and (kind in ("nothing", "plain") or text.startswith(";", end)):
        ends = _LINE_ENDS.get(before, _LINE_ENDS[""]).search(text, start)
        end = start + len(text[start : ends.start() if ends else None].rstrip())
    elif kind in ("masked", "nothing") or (name.counts and _NUMBER.fullmatch(found[kind])):
        end = start
    elif kind == "open":
        end = _closed(text, start)
        if not text[start + 1 : end - 1].strip():
            end = start
    elif _HIDDEN.fullmatch(found[kind]):
        end = start
    return start, end


def _closed(text: str, at: int) -> int:
    """Where the bracket that opens here is closed; the end of the text when it is not."""
    depth = 0
    for found in _BRACKETS.finditer(text, at):
        depth += (found[0] in "[{(") - (found[0] in "]})")
        if not depth:
            return found.end()
    return len(text)
