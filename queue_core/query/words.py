"""Words of a filter: text in quotes or without, with stars where anything may stand. Pure."""

import json
import re

import msgspec

_BARE = re.compile(r'[^\s()"*]+')


def quote(text: str) -> str:
    """The text as one word of a filter, in quotes where it needs them: ``f"tag:{quote(tag)}"`` is exactly that tag."""
    return text if _BARE.fullmatch(text) and text.isprintable() else quoted(text)


def quoted(text: str) -> str:
    """The text in quotes; what does not print is escaped."""
    return "".join(
        sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in json.dumps(text, ensure_ascii=False)
    )


class Pattern(msgspec.Struct, frozen=True):
    """A text, and whether anything may stand before or after it."""

    text: str
    before: bool = False
    after: bool = False

    @property
    def exact(self) -> bool:
        return not (self.before or self.after)

    @property
    def anything(self) -> bool:
        return self.before and self.after and not self.text

    def fits(self, value: str) -> bool:
        return _fits(self, self.text, value)

    def fits_folded(self, value: str) -> bool:
        """The same for a value that has been case-folded."""
        return _fits(self, self.text.casefold(), value)

    def __str__(self) -> str:
        return self.word(quote(self.text))

    def word(self, text: str) -> str:
        """The stars around a text."""
        return "*" if self.anything else "*" * self.before + text + "*" * self.after


def _fits(pattern: Pattern, text: str, value: str) -> bool:
    if pattern.before:
        return text in value if pattern.after else value.endswith(text)
    return value.startswith(text) if pattern.after else value == text
