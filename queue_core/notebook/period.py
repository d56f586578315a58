"""The time that a notebook looks back at: so long, up to now or to a moment."""

from datetime import datetime, timedelta

from queue_core.errors import InvalidArgument
from queue_core.frames import duration
from queue_core.history import JOURNAL_KEPT, Event
from queue_core.query.values import parse_span, span_text
from queue_core.queue import View
from queue_core.series import Series
from queue_core.spans import fitting
from queue_core.task import EPOCH, LAST_MOMENT, microseconds, moment

NEWEST = 20_000  # events that are read when no time is said
KEPT, LONGEST = timedelta(days=30), timedelta(days=3_650)  # of measured history; of a period
LENGTH = "a span of time of at most ten years, such as 90s, 5m, 2h, 1d or 1h30m"
INSTANT = "an instant with a time zone, such as 2026-03-01T12:00Z"


class Period:
    """``last`` is its length, such as "24h" or "1h30m" (or a timedelta); without it, what is looked at is what there
    is. ``until`` is its end, such as "2026-03-01T12:00Z" (or an aware datetime); without it, now.

    Raises InvalidArgument for what is no length, and for what is no instant.
    """

    def __init__(self, last: str | timedelta | None = None, until: str | datetime | None = None) -> None:
        self.length = _length(last) if isinstance(last, str) else last
        self.until = _instant(until) if isinstance(until, str) else until
        if self.length is not None and not timedelta(0) < self.length <= LONGEST:
            raise InvalidArgument(f"last is {last!r:.100}: it is above 0, and at most ten years")
        if self.until is not None:
            self.until = moment(microseconds(self.until, "until"))
            if self.length is None:
                raise InvalidArgument(f"until is {until!r:.100}, and last is not given: say how long, such as '24h'")

    def __str__(self) -> str:
        """In words, such as "the last 24 h"."""
        if self.length is None:
            return "the time that is kept"
        long = duration(self.length.total_seconds())
        return f"the last {long}" if self.until is None else f"the {long} until {self.until:%Y-%m-%d %H:%M:%S} UTC"

    def __repr__(self) -> str:
        """As it is written in a notebook."""
        said = [] if self.length is None else [span_text(self.length // timedelta(microseconds=1))]
        said += [] if self.until is None else [self.until.isoformat()]
        return f"Period({', '.join(map(repr, said))})"

    def span(self, now: datetime) -> tuple[datetime, datetime]:
        """When it begins, and when it ends: in the beginning, and never, where that was not said."""
        begin = EPOCH if self.length is None else (self.until or now) - self.length
        return begin, self.until or moment(LAST_MOMENT)

    def step(self, most: int) -> float:
        """A round number of seconds that cuts it into ``most`` pieces or less."""
        return fitting((self.length or KEPT).total_seconds(), most)

    def series(self, view: View) -> Series:
        """Its measured history."""
        begin, _ = self.span(view.snapshot().at)
        return view.series(since=begin, until=self.until)

    def events(self, view: View) -> list[Event]:
        """Its events, those that the journal still has; the newest 20,000 when no length was said."""
        if self.length is None:
            return view.journal(limit=NEWEST)
        begin, end = self.span(view.snapshot().at)
        return [event for event in view.journal(limit=JOURNAL_KEPT) if begin <= event.at <= end]

    def told(self, view: View) -> str:
        """Which events these are, in a sentence."""
        oldest = view.journal(after=0, limit=1)
        if not oldest:
            return "No event is kept."
        if self.length is None:
            return f"The newest events, {NEWEST:,} at most."
        if oldest[0].number > 1 and oldest[0].at > self.span(view.snapshot().at)[0]:
            return f"The events of {self}; the journal reaches back only to {oldest[0].at:%Y-%m-%d %H:%M:%S} UTC."
        return f"The events of {self}."


def _length(text: str) -> timedelta:
    try:
        return timedelta(microseconds=parse_span(text))
    except (ValueError, OverflowError):
        raise InvalidArgument(f"last is {text!r:.100}: give {LENGTH}") from None


def _instant(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(f"until is {text!r:.100}: give {INSTANT}") from None
