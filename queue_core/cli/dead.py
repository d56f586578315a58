"""queue-core dead: what died and why, and what to do about it."""

from collections import Counter, deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click
from msgspec.structs import replace

from queue_core.cli.act import PURGE, REDRIVE, RESTORE, mover
from queue_core.cli.base import Session, count, json_option, pass_session, say, url_option
from queue_core.cli.control import (
    acting,
    document,
    filter_text,
    group_of,
    hint,
    reason_option,
    role_option,
    searched,
    where_option,
)
from queue_core.cli.edit import edit
from queue_core.cli.letter import letter_json, letter_text
from queue_core.cli.show import plain, safe, since, table, task_table
from queue_core.cli.transfer import export, import_
from queue_core.groups import Group
from queue_core.queue import BATCH_LIMIT, View
from queue_core.task import State, Task, moment

if TYPE_CHECKING:
    from queue_core.redact import Redactor

LIMIT = 20


@click.group("dead")
@url_option
@json_option
def dead() -> None:
    """The dead-letter queue: error groups, dead letters one by one, and what can be done about them, by id, by filter
    or all at once. Secrets are masked everywhere; a filter sees what is shown.

    \b
    Examples:
      queue-core dead groups
      queue-core dead list "error:timeout tag:acme"
      queue-core dead redrive --where "group:9f86d081884c7d65" --dry-run
    """


# --- groups -----------------------------------------------------------------------------------------


@dead.command(short_help="What they died of: errors that say the same.")
@where_option
@click.option("--all", "everything", is_flag=True, help="Groups without a dead letter, too.")
@url_option
@json_option
@pass_session
def groups(session: Session, where: str | None, everything: bool) -> None:
    """List error groups, the largest first. Errors are of one group when they say the same but for numbers, ids, paths
    and quoted values. A group that was resolved is reopened by a new death.

    With --where only dead letters that match are counted. Wherever a group is wanted, the first digits of its id do.

    \b
    Examples:
      queue-core dead groups
      queue-core dead groups --where "tag:acme age<1d"
      queue-core dead groups --json | jq -r '.groups[0].group'
    """
    from queue_core.redact import configured

    redactor, now = configured(), datetime.now(UTC)
    with session.open() as queue, queue.view() as view:
        found = view.groups()
        if where is not None:
            found = _matching(view, found, where, redactor)
    shown = [group for group in found if group.count or everything]
    if session.as_json:
        session.data({"groups": [_group_json(group, redactor) for group in shown]})
        return
    if shown:
        heads = ("GROUP", ">DEAD", ">TAGS", ">FIRST SEEN", ">LAST SEEN", "STATUS", "ERROR")
        rows = [
            [
                group.fingerprint.hex(), f"{group.count:,}", f"{group.tags:,}", _ago(group.first, now),
                _ago(group.last, now), _status(group, now), safe(group.said(redactor.text), 80),
            ]
            for group in shown
        ]  # fmt: skip
        click.echo(table(heads, rows))
    letters = sum(group.count for group in shown)
    rest = len(found) - len(shown)
    more = f" {count(rest, 'group')} more without any; --all shows them." if rest else ""
    filled = sum(1 for group in shown if group.count)
    say(f"{count(letters, 'dead letter')} in {count(filled, 'error group')}.{more}")


def _matching(view: View, groups: list[Group], where: str, redactor: "Redactor") -> list[Group]:
    """The groups with counts of only those dead letters that match, the largest first; the others with none."""
    from queue_core.query import search

    counts: Counter[tuple[bytes, int]] = Counter()
    for record, _ in searched(search(view.reader, where, states=[State.DEAD], mask=redactor)):
        counts[record.group, record.tag] += 1
    letters: Counter[bytes] = Counter()
    tags: Counter[bytes] = Counter()
    for (mark, _), number in counts.items():
        letters[mark] += number
        tags[mark] += 1
    counted = [replace(group, count=letters[group.fingerprint], tags=tags[group.fingerprint]) for group in groups]
    return sorted(counted, key=lambda group: (-group.count, -group.last, group.fingerprint))


def _ago(at: int, now: datetime) -> str:
    return f"{since(moment(at), now)} ago"


def _status(group: Group, now: datetime) -> str:
    if group.resolved:
        return f"resolved {_ago(group.resolved, now)} by {safe(group.resolved_by, 30)}"
    return f"reopened {_ago(group.reopened, now)}" if group.reopened else "open"


def _group_json(group: Group, redactor: "Redactor") -> dict[str, Any]:
    times = {"first_seen": group.first, "last_seen": group.last, "resolved": group.resolved, "reopened": group.reopened}
    return {
        "group": group.fingerprint.hex(), "error": group.said(redactor.text), "dead": group.count, "tags": group.tags,
        "deaths": group.deaths, "newest": str(UUID(bytes=group.sample)) if group.sample else None,
        "newest_error": redactor.text(group.error), "resolved_by": group.resolved_by or None,
        **{f"{name}_at": plain(moment(at)) if at else None for name, at in times.items()},
    }  # fmt: skip


def _resolver(name: str, help: str, short_help: str) -> click.Command:
    @dead.command(name, help=help, short_help=short_help)
    @click.argument("group")
    @reason_option
    @role_option
    @url_option
    @json_option
    @pass_session
    def command(session: Session, group: str, reason: str | None) -> None:
        with acting(session) as operator:
            with operator.queue.view() as view:
                mark = group_of(view, group).fingerprint.hex()
            changed = getattr(operator, name)(mark, reason=reason or "")
        if session.as_json:
            session.data(_group_json(changed, operator.redactor))
        state = "resolved; a new death of it reopens it" if changed.resolved else "open"
        say(f"{mark} is {state}: {safe(operator.redactor.text(changed.text), 200)}")
        if changed.resolved and changed.count:
            again = hint(session, f"dead redrive --where group:{mark}")
            say(f"{count(changed.count, 'dead letter')} of it are there still: {again}")

    return command


_resolver(
    "resolve", short_help="Say that the cause of an error group is mended.",
    help="""Mark an error GROUP as resolved: its cause is mended. Its dead letters stay; a new death reopens it.

    \b
    Example:
      queue-core dead resolve 9f86d081884c7d65 --reason "certificate renewed"
    """,
)  # fmt: skip
_resolver(
    "reopen", short_help="Say that it is not resolved after all.",
    help="""Mark a resolved error GROUP as open again.

    \b
    Example:
      queue-core dead reopen 9f86
    """,
)  # fmt: skip


# --- letters ----------------------------------------------------------------------------------------


def _syntax() -> str:
    """The help of the filter grammar."""
    from queue_core.query import FIELDS, SYNTAX

    width = max(len(example) for example, _ in SYNTAX if len(example) < 40)
    words = [f"{example:<{width}}  {meaning}" for example, meaning in SYNTAX]
    fields = [f"{field.example:<{width}}  {field.help}" for field in FIELDS.values()]
    return "\n".join([*words, "", *fields])


class _WithSyntax(click.Command):
    """A command whose help ends with the filter grammar, which is imported only then."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Filters"):
            for line in _syntax().split("\n"):
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


@dead.command("list", cls=_WithSyntax, short_help="Dead letters, the newest first.")
@click.argument("words", nargs=-1, metavar="[FILTER]...")
@where_option
@click.option("--trash", is_flag=True, help="What is in the trash, instead: purged or cancelled, and restorable.")
@click.option("--limit", type=click.IntRange(1, BATCH_LIMIT), default=LIMIT, show_default=True, help="How many.")
@url_option
@json_option
@pass_session
def list_letters(session: Session, words: tuple[str, ...], where: str | None, trash: bool, limit: int) -> None:
    """List dead letters, the newest first; those that match a FILTER, if one is given.

    \b
    Examples:
      queue-core dead list
      queue-core dead list tag:acme error:timeout --limit 100
      queue-core dead list --where "-error:timeout attempts>=3"
      queue-core dead list "group:9f86*" --json | jq -r '.tasks[].id'
    """
    from queue_core.redact import configured

    if words and where is not None:
        raise click.UsageError("a FILTER or --where, not both")
    where = filter_text(" ".join(words)) if words else where
    redactor, state = configured(), State.TRASH if trash else State.DEAD
    with session.open() as queue, queue.view() as view:
        tasks, matching = _newest(view, state, where, limit, redactor)
    if session.as_json:
        listed = [letter_json(task, redactor) for task in tasks]
        document({"state": state, "where": where, "total": matching, "tasks": listed})
        return
    if tasks:
        click.echo(task_table(state, tasks, datetime.now(UTC), redactor))
    what = "in the trash" if trash else "dead"
    say(f"{len(tasks):,} of {matching:,} {what}{'' if where is None else ' that match'}.")


def _newest(view: View, state: State, where: str | None, limit: int, redactor: "Redactor") -> tuple[list[Task], int]:
    """(the newest that match, how many match)."""
    from queue_core.query import search

    if where is None:
        page = view.tasks(state, limit=limit, reverse=True)
        return list(page.items), page.total
    found = search(view.reader, where, states=[state], mask=redactor)
    newest = deque(searched(found), maxlen=limit)
    return [view.task(one) for one in reversed(newest)], found.found


@dead.command(short_help="One dead letter in full.")
@click.argument("id")
@click.option("--reveal", is_flag=True, help="Nothing masked; needs the role admin, and is kept in the audit.")
@reason_option
@role_option
@url_option
@json_option
@pass_session
def show(session: Session, id: str, reveal: bool, reason: str | None) -> None:
    """Show one dead letter in full: its payload, all that happened to it in order, the whole error, its error group,
    the payloads that it had before it was edited. Secrets are masked.

    \b
    Examples:
      queue-core dead show 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11
      queue-core dead show 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11 --json | jq .payload
      queue-core dead show 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11 --reveal --role admin --reason "ticket 12"
    """
    from queue_core.redact import UNMASKED

    with acting(session) as operator:
        task = operator.reveal(id, reason or "") if reveal else operator.queue.get(id)
        with operator.queue.view() as view:
            known = view.groups() if operator.queue.capabilities.plans else []
    mask = UNMASKED if reveal else operator.redactor
    if session.as_json:
        document(letter_json(task, mask))
        return
    click.echo(letter_text(task, next((one for one in known if one.fingerprint == task.record.group), None), mask))


# --- acting -----------------------------------------------------------------------------------------

dead.add_command(edit)
dead.add_command(mover("dead redrive", "redrive", REDRIVE, "Dead → pending, in a new cycle.", releasing=True))
dead.add_command(mover("dead purge", "purge", PURGE, "Dead → trash."))
dead.add_command(mover("dead restore", "restore", RESTORE, "Trash → where it came from."))
dead.add_command(mover(
    "dead expunge", "expunge", short_help="Trash → gone for good.",
    help="""Remove tasks from the trash for good; nothing brings them back. Needs the role admin.

    \b
    Examples:
      {0} 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11 --role admin --reason "erasure request 7"
      {0} --where "tag:acme" --role admin --reason "customer left"
    """,
))  # fmt: skip
dead.add_command(mover(
    "dead move", "move_tag", short_help="To the tail of another tag.", within="state:dead", to_tag=True,
    help="""Move dead letters to another tag, where they stay dead. `queue-core plan make move-tag` moves waiting tasks.

    \b
    Examples:
      {0} 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11 --to acme-slow
      {0} --where "tag:acme size>64KiB" --to acme-slow
    """,
))  # fmt: skip
dead.add_command(export)
dead.add_command(import_)
