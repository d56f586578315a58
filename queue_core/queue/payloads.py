"""What a payload may be besides a JSON value, and how tasks are handed in."""

from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

import msgspec

from queue_core.errors import InvalidPayload


class Serializer(Protocol):
    """Maps payloads to and from JSON values."""

    def dump(self, payload: Any) -> Any: ...

    def load(self, value: Any) -> Any: ...


class Plain:
    def dump(self, payload: Any) -> Any:
        return payload

    def load(self, value: Any) -> Any:
        return value


class Typed:
    """A dataclass or ``msgspec.Struct`` as payload."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def dump(self, payload: Any) -> Any:
        if not isinstance(payload, self._kind):
            raise InvalidPayload(f"payload is a {type(payload).__name__}; this queue takes {self._kind.__name__}")
        return msgspec.to_builtins(payload)

    def load(self, value: Any) -> Any:
        return msgspec.convert(value, self._kind)


class Item(msgspec.Struct, frozen=True):
    """One task for ``push_many``; the fields are the arguments of ``push``."""

    payload: Any
    tag: str | None = None
    id: str | UUID | None = None
    delay: float | timedelta = 0
    max_attempts: int = 5
    dedupe_key: str | None = None


class Undecodable:
    """Stands for a payload that the queue's serializer cannot read: the stored JSON text and the error."""

    def __init__(self, data: bytes, error: str) -> None:
        self.data = data
        self.error = error

    def __repr__(self) -> str:
        return f"Undecodable({self.data[:60]!r}, {self.error!r:.120})"
