"""Lease tokens and task ids as text."""

import os
import re
from struct import unpack
from typing import Any, NamedTuple
from uuid import UUID

from queue_core.errors import InvalidArgument, LeaseLost
from queue_core.task.records import Record, State

_TOKEN = re.compile(r"([0-9a-f]{32})\.([0-9a-f]{1,16})\.([0-9a-f]{16})")


_nonces: list[int] = []  # drawn ahead: a system call for each would be made under the write lock
os.register_at_fork(after_in_child=_nonces.clear)


def nonce() -> int:
    """64 random bits: what makes a token unguessable, and each heartbeat's another."""
    while True:
        try:
            return _nonces.pop()
        except IndexError:
            _nonces.extend(unpack("512Q", os.urandom(4096)))


class Token(NamedTuple):
    """A parsed lease token: only the newest of a live lease is accepted."""

    id: bytes
    fence: int
    nonce: int

    def __str__(self) -> str:
        return f"{self.id.hex()}.{self.fence:x}.{self.nonce:016x}"

    def fits(self, record: Record | None) -> bool:
        """Whether it is the newest token of the record's open lease."""
        return (
            record is not None
            and record.state is State.INFLIGHT
            and record.hold is not None
            and record.hold.fence == self.fence
            and record.hold.nonce == self.nonce
        )


def parse_token(text: Any) -> Token:
    """The parts of a token. Raises LeaseLost for any text that is not one: it can hold no lease."""
    match = _TOKEN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise LeaseLost([str(text)])
    token = Token(bytes.fromhex(match[1]), int(match[2], 16), int(match[3], 16))
    if str(token) != text:
        raise LeaseLost([text])
    return token


def is_token(text: str) -> bool:
    """Whether a text has the shape of a token, as against an id."""
    return "." in text


def parse_id(value: str | UUID) -> bytes:
    """A task id as its 16 bytes. Raises InvalidArgument when it is not a UUID."""
    try:
        return value.bytes if isinstance(value, UUID) else UUID(value).bytes
    except (ValueError, AttributeError, TypeError):
        raise InvalidArgument(f"id {value!r:.100} is not a UUID, such as {UUID(int=0)}") from None


def id_text(id: bytes) -> str:
    return str(UUID(bytes=id))
