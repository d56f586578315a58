"""queue-core series: the measured history, span by span."""

import csv
import io
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import click
from msgspec.structs import replace

from queue_core.cli.base import (
    STORE,
    Session,
    duration,
    json_option,
    pass_session,
    say,
    url_option,
)
from queue_core.cli.show import UNKNOWN, clock, dumps, number, plain, safe, span, table, tag_text
from queue_core.series import COUNTERS, FIELDS, GAUGES, LONGEST, Series
from queue_core.snapshot import Snapshot
from queue_core.spans import Span, fitting, spans, widened
from queue_core.task import EPOCH, SECOND

LONGEST_SPAN = 3_650 * 86_400.0
ROWS = 30  # lines that a person gets, when no step is given
SUMS = ("wait", "service", "eligible")  # of times, among the counters
Line = dict[str, Any]


def some_time(value: Any) -> float:
    """A span of time as seconds: above 0, and no longer than anything is kept by far. Raises BadParameter."""
    seconds = duration(value)
    if not 0 < seconds <= LONGEST_SPAN:
        raise click.BadParameter(f"{value!r:.100} is not between 0 and ten years.")
    return seconds


def moment_or_ago(value: Any) -> datetime | float:
    """An instant, of text such as 2026-03-01T12:00Z, or how many seconds ago it was, of text such as 2h."""
    text = str(value).strip()
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return some_time(text)
    if at.utcoffset() is None:
        raise click.BadParameter(f"{text!r:.100} has no time zone: add Z for UTC, or +02:00.")
    return at


@click.command(short_help="What happened lately: rates, backlog and waits over time.")
@click.option(
    "--since", type=moment_or_ago, default="2h", show_default=True, metavar="TIME",
    help="From so long ago, such as 15m, 2h or 7d, or from an instant, such as 2026-03-01T12:00Z.",
)  # fmt: skip
@click.option("--until", type=moment_or_ago, default=None, metavar="TIME", help="Up to then, instead of now.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag, instead of the whole queue; may be repeated.")
@click.option(
    "--step",
    type=some_time,
    metavar="SPAN",
    help=f"How much time a line is, such as 1m; by default there are {ROWS} lines or less.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with the columns of --json.")
@url_option
@json_option
@pass_session
def series(
    session: Session,
    since: datetime | float,
    until: datetime | float | None,
    tags: tuple[str, ...],
    step: float | None,
    as_csv: bool,
) -> None:
    """Print what was measured, from the oldest span to the newest: how many tasks were pushed, leased, acknowledged,
    how many attempts failed, how many tasks died; and by the end of each span how many are pending and in flight,
    and how long the next one has waited.

    The last two hours are kept in buckets of 10 s, the last day in minutes, 30 days in pieces of 10 minutes: a shorter
    step is raised to that. What is not known of a tag by itself is —: of each bucket the 100 tags that did most, or
    waited longest, are kept, and the others are summed. With --json, one JSON document a line, every counter exact.

    \b
    Examples:
      queue-core series
      queue-core series --since 7d --step 1d
      queue-core series --since 15m --tag acme --tag example.org
      queue-core series --since 30d --step 1h --csv | tee month.csv
    """
    if session.as_json and as_csv:
        raise click.UsageError("--json and --csv: choose one")
    with session.open() as queue:
        if not queue.capabilities.history:
            say(
                f"Error: {safe(queue.url)} keeps no history. queue-core stats has what happened since the beginning; "
                "queue-core metrics exports that for Prometheus, which keeps it over time."
            )
            raise click.exceptions.Exit(STORE)
        with queue.view() as view:
            snapshot = view.snapshot()
            begin, end = _instant(since, snapshot.at), _instant(until or 0.0, snapshot.at)
            if begin >= end:
                raise click.UsageError("--since is not before --until")
            step = step or fitting((end - begin).total_seconds(), ROWS)
            begin -= (begin - EPOCH) % timedelta(seconds=step)  # so that the first line is whole
            found = view.series(since=begin, until=end)
    lines = [line for tag in tags or (None,) for line in _lines(found, tag, step)]
    if session.as_json:
        for line in lines:
            click.echo(dumps(line))
    elif lines:
        click.echo(_csv(lines) if as_csv else _table(lines))
    _remark(found, snapshot, tags, step)


def _remark(found: Series, snapshot: Snapshot, tags: Sequence[str], step: float) -> None:
    """What the numbers do not tell."""
    if not found.buckets and found.before is None:
        say("Nothing was measured in that time.")
    elif (used := widened(found, step)) > step:
        say(f"What is kept of that time is in spans of {span(used)}.")
    for tag in sorted({*tags} - {*found.names.values()}):
        say(f"Nothing of tag {tag_text(tag)} was kept in that time.")
    if snapshot.settings.history is False:
        say("No history is written now: queue-core configure --history yes begins it again.")


def _instant(given: datetime | float, now: datetime) -> datetime:
    return given if isinstance(given, datetime) else now - timedelta(seconds=given)


def _lines(series: Series, tag: str | None, step: float) -> list[Line]:
    """Of the whole queue, or of one tag."""
    kept = series.buckets if series.before is None else (series.before, *series.buckets)
    every = replace(series, buckets=kept)
    values = {field: every.whole(field) if tag is None else every.of(tag, field) for field in FIELDS}
    places = {id(bucket): place for place, bucket in enumerate(kept)}

    def line(span: Span) -> Line:
        inside, last = [places[id(bucket)] for bucket in span.buckets], places[id(span.last)]
        of = {field: [found for place in inside if (found := values[field][place]) is not None] for field in FIELDS}
        unknown = bool(inside) and not of["pushed"]
        counts = {field: None if unknown else sum(of[field]) for field in COUNTERS}
        gauges = {field: values[field][last] for field in GAUGES}
        oldest = gauges.pop("oldest")
        waited = None if oldest is None or not gauges["pending"] else oldest + span.stale
        longest = max(of[LONGEST]) if counts["leased"] else None
        sums = {"oldest_wait": waited, "longest_wait": longest, **{name: counts.pop(name) for name in SUMS}}
        seconds = {f"{name}_seconds": None if time is None else time / SECOND for name, time in sums.items()}
        return {"start": span.at, "seconds": span.seconds, "tag": tag, **counts, **gauges, **seconds}

    return [line(span) for span in spans(series, step)]


def _csv(lines: Sequence[Line]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(plain(lines))
    return text.getvalue().rstrip("\n")


def _table(lines: Sequence[Line]) -> str:
    heads: tuple[str, ...] = (
        "FROM", "TAG", ">PUSHED", ">LEASED", ">ACKED", ">FAILED", ">DIED", ">ACKED/S", ">PENDING", ">IN FLIGHT",
        ">OLDEST WAIT",
    )  # fmt: skip
    rows = [
        [
            clock(line["start"]), tag_text(line["tag"]), number(line["pushed"]), number(line["leased"]),
            number(line["acked"]), number(_sum(line, "nacked", "expired")),
            number(_sum(line, "died_nacked", "died_expired", "dead_lettered")), _rate(line["acked"], line["seconds"]),
            number(line["pending"]), number(line["inflight"]), _wait(line["oldest_wait_seconds"]),
        ]
        for line in lines
    ]  # fmt: skip
    if all(line["tag"] is None for line in lines):
        heads, rows = heads[:1] + heads[2:], [row[:1] + row[2:] for row in rows]
    return table(heads, rows)


def _sum(line: Line, *names: str) -> int | None:
    return None if line[names[0]] is None else sum(line[name] for name in names)


def _rate(count: int | None, seconds: float) -> str:
    return UNKNOWN if count is None else f"{count / seconds:,.3g}"


def _wait(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else span(seconds)
