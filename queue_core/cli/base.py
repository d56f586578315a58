"""What every command shares: the queue it means, how it speaks, how it asks, and how it ends."""

import errno
import io
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn, TextIO

import click

from queue_core.cli.show import dumps, lines, safe
from queue_core.errors import (
    Conflict,
    InvalidArgument,
    InvalidFilter,
    LeaseLost,
    NotPermitted,
    QueueError,
    TaskNotFound,
)
from queue_core.queue import Queue, open_queue

PARTLY, USAGE, MISSING, STORE = 1, 2, 3, 4  # exit codes; the group's help tells what they mean
NO_QUEUE = (
    "no queue was named: add --url, such as --url /var/lib/app/queue, or set QUEUE_URL, "
    "such as: export QUEUE_URL=lmdb:///var/lib/app/queue"
)


@dataclass
class Session:
    """One run of the program. ``so_far`` says what has been done already, should the run end early."""

    url: str | None = None
    as_json: bool = False
    so_far: str = ""

    def open(self, *, create: bool = False, **options: Any) -> Queue:
        """The queue that was named. Only with ``create`` may a store come into being."""
        url = self.named()
        if url.startswith("memory:"):
            say(f"{safe(url)} begins empty and ends with this command: a path, as in --url ./queue, would last.")
        elif not create:
            options["create"] = False
        with step():
            return open_queue(url, **options)

    def named(self) -> str:
        """The URL of the queue. Raises UsageError when none was named."""
        url = self.url or os.environ.get("QUEUE_URL")
        if not url:
            raise click.UsageError(NO_QUEUE)
        return url

    def data(self, value: Any) -> None:
        """One JSON document on standard output."""
        click.echo(dumps(value))

    def agree(self, question: str, yes: bool) -> None:
        """Go on only when a person at the terminal agrees, or ``yes`` was given."""
        if yes:
            return
        if not (at_terminal(sys.stdin) and at_terminal(sys.stderr)):
            raise click.UsageError(f"{question} There is no terminal to ask at: add --yes to do it.")
        if not click.confirm(question, default=False, err=True):
            say("Nothing was changed.")
            raise click.exceptions.Exit(PARTLY)


pass_session = click.make_pass_decorator(Session, ensure=True)


def say(words: str) -> None:
    """Words for a person, on standard error."""
    click.echo(words, err=True)


def at_terminal(stream: TextIO | None) -> bool:
    """Whether a person is at the other end; a closed stream has none."""
    return stream is not None and stream.isatty()


def count(number: int, what: str = "task") -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


# --- options --------------------------------------------------------------------------------------


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    session = ctx.ensure_object(Session)
    if value:
        setattr(session, str(param.name), value)


url_option = click.option(
    "--url", metavar="URL", expose_value=False, callback=_keep,
    help="The queue, instead of QUEUE_URL: lmdb:///var/lib/app/queue, a path, or files:///var/lib/app/queue.",
)  # fmt: skip
json_option = click.option(
    "--json", "as_json", is_flag=True, expose_value=False, callback=_keep, help="Print JSON, its secrets masked."
)
tags_option = click.option(
    "--tags", "limit", type=click.IntRange(0), default=20, show_default=True,
    help="Show at most so many tags in the table.",
)  # fmt: skip
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


_SPAN = re.compile(r"(?:(?P<d>[\d.]+)d)?(?:(?P<h>[\d.]+)h)?(?:(?P<m>[\d.]+)m)?(?:(?P<s>[\d.]+)s?)?", re.ASCII)
_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
NONE: Any = object()  # the word none on the command line, as against an option that was not given


def duration(value: Any) -> float:
    """A span of time as seconds, of text such as 90, 90s, 5m, 2h, 1d or 1h30m. Raises BadParameter."""
    match = _SPAN.fullmatch(str(value).strip().lower())
    try:
        parts = {unit: float(part) for unit, part in match.groupdict().items() if part} if match else {}
    except ValueError:  # 1.2.3
        parts = {}
    if not parts:
        raise click.BadParameter(f"{value!r:.100} is not a span of time: write 90, 90s, 5m, 2h, 1d or 1h30m.")
    return sum(part * _UNITS[unit] for unit, part in parts.items())


def or_none(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A type of option that also takes the word none."""

    def convert(value: Any) -> Any:
        return NONE if value in ("none", NONE) else inner(value)

    return convert


def whole(least: int) -> Callable[[Any], int]:
    """A whole number, at least ``least``."""
    return lambda value: click.IntRange(least).convert(value, None, None)


# --- a step is whole, or has not begun ------------------------------------------------------------


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM, raised between two steps. Not a KeyboardInterrupt, of which click would make its own."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        self.number = number


class _Steps:
    """How deep in steps the program is, the signal that waits for their end, and who hears signals instead."""

    depth = 0
    waiting = 0
    listener: Callable[[int], None] | None = None


def _on_signal(number: int, frame: FrameType | None) -> None:
    if _Steps.listener is not None:
        _Steps.listener(number)
        return
    if _Steps.depth and not _Steps.waiting:
        _Steps.waiting = number  # a second one does not wait
        return
    raise Interrupted(number)


@contextmanager
def step() -> Iterator[None]:
    """A signal that comes inside takes effect at the end."""
    _Steps.depth += 1
    try:
        yield
    finally:
        _Steps.depth -= 1
    if _Steps.waiting and not _Steps.depth:
        number, _Steps.waiting = _Steps.waiting, 0
        raise Interrupted(number)


@contextmanager
def listening(listener: Callable[[int], None]) -> Iterator[None]:
    """Signals go to the listener, who ends what is going on."""
    _Steps.listener = listener
    try:
        yield
    finally:
        _Steps.listener = None


@contextmanager
def _signals() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _Steps.depth, _Steps.waiting, _Steps.listener = 0, 0, None
    before = {number: signal.signal(number, _on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- how a run ends -------------------------------------------------------------------------------


def exit_code(error: QueueError) -> int:
    match error:
        case InvalidArgument():
            return USAGE
        case TaskNotFound() | Conflict() | LeaseLost() | NotPermitted():
            return MISSING
        case _:
            return STORE


class Cli(click.Group):
    """The program: whatever happens in a command ends as one clear line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that lacks a sign stops nothing
        try:
            super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError as error:
            raise _Failed(error) from error  # of a closed pipe click would make its own end

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> NoReturn:
        extra["standalone_mode"] = False
        session = extra.setdefault("obj", Session())
        with _signals():
            sys.exit(_run(lambda: super(Cli, self).main(args, *rest, **extra), session))


class _Failed(Exception):
    """Reading or writing failed."""

    def __init__(self, cause: OSError) -> None:
        self.cause = cause


def _run(command: Callable[[], Any], session: Session) -> int:
    """The exit code of a command, after its last words."""
    try:
        code = command()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, Interrupted) as error:
        _Steps.listener = lambda number: None  # it ends already
        number = error.number if isinstance(error, Interrupted) else signal.SIGINT
        say("\n" * at_terminal(sys.stderr) + f"Interrupted{': ' if session.so_far else ''}{session.so_far}.")
        return 128 + number
    except QueueError as error:
        so_far = f" Before that, {session.so_far}." if session.so_far else ""
        said = lines(str(error)) if isinstance(error, InvalidFilter) else safe(str(error))  # it points at a character
        say(f"Error: {said}{'.' if so_far else ''}{so_far}")
        return exit_code(error)
    except _Failed as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still in the buffer has nowhere to go
        if error.cause.errno == errno.EPIPE:
            return 128 + signal.SIGPIPE
        say(f"Error: {safe(str(error.cause))}")
        return STORE


class Meter:
    """A progress bar on standard error, at a terminal only; ``total`` None counts without a bar."""

    WIDTH = 30
    EVERY = 0.1  # seconds between two drawings

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._drawn = 0.0
        self._shown = at_terminal(sys.stderr)

    def show(self, done: int, words: str) -> None:
        """``done`` of the total, described by ``words``."""
        if not self._shown or time.monotonic() - self._drawn < self.EVERY:
            return
        self._drawn = time.monotonic()
        bar = ""
        if self._total:
            part = min(done / self._total, 1.0)
            bar = f"[{'#' * round(part * self.WIDTH):·<{self.WIDTH}}] {part:4.0%}  "
        click.echo(f"\r\x1b[K{bar}{words}", nl=False, err=True)

    def clear(self) -> None:
        if self._drawn:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._drawn = 0.0
