"""What is read once for all viewers, and kept for as long as reading it costs: dear numbers are renewed less often.

What is made of such a value, a figure, say, is made once too: most refreshes draw what was drawn before.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from weakref import WeakSet, ref

T = TypeVar("T")

LEAST, MOST = 1.5, 15.0  # seconds that a value is kept; the parts of a page ask for it every two, each at its time
PART = 0.01  # of a core, that reading one value again and again may take

_every: "WeakSet[Shared[Any]]" = WeakSet()


def forget() -> None:
    """Read everything anew when it is asked for next."""
    for shared in list(_every):
        shared.clear()


@dataclass(slots=True)
class _Kept(Generic[T]):
    """``lock`` is held while the value is read, so that all who ask meanwhile wait for one reading."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    value: T | None = None
    until: float = 0.0


class Shared(Generic[T]):
    """Values by what was asked, the ``most`` last ones. What is returned belongs to all: nobody changes it."""

    def __init__(self, most: int) -> None:
        _every.add(self)
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, _Kept[T]] = OrderedDict()

    def get(self, asked: Hashable, read: Callable[[], T]) -> T:
        """The value kept for this question, or what ``read`` returns now; it raises what ``read`` does.

        A value is kept for 1.5 s at least and 15 s at most; in between, so long that reading it takes no more than
        ``PART`` of a core.
        """
        with self._lock:
            kept = self._kept.setdefault(asked, _Kept())
            self._kept.move_to_end(asked)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        with kept.lock:
            if kept.value is None or time.monotonic() >= kept.until:
                begun = time.thread_time()
                kept.value = read()
                cost = time.thread_time() - begun
                kept.until = time.monotonic() + min(max(LEAST, cost / PART), MOST)
            return kept.value

    def clear(self) -> None:
        """Read all of these anew when they are asked for next."""
        with self._lock:
            self._kept.clear()


class Made(Generic[T]):
    """What was made of values, by the value itself and what was made of it: kept for as long as the value is.

    Values have to be of a type that takes weak references, and nobody changes them.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, Hashable], tuple[ref[Any], T]] = {}

    def get(self, of: object, what: Hashable, make: Callable[[], T]) -> T:
        """What was made of this value before, or what ``make`` returns now; it raises what ``make`` does."""
        key = (id(of), what)
        kept = self._kept.get(key)
        if kept is None or kept[0]() is not of:  # another value may have had this address
            kept = self._kept[key] = ref(of, lambda gone: self._drop(key, gone)), make()
        return kept[1]

    def _drop(self, key: tuple[int, Hashable], gone: "ref[Any]") -> None:
        if (kept := self._kept.get(key)) is not None and kept[0] is gone:
            del self._kept[key]
