"""queue-core dead edit: a new payload for a dead letter."""

import json
import sys
from collections.abc import Iterator
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
from queue_core.errors import Conflict
from queue_core.queue import Undecodable
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
    with acting(session, reason) as operator:
        task = operator.reveal(id, reason or "") if reveal else operator.queue.get(id)
        if task.state is not State.DEAD:
            raise Conflict(f"task {id} is {task.state}: only dead letters are edited here", state=task.state)
        if version is not None and version != task.version:
            raise Conflict(f"task {id} is at version {task.version}, not {version}: look at it again", state=task.state)
        seen = task if reveal else operator.redactor.seen(task).task
        new = _typed(seen) if given is _NOTHING else given
        if new is not _NOTHING:
            new = _unmasked(task, seen, new)
        if new is _NOTHING or operator.queue.dump(new) == task.record.payload:
            redriven = hint(session, f"dead redrive {id}")
            say(f"Nothing was changed: the payload is the same. As it is, it is redriven by {redriven}")
            raise click.exceptions.Exit(PARTLY)
        say(_difference(seen, new if reveal else operator.redactor.value(new)))
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


def _lines(payload: Any) -> list[str]:
    """A payload as lines of JSON; bytes that are none as they are."""
    if isinstance(payload, Undecodable):
        return payload.data.decode("utf-8", "replace").split("\n")
    text = json.dumps(payload, indent=2, ensure_ascii=False)
    if not text.isascii() and text != text.encode("utf-8", "replace").decode():  # lone surrogates
        text = json.dumps(payload, indent=2)
    return text.split("\n")


def _typed(seen: Task) -> Any:
    """What a person makes of the payload; _NOTHING when it is left as it is."""
    text = before = "\n".join(_lines(seen.payload)) + "\n"
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


def _difference(seen: Task, new: Any) -> str:
    """What changes, line by line."""
    import difflib

    lines = list(difflib.unified_diff(_lines(seen.payload), _lines(new), "present", "new", n=2, lineterm=""))
    return "\n".join(map(safe, lines)) if lines else "What changes is masked."


# --- masks that were left -----------------------------------------------------------------------------


def _unmasked(task: Task, seen: Task, new: Any) -> Any:
    """The new payload with what its masks hide. Raises UsageError for a mask that is left where nothing is known."""
    from queue_core.redact import MASKED

    if isinstance(task.payload, Undecodable):
        return new
    whole = _restored(task.payload, seen.payload, new)
    left, known = (sum(map(len, map(MASKED.findall, _texts(value)))) for value in (whole, task.payload))
    if left > known:
        raise click.UsageError(
            "the new payload has a mask where it is not known what it hides: write the value itself, or leave the "
            "field where it was; --reveal shows the values"
        )
    return whole


def _restored(old: Any, seen: Any, new: Any) -> Any:
    """``new``, in which every value and name that stands as it was ``seen`` is ``old``. It is changed in place; it may
    be nested deeper than calls can be. A list of another length is left as it is: nobody knows which mask was which.
    """
    whole = [new]
    waiting: list[tuple[Any, Any, Any, Any]] = [(whole, 0, old, seen)]
    while waiting:
        box, key, old, seen = waiting.pop()
        item = box[key]
        if isinstance(item, dict) and isinstance(seen, dict):
            was = dict(zip(seen, old, strict=True))  # names may be masked, too
            box[key] = {was.get(name, name): value for name, value in item.items()}
            waiting += [(box[key], was[name], old[was[name]], seen[name]) for name in item if name in was]
        elif isinstance(item, list) and isinstance(seen, list):
            if len(item) == len(seen):
                waiting += [(item, place, old[place], seen[place]) for place in range(len(item))]
        elif type(item) is type(seen) and item == seen:
            box[key] = old
    return whole[0]


def _texts(value: Any) -> Iterator[str]:
    """Every text in a payload, names of fields, too."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from item
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
