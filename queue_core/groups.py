"""Error groups: dead letters whose error text says the same but for numbers, ids, paths and quoted values. Pure."""

import re
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b

import msgspec

from queue_core.task import SECOND, Record

GROUP_LIMIT = 10_000  # groups with texts of their own; errors that are new after that share one
LOOKED = 4_000  # characters of a text that are normalised
TOLD = 500  # characters of what comes of it that tell groups apart: far from where a long text was cut off
TEXT_KEPT, SAMPLE_KEPT = 200, 1_000  # characters of a group's text, and of the error that it shows
FAILED = "failed with no attempts left"  # the reason of a death by nack: what counts is the error
OTHERS = bytes(8)  # the fingerprint of the group that errors share when there are too many
OTHERS_TEXT = "other errors"
REMEMBERED = 256  # lines: deaths come in crowds that say the same
LOOK_AGAIN = 60 * SECOND  # whether there is room for another group is seen by reading all of them

_TRACEBACK, _FRAME = "Traceback (most recent call last):", '  File "'
_WORD = re.compile(r"[^\W_]")
_SPACE = re.compile(r"\s+")
# Looking for a part that is not there must not read a long text again from each of its characters: so a part begins
# where a run of its characters does, or is of a bounded length. A quoted value may have no end where a text is cut off.
# Hexadecimal and mixed numbers are named like others: an id of theirs may have no letter.
_PARTS = re.compile(
    r"""
      (?P<id>\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b)
    | (?P<url>\b[a-zA-Z][\w+.-]{1,20}://[^\s'"<>)\]]+)
    | (?P<email>\b[\w.+-]{1,64}@[\w-]+\.[\w.-]+)
    | (?P<value>"(?:[^"]*"|[^"]{300,}\Z)|(?<!\w)[bru]?'(?:[^']*'|[^']{300,}\Z)|`[^`]*`|“[^“”]*”|«[^«»]*»)
    | (?P<path>(?<![\w/])(?:[A-Za-z]:)?(?:[/\\][\w.@%+~=-]+){2,}[/\\]?
        | (?<![\w.@%+~=/\\-])[A-Za-z.~][\w.@%+~=-]*(?:[/\\][\w.@%+~=-]+){2,}[/\\]?)
    | (?P<n>\b0[xX][0-9a-fA-F]+\b
        | \b(?=[0-9]*[a-fA-F])(?=[a-fA-F]*[0-9])[0-9a-fA-F]{7,}\b
        | (?<![0-9a-zA-Z])(?=[a-zA-Z]*[0-9]+[a-zA-Z]+[0-9])[0-9a-zA-Z]{8,}(?![0-9a-zA-Z])
        | (?<![\w:])(?=[0-9:]*(?:[a-fA-F]|::))(?=[a-fA-F:]*[0-9])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{1,4}\b
        | (?:(?<![\w)\]])[-+])?\d+(?:[.,:_]\d+)*(?:[eE][-+]?\d+)?)
    """,
    re.VERBOSE,
)
_LIST = re.compile(r"(<[a-z]+>)(?:, ?\1|,(?=\)))+")


def telling_line(text: str) -> str:
    """The line of an error text that says what went wrong.

    Of Python tracebacks it is that of the last exception (the first one, if its message has several), of other texts
    the first line with a letter or a digit.
    """
    at = text.rfind(_FRAME) if _TRACEBACK in text else -1
    if at >= 0:
        margin = text[text.rfind("\n", 0, at) + 1 : at]  # there is one in a group of exceptions
        for line in text[at : at + LOOKED].splitlines()[1:]:
            said = line.removeprefix(margin)
            if said[:1].strip():
                return said
        text = text[text.index(_FRAME) :]  # its end was cut off: where it began is what there is
    elif text.lstrip().startswith("Traceback"):  # one that names no line of code
        return next(filter(_WORD.search, reversed(text[-LOOKED:].splitlines())), "").strip()
    lines = text.strip()[:LOOKED].splitlines()
    return next(filter(_WORD.search, lines), lines[0] if lines else "")


def normalised(text: str) -> str:
    """What an error text says, without what differs from one death to the next; at most 500 characters.

    Ids, URLs, e-mail addresses, quoted values, paths and numbers of the telling line are named by their kind:
    ``timeout after 30 s`` is ``timeout after <n> s``. A list of such is as one of them.
    """
    return _named(telling_line(text)[:LOOKED])


@lru_cache(REMEMBERED)
def _named(line: str) -> str:
    line = _SPACE.sub(" ", line).strip()
    return _LIST.sub(r"\1", _PARTS.sub(lambda part: f"<{part.lastgroup}>", line))[:TOLD].rstrip()


def cause(record: Record) -> str:
    """The text by which a dead letter is grouped: its error when it failed, else the reason given."""
    if record.reason == FAILED and record.error:
        return record.error
    return record.reason or record.error or ""


@lru_cache(REMEMBERED)
def fingerprint(text: str) -> bytes:
    """8 bytes for a normalised text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def mark_of(record: Record) -> bytes:
    """The fingerprint of a dead letter's group; that of its text when it has not been put into one."""
    return record.group or fingerprint(normalised(cause(record)))


def _sample(record: Record) -> str:
    """The beginning of an error; the line that tells comes first where that is not all of it."""
    text = cause(record)
    return text if len(text) < SAMPLE_KEPT else f"{telling_line(text)}\n{text}"[:SAMPLE_KEPT]


class Group(msgspec.Struct, array_like=True, gc=False):
    """Dead letters of one fingerprint, as they are stored. Times in microseconds; 0 is never.

    ``count`` of them are dead now, in ``tags`` tags; ``deaths`` were ever. ``sample`` is the id of the newest death.
    A group that was resolved is reopened by a new death, and by no dead letter that comes back or from elsewhere.
    """

    fingerprint: bytes
    text: str
    count: int = 0
    tags: int = 0
    deaths: int = 0
    first: int = 0
    last: int = 0
    sample: bytes = b""
    error: str = ""
    resolved: int = 0
    resolved_by: str = ""
    reopened: int = 0
    looked: int = 0  # OTHERS, on the retention clock: when there was no room for another group

    def said(self, mask: Callable[[str], str]) -> str:
        """Its text as it may be seen. The sample is masked first: normalised, a secret has lost its shape."""
        if not self.error or self.fingerprint == OTHERS:
            return mask(self.text)
        told = mask(self.error)
        if len(self.error) >= SAMPLE_KEPT:  # what follows its first line is cut, and may tell of something else
            told = told.partition("\n")[0]
        return normalised(told)[:TEXT_KEPT]

    def died(self, record: Record) -> None:
        """Note a death; a resolved group is open again."""
        self.deaths += 1
        self.first = self.first or record.entered
        self.last = max(self.last, record.entered)
        self.sample, self.error = record.id, _sample(record)
        if self.resolved:
            self.resolved, self.resolved_by, self.reopened = 0, "", record.entered

    def came(self, record: Record) -> None:
        """Note a dead letter that did not die here now: it is shown while nothing else is known."""
        if not self.sample:
            self.first = self.last = record.entered
            self.sample, self.error = record.id, _sample(record)
