"""Tests wait for conditions, never for luck."""

import time
from collections.abc import Callable


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    """Return when the condition is true; fail when it has not come true in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.005)
