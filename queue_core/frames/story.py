"""One task for people: what happened to it in order, its payloads, what can be copied, what a plan would do."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import pandas as pd

from queue_core.frames.control import ATTEMPTS, attempts_frame
from queue_core.frames.tables import UTC, Schema, rows, span
from queue_core.frames.text import duration, error_preview, one_line, plural, safe_text, tag_label
from queue_core.history import Event, Kind
from queue_core.plans import AuditEntry, Plan
from queue_core.queue import Undecodable, View
from queue_core.redact import Redactor, masking
from queue_core.task import State, Task, moment

JOURNAL, AUDIT = 5_000, 1_000  # newest entries in which a task is looked for
STORY: Schema = {"at": UTC, "after": "float64", "what": "str", "who": "str", "detail": "str"}
EDITS: Schema = {"at": UTC, "version": "int64", "payload": "str"}
PLANNED: Schema = {"label": "str", "count": "int64"}
RUNNING = "running"  # the outcome of an attempt that goes on
DEPTH = 20  # boxes in boxes of a payload that are shown as a tree
EXACT = 1 << 53  # whole numbers beyond are not exact in a browser

# The journal tells of these; pushes, leases and their ends are told by the task itself.
_TOLD = {
    Kind.REPUSH: "pushed again", Kind.PROMOTE: "became due", Kind.REDRIVE: "redriven", Kind.CANCEL: "cancelled",
    Kind.PURGE: "purged", Kind.RESTORE: "restored", Kind.EXTEND: "lease extended", Kind.REPLACE: "payload replaced",
    Kind.MOVE: "moved", Kind.REQUEUE: "requeued",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TaskStory:
    """One task from one view. ``task`` is as it may be seen, ``masked`` names what is hidden in it, ``why`` tells in
    words why it is not running, ``story`` is what happened to it."""

    at: datetime
    task: Task
    masked: tuple[str, ...]
    why: str
    story: pd.DataFrame

    @property
    def sentence(self) -> str:
        """What it is now."""
        return f"A task of {tag_label(self.task.tag)}, {self.why}"


def task_story(view: View, id: str, mask: Redactor | None = None) -> TaskStory:
    """All of one task. Raises TaskNotFound, InvalidArgument for what is no id."""
    mask, explanation = masking(mask), view.explain(id)
    task, masked = mask.seen(explanation.task)
    story = story_frame(task, view.journal(limit=JOURNAL), view.audit(limit=AUDIT), mask)
    return TaskStory(moment(view.reader.now), task, masked, one_line(mask.text(explanation.text)), story)


def story_frame(
    task: Task, events: Iterable[Event] = (), entries: Iterable[AuditEntry] = (), mask: Redactor | None = None
) -> pd.DataFrame:
    """What happened to a task, oldest first: of its record, of those ``events`` of the journal and of those ``entries``
    of the audit that are about it. ``after`` is seconds since the line before."""
    mask = masking(mask)
    record = task.record
    told: list[tuple[int, str, str, str]] = [(record.created, "pushed", "", "")]
    told += _attempts(task, mask)
    told += [(edit.at, "payload edited", "", f"that of version {edit.version} is kept") for edit in record.edits]
    if task.state is State.DEAD:
        told.append((record.entered, "died", "", one_line(mask.text(task.reason or ""))))
    elif task.state is State.TRASH:
        told.append((record.entered, "came into the trash", "", f"it was {record.origin}"))
    for event in events:
        if event.entry.id == record.id and event.kind in _TOLD:
            detail = one_line(mask.text(event.detail))
            told.append((event.entry.at, _TOLD[event.kind], one_line(event.owner), detail))
    told += _asked(task.id, entries, mask)
    told.sort(key=lambda one: one[0])
    before = [None, *(moment(at) for at, *_ in told)]
    found = zip(told, before, strict=False)
    return rows(STORY, ((moment(at), span(moment(at), last), *words) for (at, *words), last in found))


def _asked(id: str, entries: Iterable[AuditEntry], mask: Redactor) -> list[tuple[int, str, str, str]]:
    """What people asked for it by its id: at once, or as a plan of it alone at the version that was seen."""
    told = []
    for entry in entries:
        if entry.where != f"id:{id}" and not (entry.plan and str(entry.where).startswith(f"id:{id} version=")):
            continue
        if entry.action == "run" and entry.outcome.startswith("begun"):
            continue
        words = f"{entry.reason}: {entry.outcome}" if entry.reason else entry.outcome
        what = {"plan": f"{entry.intent} asked for", "run": f"plan {entry.plan} ran"}.get(
            entry.action, f"{entry.action} asked for"
        )
        told.append((entry.at, one_line(mask.text(what), 80), one_line(entry.actor), one_line(mask.text(words))))
    return told


def _attempts(task: Task, mask: Redactor) -> list[tuple[int, str, str, str]]:
    told, number = [], 0
    for attempt in task.history:
        if (gap := attempt.number - number - 1) > 0:
            told.append((attempt.started, f"{plural(gap, 'attempt')} before", "", "nothing of them is kept"))
        number = attempt.number
        who, error = one_line(attempt.owner, 80), error_preview(attempt.error, mask)
        told.append((attempt.started, f"lease {number}, cycle {attempt.cycle}", who, "began"))
        told.append((attempt.ended, f"lease {number} {str(attempt.outcome).replace('_', '-')}", who, error))
    if task.state is State.INFLIGHT and (hold := task.record.hold) is not None:
        told.append((hold.leased, f"lease {task.leases}, cycle {task.cycle}", one_line(hold.owner, 80), "goes on"))
    return told


def timeline_frame(task: Task, at: datetime, mask: Redactor | None = None) -> pd.DataFrame:
    """The attempts frame of a task, with the attempt that goes on at ``at`` as its last row: its outcome is
    ``running``, its end is ``at``."""
    closed, hold = attempts_frame(task, mask), task.record.hold
    if task.state is not State.INFLIGHT or hold is None:
        return closed
    begun = moment(hold.leased)
    took = max((at - begun).total_seconds(), 0.0)
    going = rows(ATTEMPTS, [(task.leases, task.cycle, one_line(hold.owner), begun, at, took, RUNNING, None)])
    return pd.concat([closed, going], ignore_index=True)


def edits_frame(task: Task, mask: Redactor | None = None) -> pd.DataFrame:
    """One row per payload that was edited away and is kept, the first one first."""
    mask = masking(mask)
    return rows(
        EDITS,
        (
            (moment(edit.at), edit.version, one_line(mask.stored(edit.payload).decode("utf-8", "replace"), 4_000))
            for edit in task.record.edits
        ),
    )


# --- payloads -----------------------------------------------------------------------------------------


def payload_tree(payload: Any) -> Any:
    """A payload as a tree that a browser shows as it is: text is safe, whole numbers that it would round are text, and
    what is nested deeper than 20 boxes is its number of entries."""
    return _tree(payload, DEPTH)


def _tree(value: Any, depth: int) -> Any:
    if isinstance(value, dict | list):
        if not depth:
            return f"… {plural(len(value), 'entry', 'entries')}"
        if isinstance(value, list):
            return [_tree(item, depth - 1) for item in value]
        return {safe_text(str(name)): _tree(item, depth - 1) for name, item in value.items()}
    if isinstance(value, str):
        return safe_text(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= EXACT:
        return str(value)
    if isinstance(value, Undecodable):
        return safe_text(value.data.decode("utf-8", "replace"))
    return value


def task_json(task: Task, mask: Redactor | None = None) -> str:
    """A task as JSON text, masked: what it is, its payload, its attempts."""
    task, masked = masking(mask).seen(task)
    payload = task.payload
    fields = {
        "id": task.id, "tag": task.tag, "state": task.state, "version": task.version, "attempts": task.attempts,
        "max_attempts": task.max_attempts, "cycle": task.cycle, "created_at": task.created_at.isoformat(),
        "entered_at": task.entered_at.isoformat() if task.entered_at else None, "reason": task.reason,
        "error": task.error, "group": task.record.group.hex() or None,
        "payload": payload.data.decode("utf-8", "replace") if isinstance(payload, Undecodable) else payload,
        "history": [msgspec.structs.asdict(attempt) for attempt in task.history], "masked": list(masked),
    }  # fmt: skip
    text = json.dumps(fields, ensure_ascii=False, indent=2)
    return text if text.encode("utf-8", "replace").decode() == text else json.dumps(fields, indent=2)


def task_python(task: Task, mask: Redactor | None = None) -> str:
    """Python that pushes the same work again, its secrets masked."""
    task, masked = masking(mask).seen(task)
    payload = task.payload
    if isinstance(payload, Undecodable):
        return f"# its payload does not decode: {one_line(payload.error)}\nqueue.get({task.id!r})"
    lines = [f"payload = {payload!r}"]
    if masked:
        lines.insert(0, "# what is masked has to be filled in")
    options = [f"tag={task.tag!r}", f"max_attempts={task.max_attempts}"]
    return safe_text("\n".join([*lines, f"queue.push(payload, {', '.join(options)})"]))


# --- plans --------------------------------------------------------------------------------------------


def planned_frame(plan: Plan) -> pd.DataFrame:
    """How many tasks of a plan each tag has, the most first."""
    tags: dict[str, int] = json.loads(plan.summary).get("tags", {})
    return rows(PLANNED, ((tag_label(name), count) for name, count in tags.items()))


def planned_words(plan: Plan, mask: Redactor | None = None) -> list[str]:
    """What a person has to know of a plan before saying yes, a sentence each. They hold text of tasks."""
    mask, about = masking(mask), json.loads(plan.summary)
    words = [f"{plural(plan.selected, 'task')} of {plural(about.get('tags_in_all', 0), 'tag')}"]
    if plan.selected:
        words.append(f"The oldest is of {_when(about['oldest'])}, the newest of {_when(about['newest'])}")
        words.append("The first of them: " + ", ".join(about["sample"]))
    words += [f"{plural(count, 'task')} cannot be: {why}" for why, count in plan.ineligible.items()]
    if plan.rate is not None:
        words.append(f"{plan.rate:,g} a second: {duration(plan.selected / plan.rate)} in all")
    if plan.canary is not None:
        words.append(
            f"A canary of {plan.canary.size:,} first; the others follow when {plan.canary.success:.0%} of it succeeded"
        )
    if plan.options.tag is not None:
        words.append(f"To the tag {tag_label(plan.options.tag)}")
    if plan.reason:
        words.append(f"Reason: {one_line(mask.text(plan.reason))}")
    return words


def plan_words(plan: Plan, mask: Redactor | None = None) -> list[str]:
    """How far a plan has come and why some were not moved, a sentence each."""
    mask = masking(mask)
    action = plan.action.replace("_", "-")
    what = f"Undo of plan {plan.undo_of}" if plan.undo_of else f"Plan {plan.number}"
    words = [f"{what}, {action}: {plan.state}, {plan.outcome}"]
    words += [f"{count:,} × {one_line(why)}" for why, count in plan.why.items()]
    if plan.note:
        words.append(one_line(mask.text(plan.note)))
    if plan.undone_by:
        words.append(f"Undone by plan {plan.undone_by}")
    return words


def _when(iso: str) -> str:
    return f"{iso[:19].replace('T', ' ')} UTC"
