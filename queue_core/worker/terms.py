"""What a worker was told, what it says at the end, and how it finds a handler by name."""

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from queue_core.errors import InvalidArgument

Handler = Callable[[Any], Any]
OWNER_LIMIT = 200
GRACE = 3.5  # seconds: supervisors such as honcho kill 5 s after SIGTERM


@dataclass(frozen=True, slots=True)
class Terms:
    """How a worker works; spans in seconds. Raises InvalidArgument for what cannot be meant."""

    concurrency: int
    ttl: float
    max_runtime: float | None
    heartbeat_interval: float | None  # None: a third of the ttl
    grace: float
    stop_when_idle: bool
    owner: str | None

    def __post_init__(self) -> None:
        whole(self.concurrency, "concurrency", 1)
        for name in ("ttl", "max_runtime", "heartbeat_interval", "grace"):
            value = getattr(self, name)
            if value is None and name in ("max_runtime", "heartbeat_interval"):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise InvalidArgument(f"{name} is {value!r:.100}: it is a number of seconds")
            if value < 0 or (value == 0 and name != "grace"):
                raise InvalidArgument(f"{name} is {value!r:.100} seconds: it must be above 0")
        owner: Any = self.owner
        if owner is not None and (not isinstance(owner, str) or len(owner.encode("utf-8", "replace")) > OWNER_LIMIT):
            raise InvalidArgument(f"owner is {owner!r:.100}: it is text of at most {OWNER_LIMIT} bytes as UTF-8")
        if self.heartbeat_interval is not None and self.heartbeat_interval > self.ttl / 3:
            raise InvalidArgument(
                f"heartbeat_interval is {self.heartbeat_interval} s and ttl {self.ttl} s: the interval must be at most "
                f"a third of the ttl ({self.ttl / 3:g} s), so that a lease outlives two lost beats"
            )

    @property
    def interval(self) -> float:
        """Between two heartbeats."""
        return self.ttl / 3 if self.heartbeat_interval is None else self.heartbeat_interval


@dataclass(frozen=True, slots=True)
class Summary:
    """What a worker did: tasks acknowledged, failed (nacked, retried or rejected), lost to another holder,
    given back when it stopped, and deferred by their handler."""

    done: int = 0
    failed: int = 0
    lost: int = 0
    released: int = 0
    deferred: int = 0

    def __add__(self, other: "Summary") -> "Summary":
        return Summary(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


class Message(NamedTuple):
    """To the thread in ``run()``: stop with grace, stop now, or one of the crew has ended (with an error)."""

    kind: Literal["stop", "now", "ended", "failed"]
    error: Exception | None = None


Post = Callable[[Message], None]


def whole(value: Any, name: str, least: int) -> int:
    """The number itself. Raises InvalidArgument when it is not a whole one, or too small."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidArgument(f"{name} is {value!r:.100}: it is a whole number of at least {least}")
    return value


def resolve(handler: Handler | str) -> Handler:
    """The handler, or the one named as "module:function". Raises InvalidArgument when there is none."""
    found: Any = handler
    if isinstance(handler, str):
        module, colon, name = handler.partition(":")
        if not (module and colon and name):
            raise InvalidArgument(f'handler is {handler!r:.100}: name it as "module:function"')
        try:
            found = attrgetter(name)(importlib.import_module(module))
        except (ImportError, AttributeError, ValueError) as error:
            raise InvalidArgument(f"handler {handler!r:.100} cannot be imported: {error}") from error
    if not callable(found):
        raise InvalidArgument(f"handler is {handler!r:.100}: it is a function of one argument, or its name")
    return found  # type: ignore[no-any-return]


def reference(handler: Handler | str) -> str:
    """The name under which another process can import the handler. Raises InvalidArgument when there is none."""
    if isinstance(handler, str):
        resolve(handler)
        return handler
    module, name = getattr(handler, "__module__", None), getattr(handler, "__qualname__", None)
    if not module or not name or module == "__main__" or "<" in name:
        raise InvalidArgument(
            f"handler {name or repr(handler):.100} of {module or 'no module'} cannot be imported by worker processes: "
            "a function made in a notebook cell, in the main script or inside another function exists only here; move "
            'it to the top level of a module and give it as "module:function", or use processes=0'
        )
    text = f"{module}:{name}"
    if resolve(text) is not handler:
        raise InvalidArgument(
            f"handler {text} is not what is found under that name: worker processes would run another"
        )
    return text
