"""Values as text for a person, and as JSON for a program. Text that came with a task is never trusted, and its secrets
are masked: by ``mask``, or by the redactor that is configured when that is None."""

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import msgspec

from queue_core.groups import telling_line
from queue_core.histogram import Times
from queue_core.history import Event
from queue_core.ledger import Totals
from queue_core.queue import Undecodable
from queue_core.redact import Redactor, masking
from queue_core.snapshot import TagStats
from queue_core.task import SECOND, Attempt, State, Task

CUT = 2_000  # characters of a payload or an error that are shown to a person
UNKNOWN = "—"


# --- JSON -----------------------------------------------------------------------------------------


TAG = (
    "number", "name", "pending", "scheduled", "inflight", "dead", "trash", "due", "expired", "backlog", "oldest_wait",
    "settings", "why_not", "last_served_at", "last_serve", "first_seen_at", "eligible_since", "totals",
    "waits", "services",
)  # fmt: skip


def dumps(value: Any, mask: Redactor | None = None) -> str:
    """Strict JSON in ASCII on one line: safe on any terminal, exact for any program but for what is masked."""
    return json.dumps(plain(value, mask), allow_nan=False)


def plain(value: Any, mask: Redactor | None = None) -> Any:
    """A record as JSON values: times as ISO text in UTC, spans in seconds. ``masked`` of a task names its fields in
    which something is masked."""
    match value:
        case Task():
            return _plain_task(value, masking(mask))
        case Event():
            return _plain_event(value, masking(mask))
        case Attempt():
            return {
                "number": value.number, "cycle": value.cycle, "owner": value.owner,
                "started_at": plain(value.started_at), "ended_at": plain(value.ended_at),
                "outcome": value.outcome.value, "error": value.error and masking(mask).text(value.error),
            }  # fmt: skip
        case Totals():
            counts = msgspec.structs.asdict(value)
            times = {f"{name}_seconds": counts.pop(name) / SECOND for name in ("wait", "service", "eligible")}
            return counts | times
        case Times():
            values = {"mean": value.mean, "p50": value.p50, "p95": value.p95, "p99": value.p99}
            return {"count": value.count} | {f"{name}_seconds": number for name, number in values.items()}
        case Undecodable():
            return {"undecodable": value.data.decode("utf-8", "replace"), "error": value.error}
        case Enum():
            return value.value
        case datetime():
            return value.isoformat(timespec="microseconds")
        case dict():
            return {name: plain(item, mask) for name, item in value.items()}
        case list() | tuple():
            return [plain(item, mask) for item in value]
        case TagStats():
            return {name: plain(getattr(value, name)) for name in TAG}
        case _ if is_dataclass(value):
            return {field.name: plain(getattr(value, field.name), mask) for field in fields(value)}
        case _:
            return value


_TASK = (
    "id", "tag", "state", "version", "attempts", "max_attempts", "cycle", "leases", "defers", "place", "dedupe_key",
    "created_at", "pending_since", "due_at", "entered_at", "owner", "leased_at", "beat_at", "expires_at", "error",
    "reason", "history",
)  # fmt: skip


def _plain_task(task: Task, mask: Redactor) -> dict[str, Any]:
    task, masked = mask.seen(task)
    values = {name: plain(getattr(task, name), mask) for name in _TASK}
    payload = plain(task.payload) if isinstance(task.payload, Undecodable) else task.payload
    return values | {"payload": payload, "masked": list(masked)}


def _plain_event(event: Event, mask: Redactor) -> dict[str, Any]:
    entry = event.entry
    values = {
        "number": event.number, "at": plain(event.at), "kind": event.kind.value, "tag": event.tag,
        "task_id": event.task_id, "owner": event.owner, "detail": mask.text(event.detail),
    }  # fmt: skip
    if event.serve is not None:
        values |= {
            "serve": entry.serve, "eligible_since_serve": entry.since, "weight": entry.weight,
            "wait_seconds": entry.wait / SECOND,
        }  # fmt: skip
    return values


# --- text -----------------------------------------------------------------------------------------


def safe(text: str, width: int | None = None) -> str:
    """Text of a stranger for a terminal: what does not print is escaped, what is over ``width`` is cut."""
    shown = text if width is None else text[:width]
    clean = "".join(sign if sign.isprintable() else _escape(sign) for sign in shown)
    if width is not None and (len(clean) > width or len(text) > width):
        return clean[: width - 1] + "…"
    return clean


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape").decode()


def lines(text: str, limit: int = CUT) -> str:
    """A text of several lines for a terminal: its line breaks stay, and what is cut is told."""
    shown = "\n".join(map(safe, text[:limit].split("\n")))
    return shown if len(text) <= limit else f"{shown}…\n({len(text):,} characters in all; --json prints every one)"


def last_line(error: str | None) -> str:
    """The line of a traceback that says what it was."""
    return UNKNOWN if error is None else telling_line(error)


def payload_text(task: Task, mask: Redactor, *, width: int | None = None) -> str:
    """A payload on one line of at most ``width``, or in full lines."""
    if isinstance(task.payload, Undecodable):
        return safe(f"cannot be read: {task.payload.error}", width)
    if width is None:
        return lines(json.dumps(mask.value(task.payload), ensure_ascii=False, indent=2))
    return safe(mask.head(task.record.payload, width)[0], width)


def span(seconds: float) -> str:
    """A span for a person: 0.42 s, 12 s, 4 min 12 s, 3 h 5 min, 2 d 4 h."""
    if seconds < 10:
        return f"{max(seconds, 0):.2g} s"
    whole = round(seconds)
    for size, unit, part, small in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size:,} {unit} {rest} {small}" if rest else f"{whole // size:,} {unit}"
    return f"{whole} s"


def since(moment: datetime | None, now: datetime) -> str:
    """How long ago."""
    return UNKNOWN if moment is None else span((now - moment).total_seconds())


def until(moment: datetime | None, now: datetime) -> str:
    """How long until then; negative when it is over."""
    if moment is None:
        return UNKNOWN
    left = (moment - now).total_seconds()
    return span(left) if left >= 0 else f"-{span(-left)}"


def clock(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def when(moment: datetime | None, now: datetime) -> str:
    """An exact time and how far it is."""
    if moment is None:
        return UNKNOWN
    far = f"in {until(moment, now)}" if moment > now else f"{since(moment, now)} ago"
    return f"{clock(moment)} ({far})"


def number(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns; a head that begins with ">" aligns its column to the right."""
    names = [head.removeprefix(">") for head in heads]
    widths = [max(map(_width, column)) for column in zip(names, *rows, strict=True)]
    out = []
    for row in (names, *rows):
        cells = []
        for head, cell, width in zip(heads, row, widths, strict=True):
            gap = " " * (width - _width(cell))
            cells.append(gap + cell if head.startswith(">") else cell + gap)
        out.append("  ".join(cells).rstrip())
    return "\n".join(out)


def _width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def tag_text(tag: str | None, width: int = 40) -> str:
    """A tag as it can be typed: quoted when it is empty or has spaces or signs that do not print."""
    if tag is None:
        return "the whole queue"
    shown = safe(tag, width)
    return f"'{shown}'" if not tag or shown != tag or " " in tag else shown


# --- tasks ----------------------------------------------------------------------------------------

_HEADS = {
    State.PENDING: (">WAITING", ">ATTEMPTS", "PAYLOAD"),
    State.SCHEDULED: (">DUE IN", ">ATTEMPTS", "LAST ERROR", "PAYLOAD"),
    State.INFLIGHT: (">LEASED FOR", ">SILENT FOR", ">EXPIRES IN", ">ATTEMPT", "OWNER", "PAYLOAD"),
    State.DEAD: (">DEAD FOR", ">ATTEMPTS", "REASON", "LAST ERROR", "PAYLOAD"),
    State.TRASH: (">IN TRASH FOR", "CAME FROM", "PAYLOAD"),
}


def task_table(state: State, tasks: Sequence[Task], now: datetime, mask: Redactor | None = None) -> str:
    """One page of a state, a task a line."""
    mask = masking(mask)
    rows = [[task.id, tag_text(task.tag), *_cells(task, now, mask)] for task in tasks]
    return table(("ID", "TAG", *_HEADS[state]), rows)


def _cells(task: Task, now: datetime, mask: Redactor) -> list[str]:
    attempts = f"{task.attempts}/{task.max_attempts}"
    payload = payload_text(task, mask, width=60)
    error = safe(last_line(task.error and mask.text(task.error)), 60)
    match task.state:
        case State.PENDING:
            return [since(task.pending_since, now), attempts, payload]
        case State.SCHEDULED:
            return [until(task.due_at, now), attempts, error, payload]
        case State.INFLIGHT:
            times = [since(task.leased_at, now), since(task.beat_at, now), until(task.expires_at, now)]
            return [*times, attempts, safe(task.owner or "", 40), payload]
        case State.DEAD:
            reason = safe(mask.text(task.reason or UNKNOWN), 40)
            return [since(task.entered_at, now), attempts, reason, error, payload]
        case State.TRASH:
            return [since(task.entered_at, now), str(task.record.origin or UNKNOWN), payload]


def task_story(task: Task, now: datetime, mask: Redactor | None = None) -> str:
    """One task in full: its state, every attempt that is kept, its payload, and what is masked."""
    mask = masking(mask)
    task, masked = mask.seen(task)
    facts = [("id", task.id), ("tag", tag_text(task.tag, 200)), ("state", str(task.state))]
    attempts = f"{task.attempts} of {task.max_attempts}, cycle {task.cycle}, {task.leases:,} leases in all"
    facts += [
        ("attempts", attempts),
        ("version", f"{task.version:,}"),
        ("place", f"{task.place:,}"),
        ("pushed", when(task.created_at, now)),
    ]
    if task.dedupe_key is not None:
        facts.append(("dedupe key", safe(task.dedupe_key, 200)))
    times = {"waiting since": task.pending_since, "due": task.due_at, "leased": task.leased_at}
    times |= {"last heartbeat": task.beat_at, "lease until": task.expires_at, "here since": task.entered_at}
    facts += [(name, when(moment, now)) for name, moment in times.items() if moment is not None]
    if task.owner is not None:
        facts.append(("owner", safe(task.owner, 200)))
    if task.reason is not None:
        facts.append(("reason", lines(task.reason)))
    parts = ["\n".join(f"{name:<15} {value}" for name, value in facts)]
    if task.error is not None:
        parts.append("last error\n" + _indent(lines(task.error)))
    if task.history:
        parts.append("ended attempts\n" + _indent(_attempts(task.history)))
    parts.append("payload\n" + _indent(payload_text(task, mask)))
    if masked:
        parts.append(f"masked: {safe(', '.join(masked), CUT)}")
    return "\n\n".join(parts)


def _attempts(history: Sequence[Attempt]) -> str:
    heads = (">NUMBER", ">CYCLE", "STARTED", ">TOOK", "OUTCOME", "OWNER", "ERROR")
    rows = [
        [
            f"{one.number:,}", f"{one.cycle:,}", clock(one.started_at), since(one.started_at, one.ended_at),
            str(one.outcome), safe(one.owner, 40), safe(last_line(one.error), 80),
        ]
        for one in history
    ]  # fmt: skip
    return table(heads, rows)


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
