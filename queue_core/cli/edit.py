"""queue-core dead edit: a new payload for a dead letter."""

import sys
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from queue_core.cli.act import task_id
from queue_core.cli.base import (
    PARTLY,
    Session,
    at_terminal,
    json_option,
    pass_session,
    say,
    step,
    url_option,
    yes_option,
)
from queue_core.cli.control import acting, document, hint, reason_option, role_option
from queue_core.cli.feed import parse
from queue_core.cli.letter import letter_json
from queue_core.cli.plan import json_text
from queue_core.cli.show import safe
from queue_core.errors import Conflict, InvalidPayload
from queue_core.task import State, Task

if TYPE_CHECKING:
    from queue_core.control import Operator

_NOTHING: Any = object()


@click.command(short_help="Give a dead letter another payload, and redrive it.")
@click.argument("id", type=task_id)
@click.option("--payload", type=json_text, metavar="JSON", help="The new payload.")
@click.option("--file", type=click.File("rb"), help="The file with the new payload; - is standard input.")
@click.option("--redrive", is_flag=True, help="Redrive it then.")
@click.option("--version", type=click.IntRange(0), metavar="N", help="Only if it is at this version still.")
@click.option("--reveal", is_flag=True, help="Edit it with nothing masked; needs the role admin, and is audited.")
@reason_option
@yes_option
@role_option
@url_option
@json_option
@pass_session
def edit(
    session: Session, id: str, payload: Any, file: BinaryIO | None, redrive: bool, version: int | None, reveal: bool,
    reason: str | None, yes: bool,
) -> None:  # fmt: skip
    """Give a dead letter another payload: from --payload, from --file, or, at a terminal, from your EDITOR. What
    changes is shown first. The payloads of before are kept with the task.

    Secrets are masked in the editor. A value that is left as its mask keeps what it hides.

    \b
    Examples:
      queue-core dead edit 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11 --redrive
      queue-core dead edit 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11 --payload '{"url": "https://example.org"}' --yes
      queue-core dead edit 0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11 --file new.json --version 120 --yes
    """
    if payload is not None and file is not None:
        raise click.UsageError("--payload or --file, not both")
    given = payload[0] if payload is not None else _NOTHING if file is None else _read(file)
    if given is _NOTHING and not (at_terminal(sys.stdin) and at_terminal(sys.stderr)):
        raise click.UsageError("there is no terminal to edit at: give the new payload by --payload or --file")
    from queue_core.control.editing import difference

    with acting(session, reason) as operator:
        task = operator.reveal(id, reason or "") if reveal else operator.queue.get(id)
        if task.state is not State.DEAD:
            raise Conflict(f"task {id} is {task.state}: only dead letters are edited here", state=task.state)
        if version is not None and version != task.version:
            raise Conflict(f"task {id} is at version {task.version}, not {version}: look at it again", state=task.state)
        seen = task if reveal else operator.redactor.seen(task).task
        new = _typed(seen) if given is _NOTHING else given
        if new is not _NOTHING:
            new = _whole(task, seen, new)
        if new is _NOTHING or operator.queue.dump(new) == task.record.payload:
            redriven = hint(session, f"dead redrive {id}")
            say(f"Nothing was changed: the payload is the same. As it is, it is redriven by {redriven}")
            raise click.exceptions.Exit(PARTLY)
        changes = difference(seen.payload, new if reveal else operator.redactor.value(new))
        say("\n".join(map(safe, changes)))
        session.agree(f"Give dead letter {id} this payload{' and redrive it' if redrive else ''}?", yes)
        _change(session, operator, task, new, redrive, reason or "")


def _change(session: Session, operator: "Operator", task: Task, new: Any, redrive: bool, reason: str) -> None:
    with step():
        done = operator.edit(task.id, new, version=task.version, reason=reason)
        session.so_far = "its payload was replaced"
        if redrive:
            done = operator.redrive(task.id, version=done.version, reason=reason)
    if session.as_json:
        document(letter_json(done, operator.redactor))
    say(f"The payload of {done.id} was replaced{' and it was redriven' if redrive else ''}: version {done.version}.")


def _read(file: BinaryIO) -> Any:
    try:
        return parse(file.read())
    except ValueError as error:
        raise click.BadParameter(f"{safe(file.name)}: {safe(str(error))}.", param_hint="--file") from None


# --- in an editor -----------------------------------------------------------------------------------


def _typed(seen: Task) -> Any:
    """What a person makes of the payload; _NOTHING when it is left as it is."""
    from queue_core.control.editing import payload_lines

    text = before = "\n".join(payload_lines(seen.payload)) + "\n"
    while True:
        saved = click.edit(text, extension=".json")
        if saved is None or saved == before:
            return _NOTHING
        try:
            return parse(saved.encode("utf-8", "surrogatepass"))
        except ValueError as error:
            say(safe(str(error)))
        if not click.confirm("Edit it again?", default=True, err=True):
            return _NOTHING
        text = saved


def _whole(task: Task, seen: Task, new: Any) -> Any:
    """The new payload with what its masks hide. Raises UsageError for a mask that is left where nothing is known."""
    from queue_core.control.editing import unmasked

    try:
        return unmasked(task, seen.payload, new)
    except InvalidPayload as error:
        raise click.UsageError(f"{error}; --reveal shows the values") from None
