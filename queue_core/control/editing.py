"""Editing a payload by hand: as lines of JSON with its secrets masked, what changes, and what masks left there hide."""

import difflib
import json
from collections.abc import Iterator
from typing import Any

from queue_core import codec
from queue_core.errors import InvalidPayload
from queue_core.queue import Undecodable
from queue_core.redact import MASKED, Redactor
from queue_core.task import Task

SAME = "What changes is masked."


def payload_lines(payload: Any) -> list[str]:
    """A payload as lines of JSON; bytes that are none as they are."""
    if isinstance(payload, Undecodable):
        return payload.data.decode("utf-8", "replace").split("\n")
    text = json.dumps(payload, indent=2, ensure_ascii=False)
    if not text.isascii() and text != text.encode("utf-8", "replace").decode():  # lone surrogates
        text = json.dumps(payload, indent=2)
    return text.split("\n")


def parsed(text: str) -> Any:
    """The payload that was typed. Raises InvalidPayload, which names line and column."""
    try:
        return codec.load_payload(text.encode("utf-8", "surrogatepass"))
    except json.JSONDecodeError as error:
        raise InvalidPayload(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise InvalidPayload("nested too deeply") from None
    except ValueError as error:
        raise InvalidPayload(f"not JSON: {error}") from None


def difference(seen: Any, new: Any) -> list[str]:
    """What changes between two payloads, both as they may be seen, line by line."""
    return list(
        difflib.unified_diff(payload_lines(seen), payload_lines(new), "present", "new", n=2, lineterm="")
    ) or [SAME]  # fmt: skip


def rewritten(task: Task, text: str, mask: Redactor) -> tuple[Any, list[str]]:
    """(the payload that was typed over the one that ``mask`` lets see, what changes as it may be seen).

    Raises InvalidPayload, also when nothing would change.
    """
    seen = mask.seen(task).task.payload
    new = unmasked(task, seen, parsed(text))
    if not isinstance(task.payload, Undecodable) and payload_lines(new) == payload_lines(task.payload):
        raise InvalidPayload("the payload is the same: change it first")
    return new, difference(seen, mask.value(new))


# --- masks that were left -----------------------------------------------------------------------------


def unmasked(task: Task, seen: Any, new: Any) -> Any:
    """The new payload with what its masks hide. Raises InvalidPayload for a mask that hides nothing that is known."""
    if isinstance(task.payload, Undecodable):
        return new
    whole = restored(task.payload, seen, new)
    left, known = (sum(map(len, map(MASKED.findall, _texts(value)))) for value in (whole, task.payload))
    if left > known:
        raise InvalidPayload(
            "the new payload has a mask where it is not known what it hides: write the value itself, or leave the "
            "field where it was"
        )
    return whole


def restored(old: Any, seen: Any, new: Any) -> Any:
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
