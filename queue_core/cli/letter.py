"""One dead letter as text and as JSON."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from queue_core.cli.base import count
from queue_core.cli.show import clock, lines, payload_text, plain, safe, since, span, tag_text, when
from queue_core.groups import Group
from queue_core.queue import Undecodable
from queue_core.task import State, Task, moment

if TYPE_CHECKING:
    from queue_core.redact import Redactor


def letter_json(task: Task, mask: "Redactor") -> dict[str, Any]:
    """All of a task as JSON values; ``masked`` says which of them are not what is stored."""
    values: dict[str, Any] = plain(task, mask)
    seen = mask.seen(task).task
    edits = [
        {"at": plain(moment(edit.at)), "version": edit.version, "payload": _value(_before(seen, edit.payload).payload)}
        for edit in seen.record.edits
    ]
    return values | {"group": task.record.group.hex() or None, "edits": edits}


def _value(payload: Any) -> Any:
    return plain(payload) if isinstance(payload, Undecodable) else payload


def letter_text(task: Task, group: Group | None, mask: "Redactor") -> str:
    """All of a task for a person: facts, what happened in order, the whole error, payloads, and what is masked."""
    task, masked = mask.seen(task)
    now = datetime.now(UTC)
    facts = [
        ("id", task.id), ("tag", tag_text(task.tag, 200)), ("state", str(task.state)),
        ("attempts", f"{task.attempts} of {task.max_attempts}, cycle {task.cycle}, {task.leases:,} of all cycles"),
        ("version", f"{task.version}"), ("pushed", when(task.created_at, now)),
    ]  # fmt: skip
    if task.dedupe_key is not None:
        facts.append(("dedupe key", safe(task.dedupe_key, 200)))
    if task.entered_at is not None:
        facts.append((f"{task.state} since", when(task.entered_at, now)))
    if task.reason is not None:
        facts.append(("reason", lines(task.reason)))
    if task.record.group:
        facts.append(("error group", task.record.group.hex() + _group_words(group, mask)))
    parts = ["\n".join(f"{name:<15} {value}" for name, value in facts)]
    parts.append("what happened\n" + _indent("\n".join(_timeline(task))))
    if task.error is not None:
        parts.append("error\n" + _indent(lines(task.error, len(task.error))))
    parts.append("payload\n" + _indent(payload_text(task, mask)))
    for edit in task.record.edits:
        title = f"payload at version {edit.version}, edited away {clock(moment(edit.at))}"
        parts.append(f"{title}\n{_indent(payload_text(_before(task, edit.payload), mask))}")
    if masked:
        parts.append(f"masked: {safe(', '.join(masked), 2_000)}")
    return "\n\n".join(parts)


def _group_words(group: Group | None, mask: "Redactor") -> str:
    if group is None:
        return ""
    state = ", resolved" if group.resolved else ""
    return f": {safe(group.said(mask.text), 200)} ({group.count:,} dead{state})"


def _before(task: Task, payload: bytes) -> Task:
    """The task with a payload that it had."""
    return Task(replace(task.record, payload=payload), task.tag, task._load)


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def _timeline(task: Task) -> list[str]:
    """What happened to a task, a line each: when, how long after the line before, and what."""
    record = task.record
    happened = [(record.created, "pushed")]
    number = 0
    for attempt in record.history:
        if attempt.number > number + 1:
            gap = attempt.number - number - 1
            happened.append((attempt.started, f"… {count(gap, 'attempt')} of which nothing is kept"))
        number = attempt.number
        error = "" if attempt.error is None else f": {safe(attempt.error.strip().rpartition(chr(10))[2], 120)}"
        took = span((attempt.ended_at - attempt.started_at).total_seconds())
        cycle = f", cycle {attempt.cycle}" if record.cycle > 1 else ""
        who = f"attempt {attempt.number}{cycle} by {safe(attempt.owner, 40)}"
        happened.append((attempt.started, f"{who}: {attempt.outcome} after {took}{error}"))
    happened += [(edit.at, f"payload of version {edit.version} edited") for edit in record.edits]
    if task.state is State.DEAD:
        happened.append((record.entered, "died"))
    elif task.state is State.TRASH:
        happened.append((record.entered, f"came into the trash, from {record.origin}"))
    happened.sort(key=lambda one: one[0])
    told, before = [], None
    for at, what in happened:
        later = "" if before is None else f"+{since(moment(before), moment(at))}"
        told.append(f"{clock(moment(at))}  {later:>15}  {what}")
        before = at
    return told
