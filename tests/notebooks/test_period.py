"""The time that a notebook looks back at: as it is written, in words, and what of it there is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from queue_core import InvalidArgument, Queue, open_queue
from queue_core.history import Event
from queue_core.notebook import Period
from queue_core.task import SECOND, moment

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("period", "written", "words"),
    [
        (Period(), "Period()", "the time that is kept"),
        (Period("90m"), "Period('1h30m')", "the last 1 h 30 min"),
        (Period(timedelta(seconds=90)), "Period('1m30s')", "the last 1 min 30 s"),
        (
            Period("2h", "2026-03-01T12:00Z"), "Period('2h', '2026-03-01T12:00:00+00:00')",
            "the 2 h until 2026-03-01 12:00:00 UTC",
        ),
        (
            Period("2h", datetime(2026, 3, 1, 14, tzinfo=timezone(timedelta(hours=2)))),
            "Period('2h', '2026-03-01T12:00:00+00:00')", "the 2 h until 2026-03-01 12:00:00 UTC",
        ),
    ],
)  # fmt: skip
def test_it_is_written_as_it_is_read(period: Period, written: str, words: str) -> None:
    assert (repr(period), str(period)) == (written, words)
    again = eval(written)
    assert (again.length, again.until) == (period.length, period.until)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("24x",), "last is '24x': give a span of time"), (("0s",), "above 0"), (("-2h",), "above 0"),
        (("4000d",), "at most ten years"), (("999999999d",), "ten years"), (("2h", "noon"), "until is 'noon': give an"),
        (("2h", "2026-03-01T12:00"), "time zone"), ((None, "2026-03-01T12:00Z"), "say how long, such as '24h'"),
    ],
)  # fmt: skip
def test_what_is_no_period_is_refused(given: tuple[Any, ...], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        Period(*given)


def test_what_there_is_of_it() -> None:
    now = [int(NOON.timestamp()) * SECOND]
    with open_queue("memory://", clock=lambda: now[0]) as queue:
        assert (look(queue, Period("2h")), told(queue, Period("2h"))) == ([], "No event is kept.")
        for _ in range(4):  # at 12, 13, 14 and 15 o'clock; it is 16
            queue.push(1, tag="acme")
            now[0] += 3_600 * SECOND
        assert hours(look(queue, Period())) == [12, 13, 14, 15]
        assert hours(look(queue, Period("2h"))) == [14, 15]
        assert hours(look(queue, Period("90m", moment(now[0] - 7_200 * SECOND)))) == [13, 14]
        assert told(queue, Period()) == "The newest events, 20,000 at most."
        assert told(queue, Period("10h")) == "The events of the last 10 h."
        with queue.view() as view:
            assert sum(Period("2h").series(view).whole("pushed")) == 2
            assert sum(Period("1h", moment(now[0] - 7_200 * SECOND)).series(view).whole("pushed")) == 1
        assert queue.check() == []


def test_what_the_journal_no_longer_has_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stores.memory.records.JOURNAL_LIMIT", "stores.memory.records.JOURNAL_KEPT", "check.JOURNAL_LIMIT"):
        monkeypatch.setattr(f"queue_core.{name}", 3)
    now = [int(NOON.timestamp()) * SECOND]
    with open_queue("memory://", clock=lambda: now[0]) as queue:
        for _ in range(5):
            queue.push(1, tag="acme")
            now[0] += 3_600 * SECOND
        assert told(queue, Period("2h")) == "The events of the last 2 h."
        assert told(queue, Period("1d")).endswith("reaches back only to 2026-03-01 14:00:00 UTC.")
        assert queue.check() == []


def look(queue: Queue, period: Period) -> list[Event]:
    with queue.view() as view:
        return period.events(view)


def told(queue: Queue, period: Period) -> str:
    with queue.view() as view:
        return period.told(view)


def hours(events: list[Event]) -> list[int]:
    return [event.at.hour for event in events]
