"""Arguments, checked outside any transaction; what cannot be meant is refused with its value and the rule."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from queue_core.errors import InvalidArgument, InvalidTag, LeaseLost
from queue_core.task import SECOND, Lease, State, Token, parse_token

TAG_LIMIT = 65_535
BATCH_LIMIT = 10_000
LONGEST = 100 * 365 * 86_400  # seconds: a delay or ttl above this is a mistake


def check_tag(tag: Any) -> str:
    """The tag itself. Raises InvalidTag."""
    if not isinstance(tag, str):
        raise InvalidTag(f"tag is {tag!r:.100} of type {type(tag).__name__}: a tag is text")
    try:
        size = len(tag.encode())
    except UnicodeEncodeError:
        raise InvalidTag(f"tag {tag!r:.100} holds a lone surrogate, which UTF-8 has not") from None
    if size > TAG_LIMIT:
        raise InvalidTag(f"tag {tag[:60]!r}… is {size:,} bytes as UTF-8; the limit is {TAG_LIMIT:,}")
    return tag


def tag_or_none(tag: Any) -> str | None:
    return None if tag is None else check_tag(tag)


def as_text(value: Any, name: str) -> str:
    if not isinstance(value, str) or value != value.encode("utf-8", "replace").decode() or len(value) > TAG_LIMIT:
        raise InvalidArgument(f"{name} is {value!r:.100}: it is text of at most {TAG_LIMIT:,} characters")
    return value


def as_whole(value: Any, name: str, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidArgument(f"{name} is {value!r:.100}: it is a whole number from {least:,} to {most:,}")
    return value


def as_span(value: Any, name: str, least: int = 0) -> int:
    """Seconds or a timedelta as microseconds, at least ``least``."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds != seconds:
        raise InvalidArgument(f"{name} is {value!r:.100}: it is a number of seconds")
    span = round(max(min(seconds, LONGEST + 1), -1) * SECOND)
    if not least <= span <= LONGEST * SECOND:
        raise InvalidArgument(
            f"{name} is {value!r:.100} seconds: it is {'above' if least else 'at least'} 0 and at most {LONGEST:,}"
        )
    return span


def as_state(value: Any) -> State:
    try:
        return State(value)
    except ValueError:
        raise InvalidArgument(f"state is {value!r:.100}: it is one of {', '.join(State)}") from None


def as_group(value: Any) -> bytes:
    """The fingerprint of an error group, of its 16 hexadecimal digits."""
    try:
        mark = bytes.fromhex(value)
    except (ValueError, TypeError):
        mark = b""
    if len(mark) != 8:
        raise InvalidArgument(f"group is {value!r:.100}: an error group has 16 hexadecimal digits")
    return mark


def as_token(lease: Any) -> Token:
    return lease.proof if isinstance(lease, Lease) else parse_token(lease)


def as_tokens(leases: Iterable[Any]) -> list[Token]:
    """Raises LeaseLost naming all that can be nobody's token."""
    tokens: list[Token] = []
    bad: list[str] = []
    for lease in leases:
        try:
            tokens.append(as_token(lease))
        except LeaseLost as error:
            bad += error.tokens
    if bad:
        raise LeaseLost(bad)
    return tokens


def as_flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} is {value!r:.100}: it is True or False")
    return value


def _or_none(rule: Callable[[Any, str], int]) -> Callable[[Any, str], int | None]:
    return lambda value, name: None if value is None else rule(value, name)


SETTINGS: Mapping[str, Callable[[Any, str], Any]] = {
    "weight": lambda value, name: as_whole(value, name, 1, 1_000_000),
    "paused": as_flag,
    "max_inflight": _or_none(lambda value, name: as_whole(value, name, 1, 1 << 40)),
    "min_interval": as_span,
    "max_pending": _or_none(lambda value, name: as_whole(value, name, 0, 1 << 40)),
    "dead_retention": _or_none(as_span),
    "tag_retention": as_span,
    "history": as_flag,
    "max_payload": lambda value, name: as_whole(value, name, 1, 1 << 30),
}
