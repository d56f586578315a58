"""Commands for settings: of one tag, or of the whole queue."""

from typing import Any

import click

from queue_core.cli.base import (
    MISSING,
    NONE,
    Session,
    duration,
    json_option,
    or_none,
    pass_session,
    say,
    step,
    url_option,
    whole,
)
from queue_core.cli.control import acting, reason_option, role_option
from queue_core.cli.show import table, tag_text
from queue_core.queue import Queue, check_tag
from queue_core.snapshot import Settings


@click.command(short_help="Serve a tag, or the whole queue, no more.")
@click.argument("tag", required=False)
@reason_option
@role_option
@url_option
@json_option
@pass_session
def pause(session: Session, tag: str | None, reason: str | None) -> None:
    """Stop serving TAG, or without TAG the whole queue. What is in flight goes on; pushes are taken. The empty tag is
    written ''.

    \b
    Examples:
      queue-core pause acme --reason "their API is down"
      queue-core pause
    """
    _pause(session, tag, True, reason)


@click.command(short_help="Serve it again.")
@click.argument("tag", required=False)
@reason_option
@role_option
@url_option
@json_option
@pass_session
def resume(session: Session, tag: str | None, reason: str | None) -> None:
    """Serve TAG again, or without TAG the whole queue. A tag that was paused by itself stays so when the queue resumes.

    \b
    Examples:
      queue-core resume acme
      queue-core resume
    """
    _pause(session, tag, False, reason)


def _pause(session: Session, tag: str | None, paused: bool, reason: str | None) -> None:
    with acting(session, reason) as operator:
        known = tag is None or check_tag(tag) in operator.queue.snapshot().ring.tags
        if not known and not paused:
            say(f"Error: no tag {tag_text(tag)} is known here.")
            raise click.exceptions.Exit(MISSING)
        with step():
            settings = (operator.pause if paused else operator.resume)(tag, reason=reason or "")
    if session.as_json:
        session.data(_settings(tag, settings))
    note = "" if known else " (a tag that was not known here: is it spelled right?)"
    say(f"{'Paused' if paused else 'Resumed'} {_named(tag)}{note}.")


@click.command(short_help="Show or change the settings of a tag, or of the whole queue.")
@click.argument("tag", required=False)
@click.option("--weight", type=click.IntRange(1), metavar="N", help="Tasks in one turn (of a TAG).")
@click.option("--max-inflight", type=or_none(whole(1)), metavar="N|none", help="Leases at one time.")
@click.option("--min-interval", type=duration, metavar="SPAN", help="Between two serves, such as 0.5s.")
@click.option(
    "--max-pending", type=or_none(whole(0)), metavar="N|none",
    help="Waiting tasks above which pushes are refused.",
)  # fmt: skip
@click.option(
    "--dead-retention", type=or_none(duration), metavar="SPAN|none", help="How long dead tasks are kept (whole queue)."
)
@click.option("--max-payload", type=click.IntRange(1), metavar="BYTES", help="Largest payload (whole queue).")
@click.option(
    "--tag-retention", type=duration, metavar="SPAN",
    help="When a tag with no task and no setting is forgotten (whole queue).",
)  # fmt: skip
@click.option(
    "--history", type=click.Choice(["yes", "no"]), help="Whether series and journal are written (whole queue)."
)
@reason_option
@role_option
@url_option
@json_option
@pass_session
def configure(session: Session, /, tag: str | None, reason: str | None, **given: Any) -> None:
    """Change the settings of TAG, or without TAG of the whole queue; what is not given stays. With no option, show
    them. Every process follows from the next serve.

    \b
    Examples:
      queue-core configure acme --weight 3 --max-inflight 10 --reason "ticket 12"
      queue-core configure --max-pending 100000
      queue-core configure acme
    """
    changes: dict[str, Any] = {
        name: None if value is NONE else value for name, value in given.items() if value is not None
    }
    if "history" in changes:
        changes["history"] = changes["history"] == "yes"
    if changes:
        with acting(session, reason, create=True) as operator, step():
            settings = operator.configure(tag, reason=reason or "", **changes)
    else:
        with session.open() as queue:
            settings = _present(queue, tag)
    if session.as_json:
        session.data(_settings(tag, settings))
    else:
        _, *shown = _settings(tag, settings).items()
        rows = [[name.replace("_", "-"), _shown(value)] for name, value in shown]
        click.echo(table(("SETTING", ">VALUE"), rows))
    if changes:
        say(f"Set {', '.join(name.replace('_', '-') for name in changes)} of {_named(tag)}.")


def _present(queue: Queue, tag: str | None) -> Settings:
    snapshot = queue.snapshot()
    if tag is None:
        return snapshot.settings
    check_tag(tag)
    for one in snapshot.tags:
        if one.name == tag:
            return one.settings
    say(f"No tag {tag_text(tag)} is known here; these settings would be its.")
    return Settings()


def _settings(tag: str | None, settings: Settings) -> dict[str, Any]:
    values = {"tag": tag} if tag is None else {"tag": tag, "weight": settings.weight}
    return values | {
        "paused": settings.paused,
        "max_inflight": settings.max_inflight,
        "min_interval_seconds": settings.min_interval,
        "max_pending": settings.max_pending,
        **({} if tag is not None else {"dead_retention_seconds": settings.dead_retention}),
        **({} if tag is not None else {"max_payload_bytes": settings.max_payload}),
        **({} if tag is not None else {"tag_retention_seconds": settings.tag_retention}),
        **({} if tag is not None else {"history": settings.history}),
    }


def _shown(value: bool | float | None) -> str:
    if value is None:
        return "none"
    return ("no", "yes")[value] if isinstance(value, bool) else f"{value:,}"


def _named(tag: str | None) -> str:
    return "the whole queue" if tag is None else f"tag {tag_text(tag)}"
