"""Which names are those of secrets. A name is taken as words: ``X-Api-Key``, ``apiKey`` and ``API_KEY2`` are "api key".

A rule is one word or more. It fits a name that has them side by side, as a plural, too; with ``*`` in front its first
word may be the end of a longer one (``*token`` fits ``authtoken``). ``tokenizer`` and ``passwordless`` fit nothing.
"""

import re
from typing import NamedTuple

KEYS = (
    "*password", "*passwd", "pwd", "pass", "*passphrase", "passcode", "*secret", "*token", "jwt", "authorization",
    "auth", "*api key", "access key", "private key", "signing key", "encryption key", "*cookie", "session",
    "*session id", "*sessid", "*credential", "csrf", "xsrf", "otp", "cvv", "cvc",
)  # fmt: skip
# A name that goes on with one of these tells about a secret: token_type, session_timeout, password_length.
ABOUT = (
    "age", "changed", "count", "enabled", "error", "expiration", "expires", "expiry", "length", "limit", "max",
    "method", "min", "name", "policy", "provider", "rate", "required", "size", "status", "timeout", "ttl", "type",
    "uri", "url", "version",
)  # fmt: skip
WHOLE_LINE = ("authorization", "cookie")  # headers whose value has spaces in it
CACHED = 4_096  # names that are remembered
LONGEST = 200  # characters of a name that is remembered

_HUMP = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][^\W\d_A-Z])")
_GAP = re.compile(r"[\W\d_]+")


class Name(NamedTuple):
    """What a name says of its value. ``counts``: a number there is a count of secrets (``max_tokens``), and none
    itself. ``line``: in text without quotes, the value goes on to the end of the line."""

    hides: bool
    counts: bool
    line: bool


NO_SECRET = Name(False, False, False)


def words(name: str) -> str:
    """The words of a name or of a rule, in small letters, one space between them."""
    return _GAP.sub(" ", name).strip().lower()


class Names:
    """The rules for names, ready to be asked."""

    def __init__(self, rules: tuple[str, ...]) -> None:
        self._known: dict[str, Name] = {}
        self._any = _compiled(rules, rf"(?! (?:{'|'.join(ABOUT)})(?!\S))") if rules else None
        several = tuple(rule for rule in rules if " " in words(rule))
        self._last = _compiled(several, r"\Z") if several else None
        firsts = {words(rule).split()[0] for rule in rules}
        self._firsts = [word for word in firsts if not any(other in word and other != word for other in firsts)]

    def hinted(self, text: str) -> bool:
        """Whether a name that hides may be in the text: a quick look that is never wrongly False."""
        small = text.lower()
        return any(first in small for first in self._firsts)

    def of(self, name: str) -> Name:
        """What this name says of its value."""
        known = self._known.get(name)
        if known is None:
            known = self._judged(name)
            if len(name) <= LONGEST:
                if len(self._known) >= CACHED:
                    self._known.clear()
                self._known[name] = known
        return known

    def ends(self, text: str) -> bool:
        """Whether a text ends with a rule of several words: "invalid API key"."""
        return self._last is not None and self._last.search(words(text)) is not None

    def _judged(self, name: str) -> Name:
        if self._any is None:
            return NO_SECRET
        found = self._any.search(words(_HUMP.sub(" ", name))) or self._any.search(words(name))
        if found is None:
            return NO_SECRET
        return Name(True, bool(found["plural"]), found["rule"].endswith(WHOLE_LINE))


def _compiled(rules: tuple[str, ...], behind: str) -> re.Pattern[str]:
    whole = [rule for rule in rules if not rule.startswith("*")]
    ends = [rule for rule in rules if rule.startswith("*")]
    ways = [rf"(?<!\S)(?:{_alternatives(whole)})"] * bool(whole) + [_alternatives(ends)] * bool(ends)
    return re.compile(rf"(?P<rule>{'|'.join(ways)})(?P<plural>s?)(?!\S){behind}")


def _alternatives(rules: list[str]) -> str:
    return "|".join(" ?".join(map(re.escape, words(rule).split())) for rule in rules)
