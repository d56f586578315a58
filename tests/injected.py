"""What tests put in place of the world."""

from datetime import datetime

from queue_core.task import SECOND, moment


class Clock:
    """A clock that tests set. ``now`` is in microseconds since the epoch, UTC."""

    def __init__(self, now: int = 1_750_000_000 * SECOND) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        """Forward, or back for a negative number."""
        self.now += round(seconds * SECOND)

    def at(self, seconds: float = 0) -> datetime:
        """An aware datetime, so many seconds from now."""
        return moment(self.now + round(seconds * SECOND))
