"""Commands that move tasks: what they act on is fixed first, then each task is moved by compare-and-set."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click
from msgspec.structs import replace

from queue_core.cli.base import MISSING, PARTLY, Meter, Session, count, duration, say, step
from queue_core.cli.control import acting, reasoned, searched, where_option
from queue_core.cli.many import VERBS, Way, carry_out, made, many_options, question
from queue_core.cli.show import clock, safe, span, tag_text
from queue_core.errors import Conflict, TaskNotFound
from queue_core.queue import BATCH_LIMIT, Queue, check_tag
from queue_core.task import State

if TYPE_CHECKING:
    from queue_core.control import Operator

SHOWN = 20  # refusals that are spelled out for a person

Target = tuple[str, int | None]  # id, and the version it must still have


def task_id(value: Any) -> str:
    """An id as it was given, in its usual form. Raises BadParameter."""
    try:
        return str(UUID(value))
    except ValueError:
        raise click.BadParameter(
            f"{value!r:.100} is not a task's id, such as 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11."
        ) from None


ids_argument = click.argument("ids", nargs=-1, type=task_id, metavar="[ID]...")


# --- requeue, dead-letter ---------------------------------------------------------------------------

_all_inflight = click.option("--all-inflight", is_flag=True, help="Act on tasks in flight instead of ids.")
_older_than = click.option(
    "--older-than", type=duration, metavar="SPAN", help="With --all-inflight: only leases silent for so long, as 5m."
)


@click.command(short_help="In flight or scheduled → pending.")
@ids_argument
@_all_inflight
@_older_than
@where_option
@many_options(releasing=True)
def requeue(
    session: Session, ids: tuple[str, ...], all_inflight: bool, older_than: float | None, where: str | None,
    **given: Any,
) -> None:  # fmt: skip
    """Put tasks that are in flight or scheduled back to pending, at their place. A holder loses its lease.

    With --all-inflight their leases end as expired: the attempt counts, and a task with none left is dead.

    \b
    Examples:
      queue-core requeue 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11
      queue-core requeue --where "state:scheduled tag:acme" --dry-run
      queue-core requeue --all-inflight --older-than 5m --yes
    """
    way = Way(**given)
    _one_of({"ids": bool(ids), "--all-inflight": all_inflight, "--where F": where is not None}, "--all-inflight")
    _all_inflight_alone(all_inflight, older_than, way)
    with acting(session, way.reason) as operator:
        if not all_inflight:
            _act(session, operator, "requeue", ids, where, way)
            return
        _recover(session, operator.queue, older_than, way.yes, "requeue", lambda cutoff: operator.requeue_inflight(
            older_than=cutoff, reason=way.reason or ""
        ))  # fmt: skip


@click.command("dead-letter", short_help="Live → dead, with a reason.")
@ids_argument
@_all_inflight
@_older_than
@where_option
@many_options(releasing=False)
def dead_letter(
    session: Session, ids: tuple[str, ...], all_inflight: bool, older_than: float | None, where: str | None,
    **given: Any,
) -> None:  # fmt: skip
    """Move live tasks to the dead-letter queue, with a reason. A holder loses its lease, but its handler may still
    be running. `queue-core redrive` brings them back.

    \b
    Examples:
      queue-core dead-letter 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11 --reason "poisonous, see ticket 12"
      queue-core dead-letter --where "tag:acme payload.kind:resize" --reason "format was dropped"
      queue-core dead-letter --all-inflight --older-than 1h --reason "host lost" --yes
    """
    way = Way(**given)
    _one_of({"ids": bool(ids), "--all-inflight": all_inflight, "--where F": where is not None}, "--all-inflight")
    _all_inflight_alone(all_inflight, older_than, way)
    with acting(session, way.reason) as operator:
        if not all_inflight:
            _act(session, operator, "dead_letter", ids, where, way)
            return
        reason = reasoned(operator, "dead_letter", way.reason)
        _recover(session, operator.queue, older_than, way.yes, "dead_letter", lambda cutoff:
                 operator.dead_letter_inflight(older_than=cutoff, reason=reason))  # fmt: skip


def _all_inflight_alone(all_inflight: bool, older_than: float | None, way: Way) -> None:
    if older_than is not None and not all_inflight:
        raise click.UsageError("--older-than goes with --all-inflight, not with ids")
    if all_inflight and way.planned:
        raise click.UsageError(
            "--all-inflight is done at once, without a plan: for --dry-run, --rate or --canary use "
            '--where "state:inflight"'
        )


def _recover(
    session: Session, queue: Queue, older_than: float | None, yes: bool, action: str, act: Callable[[datetime], int]
) -> None:
    """Act on the leases that have been silent for so long now: what is leased later is not touched."""
    cutoff = datetime.now(UTC) - timedelta(seconds=older_than or 0)
    done = VERBS[action].done
    silent = sum(1 for beat in _beats(queue) if beat is not None and beat <= cutoff)
    quiet = "" if older_than is None else f" whose leases have been silent for {span(older_than)}"
    if silent:
        session.agree(f"{action.replace('_', '-').capitalize()} {count(silent)} in flight{quiet}?", yes)
    with step():
        moved = act(cutoff) if silent else 0
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


def _one_of(given: dict[str, bool], flag: str) -> None:
    names = [name for name, there in given.items() if there]
    if len(names) > 1:
        raise click.UsageError(f"give {' or '.join(names)}, not {'both' if len(names) == 2 else 'all of them'}")
    if not names:
        raise click.UsageError(f"which tasks? Give one id or more, or --where FILTER, or {flag}")


# --- by id, by filter, or all there are -------------------------------------------------------------


def chosen(ids: Sequence[str], where: str | None, everything: bool, tag: str | None) -> tuple[str | None, str]:
    """(the filter, None for ids; in words, which they are). Raises UsageError."""
    from queue_core.query import quote

    _one_of({"ids": bool(ids), "--where F": where is not None, "--all": everything}, "--all")
    if tag is None:
        return ("", "") if everything else (where, "" if where is None else " that match")
    if not everything:
        raise click.UsageError("--tag goes with --all, not with ids; with --where write tag:NAME in the filter")
    return f"tag:{quote(check_tag(tag))}", f" of tag {tag_text(tag)}"


def narrowed(where: str, to: str) -> str:
    """Both filters in one."""
    from queue_core.query import both, parse

    return str(both([parse(to), parse(where)]))


def _act(
    session: Session, operator: "Operator", action: str, ids: Sequence[str], where: str | None, way: Way,
    which: str = " that match", **details: Any,
) -> None:  # fmt: skip
    """Act on ids one by one, on what a filter finds as a plan; where no plans are kept, one by one as well."""
    reason = reasoned(operator, action, way.reason)
    way, which = replace(way, reason=reason), "" if where is None else which
    if way.planned or (where is not None and operator.queue.capabilities.plans):
        plan = made(session, operator, action, way, where=where, ids=None if where is not None else ids, **details)
        carry_out(session, operator, plan, way, which)
        return
    targets: list[Target] = [(id, None) for id in dict.fromkeys(ids)]
    if where is not None:
        targets = _frozen(operator, action, where)
    if targets and (where is not None or action == "expunge"):
        session.agree(question(action, len(targets), which, details.get("tag")), way.yes)
    act = partial(getattr(operator, action), reason=reason, **details)
    _each(session, targets, act, VERBS[action].done)


def _frozen(operator: "Operator", action: str, where: str) -> list[Target]:
    """Ids and versions of all that a filter finds at one instant: what is decided on is what is acted on."""
    from queue_core.query import search
    from queue_core.stores.engine.operate import ACTIONS

    with operator.queue.view() as view:
        found = search(view.reader, where, states=ACTIONS[action][0], mask=operator.redactor)
        return [(str(UUID(bytes=one.record.id)), one.record.version) for one in searched(found)]


def _each(session: Session, targets: Sequence[Target], act: Callable[..., object], done: str) -> None:
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


def mover(
    path: str, action: str, help: str, short_help: str, *, releasing: bool = False, needs_tag: bool = False,
    within: str | None = None, to_tag: bool = False,
) -> click.Command:  # fmt: skip
    """The command ``queue-core PATH`` for an action on ids, on what a filter finds, or on all there are.

    ``help`` names the command as {0}. ``within`` is a filter that holds beside the one that is given, ``needs_tag``:
    not even --all is all tags, ``to_tag``: the action needs a tag to go to.
    """

    @click.command(path.split()[-1], help=help.format(f"queue-core {path}"), short_help=short_help)
    @ids_argument
    @click.option("--all", "everything", is_flag=True, help="All there are now, instead of ids.")
    @click.option("--tag", metavar="TAG", help="With --all: only this tag's.")
    @where_option
    @many_options(releasing=releasing)
    def command(
        session: Session, ids: tuple[str, ...], everything: bool, tag: str | None, where: str | None,
        to: str | None = None, **given: Any,
    ) -> None:  # fmt: skip
        if needs_tag and everything and tag is None:
            raise click.UsageError(f"{path} --all wants --tag TAG: all tasks of one tag")
        where, which = chosen(ids, where, everything, tag)
        if where is not None and within is not None:
            where = narrowed(where, within)
        way = Way(**given)
        details = {"tag": check_tag(to)} if to is not None else {}
        with acting(session, way.reason) as operator:
            _act(session, operator, action, ids, where, way, which, **details)

    if to_tag:
        command = click.option("--to", metavar="TAG", required=True, help="The tag that they go to.")(command)
    return command


REDRIVE = """Put dead tasks back to pending, at the tail of their tag, with their attempts counted from zero.

    \b
    Examples:
      {0} 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11
      {0} --all --tag acme
      {0} --where "error:timeout age<1d" --dry-run
      {0} --where "group:9f86d081884c7d65" --canary 10 --rate 50
    """
PURGE = """Move dead tasks to the trash. `queue-core restore` brings them back within 7 days.

    \b
    Examples:
      {0} 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11 --reason "sent twice"
      {0} --all --tag acme --reason "customer left" --yes
      {0} --where "error:unsubscribed age>30d" --reason "nobody waits for them" --yes
    """
RESTORE = """Bring tasks back from the trash to the state they came from.

    \b
    Examples:
      {0} 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11
      {0} --all --tag acme
      {0} --where "tag:acme age<1h"
    """
redrive = mover("redrive", "redrive", REDRIVE, "Dead → pending, in a new cycle.", releasing=True)
purge = mover("purge", "purge", PURGE, "Dead → trash.")
restore = mover("restore", "restore", RESTORE, "Trash → where it came from.")
cancel = mover(
    "cancel", "cancel", needs_tag=True, short_help="Pending or scheduled → trash.",
    help="""Move tasks that are pending or scheduled to the trash. `queue-core restore` brings them back within 7 days.

    \b
    Examples:
      {0} 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11 --reason "asked for by the customer"
      {0} --all --tag acme --reason "customer left"
      {0} --where "tag:acme payload.kind:mail created>2d" --reason "too late now"
    """,
)  # fmt: skip
