"""What a click does is done once, and told, whatever is clicked meanwhile.

As soon as another click waits, Streamlit ends a callback where it uses the state of the session next: what it was
about to do is not done, what it has done is not told. So a callback acts without that state, keeps what came of it in a
list that it has taken from there before, and only then tells the state. What it was kept from telling, the next run
tells.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import streamlit as st

from queue_core import QueueError
from queue_core.frames import error_line

T = TypeVar("T")
UNTOLD = "untold"


def settle() -> None:
    """Tell the session what was done and is not told yet: before anything is drawn, and before a callback asks whether
    what it was clicked for was done already."""
    untold = st.session_state.get(UNTOLD, [])
    while untold:
        untold[0]()
        del untold[0]


def do(work: Callable[[], T], tell: Callable[[T], None]) -> None:
    """In a callback: act on the queue, and tell the session. ``work`` uses no state of the session; ``tell`` gets what
    it returns, and may be called again when it was ended."""
    untold = st.session_state.setdefault(UNTOLD, [])
    untold.append(partial(tell, work()))
    settle()


def tried(act: Callable[[], object]) -> str:
    """What went wrong, in words; nothing when nothing did."""
    try:
        act()
    except QueueError as error:
        return error_line(error)
    return ""
