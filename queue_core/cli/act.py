"""Commands that change what is there: what they act on is fixed first, then each task is moved by compare-and-set."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import click

from queue_core.cli.base import (
    MISSING,
    PARTLY,
    Meter,
    Session,
    count,
    duration,
    json_option,
    pass_session,
    say,
    step,
    url_option,
    yes_option,
)
from queue_core.cli.show import clock, safe, span, tag_text
from queue_core.errors import Conflict, TaskNotFound
from queue_core.queue import BATCH_LIMIT, Queue
from queue_core.task import State

SHOWN = 20  # refusals that are spelled out for a person

Target = tuple[str, int | None]  # id, and the version it must still have
Options = Callable[[Callable[..., None]], click.Command]


def task_id(value: Any) -> str:
    """An id as it was given, in its usual form. Raises BadParameter."""
    try:
        return str(UUID(value))
    except ValueError:
        raise click.BadParameter(
            f"{value!r:.100} is not a task's id, such as 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11."
        ) from None


def _ids(function: Callable[..., None]) -> Callable[..., None]:
    return click.argument("ids", nargs=-1, type=task_id, metavar="[ID]...")(function)


def _common(function: Callable[..., None]) -> Callable[..., None]:
    return yes_option(url_option(json_option(pass_session(function))))


# --- requeue, dead-letter ---------------------------------------------------------------------------

_all_inflight = click.option("--all-inflight", is_flag=True, help="Act on tasks in flight instead of ids.")
_older_than = click.option(
    "--older-than", type=duration, metavar="SPAN", help="Only leases silent for so long, such as 5m."
)


@click.command(short_help="In flight or scheduled → pending.")
@_ids
@_all_inflight
@_older_than
@_common
def requeue(session: Session, ids: tuple[str, ...], all_inflight: bool, older_than: float | None, yes: bool) -> None:
    """Put tasks that are in flight or scheduled back to pending, at their place. A holder loses its lease.

    With --all-inflight their leases end as expired: the attempt counts, and a task with none left is dead.

    \b
    Examples:
      queue-core requeue 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11
      queue-core requeue --all-inflight --older-than 5m --yes
    """
    _one_of(bool(ids), all_inflight, "--all-inflight")
    if not all_inflight:
        _older_needs_all(older_than)
        with session.open() as queue:
            _each(session, queue, [(id, None) for id in dict.fromkeys(ids)], queue.requeue, "requeued")
        return
    _recover(session, older_than, yes, "Requeue", "requeued", lambda queue, cutoff: queue.requeue_inflight(
        older_than=cutoff
    ))  # fmt: skip


@click.command("dead-letter", short_help="Live → dead, with a reason.")
@_ids
@click.option("--reason", required=True, metavar="TEXT", help="Why; kept with the task.")
@_all_inflight
@_older_than
@_common
def dead_letter(
    session: Session, ids: tuple[str, ...], reason: str, all_inflight: bool, older_than: float | None, yes: bool
) -> None:
    """Move live tasks to the dead-letter queue, with a reason. A holder loses its lease, but its handler may still
    be running. `queue-core redrive` brings them back.

    \b
    Examples:
      queue-core dead-letter 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11 --reason "poisonous, see ticket 12"
      queue-core dead-letter --all-inflight --older-than 1h --reason "host lost" --yes
    """
    _one_of(bool(ids), all_inflight, "--all-inflight")
    if not all_inflight:
        _older_needs_all(older_than)
        with session.open() as queue:
            targets = [(id, None) for id in dict.fromkeys(ids)]
            _each(session, queue, targets, lambda id, version: queue.dead_letter(id, reason, version=version),
                  "dead-lettered")  # fmt: skip
        return
    _recover(session, older_than, yes, "Dead-letter", "dead-lettered", lambda queue, cutoff: queue.dead_letter_inflight(
        older_than=cutoff, reason=reason
    ))  # fmt: skip


def _recover(
    session: Session, older_than: float | None, yes: bool, verb: str, done: str,
    act: Callable[[Queue, datetime], int],
) -> None:  # fmt: skip
    """Act on the leases that have been silent for so long now: what is leased later is not touched."""
    cutoff = datetime.now(UTC) - timedelta(seconds=older_than or 0)
    with session.open() as queue:
        silent = sum(1 for beat in _beats(queue) if beat is not None and beat <= cutoff)
        quiet = "" if older_than is None else f" whose leases have been silent for {span(older_than)}"
        if silent:
            session.agree(f"{verb} {count(silent)} in flight{quiet}?", yes)
        with step():
            moved = act(queue, cutoff) if silent else 0
    if session.as_json:
        session.data({done.replace("-", "_"): moved, "cutoff": cutoff})
    say(f"{count(moved)} {done}{quiet}; the cutoff was {clock(cutoff)}.")


def _beats(queue: Queue) -> list[datetime | None]:
    with queue.view() as view:
        after: str | None = None
        beats: list[datetime | None] = []
        while True:
            page = view.tasks(State.INFLIGHT, after=after, limit=BATCH_LIMIT)
            beats += [task.beat_at for task in page]
            after = page.next
            if after is None:
                return beats


def _one_of(ids: bool, everything: bool, flag: str) -> None:
    if ids and everything:
        raise click.UsageError(f"give ids or {flag}, not both")
    if not ids and not everything:
        raise click.UsageError(f"which tasks? Give one id or more, or {flag}")


def _older_needs_all(older_than: float | None) -> None:
    if older_than is not None:
        raise click.UsageError("--older-than goes with --all-inflight, not with ids")


# --- redrive, purge, restore, cancel ----------------------------------------------------------------


def _verb(
    name: str, done: str, states: Sequence[State], kind: str, help: str, short_help: str, *, needs_tag: bool = False
) -> click.Command:
    """A command that moves tasks out of some states, by id or all of them, as they are at this moment."""

    @click.command(name, help=help, short_help=short_help)
    @_ids
    @click.option("--all", "everything", is_flag=True, help="All there are now, instead of ids.")
    @click.option("--tag", metavar="TAG", help="With --all: only this tag's.")
    @_common
    def command(session: Session, ids: tuple[str, ...], everything: bool, tag: str | None, yes: bool) -> None:
        _one_of(bool(ids), everything, "--all --tag TAG" if needs_tag else "--all")
        if tag is not None and not everything:
            raise click.UsageError("--tag goes with --all, not with ids")
        if needs_tag and everything and tag is None:
            raise click.UsageError(f"{name} --all wants --tag TAG: all tasks of one tag")
        with session.open() as queue:
            targets: list[Target] = [(id, None) for id in dict.fromkeys(ids)]
            if everything:
                targets = [target for state in states for target in _frozen(queue, state, tag)]
                where = "" if tag is None else f" of tag {tag_text(tag)}"
                if targets:
                    session.agree(f"{name.capitalize()} {count(len(targets), f'{kind} task')}{where}?", yes)
            _each(session, queue, targets, getattr(queue, name), done)

    return command


def _frozen(queue: Queue, state: State, tag: str | None) -> list[Target]:
    """Ids and versions of all tasks of a state at one instant: what is decided on is what is acted on."""
    with queue.view() as view:
        after: str | None = None
        targets: list[Target] = []
        while True:
            page = view.tasks(state, tag=tag, after=after, limit=BATCH_LIMIT)
            targets += [(task.id, task.version) for task in page]
            after = page.next
            if after is None:
                return targets


def _each(session: Session, queue: Queue, targets: Sequence[Target], act: Callable[..., object], done: str) -> None:
    """Act on each, one commit a task, and tell how many moved and which did not and why."""
    moved: list[str] = []
    refused: list[tuple[str, Exception]] = []
    meter = Meter(len(targets))
    for id, version in targets:
        try:
            with step():
                act(id, version=version)
                moved.append(id)
                session.so_far = f"{len(moved):,} of {count(len(targets))} were {done}"
        except (Conflict, TaskNotFound) as error:
            refused.append((id, error))
        meter.show(len(moved) + len(refused), f"{len(moved):,} {done}")
    meter.clear()
    if session.as_json:
        reasons = [{"id": id, "error": type(why).__name__, "message": str(why)} for id, why in refused]
        session.data({"moved": moved, "refused": reasons})
    for id, why in refused[:SHOWN]:
        say(f"{id}: {safe(str(why))}")
    if len(refused) > SHOWN:
        say(f"… and {len(refused) - SHOWN:,} more that were not {done}; --json lists them all")
    say(f"{count(len(moved))} {done}{f', {len(refused):,} not' if refused else ''}.")
    if refused:
        raise click.exceptions.Exit(PARTLY if moved else MISSING)


redrive = _verb(
    "redrive", "redriven", [State.DEAD], "dead", short_help="Dead → pending, in a new cycle.",
    help="""Put dead tasks back to pending, at the tail of their tag, with their attempts counted from zero.

    \b
    Examples:
      queue-core redrive 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11
      queue-core redrive --all --tag acme
    """,
)  # fmt: skip
purge = _verb(
    "purge", "purged", [State.DEAD], "dead", short_help="Dead → trash.",
    help="""Move dead tasks to the trash. `queue-core restore` brings them back within 7 days.

    \b
    Examples:
      queue-core purge 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11
      queue-core purge --all --tag acme --yes
    """,
)  # fmt: skip
restore = _verb(
    "restore", "restored", [State.TRASH], "trashed", short_help="Trash → where it came from.",
    help="""Bring tasks back from the trash to the state they came from.

    \b
    Examples:
      queue-core restore 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11
      queue-core restore --all --tag acme
    """,
)  # fmt: skip
cancel = _verb(
    "cancel", "cancelled", [State.PENDING, State.SCHEDULED], "waiting", needs_tag=True,
    short_help="Pending or scheduled → trash.",
    help="""Move tasks that are pending or scheduled to the trash. `queue-core restore` brings them back within 7 days.

    \b
    Examples:
      queue-core cancel 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11
      queue-core cancel --all --tag acme
    """,
)  # fmt: skip
