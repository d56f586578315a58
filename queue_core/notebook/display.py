"""How a queue, a snapshot, a task, a lease and a plan show themselves in a notebook, and in plain text.

They never raise for a queue that is closed or gone: that is what is shown. Secrets are masked as on the pages.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from heapq import nlargest
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from queue_core.errors import QueueError
from queue_core.figures.base import records
from queue_core.frames import (
    address_text,
    attempts_frame,
    duration,
    error_line,
    one_line,
    plan_name,
    plan_words,
    planned_frame,
    planned_words,
    tag_label,
    verdict,
)
from queue_core.frames.sentences import named
from queue_core.frames.text import said
from queue_core.notebook.cards import Card, Table
from queue_core.plans import Plan
from queue_core.queue import Queue
from queue_core.redact import masking
from queue_core.snapshot import Snapshot
from queue_core.task import Lease, State, Task

TAGS, NAMED = 10, 8  # tags of a queue, and of a plan
ATTEMPTS = 10  # the last ones of a task
STATES = ("pending", "scheduled", "inflight", "dead", "trash")
NAMES = {"inflight": "In flight", "trash": "In the trash"}


def stamp(at: datetime | None) -> str:
    """A time to the second; "—" when unknown."""
    return "—" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


# --- a queue and a snapshot -------------------------------------------------------------------------


def queue_card(queue: Queue) -> Card:
    """A queue as it is now. Raises QueueError when it cannot be read."""
    return snapshot_card(queue.snapshot(), address_text(queue.url))


def snapshot_card(snapshot: Snapshot, title: str = "Snapshot", lines: Sequence[str] = ()) -> Card:
    """How a queue was at one instant: its verdict, then ``lines``, its counts, and the tags with most to see."""
    health = verdict(snapshot)
    counts = [(NAMES.get(state, state.capitalize()), f"{getattr(snapshot, state):,}") for state in STATES]
    counts += [("Due", snapshot.due_text), ("Expired", snapshot.expired_text)]
    counts += [("Oldest wait", duration(snapshot.oldest_wait)), ("As of", stamp(snapshot.at))]
    names, values = zip(*counts, strict=True)
    whole = Table([f">{name}" for name in names], [values])
    return Card(title, [named(health), *health.reasons, *lines], (), [whole, busiest_table(snapshot)])


def busiest_table(snapshot: Snapshot) -> Table:
    """The ten tags with most tasks that wait, are in flight or are dead."""
    most = nlargest(TAGS, snapshot.tags, key=lambda tag: tag.backlog + tag.inflight + tag.dead)
    rows = [
        (
            tag_label(tag.name), f"{tag.backlog:,}", duration(tag.oldest_wait), f"{tag.inflight:,}",
            f"{tag.dead:,}", f"{tag.weight:,}", str(tag.why_not or ""),
        )
        for tag in most
    ]  # fmt: skip
    of = f"The {TAGS} busiest of {len(snapshot.tags):,} tags" if len(snapshot.tags) > TAGS else ""
    return Table(("Tag", ">Waiting", ">Oldest wait", ">In flight", ">Dead", ">Weight", "Not served"), rows, of)


# --- a task and a lease ------------------------------------------------------------------------------


def task_card(task: Task) -> Card:
    """What a task is, what it died of, its payload and its attempts, masked."""
    record, words = task.record, said(task, masking(None))
    lines = [f"{task.state.capitalize()}, of {tag_label(task.tag)}; attempt {task.attempts} of {task.max_attempts}"]
    if task.state is State.DEAD:
        lines += [text for text in (words.error, words.reason) if text]
    facts = [("Version", f"{task.version:,}"), ("Cycle", f"{task.cycle:,}"), ("Pushed", stamp(task.created_at))]
    times = {
        "Pending since": task.pending_since, "Due": task.due_at, "Leased": task.leased_at, "Heard of": task.beat_at,
        "Good until": task.expires_at if task.state is State.INFLIGHT else None,
        "Came in" if task.state is State.TRASH else "Died": task.entered_at,
    }  # fmt: skip
    facts += [(name, stamp(at)) for name, at in times.items() if at is not None]
    if record.hold is not None:
        facts.append(("Owner", one_line(record.hold.owner) or "somebody"))
    facts += [(name, text) for name, text in (("Dedupe key", words.dedupe_key), ("Reason", words.reason)) if text]
    if words.error and task.state is not State.DEAD:
        facts.append(("Last error", words.error))
    return Card(f"Task {task.id}", lines, facts, [_attempts(task)], words.payload)


def _attempts(task: Task) -> Table:
    frame = attempts_frame(task).tail(ATTEMPTS).astype({"error": "object"}).fillna({"error": ""})
    rows = [
        (f"{row.number:,}", str(row.outcome), duration(row.took), str(row.owner), str(row.error))
        for row in records(frame)
    ]
    return Table((">Lease", "Ended", ">Took", "Owner", "Error"), rows, "Attempts that have ended" if rows else "")


def lease_card(lease: Lease) -> Card:
    """The right to work on a task; its token is not shown."""
    words = said(lease.task, masking(None))
    until = f"Good until {stamp(lease.expires_at)}: {duration(lease.ttl)} from its last sign of life"
    facts = [
        ("Owner", one_line(lease.owner) or "somebody"), ("Leased", stamp(lease.leased_at)),
        ("Attempt", f"{lease.attempt:,} of {lease.task.max_attempts:,}"), ("Fence", f"{lease.fence:,}"),
    ]  # fmt: skip
    return Card(f"Lease on task {lease.id}", [f"Of {tag_label(lease.tag)}", until], facts, (), words.payload)


# --- a plan ------------------------------------------------------------------------------------------


def plan_card(plan: Plan) -> Card:
    """What a person has to know before saying yes, as the dashboard says it; of one that was begun, what came of it."""
    mask = masking(None)
    tags = Table(("Tag", ">Tasks"), [(row.label, f"{row.count:,}") for row in _tags(plan)])
    where = [("Where", one_line(mask.text(plan.where)) or "everything")] if plan.where is not None else []
    if plan.started:
        title, *words = plan_words(plan, mask)
        return Card(title, words, where, [tags])
    what = plan_name(plan)
    title = f"Plan {plan.number}, {what}: {plan.state}" if plan.number else f"{what}: only looked at, nothing is kept"
    return Card(title, planned_words(plan, mask), where, [tags])


def _tags(plan: Plan) -> list[Any]:
    return records(planned_frame(plan).head(NAMED))


class Printed:
    """Stands for a handle where there is none."""

    def __init__(self, bundle: dict[str, Any]) -> None:
        self.update(bundle)

    def update(self, bundle: dict[str, Any], raw: bool = True) -> None:
        """The text of a bundle; of a figure there is none."""
        if "text/plain" in bundle:
            print(bundle["text/plain"], flush=True)


def put(bundle: dict[str, Any]) -> Any:
    """Show a MIME bundle, and give the handle by whose ``update(…, raw=True)`` another takes its place. Outside
    IPython its text is printed, each time."""
    if not InteractiveShell.initialized():
        return Printed(bundle)
    return display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]


# --- in IPython --------------------------------------------------------------------------------------

MAKERS: dict[type, Callable[[Any], Card]] = {
    Queue: queue_card, Snapshot: snapshot_card, Task: task_card, Lease: lease_card, Plan: plan_card,
}  # fmt: skip


def card_of(thing: Any) -> Card:
    """The card of a thing of one of these types; when it cannot be read, one that says so."""
    kind = next(kind for kind in MAKERS if isinstance(thing, kind))
    try:
        return MAKERS[kind](thing)
    except QueueError as error:
        return Card(f"This {kind.__name__.lower()} cannot be shown", [error_line(error)])


def _pretty(thing: Any, printer: Any, cycle: bool) -> None:
    if len(printer.stack) > 1:  # in a list, say: a line is enough
        printer.text(f"Plan({thing.number}, {thing.action})" if isinstance(thing, Plan) else repr(thing))
    else:
        printer.text(card_of(thing).plain())


def _html(thing: Any) -> str:
    return card_of(thing).html()


FORMATS: dict[str, Callable[..., Any]] = {"text/plain": _pretty, "text/html": _html}


def register(formatter: Any) -> None:
    """Let things of these types show themselves through an IPython ``DisplayFormatter``."""
    for mime, show in FORMATS.items():
        for kind in MAKERS:
            formatter.formatters[mime].for_type(kind, show)


def unregister(formatter: Any) -> None:
    """The end of that."""
    for mime in FORMATS:
        for kind in MAKERS:
            formatter.formatters[mime].pop(kind, None)
