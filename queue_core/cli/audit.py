"""queue-core audit: who did what, when, why, and what came of it."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from msgspec.structs import asdict

from queue_core.cli.base import STORE, Meter, Session, count, json_option, pass_session, say, url_option
from queue_core.cli.series import moment_or_ago
from queue_core.cli.show import UNKNOWN, clock, dumps, plain, safe, table
from queue_core.plans import AuditEntry
from queue_core.queue import View
from queue_core.task import microseconds, moment

PAGE = 10_000  # entries read at a time
SHOWN = 50

Wanted = Callable[[AuditEntry], bool]


@click.command("audit")
@click.option("--actor", metavar="NAME", help="Only of this person.")
@click.option("--action", metavar="NAME", help="Only this action, such as redrive, plan, run, undo, configure.")
@click.option("--plan", type=click.IntRange(1), metavar="NUMBER", help="Only of this plan.")
@click.option(
    "--since", type=moment_or_ago, metavar="TIME",
    help="From so long ago, such as 2h or 7d, or from an instant, such as 2026-03-01T12:00Z.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(1), help=f"How many, the newest.  [default: {SHOWN}; with --export all]")
@click.option(
    "--export", type=click.Path(dir_okay=False), metavar="FILE",
    help="Write them to a new FILE, a JSON document a line, instead of showing them.",
)  # fmt: skip
@url_option
@json_option
@pass_session
def audit(
    session: Session, actor: str | None, action: str | None, plan: int | None, since: datetime | float | None,
    limit: int | None, export: str | None,
) -> None:  # fmt: skip
    """Print what people did to the queue, from whatever place, the newest last: who, in which role, what, to which
    tasks, why, and what came of it; what was refused as well. With --json, one JSON document a line. Secrets in what
    people wrote are masked.

    \b
    Examples:
      queue-core audit
      queue-core audit --actor ann@example.org --since 7d
      queue-core audit --action expunge --json | jq -r .where
      queue-core audit --export audit.ndjson
    """
    limit = limit or (None if export is not None else SHOWN)
    with session.open() as queue, queue.view() as view:
        if not queue.capabilities.plans:
            say(f"Error: {safe(queue.url)} keeps no audit: use an lmdb store.")
            raise click.exceptions.Exit(STORE)
        wanted = _wanted(actor, action, plan, since)
        if export is not None:
            written = _export(export, _newest(_entries(view), wanted, limit))
            say(f"{count(written, 'entry').replace('entrys', 'entries')} written to {safe(export)}.")
            return
        entries = list(_newest(_entries(view), wanted, limit))
    if session.as_json:
        for entry in entries:
            click.echo(dumps(_json(entry)))
    elif entries:
        click.echo(_table(entries))
    else:
        say("No such entry.")
    if limit is not None and len(entries) == limit:
        say(f"The newest {limit:,}; there may be more: --limit {2 * limit} shows more.")


def _entries(view: View) -> Iterator[AuditEntry]:
    """All of them, the oldest first."""
    meter, after = Meter(view.reader.meta.audits), 0
    while page := view.audit(after=after, limit=PAGE):
        meter.show(page[-1].number, f"{page[-1].number:,} entries read")
        yield from page
        after = page[-1].number
    meter.clear()


def _wanted(actor: str | None, action: str | None, plan: int | None, since: datetime | float | None) -> Wanted:
    if isinstance(since, float | int):
        since = datetime.now(UTC) - timedelta(seconds=since)
    begin = 0 if since is None else microseconds(since, "since")
    name = None if action is None else action.replace("-", "_")

    def wanted(entry: AuditEntry) -> bool:
        return (
            entry.at >= begin
            and actor in (None, entry.actor)
            and name in (None, entry.action)
            and plan in (None, entry.plan)
        )

    return wanted


def _newest(entries: Iterator[AuditEntry], wanted: Wanted, limit: int | None) -> Iterable[AuditEntry]:
    found = filter(wanted, entries)
    return found if limit is None else deque(found, maxlen=limit)


def _export(path: str, entries: Iterable[AuditEntry]) -> int:
    """Write the lines to a new file: whole, or not at all; how many there are."""
    number = 0
    try:
        file = open(path, "x", encoding="ascii")  # noqa: SIM115 - closed below, and removed unless it is whole
    except FileExistsError:
        raise click.UsageError(f"{path} is there already: choose another name for --export") from None
    try:
        with file:
            for entry in entries:
                file.write(dumps(_json(entry)) + "\n")
                number += 1
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(path)
        raise
    return number


def _json(entry: AuditEntry) -> dict[str, Any]:
    from queue_core.redact import configured

    mask = configured()
    words = {name: getattr(entry, name) for name in ("where", "reason", "intent", "outcome")}
    masked = {name: text and mask.text(text) for name, text in words.items()}
    return asdict(entry) | {"at": plain(moment(entry.at)), "plan": entry.plan or None} | masked


def _table(entries: Iterable[AuditEntry]) -> str:
    from queue_core.redact import configured

    def words(text: str | None, width: int) -> str:
        return safe(configured().text(text), width) if text else UNKNOWN

    heads = (">NUMBER", "TIME", "WHO", "ROLE", "FROM", "ACTION", ">PLAN", ">TASKS", "WHERE", "REASON", "OUTCOME")
    rows = [
        [
            f"{entry.number}", clock(moment(entry.at)), safe(entry.actor, 30), entry.role, safe(entry.origin, 12),
            entry.action.replace("_", "-"), f"{entry.plan}" if entry.plan else UNKNOWN, f"{entry.count:,}",
            words(entry.where, 44), words(entry.reason, 40), words(_outcome(entry), 60),
        ]
        for entry in entries
    ]  # fmt: skip
    return table(heads, rows)


def _outcome(entry: AuditEntry) -> str:
    return ": ".join(part for part in (entry.intent, entry.outcome) if part)
