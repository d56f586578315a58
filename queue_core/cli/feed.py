"""queue-core push: tasks from lines of JSON, in batches, each batch one commit."""

import json
import os
import shlex
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NoReturn

import click

from queue_core.cli.base import PARTLY, Meter, Session, duration, json_option, pass_session, say, step, url_option
from queue_core.cli.show import safe
from queue_core.errors import Conflict, InvalidArgument
from queue_core.history import Event, Kind
from queue_core.queue import BATCH_LIMIT, Item, Queue

BATCH_BYTES = 8 << 20  # of lines: well under what one commit may hold
REPORTED = 1_000  # bad lines that --json lists


@dataclass(frozen=True)
class Fields:
    """How a line becomes a task: which of its fields is the tag, the payload, the id, the dedupe key."""

    tag: str
    tag_key: str | None
    payload_key: str | None
    id_key: str | None
    dedupe_key: str | None
    delay: float
    max_attempts: int

    def item(self, line: bytes) -> Item:
        """The task of one line. Raises ValueError saying what is wrong with it."""
        value = parse(line)
        return Item(
            value if self.payload_key is None else find(value, self.payload_key),
            self.tag if self.tag_key is None else text(value, self.tag_key),
            None if self.id_key is None else text(value, self.id_key),
            self.delay,
            self.max_attempts,
            None if self.dedupe_key is None else text(value, self.dedupe_key),
        )


def parse(line: bytes) -> Any:
    """One JSON value. Raises ValueError."""
    try:
        return json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        near = error.doc[max(error.pos - 10, 0) : error.pos + 20].strip()
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}, near {near!r}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: byte {error.object[error.start]:#04x} at column {error.start + 1}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON: use null or text")


def find(value: Any, path: str) -> Any:
    """The field of that name, or at that dotted path. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError(f"no field {path!r}: the line is not an object")
    if path in value:
        return value[path]
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            raise ValueError(f"no field {path!r}")
        value = value[name]
    return value


def text(value: Any, path: str) -> str:
    """A field that is text or a whole number, as text. Raises ValueError."""
    found = find(value, path)
    if isinstance(found, str):
        return found
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    raise ValueError(f"field {path!r} is {json.dumps(found)[:60]}: it must be text or a whole number")


class Feed:
    """Pushes lines and keeps the account: what became tasks, what did not, and where it stands."""

    def __init__(self, session: Session, queue: Queue, fields: Fields, skip_bad: bool, counts: Counter[Kind]) -> None:
        self._session = session
        self._queue = queue
        self._fields = fields
        self._skip_bad = skip_bad
        self._counts = counts
        self.taken = 0  # lines that were pushed
        self.bad: list[tuple[int, str]] = []
        self.bad_total = 0
        self._batch: list[tuple[int, Item]] = []

    def add(self, number: int, line: bytes) -> None:
        """Take one line. A bad one is skipped, or ends the run after all before it have been pushed."""
        try:
            self._batch.append((number, self._fields.item(line)))
        except ValueError as error:
            if not self._skip_bad:
                self.flush()
            self._refuse(number, str(error))

    def flush(self) -> None:
        """Push what has been taken, in one commit. If the queue refuses it, line by line, to find which one it is."""
        batch, self._batch = self._batch, []
        try:
            self._push(batch)
        except (InvalidArgument, Conflict) as error:
            if len(batch) == 1:
                self._refuse(batch[0][0], str(error))
            else:
                for one in batch:
                    self._batch = [one]
                    self.flush()

    def _push(self, batch: list[tuple[int, Item]]) -> None:
        if not batch:
            return
        with step():
            self._queue.push_many([item for _, item in batch])
            self.taken += len(batch)
            self._session.so_far = f"{self.told()}; nothing was pushed from line {batch[-1][0] + 1:,} on"

    def _refuse(self, number: int, problem: str) -> None:
        self.bad_total += 1
        if len(self.bad) < REPORTED:
            self.bad.append((number, problem))
        say(f"line {number:,}: {safe(problem, 500)}")
        if not self._skip_bad:
            raise BadLine(number)

    def told(self) -> str:
        """The account in words."""
        new, again, back = (self._counts[kind] for kind in (Kind.PUSH, Kind.REPUSH, Kind.REDRIVE))
        parts = [f"{new:,} task{'' if new == 1 else 's'} pushed"]
        held = self.taken - new - again - back
        parts += [f"{again:,} replaced"] * bool(again) + [f"{back:,} redriven"] * bool(back)
        parts += [f"{held:,} already there under their dedupe key"] * bool(held)
        parts += [f"{self.bad_total:,} bad line{'' if self.bad_total == 1 else 's'} skipped"] * bool(
            self.bad_total and self._skip_bad
        )
        return ", ".join(parts)

    def account(self) -> dict[str, Any]:
        """The account as JSON values."""
        new, again, back = (self._counts[kind] for kind in (Kind.PUSH, Kind.REPUSH, Kind.REDRIVE))
        return {
            "pushed": new, "replaced": again, "redriven": back, "already_there": self.taken - new - again - back,
            "bad": self.bad_total, "bad_lines": [{"line": number, "error": error} for number, error in self.bad],
        }  # fmt: skip


class BadLine(Exception):
    """A bad line ends the run."""

    def __init__(self, number: int) -> None:
        self.number = number


def numbered(file: BinaryIO, seen: Callable[[int, int], None]) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers; ``seen`` is told the line and the bytes read so far."""
    read = 0
    for number, line in enumerate(file, 1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        read += len(line)
        seen(number, read)
        if line.strip():
            yield number, line


@click.command(short_help="Push tasks from lines of JSON.")
@click.argument("file", type=click.File("rb"))
@click.option("--tag", metavar="TAG", help="The tag of every task.")
@click.option("--tag-key", metavar="FIELD", help="The field that holds the tag, such as site or user.id.")
@click.option("--payload-key", metavar="FIELD", help="The field that is the payload; otherwise the whole line is.")
@click.option("--id-key", metavar="FIELD", help="The field that holds the id, a UUID. One that exists is replaced.")
@click.option("--dedupe-key", metavar="FIELD", help="The field that holds the dedupe key: while held, pushed once.")
@click.option("--delay", type=duration, default=0, metavar="SPAN", help="Not before so long from now, such as 10m.")
@click.option(
    "--max-attempts", type=click.IntRange(1, 1_000_000), default=5, show_default=True, help="Then it is dead."
)
@click.option("--skip-bad", is_flag=True, help="Report bad lines and go on; otherwise the first one ends the run.")
@click.option(
    "--batch", type=click.IntRange(1, BATCH_LIMIT), default=1_000, show_default=True,
    help="Lines in one commit; 1 for a source that is slow.",
)  # fmt: skip
@url_option
@json_option
@pass_session
def push(
    session: Session, file: BinaryIO, tag: str | None, tag_key: str | None, payload_key: str | None,
    id_key: str | None, dedupe_key: str | None, delay: float, max_attempts: int, skip_bad: bool, batch: int,
) -> None:  # fmt: skip
    """Push a task for every line of FILE, one JSON value a line; - is standard input. Blank lines are passed over.

    A bad line is reported with its number. Without --skip-bad it ends the run with exit code 1: every line before it
    has been pushed, no line from it on. With --skip-bad all others are pushed, and the exit code is 1 if there was one.

    \b
    Examples:
      queue-core push sites.ndjson --tag-key site
      zcat events.ndjson.gz | queue-core push - --tag-key user.id --payload-key event --skip-bad
      echo '{"url": "https://example.org"}' | queue-core push - --tag example.org
    """
    if tag is not None and tag_key is not None:
        raise click.UsageError("give --tag (the same for all) or --tag-key (a field of each line), not both")
    fields = Fields(tag or "", tag_key, payload_key, id_key, dedupe_key, delay, max_attempts)
    if file.isatty():
        say("Reading from the terminal: one JSON value a line, Ctrl-D at the end.")
    counts: Counter[Kind] = Counter()

    def count(event: Event) -> None:
        counts[event.kind] += 1

    with session.open(create=True, on_event=count) as queue:
        feed = Feed(session, queue, fields, skip_bad, counts)
        meter = Meter(_size(file))
        try:
            _run(file, feed, batch, meter)
        except BadLine as bad:
            meter.clear()
            _give_up(session, feed, bad.number, getattr(file, "name", ""))
        meter.clear()
    if session.as_json:
        session.data(feed.account())
    say(f"{feed.told()}.")
    if feed.bad_total:
        raise click.exceptions.Exit(PARTLY)


def _run(file: BinaryIO, feed: Feed, batch: int, meter: Meter) -> None:
    lines = size = 0
    for number, line in numbered(file, lambda number, read: meter.show(read, f"line {number:,}")):
        feed.add(number, line)
        lines, size = lines + 1, size + len(line)
        if lines >= batch or size >= BATCH_BYTES:
            feed.flush()
            lines = size = 0
    feed.flush()


def _give_up(session: Session, feed: Feed, number: int, name: str) -> NoReturn:
    if session.as_json:
        session.data(feed.account())
    rest = ""
    if os.path.isfile(name):
        rest = f" Mend it, and go on with: tail -n +{number} {shlex.quote(name)} | queue-core push - [OPTIONS]."
    say(
        f"Stopped at line {number:,}: {feed.told()} from the lines before it, nothing from it on.{safe(rest)} "
        "To leave bad lines out: --skip-bad."
    )
    raise click.exceptions.Exit(PARTLY)


def _size(file: BinaryIO) -> int | None:
    """The bytes of a regular file; None of a pipe or a terminal."""
    try:
        status = os.fstat(file.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
