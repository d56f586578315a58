"""Secrets that are known by their shape, wherever they stand in a text.

A shape gives the stretches to mask. Its patterns take time in proportion to the text: what may run on begins only
where a word or a sign begins it, and is taken whole or has a bound.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True)
class Shape:
    """One rule. A text of fewer than ``least`` characters, or without ``hint`` in it in small letters, has none."""

    least: int
    hint: str
    spans: Callable[[str], Iterator[Span]]


def _groups(pattern: str, flags: int = 0, fits: Callable[[str], bool] | None = None) -> Callable[[str], Iterator[Span]]:
    """Finds what stands in the group of this pattern and fits."""
    compiled = re.compile(pattern, flags)

    def spans(text: str) -> Iterator[Span]:
        for found in compiled.finditer(text):
            group = found.lastindex or 0
            if fits is None or fits(found[group]):
                yield found.span(group)

    return spans


# --- headers --------------------------------------------------------------------------------------

# "the bearer of this" is prose: a token has a digit, a capital letter, a sign, or 20 characters
_BEARER = r"(?i:bearer)[ \t]{1,4}(?![A-Za-z]?[a-z]{0,18}(?![\w~+/=-]|\.\w))([\w.~+/=-]++)"
_BASIC = r"(?i:basic)[ \t]{1,4}([A-Za-z0-9+/]{4,}+={0,2})"


def _is_basic(text: str) -> bool:
    """Whether it is name:password in base64; the end may be cut off."""
    return b":" in b64decode(text[: len(text) // 4 * 4])


# --- URLs -----------------------------------------------------------------------------------------

# All between the colon and the last @ before a slash is the password. It may hold slashes that nobody has escaped, and
# at the end of a text its @ may be cut off: then it must not look like a port.
_NO_PORT = r"(?!\d{1,5}(?!\w))"
_URL = (
    r"://(?:([^\s/:@\"'<>]{1,1024}+)(?=:(?:x-oauth-basic)?@)"  # a token in the place of the name
    r"|[^\s/:@\"'<>\[]{0,1024}+:("
    r"[^\s/\"'<>]{1,1024}(?=@)"
    rf"|{_NO_PORT}[^\s\"'<>@]{{1,256}}+(?=@)"
    rf"|{_NO_PORT}[^\s/\"'<>@…]{{1,1024}}+(?=\Z|…)))"
)


# --- keys -----------------------------------------------------------------------------------------

_JWT = r"(eyJ(?<![\w-]eyJ)[\w-]{4,}+(?:\.[\w-]++)++)"
_ACCESS_KEY = (
    r"(A(?:[KS]IA|ROA|IDA|BIA|CCA)[A-Z0-9]{16}|AIza[\w-]{30,}+"  # AWS, Google
    + "".join(
        rf"|{begin}(?<![A-Za-z0-9]{'.' * width}){rest}"  # where a word begins: no task-…
        for begin, width, rest in (
            ("gh[opsur]_", 4, r"[A-Za-z0-9]{20,}+"), ("github_pat_", 11, r"\w{20,}+"),  # GitHub
            ("glpat-", 6, r"[\w-]{16,}+"), ("xox[abeprs]-", 5, r"[\w-]{10,}+"),  # GitLab, Slack
            ("sk_(?:live|test)_", 8, r"\w{10,}+"), ("rk_(?:live|test)_", 8, r"\w{10,}+"),  # Stripe
            ("sk-", 3, r"[\w-]{20,}+"), (r"SG\.", 3, r"[\w-]{16,}+\.[\w-]{16,}+"),  # OpenAI and others, SendGrid
        )
    )
    + ")"
)  # fmt: skip
_PEM = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(.*?)(?=-----END|\Z)"
_EMAIL = r"(?<![\w.+%-])([\w.+%-]++@[\w-]++(?:\.[\w-]++)++)"


# --- cards ----------------------------------------------------------------------------------------

# Digits in one stretch, or in the groups that are printed on a card. Not the decimals of a fraction, and no part of a
# longer number. What follows the first digit is only looked at, so that a number which is no card hides none behind it.
_CARD = re.compile(
    r"[2-6](?<!\d.)(?<!\d\..)(?=(\d{13,18}(?!\d)|\d{3}([ -])(?:\d{4}\2\d{4}\2\d{4}|\d{6}\2\d{4,5})(?!\d)))"
)
# First digits by length. Cards of 13 digits are no longer issued, and barcodes have as many.
_ISSUED = re.compile(
    r"(?=\d{16}\Z)(?:4|5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720|35|6011|62|64[4-9]|65)"
    r"|(?=\d{15}\Z)3[47]|(?=\d{14}\Z)3(?:0[0-5]|[689])|(?=\d{17,19}\Z)62"
)


def is_card(digits: str) -> bool:
    """Whether these digits are a card's number: first digits and length of an issuer, and the check digit (Luhn)."""
    if not _ISSUED.match(digits):
        return False
    doubled = (2 * int(digit) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(number - 9 * (number > 9) for number in doubled)) % 10 == 0


def _cards(text: str) -> Iterator[Span]:
    for found in _CARD.finditer(text):
        span = found.start(), found.end(1)
        if is_card(text[slice(*span)].replace(" ", "").replace("-", "")):
            yield span


# --------------------------------------------------------------------------------------------------

SHAPES = {
    "pem": Shape(30, "private key", _groups(_PEM, re.DOTALL)),
    "bearer": Shape(8, "bearer", _groups(_BEARER)),
    "basic": Shape(10, "basic", _groups(_BASIC, fits=_is_basic)),
    "url": Shape(6, "://", _groups(_URL)),
    "jwt": Shape(9, "eyj", _groups(_JWT)),
    "access_key": Shape(15, "", _groups(_ACCESS_KEY)),
    "card": Shape(14, "", _cards),
    "email": Shape(5, "@", _groups(_EMAIL)),
}


def own(pattern: str) -> Shape:
    """A rule that a user gave, as a regular expression. How fast it is, is up to it."""
    compiled = re.compile(pattern)
    return Shape(1, "", lambda text: (found.span() for found in compiled.finditer(text)))
