"""Deaths, edits and moves, and what has changed by them."""

from typing import Any
from uuid import UUID

from drive import lease
from msgspec.structs import asdict

from queue_core import Queue, Task
from queue_core.groups import Group
from queue_core.history import Kind
from queue_core.stores.base import Adopted, Change
from queue_core.task import parse_id

ODD_TAGS = ["", "é/\n🙂", "nul\0", "a" * 5_000, "é" * 32_767, "-1", "..", "🦉" * 30]
ODD_PAYLOADS = [
    b"null", b"1.0", b"1e5", b"9" * 4_300, b'"\\ud800"', b'{"a":1,"a":2}', b" 1", b"1 ", b"NaN", b"", b"\xff\x00",
    b"[" * 2_000, '"é🙂 \\u0000\\n"'.encode(), b'"' + b"x" * 10_000 + b'"', str(2**70).encode(),
    b'{"payload":1,"edits":"}"}',
]  # fmt: skip


def change(queue: Queue, action: str, id: str | UUID, **asked: Any) -> Task:
    """A change by id, as the store's verb."""
    found = queue.perform(lambda store: store.change(parse_id(id), Change(action, **asked)))
    with queue.view() as view:
        return view.task(found)


def edit(queue: Queue, id: str, payload: bytes, version: int | None = None) -> Task:
    return change(queue, "edit", id, payload=payload, version=version)


def move(queue: Queue, id: str, tag: str, version: int | None = None) -> Task:
    return change(queue, "move_tag", id, tag=tag, version=version)


def totals(queue: Queue) -> dict[str, int]:
    """Those that are not 0."""
    return {name: number for name, number in asdict(queue.snapshot().totals).items() if number and name != "eligible"}


def happened(events: list[Any]) -> list[tuple[Kind, str | None, str]]:
    """What the newest verb told, and forget it."""
    found = [(event.kind, event.tag, event.entry.detail) for event in events]
    events.clear()
    return found


def unlike(one: Task, other: Task) -> set[str]:
    """The fields in which two tasks differ."""
    pairs = (asdict(one.record), asdict(other.record))
    return {name for name in pairs[0] if pairs[0][name] != pairs[1][name]} | (
        {"name"} if one.tag != other.tag else set()
    )


def adopt(queue: Queue, *tasks: Task) -> list[str | None]:
    """Take in tasks of another store; why not."""
    items = [Adopted(task.tag, task.record) for task in tasks]
    return queue.perform(lambda store: store.adopt(items))


def dead(queue: Queue, error: str, *, tag: str = "a", **item: Any) -> str:
    """The id of a new dead letter with this error."""
    task = queue.push("x", tag=tag, max_attempts=1, **item)
    while (found := lease(queue)).id != task.id:
        pass
    queue.nack(found, error)
    return task.id


def held(queue: Queue) -> dict[str, int]:
    """How many dead letters each group has, by its text; the tags of each have to make up as many."""
    for group in queue.groups():
        with queue.view() as view:
            tags = view.group_tags(group.fingerprint.hex())
        assert (sum(tags.values()), len(tags)) == (group.count, group.tags)
        assert 0 not in tags.values()
    return {group.text: group.count for group in queue.groups() if group.count}


def group(queue: Queue, text: str) -> Group:
    return {found.text: found for found in queue.groups()}[text]
