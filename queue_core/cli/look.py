"""Commands that only read. None of them makes a store that is not there."""

import sys
import time
from datetime import UTC, datetime

import click

from queue_core.cli.base import (
    PARTLY,
    STORE,
    Session,
    at_terminal,
    count,
    duration,
    json_option,
    pass_session,
    say,
    tags_option,
    url_option,
)
from queue_core.cli.show import (
    UNKNOWN,
    clock,
    dumps,
    number,
    plain,
    safe,
    since,
    span,
    table,
    tag_text,
    task_story,
    task_table,
)
from queue_core.queue import BATCH_LIMIT, Queue
from queue_core.redact import configured
from queue_core.snapshot import Page, Snapshot
from queue_core.task import State


@click.command(short_help="Counts, waits and the rotation, by tag.")
@click.option(
    "--watch", metavar="[SECONDS]", is_flag=False, flag_value="2", type=duration,
    help="Show it again every 2 seconds, or every SECONDS, until Ctrl-C.",
)  # fmt: skip
@tags_option
@url_option
@json_option
@pass_session
def stats(session: Session, watch: float | None, limit: int) -> None:
    """Show counts, waits and the rotation: of the whole queue, and of each tag, the largest backlog first.

    \b
    Examples:
      queue-core stats
      queue-core stats --watch 5 --tags 10
      queue-core stats --json | jq '.tags[] | {name, backlog}'
    """
    if watch is not None and watch < 0.1:
        raise click.UsageError(f"--watch {watch:g} is too often: at least every 0.1 seconds")
    with session.open() as queue:
        while True:
            snapshot = queue.snapshot()
            if session.as_json:
                click.echo(dumps(_snapshot(queue, snapshot)))
            else:
                fresh = "\x1b[H\x1b[2J" if watch is not None and at_terminal(sys.stdout) else ""
                click.echo(fresh + _stats(queue, snapshot, limit))
            if watch is None:
                return
            sys.stdout.flush()
            time.sleep(watch)


def _snapshot(queue: Queue, snapshot: Snapshot) -> dict[str, object]:
    values: dict[str, object] = plain(snapshot)
    return {"url": queue.url} | values | {"backlog": snapshot.backlog}


def _stats(queue: Queue, snapshot: Snapshot, limit: int) -> str:
    wait = UNKNOWN if snapshot.oldest_wait is None else span(snapshot.oldest_wait)
    counts = [
        ("pending", number(snapshot.pending)),
        ("scheduled", f"{snapshot.scheduled:,} ({snapshot.due_text} due)"),
        ("in flight", f"{snapshot.inflight:,} ({snapshot.expired_text} expired)"),
        ("dead", number(snapshot.dead)), ("trash", number(snapshot.trash)), ("oldest wait", wait),
    ]  # fmt: skip
    totals, ring = snapshot.totals, snapshot.ring
    following = UNKNOWN if ring.next is None else tag_text(ring.next)
    running = [worker for worker in snapshot.workers if worker.stopped_at is None]
    head = [
        f"{clock(snapshot.at)}  {safe(queue.url)}{'  PAUSED' if snapshot.settings.paused else ''}",
        " · ".join(f"{name} {value}" for name, value in counts),
        f"since the beginning: pushed {totals.pushed:,} · leased {totals.leased:,} · acknowledged {totals.acked:,}"
        f" · failed {totals.nacked:,} · expired {totals.expired:,}",
        f"next is {following} · {count(len(ring.tags), 'tag')} in the ring · {count(len(running), 'worker')}",
    ]
    tags = sorted(snapshot.tags, key=lambda tag: (-tag.backlog, -tag.inflight, -tag.dead, tag.number))
    heads = ("TAG", ">PENDING", ">SCHEDULED", ">IN FLIGHT", ">DEAD", ">OLDEST WAIT", ">WEIGHT", "NOT SERVED BECAUSE")
    rows = [
        [
            tag_text(tag.name), number(tag.pending), number(tag.scheduled), number(tag.inflight), number(tag.dead),
            UNKNOWN if tag.oldest_wait is None else span(tag.oldest_wait), number(tag.settings.weight),
            str(tag.why_not or ""),
        ]
        for tag in tags[:limit]
    ]  # fmt: skip
    body = ["", table(heads, rows)] if rows else []
    if len(tags) > limit:
        body.append(f"… and {count(len(tags) - limit, 'more tag')}; --tags {len(tags)} shows all")
    return "\n".join(head + body)


@click.command("tasks", short_help="List the tasks of one state.")
@click.option("--state", type=click.Choice([str(state) for state in State]), required=True, help="Which state.")
@click.option("--tag", metavar="TAG", help="Only tasks of this tag.")
@click.option("--limit", type=click.IntRange(1, BATCH_LIMIT), default=20, show_default=True, help="Tasks on a page.")
@click.option("--after", metavar="MARK", help="Go on behind the page that gave this mark.")
@click.option("--reverse", is_flag=True, help="Begin at the other end: the last to run, the newest dead.")
@url_option
@json_option
@pass_session
def list_tasks(session: Session, state: str, tag: str | None, limit: int, after: str | None, reverse: bool) -> None:
    """List the tasks of one state: pending in the order of their places, scheduled by due time, inflight by the
    expiry of their leases, dead and trash by when they came there.

    \b
    Examples:
      queue-core tasks --state dead --reverse
      queue-core tasks --state pending --tag acme --limit 100
      queue-core tasks --state dead --json | jq -r '.tasks[].id' | xargs queue-core redrive
    """
    with session.open() as queue:
        page = queue.tasks(state, tag=tag, after=after, limit=limit, reverse=reverse)
    if session.as_json:
        session.data({"state": state, "tag": tag, "total": page.total, "next": page.next, "tasks": page.items})
        return
    if page.items:
        click.echo(task_table(State(state), page.items, datetime.now(UTC)))
    say(_footer(page, state, tag))


def _footer(page: Page, state: str, tag: str | None) -> str:
    where = "" if tag is None else f" in tag {tag_text(tag)}"
    what = f"{len(page):,} of {page.total:,} {state} task{'' if page.total == 1 else 's'}{where}."
    return what if page.next is None else f"{what} Go on with --after {page.next}"


@click.command(short_help="One task in full.")
@click.argument("id")
@url_option
@json_option
@pass_session
def get(session: Session, id: str) -> None:
    """Show one task in full: state, times, every attempt that is kept, the last error, the payload.

    \b
    Examples:
      queue-core get 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11
      queue-core get 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11 --json | jq .payload
    """
    with session.open() as queue:
        task = queue.get(id)
    if session.as_json:
        session.data(task)
    else:
        click.echo(task_story(task, datetime.now(UTC)))


@click.command(short_help="Why a task is not running yet.")
@click.argument("id")
@url_option
@json_option
@pass_session
def explain(session: Session, id: str) -> None:
    """Say why a task is not running yet: what is ahead of it in its tag, what holds its tag back, and when its turn is
    to be expected by the rate of the last five minutes, with the span that holds nine cases of ten.

    \b
    Example:
      queue-core explain 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11
    """
    with session.open() as queue:
        story = queue.explain(id)
    text = configured().text(story.text)  # which has a dead task's reason in it
    if session.as_json:
        session.data(
            {
                "id": story.task.id, "tag": story.task.tag, "state": story.task.state, "ahead": story.ahead,
                "ahead_exact": story.ahead_exact, "turns": story.turns, "serves": story.serves,
                "blocked_by": story.blocked_by, "text": text,
                "expected_seconds": story.forecast and story.forecast.expected,
                "earliest_seconds": story.forecast and story.forecast.earliest,
                "latest_seconds": story.forecast and story.forecast.latest,
            }
        )  # fmt: skip
    else:
        click.echo(safe(text))


@click.command(short_help="What happened, event by event.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=50, show_default=True, help="How many events.")
@click.option("--tag", metavar="TAG", help="Only events of this tag.")
@click.option("--after", type=click.IntRange(0), metavar="NUMBER", help="Events after this number, oldest first.")
@url_option
@json_option
@pass_session
def journal(session: Session, limit: int, tag: str | None, after: int | None) -> None:
    """Print the newest events, the oldest of them first: pushes, leases, acknowledgements, failures, interventions.
    With --json, one JSON document a line.

    \b
    Examples:
      queue-core journal --limit 200 --tag acme
      queue-core journal --json | jq -r 'select(.kind == "nack") | .task_id'
    """
    with session.open() as queue:
        if not queue.capabilities.journal:
            say(f"Error: {safe(queue.url)} keeps no journal. queue-core stats has what happened since the beginning.")
            raise click.exceptions.Exit(STORE)
        events = queue.journal(after=after, limit=limit, tag=tag)
    if session.as_json:
        for event in events:
            click.echo(dumps(event))
        return
    mask = configured()
    rows = [
        [
            f"{event.number}", clock(event.at), str(event.kind), tag_text(event.tag), event.task_id or UNKNOWN,
            safe(event.owner or UNKNOWN, 40), safe(mask.text(event.detail), 60),
        ]
        for event in events
    ]  # fmt: skip
    if rows:
        click.echo(table((">NUMBER", "TIME", "EVENT", "TAG", "TASK", "OWNER", "DETAIL"), rows))
    else:
        say("No such events.")


@click.command(short_help="Verify every invariant of the whole store.")
@url_option
@json_option
@pass_session
def check(session: Session) -> None:
    """Verify every invariant against the whole store. Reads every task once and writes nothing.

    Exit code 0: the store is sound. 1: findings, one a line.

    \b
    Example:
      queue-core check && echo sound
    """
    started = datetime.now(UTC)
    with session.open() as queue, queue.view() as view:
        counts = view.counts()
        findings = view.check()
    if session.as_json:
        session.data({"sound": not findings, "tasks": counts.all, "findings": findings})
    else:
        for finding in findings:
            click.echo(f"invariant {finding.invariant}: {safe(finding.message)}")
    took = since(started, datetime.now(UTC))
    if findings:
        say(f"Not sound: {count(len(findings), 'finding')} in {count(counts.all)}, read in {took}.")
        raise click.exceptions.Exit(PARTLY)
    say(f"Sound: every invariant holds for {count(counts.all)}, read in {took}.")
