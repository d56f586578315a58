"""What a click does is done once, and told, whatever is clicked meanwhile.

As soon as somebody clicks again, Streamlit begins to answer that in another thread, and ends the first one where it
uses the state of the session next: the second of two quick clicks would find nothing done yet, and what the first has
done would not be told. So one callback of a session acts at a time. It acts without the state of the session, keeps
what came of it beside that state, and then tells the state; what it was kept from telling, the next one tells, or the
next run.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import ParamSpec, TypeVar

import streamlit as st

from queue_core import QueueError
from queue_core.frames import error_line

P, T = ParamSpec("P"), TypeVar("T")


@dataclass
class Untold:
    """What was done in a session and is not told yet, in its order. Who acts holds the lock."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    tells: list[Callable[[], None]] = field(default_factory=list)

    def tell(self) -> None:
        """Each is forgotten when it has been told as a whole."""
        while self.tells:
            self.tells[0]()
            del self.tells[0]


def _untold() -> Untold:
    found: Untold = st.session_state.setdefault("untold", Untold())
    return found


def settle() -> None:
    """Before anything is drawn: wait until nobody acts, and tell what was done."""
    untold = _untold()
    with untold.lock:
        untold.tell()


def one_at_a_time(callback: Callable[P, None]) -> Callable[P, None]:
    """A callback that acts. What was done before is told when it begins, so that it sees whether that was its own."""

    @wraps(callback)
    def run(*args: P.args, **given: P.kwargs) -> None:
        untold = _untold()
        with untold.lock:
            untold.tell()
            callback(*args, **given)

    return run


def do(work: Callable[[], T], tell: Callable[[T], None]) -> None:
    """Act on the queue, and tell the session. ``work`` uses no state of the session; ``tell`` gets what it returns, and
    is called again when it was ended."""
    untold = _untold()
    untold.tells.append(partial(tell, work()))
    untold.tell()


def tried(act: Callable[[], object]) -> str:
    """What went wrong, in words; nothing when nothing did."""
    try:
        act()
    except QueueError as error:
        return error_line(error)
    return ""
