"""Text for people: names, payloads and errors made safe for tables and charts; spans and counts in words. Pure.

What comes from tasks may hold anything: control characters, lone surrogates, a megabyte. Nothing here raises, but for
redaction rules that cannot be read: ``mask`` is by default the redactor that is configured.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from queue_core.groups import telling_line
from queue_core.redact import Redactor, masking
from queue_core.task import Task

LABEL = 40  # characters of a tag's label
PREVIEW = 300  # characters of an error, a reason or a payload in a table

# C0 and C1 controls, lone surrogates, and the marks that turn the direction of what follows
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_SPACE = re.compile(r"\s+")
_EMPTY = "(empty tag)"
_CUT = "… #"  # between the beginning of a name and its hash


def safe_text(text: str, limit: int | None = None) -> str:
    """The text without what breaks or deceives a screen; line breaks stay. Cut at ``limit`` characters, with a mark."""
    if limit is not None and len(text) > limit:
        return f"{_UNSAFE.sub('�', text[:limit])}… ({len(text):,} characters)"
    return _UNSAFE.sub("�", text)


def one_line(text: str | None, limit: int = PREVIEW) -> str:
    """A safe preview on one line; empty for None."""
    if text is None:
        return ""
    head = _SPACE.sub(" ", text[: limit + 1]).strip()
    shown = _UNSAFE.sub("�", head[:limit])
    return f"{shown}… ({len(text):,} characters)" if len(text) > limit else shown


def error_preview(text: str | None, mask: Redactor | None = None) -> str:
    """An error on one line, its secrets masked: of a traceback its last line, which names the exception."""
    if text is None:
        return ""
    text = masking(mask).text(text)
    if "Traceback (most recent call last):" in text:
        text = telling_line(text)
    return one_line(text)


def tag_label(name: str) -> str:
    """What a tag is called on every page: its name, or, when that is empty, long or odd, a short form with 24 bits of a
    hash of the name.

    No tag has a name that is the label of another. Two labels may be the same by chance: among 10,000 long names that
    all begin alike, those of about three pairs are. So a label is only ever shown; tags are told apart by their names.
    """
    if not name:
        return _EMPTY
    if len(name) <= LABEL and name.isascii() and name.isprintable() and " " not in name:  # as most are
        return name
    plain = _UNSAFE.sub("�", _SPACE.sub(" ", name[: LABEL + 1])).strip()
    if plain == name and len(name) <= LABEL and name != _EMPTY and _CUT not in name:  # else it looks like a label
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()
    return f"{plain[: LABEL - 9]}{_CUT}{digest}"


def told_apart(names: Iterable[str]) -> dict[str, str]:
    """What to call each of some tags that stand side by side: its label, or, where two have the same, its name in full,
    made safe."""
    labels = {name: tag_label(name) for name in names}
    called = Counter(labels.values())
    return {name: label if called[label] == 1 else safe_text(name) for name, label in labels.items()}


def payload_preview(task: Task, limit: int = PREVIEW, mask: Redactor | None = None) -> str:
    """The beginning of the stored JSON text, its secrets masked, its digits as they are."""
    data = task.record.payload
    text, whole = masking(mask).head(data, limit + 1)
    if whole and len(text) <= limit:
        return one_line(text, limit)
    return f"{_UNSAFE.sub('�', _SPACE.sub(' ', text[:limit]))}… ({len(data):,} bytes)"


class Said(NamedTuple):
    """What a task says, made safe for a table: secrets masked, one line each; empty when there is nothing."""

    payload: str
    error: str
    reason: str
    dedupe_key: str | None


def said(task: Task, mask: Redactor) -> Said:
    """The only way in which frames get at the words of a task."""
    key = task.dedupe_key
    return Said(
        payload_preview(task, mask=mask),
        error_preview(task.error, mask),
        one_line(task.reason and mask.text(task.reason)),
        None if key is None else one_line(mask.text(key)),
    )


def duration(seconds: float | None) -> str:
    """A span in words with at most three significant digits: "340 ms", "4.2 s", "4 min 12 s"; "—" when unknown."""
    if seconds is None or math.isnan(seconds):
        return "—"
    if seconds < 0:
        return f"−{duration(-seconds)}"
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995:
        return f"{max(seconds * 1000, 0.1):.3g} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return _two(whole, 60, "min", 1, "s")
    if whole < 86_400:
        return _two(whole // 60, 60, "h", 1, "min")
    return _two(whole // 3_600, 24, "d", 1, "h")


def _two(whole: int, large: int, first: str, small: int, second: str) -> str:
    rest = whole % large // small
    return f"{whole // large:,} {first} {rest} {second}" if rest else f"{whole // large:,} {first}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """ "1 task", "2 tasks", "1,204 tasks"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def share_text(share: float) -> str:
    """A share of one as per cent, three significant digits at most; "—" when unknown."""
    return "—" if math.isnan(share) else f"{share * 100:.3g} %"
