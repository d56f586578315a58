"""Error groups: dead letters whose error text says the same but for numbers, ids, paths and quoted values. Pure."""

import re
from hashlib import blake2b

import msgspec

from queue_core.task import Record

GROUP_LIMIT = 10_000  # groups with texts of their own; errors that are new after that share one
LOOKED = 2_000  # characters of a text that are normalised
TEXT_KEPT, SAMPLE_KEPT = 200, 1_000  # characters of a group's text, and of the error that it shows
FAILED = "failed with no attempts left"  # the reason of a death by nack: what counts is the error
OTHERS = bytes(8)  # the fingerprint of the group that errors share when there are too many
OTHERS_TEXT = "other errors"

_PARTS = re.compile(
    r"""
      (?P<id>\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b)
    | (?P<url>\b[a-zA-Z][\w+.-]{1,20}://[^\s'"<>)\]]+)
    | (?P<email>\b[\w.+-]{1,64}@[\w-]+\.[\w.-]+)
    | (?P<value>"[^"\n]*"|(?<!\w)'[^'\n]*'|`[^`\n]*`)
    | (?P<path>(?<![\w/])(?:[A-Za-z]:)?(?:[/\\][\w.@%+~-]+){2,}[/\\]?)
    | (?P<hex>\b0[xX][0-9a-fA-F]+\b|\b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}\b)
    | (?P<n>\d+(?:[.,:]\d+)*)
    """,
    re.VERBOSE,
)
_SPACE = re.compile(r"\s+")


def normalised(text: str) -> str:
    """An error text without what differs from one death to the next.

    Of a Python traceback the last line counts, of other texts the first. Ids, URLs, e-mail addresses, quoted values,
    paths, hexadecimal and other numbers are named by their kind: ``timeout after 30 s`` is ``timeout after <n> s``.
    """
    text = text[-LOOKED:] if text.startswith("Traceback ") else text[:LOOKED]
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    line = next((line for line in reversed(lines) if not line[0].isspace()), lines[-1])
    chosen = line if text.startswith("Traceback ") or lines[0].startswith(" ") else lines[0]
    return _SPACE.sub(" ", _PARTS.sub(lambda part: f"<{part.lastgroup}>", chosen)).strip()


def cause(record: Record) -> str:
    """The text by which a dead letter is grouped: its error when it failed, else the reason given."""
    if record.reason == FAILED and record.error:
        return record.error
    return record.reason or record.error or ""


def fingerprint(text: str) -> bytes:
    """8 bytes for a normalised text."""
    return blake2b(text.encode(), digest_size=8).digest()


class Group(msgspec.Struct, array_like=True, gc=False):
    """Dead letters of one fingerprint, as they are stored. Times in microseconds; 0 is never.

    ``count`` of them are dead now, in ``tags`` tags; ``deaths`` were ever. ``sample`` is the id of the newest death.
    A group that was resolved is reopened by a new death.
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

    def died(self, record: Record) -> None:
        """Note a death; a resolved group is open again."""
        self.deaths += 1
        self.first = self.first or record.entered
        self.last = max(self.last, record.entered)
        self.sample, self.error = record.id, cause(record)[:SAMPLE_KEPT]
        if self.resolved:
            self.resolved, self.resolved_by, self.reopened = 0, "", record.entered
