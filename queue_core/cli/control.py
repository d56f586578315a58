"""Who acts at the command line, in which role and why, and on which tasks."""

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from queue_core.cli.base import Interrupted, Meter, Session, at_terminal, listening, say
from queue_core.cli.show import safe
from queue_core.errors import Conflict, InvalidFilter, NotPermitted

if TYPE_CHECKING:  # imported by the commands that act, so that the others start no slower
    from queue_core.control import Operator
    from queue_core.groups import Group
    from queue_core.query import Search
    from queue_core.queue import View
    from queue_core.stores.base import Found

ROLE = "queue_core.role"  # in the context of a run


# --- who, and why ---------------------------------------------------------------------------------


def actor() -> str:
    """Who acts: QUEUE_ACTOR, else user@host."""
    import getpass

    given = os.environ.get("QUEUE_ACTOR")
    if given:
        return given
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container that does not know its user
        user = f"user {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def _keep_role(ctx: click.Context, param: click.Parameter, value: str) -> None:
    ctx.meta[ROLE] = value


role_option = click.option(
    "--role", type=click.Choice(["viewer", "operator", "admin"]), default="operator", show_default=True,
    envvar="QUEUE_ROLE", show_envvar=True, expose_value=False, callback=_keep_role,
    help="Act in this role; what is removed for good, or shown unmasked, needs admin.",
)  # fmt: skip
reason_option = click.option("--reason", metavar="TEXT", help="Why; kept in the audit.")


@contextmanager
def acting(session: Session, reason: str | None = None, *, create: bool = False) -> "Iterator[Operator]":
    """The queue that was named, in the hands of who acts. NotPermitted says how to get another role."""
    from queue_core.control import Operator

    with session.open(create=create) as queue:
        if reason and not queue.capabilities.plans:
            say(f"{safe(queue.url)} keeps no audit: nobody can look up there who did this.")
        try:
            yield Operator(queue, actor(), click.get_current_context().meta[ROLE], origin="cli")
        except NotPermitted as error:
            raise NotPermitted(
                f"{error}. Here the role is what --role or QUEUE_ROLE says, such as QUEUE_ROLE=admin"
            ) from None


def reasoned(operator: "Operator", action: str, reason: str | None) -> str:
    """The reason that was given. One that is needed is asked for at a terminal; without one it is UsageError."""
    from queue_core.control.person import REASONED

    if (reason or "").strip() or action not in REASONED or not operator.may(action):
        return reason or ""
    if not (at_terminal(sys.stdin) and at_terminal(sys.stderr)):
        raise click.UsageError(
            f"{action.replace('_', '-')} needs --reason TEXT: it is kept, for those who look for the task later"
        )
    asked: str = click.prompt("Why? It is kept in the audit", err=True)
    return asked


def hint(session: Session, words: str) -> str:
    """A command that can be typed next, for the same queue."""
    import shlex

    return f"queue-core {words}" + (f" --url {shlex.quote(session.url)}" if session.url else "")


def document(value: dict[str, Any]) -> None:
    """One document on standard output, of JSON values: a payload may be nested deeper than calls can be."""
    click.echo(json.dumps(value, allow_nan=False))


class Stop:
    """Ctrl-C or SIGTERM, noted instead of raised, so that what goes on ends in order. A second one does not wait."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self) -> bool:
        return self.number != 0

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Signals come here meanwhile."""
        with listening(self._hear):
            yield

    def _hear(self, number: int) -> None:
        if self.number:
            raise Interrupted(number)
        self.number = number


# --- which tasks ----------------------------------------------------------------------------------


def filter_text(value: Any) -> str:
    """A filter that can be understood, as it was given. Raises BadParameter, which points at the character."""
    from queue_core.query import parse

    text = str(value)
    try:
        parse(text)
    except InvalidFilter as error:
        raise click.BadParameter("\n".join(map(safe, str(error).split("\n")))) from None
    return text


def filter_given(value: Any) -> str:
    """A filter that is not empty: an empty variable of a shell does not mean every task. Raises BadParameter."""
    if not str(value).strip():
        raise click.BadParameter("it is empty, which would be every task: say --all, where there is one.")
    return filter_text(value)


where_option = click.option(
    "--where", type=filter_given, metavar="FILTER",
    help="The tasks that match, such as 'tag:acme error:timeout age>2h'; queue-core dead list --help has the grammar.",
)  # fmt: skip


def searched(search: "Search") -> "Iterator[Found]":
    """What a search finds, with a progress bar at a terminal."""
    meter = Meter(search.total)
    for page in search.pages():
        meter.show(search.scanned, f"{search.found:,} found in {search.scanned:,} of {search.total:,} tasks")
        yield from page
    meter.clear()


def group_of(view: "View", text: str) -> "Group":
    """The error group of this id, or of the beginning of one. Raises BadParameter, and Conflict when there is none."""
    mark = text.strip().lower()
    if not mark or len(mark) > 16 or set(mark) - set("0123456789abcdef"):
        raise click.BadParameter(
            f"{text!r:.100} is not an error group: it has 16 hexadecimal digits, or the first ones of them."
        )
    found = [group for group in view.groups() if group.fingerprint.hex().startswith(mark)]
    if not found:
        raise Conflict(f"there is no error group {mark}: queue-core dead groups --all names those that there are")
    if len(found) > 1:
        some = ", ".join(group.fingerprint.hex() for group in found[:3])
        raise click.BadParameter(f"{len(found):,} error groups begin with {mark}, {some} among them: write more of it.")
    return found[0]
