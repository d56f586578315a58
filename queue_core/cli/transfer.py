"""queue-core dead export, import: tasks into a file and back."""

from collections import Counter
from pathlib import Path

import click

from queue_core.cli.base import (
    PARTLY,
    Meter,
    Session,
    count,
    json_option,
    pass_session,
    say,
    step,
    url_option,
    yes_option,
)
from queue_core.cli.control import acting, filter_text, reason_option, role_option, where_option
from queue_core.cli.show import plain, safe

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("export", short_help="Dead letters, or any tasks, into a file.")
@click.argument("file", type=FILE)
@click.argument("filter", required=False, type=filter_text)
@where_option
@click.option("--all-states", is_flag=True, help="Tasks of every state, not only dead letters.")
@click.option("--unmasked", is_flag=True, help="Secrets as they are, so that it can be imported; needs admin.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most so many tasks.")
@role_option
@url_option
@json_option
@pass_session
def export(
    session: Session, file: Path, filter: str | None, where: str | None, all_states: bool, unmasked: bool,
    limit: int | None,
) -> None:  # fmt: skip
    """Write dead letters to FILE, which is named .ndjson (a task a line) or .csv (for spreadsheets), and beside it
    FILE.about.json: filter, time, how many, whether all of them, masked or not.

    \b
    Examples:
      queue-core dead export dead.csv "tag:acme age<1d"
      queue-core dead export all.ndjson --all-states --unmasked --role admin
    """
    if filter is not None and where is not None:
        raise click.UsageError("give a filter once: as an argument, or with --where")
    chosen = filter or where or ""
    if not all_states:
        chosen = _dead(chosen)
    with acting(session) as operator:
        meter = Meter(None)

        def progress(scanned: int, total: int) -> None:
            meter.show(scanned, f"{scanned:,} of at most {total:,} tasks read")

        with step():
            done = operator.export_tasks(file, chosen, masked=not unmasked, limit=limit, progress=progress)
        meter.clear()
    if session.as_json:
        session.data({name: plain(value) for name, value in vars(done).items() if name != "path"} | {"file": str(file)})
    words = "" if done.complete else ", not all that match"
    say(f"{count(done.tasks)} written to {safe(str(file))}, {'masked' if done.masked else 'unmasked'}{words}.")


def _dead(where: str) -> str:
    """The filter, of dead letters only."""
    from queue_core.query import both, parse

    return str(both([parse("state:dead"), parse(where)]))


@click.command("import", short_help="An unmasked export back into a queue.")
@click.argument("file", type=FILE)
@click.option("--dry-run", is_flag=True, help="Read it and say what it holds; take nothing in.")
@reason_option
@role_option
@yes_option
@url_option
@json_option
@pass_session
def import_(session: Session, file: Path, dry_run: bool, reason: str | None, yes: bool) -> None:
    """Take in the tasks of FILE, an export that was made with --unmasked: each with its id, state and history, at the
    tail of its tag. A task whose id is here already is left out, so that an import can be repeated.

    \b
    Examples:
      queue-core dead import all.ndjson --dry-run
      queue-core dead import all.ndjson --reason "moved from host a"
    """
    with acting(session, reason) as operator:
        found = operator.import_tasks(file, dry_run=True)
        known = found.left_out.total()
        if dry_run:
            _tell(session, found.tasks, None, found.left_out)
            return
        already = f", {known:,} of which are here already" if known else ""
        session.agree(f"Take in {count(found.tasks)} of {safe(file.name)}{already}?", yes)
        meter = Meter(found.tasks)

        def progress(seen: int, total: int) -> None:
            session.so_far = f"{seen:,} of {total:,} lines were dealt with"
            meter.show(seen, f"{seen:,} of {total:,}")

        with step():
            done = operator.import_tasks(file, reason=reason or "", progress=progress)
        session.so_far = ""
        meter.clear()
    _tell(session, done.tasks, done.taken, done.left_out)
    if done.left_out:
        raise click.exceptions.Exit(PARTLY)


def _tell(session: Session, tasks: int, taken: int | None, left_out: Counter[str]) -> None:
    if session.as_json:
        session.data({"tasks": tasks, "taken": taken, "left_out": dict(left_out)})
    if taken is None:
        say(f"{count(tasks)} can be read; nothing was taken in.")
    else:
        say(f"{taken:,} of {count(tasks)} taken in.")
    for why, number in left_out.most_common():
        say(f"  {number:,} left out: {safe(why)}")
