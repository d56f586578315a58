"""Backoff, and text that can always be kept."""

from hashlib import blake2b

from queue_core.task.records import SECOND, TEXT_LIMIT


def backoff(id: bytes, cycle: int, attempt: int) -> int:
    """Microseconds before the retry that follows the given counted attempt (from 1).

    1 s doubling to 300 s, of which the second half is jitter ("equal jitter", M. Brooker, AWS
    Architecture Blog, 2015), drawn from a hash of id, cycle and attempt, so that every store agrees.
    """
    full = min(300, 1 << min(max(attempt, 1) - 1, 9)) * SECOND
    digest = blake2b(b"%b/%d/%d" % (id, cycle, attempt), digest_size=4).digest()
    return full // 2 + (full - full // 2) * int.from_bytes(digest) // (1 << 32)


def clean_text(value: object) -> str:
    """An error or a reason as text that every store and screen can keep; never raises.

    NUL and lone surrogates become U+FFFD; what is over 64 KiB is cut, with a mark.
    """
    try:
        text = f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value)
    except Exception:  # noqa: BLE001 - whatever str() of a stranger's object raises, the failure must be recorded
        text = f"<{type(value).__name__} whose str() raises>"
    raw = text.replace("\0", "\ufffd").encode("utf-8", "surrogatepass")
    if len(raw) > TEXT_LIMIT:
        mark = f" … [cut, {len(raw):,} bytes in all]".encode()
        raw = raw[: TEXT_LIMIT - len(mark)] + mark
    return raw.decode("utf-8", "replace")
