"""Filter text to its tree, by recursive descent. Pure.

    alternatives = sequence { "OR" sequence }
    sequence     = item { [ "AND" ] item }
    item         = "-" item | "(" alternatives ")" | term
    term         = field operator value | "payload" { step } operator value | value
    step         = "." ( key | quotation ) | "[" ( digits | "*" ) "]"
    value        = [ "*" ] ( quotation | bare ) [ "*" ] | "*"

A mistake is InvalidFilter, which shows the text with a mark under the character.
"""

import json
import re
import unicodedata
from collections.abc import Iterable
from typing import NoReturn

from queue_core.errors import InvalidFilter
from queue_core.query.expression import (
    EVERYTHING,
    NUMBER,
    Compare,
    Expression,
    Match,
    Path,
    Within,
    both,
    either,
    negated,
    spelled,
)
from queue_core.query.facts import MISSING
from queue_core.query.fields import COMPARISONS, CONTAINS, EQUAL, FIELDS, OPERATORS, PARSE, Field, Kind
from queue_core.query.words import Pattern, quote, quoted

LENGTH = 500_000  # characters: a tag of 65,535 can be written whatever its signs, escaped
TERMS = 1_000
DEPTH = 50

_SPACE = re.compile(r"\s*")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_RUN = re.compile(r'[^\s()"*]*')
_WORD = re.compile(r'[^\s()":=<>]*')
_OPERATOR = re.compile(">=|<=|[:=<>]")
_KEY = re.compile(r"[\w$@-]+")
_INDEX = re.compile(r"\[(?:(\*)|([0-9]{1,9}))\]")
_WORDS = ("AND", "OR", "NOT")

_BEFORE, _AFTER = 40, 30  # characters shown around a mistake


def parse(text: str) -> Expression:
    """The tree of a filter text; empty text is everything. Raises InvalidFilter, whose ``position`` is the character's.

    At most 500,000 characters, also as canonical text, 1,000 terms, and parentheses 50 deep.
    """
    if not isinstance(text, str):
        raise InvalidFilter(f"a filter is text, not {text!r:.100} of type {type(text).__name__}")
    return _Parser(_whole(text)).parse()


def _whole(text: str) -> str:
    """Two surrogates that make one sign become that sign."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.terms = 0

    def parse(self) -> Expression:
        if len(self.text) > LENGTH:
            self.fail(f"the filter has {len(self.text):,} characters, at most {LENGTH:,} are taken", LENGTH)
        self.skip()
        if self.at == len(self.text):
            return EVERYTHING
        tree = self.alternatives()
        if self.at < len(self.text):
            self.fail("a ) without its (; in a text, put the text in quotes")
        if len(str(tree)) > LENGTH:
            self.fail(f"written out, the filter has more than {LENGTH:,} characters", 0)
        return tree

    # --- levels

    def alternatives(self) -> Expression:
        parts = [self.sequence()]
        while self.keyword("OR"):
            parts.append(self.sequence())
        return either(parts)

    def sequence(self) -> Expression:
        parts = [self.item()]
        while self.at < len(self.text) and self.text[self.at] != ")" and self.upcoming() != "OR":
            self.keyword("AND")
            parts.append(self.item())
        return both(parts)

    def item(self) -> Expression:
        start, sign = self.at, self.text[self.at : self.at + 1]
        if sign not in ("-", "("):
            return self.term()
        self.depth += 1
        if self.depth > DEPTH:
            self.fail(f"more than {DEPTH} levels of parentheses and minus signs: say it with fewer")
        self.at += 1
        if sign == "-":
            if not self.text[self.at : self.at + 1].strip():
                self.fail('a - stands right before what must not hold, as in -tag:acme; the sign itself is "-"', start)
            tree = negated(self.item())
        else:
            self.skip()
            tree = self.alternatives()
            if self.text[self.at : self.at + 1] != ")":
                self.fail("this ( has no )", start)
            self.at += 1
            self.boundary(self.at, "a )")
        self.depth -= 1
        return tree

    def term(self) -> Expression:
        start = self.at
        self.terms += 1
        if self.terms > TERMS:
            self.fail(f"more than {TERMS:,} terms: say it with fewer")
        if self.text.startswith(("payload.", "payload["), start):
            return self.within()
        word = _WORD.match(self.text, start)
        assert word is not None
        operator = _OPERATOR.match(self.text, word.end())
        if operator is not None:
            return self.compared(self.field(word[0], start), operator)
        if word[0] in _WORDS or not self.text[start : start + 1].strip() or self.text[start] == ")":
            self.nothing(word[0])
        pattern, _ = self.value("")
        return Match("error", Pattern(pattern.text, True, True))

    def nothing(self, word: str) -> NoReturn:
        """Something else than a term stands here."""
        if word == "NOT":
            self.fail('expected a term: put a - before what must not hold; the word itself is "NOT"')
        found = (
            f"{word} has nothing on one side" if word else "expected a term, such as tag:acme or a word of the error"
        )
        self.fail(found + (f'; the word itself is "{word}"' if word else ""))

    def field(self, name: str, start: int) -> Field:
        if name in FIELDS:
            return FIELDS[name]
        if not name:
            self.fail("expected a field right before this sign, without a space; a text is put in quotes", start)
        run = _RUN.match(self.text, start)
        whole = run[0] if run is not None else name
        self.fail(f"there is no field {name[:60]!r}: {_nearest(name)}; as a text, write {quoted(whole[:60])}", start)

    def compared(self, field: Field, operator: re.Match[str]) -> Expression:
        sign = operator[0]
        if sign not in OPERATORS[field.kind]:
            hint = f", as in {field.example}" if field.kind is Kind.SPAN else ""
            allowed = " ".join(OPERATORS[field.kind])
            self.fail(
                f'{field.name} cannot be compared with "{sign}": expected one of {allowed}{hint}', operator.start()
            )
        self.at = operator.end()
        if field.kind is Kind.PAYLOAD and sign != CONTAINS:
            return self.beside((), sign)
        start = self.at
        pattern, _ = self.value(operator.string[operator.start() - len(field.name) : operator.end()], field.example)
        if field.kind in PARSE:
            if not pattern.exact:
                self.fail("a star has no meaning in a number: compare with > or <", start)
            try:
                return Compare(field.name, EQUAL if sign == CONTAINS else sign, PARSE[field.kind](pattern.text))
            except ValueError as error:
                self.fail(f"{field.name} is compared with {pattern.text[:60]!r}: expected {error}", start)
        if field.kind is not Kind.NAME:
            contained = Pattern(pattern.text, True, True) if sign == CONTAINS else pattern
            return Match(field.name, contained)
        return Match(field.name, self.checked(field, pattern, start))

    def checked(self, field: Field, pattern: Pattern, start: int) -> Pattern:
        if field.check is None or pattern.anything:
            return pattern
        try:
            return field.check(pattern)
        except ValueError as error:
            self.fail(f"{field.name} is {str(pattern)[:60]}: expected {error}", start)

    # --- payloads

    def within(self) -> Expression:
        start = self.at
        self.at += len("payload")
        path = tuple(self.steps())
        operator = _OPERATOR.match(self.text, self.at)
        if operator is None:
            so_far, signs = _shown(self.text[start : self.at][:60]), " ".join(OPERATORS[Kind.PAYLOAD])
            self.fail(f"expected one of {signs} after {so_far}, as in {so_far}:42, or {so_far}:* for any value there")
        self.at = operator.end()
        return self.beside(path, EQUAL if operator[0] == CONTAINS else operator[0])

    def steps(self) -> Iterable[str | int | None]:
        while (sign := self.text[self.at : self.at + 1]) in (".", "[") and sign:
            if sign == "[":
                index = _INDEX.match(self.text, self.at)
                if index is None:
                    self.fail("expected the number of an item, as in [0], or [*] for any")
                self.at = index.end()
                yield None if index[1] else int(index[2])
                continue
            self.at += 1
            if self.text.startswith('"', self.at):
                yield self.quotation()
                continue
            key = _KEY.match(self.text, self.at)
            if key is None:
                self.fail('expected a key; one with other signs than letters, digits, _ - $ @ is quoted: payload."a.b"')
            self.at = key.end()
            yield key[0]

    def beside(self, path: Path, sign: str) -> Expression:
        """What a value of the payload is compared with."""
        start = self.at
        pattern, bare = self.value("the path", "payload.user.id:42")
        bare = bare and pattern.exact and quote(pattern.text) == pattern.text
        if sign in COMPARISONS:
            if not pattern.exact:
                self.fail(f"a star has no meaning after {sign}: put a star that is meant in quotes", start)
            if bare and NUMBER.fullmatch(pattern.text) and spelled(pattern.text) is MISSING:
                self.fail(f"{pattern.text[:60]} is not a number of JSON; as a text, put it in quotes", start)
        return Within(path, sign, pattern, bare)

    # --- words

    def value(self, before: str, example: str = "") -> tuple[Pattern, bool]:
        """(what stands here, whether it is without quotes), to its end."""
        start = self.at
        ahead = self.text.startswith("*", start)
        self.at += ahead
        bare = not self.text.startswith('"', self.at)
        if bare:
            run = _RUN.match(self.text, self.at)
            assert run is not None
            text, self.at = run[0], run.end()
        else:
            text = self.quotation()
        behind = self.text.startswith("*", self.at)
        self.at += behind
        if bare and not text:
            if not (ahead or behind):
                self.fail(f'expected a value right after {before}, such as {example}; the empty text is ""', start)
            ahead = behind = True
        if behind and self.text[self.at : self.at + 1].strip().strip(")"):
            self.fail("a star may stand at one end or both; put one that is meant in quotes", self.at - 1)
        self.boundary(self.at, "a value")
        return Pattern(text, ahead, behind), bare

    def quotation(self) -> str:
        match = _QUOTED.match(self.text, self.at)
        if match is None:
            self.fail('these quotes have no end; inside, a quote is written \\" and a backslash \\\\')
        try:
            text: str = json.loads(match[0], strict=False)
        except json.JSONDecodeError as error:
            self.fail('expected one of \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX', self.at + error.pos)
        self.at = match.end()
        return _whole(text)

    def boundary(self, at: int, what: str) -> None:
        """A word or a group ends at a space, at a ) or with the text."""
        following = self.text[at : at + 1]
        if following.strip() and following != ")":
            self.fail(f"expected a space after {what}; a text with {quoted(following)} in it is quoted as a whole", at)
        self.at = at
        self.skip()

    def upcoming(self) -> str:
        word = _RUN.match(self.text, self.at)
        return word[0] if word is not None else ""

    def keyword(self, word: str) -> bool:
        if self.upcoming() != word:
            return False
        self.at += len(word)
        self.boundary(self.at, word)
        return True

    def skip(self) -> None:
        space = _SPACE.match(self.text, self.at)
        assert space is not None
        self.at = space.end()

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        at = self.at if at is None else at
        raise InvalidFilter(f"{message} (at character {at + 1:,})\n{_pointed(self.text, at)}", position=at)


def _nearest(name: str) -> str:
    import difflib  # only for a mistake: it costs 5 ms

    name = name.lower()
    near = [field for field in FIELDS if field.startswith(name)] or difflib.get_close_matches(name, FIELDS)
    return f"did you mean {' or '.join(near)}?" if near else f"fields are {', '.join(FIELDS)}"


def _pointed(text: str, at: int) -> str:
    """The text around a character, and a mark under it."""
    start = max(at - _BEFORE, 0)
    head = ("…" if start else "") + _shown(text[start:at])
    tail = _shown(text[at : at + _AFTER]) + ("…" if at + _AFTER < len(text) else "")
    return f"  {head}{tail}\n  {' ' * _columns(head)}^"


def _shown(text: str) -> str:
    """The text with a sign of one column for each that does not print."""
    return "".join(sign if sign.isprintable() else "�" for sign in text)


def _columns(text: str) -> int:
    """How wide a terminal draws it."""
    return sum(0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)
