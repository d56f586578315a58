"""What stands in the place of a secret: its kind and about how long it is, nothing else. Pure."""

import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

MARK = "••••"
MASK = rf"{MARK} \([\d,]+–[\d,]+ characters\)"  # as a part of other patterns
MASKED = re.compile(MASK)

_LEAST = re.compile(r"[\d,]+")


def cover(text: str) -> str:
    """The mask of a text, with the class of its length: 1–7, 8–15, 16–31, … characters.

    What is empty hides nothing, and a mask is not masked again: both are returned as they are.
    """
    if not text or MASKED.fullmatch(text):
        return text
    length = _length(text)
    least = 1 << (length.bit_length() - 1)
    least, most = (least, 2 * least - 1) if least >= 8 else (1, 7)
    return f"{MARK} ({least:,}–{most:,} characters)"


def _length(text: str) -> int:
    """The characters of a text; a mask in it counts as the fewest that it may stand for."""
    length = len(text)
    if MARK in text:
        for mask in MASKED.findall(text):
            length += int(_LEAST.findall(mask)[0].replace(",", "")) - len(mask)
    return length


def covered(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with these stretches masked, in their order. One that cuts into a mask takes all of it; one inside a
    mask, or inside the stretch before, changes nothing."""
    masks = [found.span() for found in MASKED.finditer(text)] if MARK in text else []
    parts, done = [], 0
    for start, end in spans:
        start = max(start, done)
        if masks:
            start, end = _widened(masks, start, end)
        if start < end:
            parts += [text[done:start], cover(text[start:end])]
            done = end
    return "".join([*parts, text[done:]]) if parts else text


def _widened(masks: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    first = masks[max(bisect_right(masks, (start, sys.maxsize)) - 1, 0)]
    if first[0] <= start and end <= first[1]:
        return start, start
    last = masks[max(bisect_left(masks, (end, 0)) - 1, 0)]
    return (
        first[0] if first[0] < start < first[1] else start,
        last[1] if last[0] < end < last[1] else end,
    )
