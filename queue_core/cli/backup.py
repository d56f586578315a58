"""Commands for the day on which the store is lost: backup before it, verify and restore after it."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from queue_core.cli.base import PARTLY, Meter, Session, count, json_option, pass_session, say, url_option
from queue_core.cli.show import clock, plain, safe, since, span

if TYPE_CHECKING:
    from queue_core.backup import Backup, Salvaged, Verified


def size(bytes: int) -> str:
    """Bytes for a person: 512 bytes, 4.7 MB, 120 GB."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if bytes >= factor:
            part = bytes / factor
            return f"{part:,.0f} {unit}" if part >= 100 else f"{part:.2g} {unit}"
    return count(bytes, "byte")


class _Progress:
    """Draws how much is done, and knows how long it took."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._started = time.monotonic()
        self._meter: Meter | None = None

    def __call__(self, done: int, total: int) -> None:
        self._meter = self._meter or Meter(total)
        self._meter.show(done, self._doing)

    def end(self) -> float:
        """Seconds since the beginning."""
        if self._meter is not None:
            self._meter.clear()
        return time.monotonic() - self._started


def _holds(taken: "Backup") -> str:
    return f"{count(taken.tasks)} of {count(taken.tags, 'tag')}"


@click.command("backup", short_help="Copy the queue while workers run.")
@click.argument("directory", type=click.Path())
@url_option
@json_option
@pass_session
def take(session: Session, directory: str) -> None:
    """Copy the whole queue, as it is at one moment, into DIRECTORY, which must not be there yet or be empty. Others
    push and work meanwhile. It appears when all of it is on the disk: one that was interrupted is never taken for a
    backup.

    The store may grow by what is written while the copy runs. Name a directory on another disk, and verify it there.

    \b
    Example:
      queue-core backup /backups/monday && queue-core verify /backups/monday
    """
    from queue_core.backup import backup  # here, and so below: what every other command would wait for

    progress = _Progress("copying, and reading it back")
    with session.open() as queue:
        taken = backup(queue, directory, told=progress)
    took = progress.end()
    if session.as_json:
        session.data({"path": directory} | msgspec.to_builtins(taken) | {"seconds": took})
    say(f"Backed up {_holds(taken)} to {safe(directory)}: {size(taken.bytes)} in {span(took)}.")


@click.command("restore", short_help="Make a store of a backup.")
@click.argument("source", metavar="BACKUP", type=click.Path())
@click.option(
    "--to", "target", required=True, metavar="DIR", type=click.Path(),
    help="Where the store will be: not there yet, or empty. Nothing is overwritten: move a damaged store away first.",
)  # fmt: skip
@json_option
@pass_session
def bring_back(session: Session, source: str, target: str) -> None:
    """Verify BACKUP, and make a store of it in the directory given with --to.

    What was in flight when the backup was taken is pending again, and no token of before is good any longer. Tasks that
    were acknowledged after the backup are there again and will run again; those that were pushed after it are not
    there. Stop the workers of the old store first: they would go on with it.

    \b
    Example:
      queue-core restore /backups/monday --to /var/lib/app/queue
    """
    from queue_core.backup import restore

    progress = _Progress("reading, then copying")
    done = restore(source, target, told=progress)
    took, taken = progress.end(), done.backup
    if session.as_json:
        session.data(
            {"path": done.path, "epoch": done.epoch, "requeued": done.requeued, "backup": msgspec.to_builtins(taken)}
            | {"seconds": took}
        )
    say(
        f"Restored {_holds(taken)} to {safe(done.path)}, epoch {done.epoch}, in {span(took)}: as they were on "
        f"{clock(taken.taken_at)}, {since(taken.taken_at, datetime.now(UTC))} ago. "
        f"{count(done.requeued)} that had been in flight {'is' if done.requeued == 1 else 'are'} pending again."
    )


class Restore(click.Command):
    """The command restore: tasks from the trash, or, where --to or a directory is named, a backup."""

    def __init__(self, tasks: click.Command) -> None:
        what = "Trash → where it came from; with --to, a backup → a store."
        super().__init__("restore", help=f"{tasks.help}\n\n{bring_back.help}", short_help=what)
        tasks.epilog = "A backup: queue-core restore BACKUP --to DIR. More of it: queue-core restore --to DIR --help."
        self._tasks = tasks

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        of_backup = any(word == "--to" or word.startswith("--to=") or os.path.isdir(word) for word in args)
        return (bring_back if of_backup else self._tasks).make_context(info_name, args, parent, **extra)


@click.command("verify", short_help="Is a backup, or a store, sound?")
@click.argument("target", metavar="[DIR]", required=False, type=click.Path())
@url_option
@json_option
@pass_session
def look_into(session: Session, target: str | None) -> None:
    """Verify a backup, or a store that others may be working on: its checksum (of a backup), the structure of its file,
    its format, and every invariant. Without DIR, the queue of --url or QUEUE_URL. Writes nothing.

    A process of its own looks at it, because the damage that it looks for may end a process. A store has no checksum:
    where bytes of a payload have become others, it shows only if they are no longer JSON.

    Exit code 0: sound. 1: it is not; what was found is printed, one fault a line.

    \b
    Examples:
      queue-core verify /backups/monday
      queue-core verify --url /var/lib/app/queue
    """
    from queue_core.backup import verify

    progress = _Progress("reading")
    verdict = verify(target or session.named(), told=progress)
    took = progress.end()
    if session.as_json:
        session.data(_verdict(verdict) | {"seconds": took})
    else:
        for fault in verdict.faults:
            click.echo(f"{fault.part}: {safe(fault.message)}")
    say(_told(verdict, took))
    if not verdict.sound:
        raise click.exceptions.Exit(PARTLY)


@click.command("salvage", short_help="Read what is left of a damaged store.")
@click.argument("source", metavar="DAMAGED", type=click.Path())
@click.option(
    "--to", "target", required=True, metavar="DIR", type=click.Path(),
    help="Where the new store will be: not there yet, or empty.",
)  # fmt: skip
@json_option
@pass_session
def read_wreck(session: Session, source: str, target: str) -> None:
    """Make a store of the tasks and settings that can still be read of a damaged one. For when there is no backup: a
    backup loses what came after it, this loses what is damaged, and can tell how much only as far as it can read.

    The damaged store is only read; stop its workers first. Tasks keep their ids, states, attempts and order; what was
    in flight is pending. Totals, history, plans and audit begin anew.

    Exit code 0: every task that the store counted is there. 1: something is missing; it is told what.

    \b
    Example:
      queue-core salvage /var/lib/app/queue.damaged --to /var/lib/app/queue
    """
    from queue_core.backup import salvage

    progress = _Progress("taking in what was found")
    done = salvage(source, target, told=progress)
    took = progress.end()
    if session.as_json:
        session.data(plain(done) | {"whole": done.whole, "seconds": took})
    expected = "how many there were cannot be read" if done.expected is None else f"of {done.expected:,} there were"
    say(f"Salvaged {count(done.tasks)} to {safe(done.path)} in {span(took)}: {expected}.")
    for line in _missing(done):
        say(line)
    if not done.whole:
        raise click.exceptions.Exit(PARTLY)


def _missing(done: "Salvaged") -> Iterator[str]:
    if done.older:
        yield "Where the newest commit begins cannot be read: the last change may be missing."
    if done.unreadable:
        yield f"{count(done.unreadable)} cannot be read: {size(done.unreadable_bytes)} that do not decode."
    if done.spoiled:
        yield f"{count(done.spoiled, 'payload')} not JSON any longer; the bytes are kept."
    for why, number in done.left_out.items():
        yield f"{count(number)} left out: {safe(why)}."
    if done.nameless:
        yield f"{count(done.nameless, 'tag')} lost the name, and is now salvaged-NUMBER."
    if done.damaged_pages or done.broken_entries:
        broken = f"{count(done.damaged_pages, 'page')} and {done.broken_entries:,} single entries"
        yield f"Damaged: {broken}; what stood there is not known."
    if done.unclear_pages:
        yield f"{count(done.unclear_pages, 'page')} not read: whether they are in use or free cannot be told."
    for fault in done.faults:
        yield f"{fault.part}: {safe(fault.message)}"


def _verdict(verdict: "Verified") -> dict[str, Any]:
    return {
        "path": verdict.path, "sound": verdict.sound, "bytes": verdict.bytes, "tasks": verdict.tasks,
        "tags": verdict.tags, "unreadable": verdict.unreadable, "faults": plain(verdict.faults),
        "backup": None if verdict.backup is None else msgspec.to_builtins(verdict.backup),
    }  # fmt: skip


def _told(verdict: "Verified", took: float) -> str:
    what = "backup" if verdict.backup is not None else "store"
    if not verdict.sound:
        way_out = "take another" if what == "backup" else "queue-core restore brings the last backup back"
        return f"Not sound: {count(len(verdict.faults), 'fault')} in the {what} {safe(verdict.path)}; {way_out}."
    known = {"task": verdict.tasks, "tag": verdict.tags}
    parts = [count(number, word) for word, number in known.items() if number is not None]
    if verdict.unreadable:
        parts.append(f"{count(verdict.unreadable, 'payload')} of them not JSON")
    if verdict.bytes is not None:
        parts.append(size(verdict.bytes))
    return f"Sound: the {what} {safe(verdict.path)}, {', '.join(parts)}, read in {span(took)}."
