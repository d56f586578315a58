"""Spans, sizes and counts as filters write them. Pure.

Each ``parse_…`` takes a word and raises ValueError with what was expected; each ``…_text`` gives the canonical word,
which parses to the same number.
"""

import re

_SPAN_PART = re.compile(r"(\d{1,20})(?:\.(\d{1,12}))?(ms|us|[dhms])")
_SPAN = re.compile(rf"(-?)((?:{_SPAN_PART.pattern})+|(\d{{1,20}})(?:\.(\d{{1,12}}))?)", re.ASCII)
_SPAN_UNITS = {"d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
_LONGEST = 10**9 * _SPAN_UNITS["d"]

_SIZE = re.compile(r"(\d{1,30})(?:\.(\d{1,12}))?([kmg]i?)?b?", re.ASCII)
_SIZE_UNITS = {"gi": 1 << 30, "g": 10**9, "mi": 1 << 20, "m": 10**6, "ki": 1 << 10, "k": 10**3}
_SIZE_SIGNS = {"gi": "GiB", "g": "GB", "mi": "MiB", "m": "MB", "ki": "KiB", "k": "kB"}
_LARGEST = 10**30 - 1

_COUNT = re.compile(r"\d{1,30}", re.ASCII)


def _times(whole: str, fraction: str | None, unit: int) -> int:
    """A decimal number of units, exactly; what is below one is cut off."""
    digits = fraction or ""
    number: int = int(whole + digits) * unit // 10 ** len(digits)
    return number


def parse_span(text: str) -> int:
    """Microseconds, of a span such as 90s, 5m, 2h, 1d, 1h30m, 250ms; a bare number is seconds."""
    match = _SPAN.fullmatch(text.lower())
    if match is None:
        raise ValueError("a span of time such as 90s, 5m, 2h, 1d or 1h30m")
    if match[6]:
        span = _times(match[6], match[7], _SPAN_UNITS["s"])
    else:
        span = sum(_times(part[1], part[2], _SPAN_UNITS[part[3]]) for part in _SPAN_PART.finditer(match[2]))
    if span > _LONGEST:
        raise ValueError("a span of at most 1,000,000,000 days")
    return -span if match[1] else span


def span_text(span: int) -> str:
    parts, rest = [], abs(span)
    for sign, unit in _SPAN_UNITS.items():
        number, rest = divmod(rest, unit)
        if number:
            parts.append(f"{number}{sign}")
    return ("-" if span < 0 else "") + ("".join(parts) or "0s")


def parse_size(text: str) -> int:
    """Bytes, of a size such as 100, 10k, 1.5MB (thousands) or 64KiB (of 1,024)."""
    match = _SIZE.fullmatch(text.lower())
    size = None if match is None else _times(match[1], match[2], _SIZE_UNITS.get(match[3], 1))
    if size is None or size > _LARGEST:
        raise ValueError("a size in bytes such as 100, 10k, 1.5MB or 64KiB")
    return size


def size_text(size: int) -> str:
    for name, unit in _SIZE_UNITS.items():
        if size and size % unit == 0:
            return f"{size // unit}{_SIZE_SIGNS[name]}"
    return str(size)


def parse_count(text: str) -> int:
    if not _COUNT.fullmatch(text):
        raise ValueError("a whole number such as 3")
    return int(text)
