"""What is done to a queue: plans with how far they have come, the audit searched, the workers."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from queue_core.control.transfer import neutral
from queue_core.frames.control import AUDIT, PLANS, audit_frame, plans_frame, results_frame
from queue_core.frames.sentences import operations_verdict, plan_name, plan_sentence, worker_state
from queue_core.frames.tables import UTC, Schema, rows, span
from queue_core.frames.text import duration, one_line, plural, tag_label
from queue_core.frames.words import Verdict
from queue_core.plans import Plan, PlanState
from queue_core.plans import Verdict as Came
from queue_core.queue import View
from queue_core.redact import Redactor, masking
from queue_core.snapshot import Snapshot
from queue_core.stores.base import Capabilities
from queue_core.stores.engine.undo import UNDO
from queue_core.task import SECOND, microseconds, moment

PIECE = 500  # entries read at a time
LOOKED = 20_000  # entries that one search looks at
NAMED = 8  # tags of a plan that are named
DROPS = frozenset({"purge", "cancel", "dead_letter", "expunge"})
ACTIONS = (
    "plan", "run", "stop", "undo", "redrive", "requeue", "dead_letter", "cancel", "purge", "restore", "expunge", "edit",
    "extend", "move_tag", "configure", "resolve", "reopen", "reveal", "requeue_inflight", "dead_letter_inflight",
    "export", "import",
)  # fmt: skip
PROGRESS: Schema = {**PLANS, "progress": "float64", "name": "str", "standing": "str", "age": "float64"}
REASONS: Schema = {"what": "str", "count": "int64", "why": "str"}
WORKERS: Schema = {
    "id": "str", "host": "str", "pid": "int64", "state": "str", "silence": "float64", "uptime": "float64",
    "concurrency": "int64", "done": "int64", "failed": "int64", "started_at": UTC, "seen_at": UTC,
}  # fmt: skip


def workers_frame(snapshot: Snapshot) -> pd.DataFrame:
    """One row per worker, those that are at work first; ``silence`` since it last reported, ``uptime`` up to then."""
    order = ("silent", "working", "stopped")
    found = [
        (
            one_line(worker.id), one_line(worker.host), worker.pid, worker_state(worker, snapshot.at),
            span(snapshot.at, worker.seen_at), span(worker.stopped_at or worker.seen_at, worker.started_at),
            worker.concurrency, worker.done, worker.failed, worker.started_at, worker.seen_at,
        )
        for worker in snapshot.workers
    ]  # fmt: skip
    return rows(WORKERS, sorted(found, key=lambda row: (order.index(row[3]), row[4])))


# --- plans ----------------------------------------------------------------------------------------


def progress_frame(plans: Iterable[Plan], epoch: int, at: datetime, mask: Redactor | None = None) -> pd.DataFrame:
    """The plans frame with what each is called, where it stands in words, the share that is dealt with, and its age."""
    plans = list(plans)
    frame = plans_frame(plans, epoch, mask)
    return frame.assign(
        name=pd.Series([plan_name(plan) for plan in plans], dtype="str"),
        standing=pd.Series([_standing(plan, epoch, at) for plan in plans], dtype="str"),
        progress=pd.Series([round(_share(plan), 3) for plan in plans], dtype="float64"),
        age=pd.Series([span(at, moment(plan.created)) for plan in plans], dtype="float64"),
    )


def _standing(plan: Plan, epoch: int, at: datetime) -> str:
    if not plan.over and plan.epoch != epoch:
        return f"{plan.state}, void"
    return f"{plan.state}, silent" if plan.state == "running" and plan.alone(microseconds(at, "at")) else plan.state


def _share(plan: Plan) -> float:
    return plan.done / plan.selected if plan.selected else float(plan.over)


@dataclass(frozen=True, slots=True)
class PlansSeen:
    """Plans, the newest first, of one moment, and the sentence about what goes on."""

    frame: pd.DataFrame
    snapshot: Snapshot
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class PlanSeen:
    """One plan of one moment. ``name`` is what it does; ``drops``: data, or work, is given up by it."""

    at: datetime
    number: int
    action: str
    name: str
    verdict: Verdict
    progress: float
    selected: int
    moved: int
    left: int
    facts: list[tuple[str, str]]
    reasons: pd.DataFrame
    results: pd.DataFrame
    runnable: bool
    stoppable: bool
    undoable: bool
    drops: bool


def plans_seen(view: View, limit: int = 100) -> PlansSeen:
    """The newest plans; none where the store keeps none."""
    snapshot, epoch = view.snapshot(), view.reader.meta.epoch
    plans = view.plans(limit)
    return PlansSeen(
        progress_frame(plans, epoch, snapshot.at), snapshot, operations_verdict(plans, snapshot, epoch)
    )  # fmt: skip


def plan_seen(
    view: View,
    number: int,
    *,
    verdict: str | None = None,
    after: int = 0,
    limit: int = 200,
    mask: Redactor | None = None,
) -> PlanSeen:
    """A plan in full, with what came of ``limit`` of its tasks, those numbered above ``after``. ``verdict``: only of
    those that came out so (moved, skipped, failed). Raises Conflict for a number that no plan has."""
    plan, epoch, at = view.plan(number), view.reader.meta.epoch, moment(view.reader.now)
    void = not plan.over and plan.epoch != epoch
    came = None if verdict is None else Came(verdict)
    alone = plan.alone(view.reader.now)
    return PlanSeen(
        at, number, plan.action, plan_name(plan), plan_sentence(plan, epoch, at), _share(plan), plan.selected,
        plan.moved, plan.left, plan_facts(plan, at, mask), reasons_frame(plan),
        results_frame(view.outcome(number, verdict=came, after=after, limit=limit)),
        runnable=not void and not plan.over and plan.state != PlanState.DRAFT and alone and plan.kept,
        stoppable=not void and plan.state in (PlanState.READY, PlanState.RUNNING),
        undoable=(
            plan.state in (PlanState.STOPPED, PlanState.FINISHED) and plan.moved > 0 and plan.action in UNDO
            and not plan.undo_of and not plan.undone_by and plan.kept and plan.epoch == epoch
        ),
        drops=plan.action in DROPS and not plan.undo_of,
    )  # fmt: skip


def reasons_frame(plan: Plan) -> pd.DataFrame:
    """Why tasks were not selected, and why selected ones were not moved; the most frequent first."""
    found = [("not selected", count, why) for why, count in plan.ineligible.items()]
    found += [("not moved", count, why) for why, count in plan.why.items()]
    return rows(REASONS, [(what, count, one_line(why)) for what, count, why in sorted(found, key=lambda one: -one[1])])


def plan_facts(plan: Plan, at: datetime, mask: Redactor | None = None) -> list[tuple[str, str]]:
    """What there is to know of a plan, but for its tasks one by one: names and words."""
    mask, options, summary = masking(mask), plan.options, json.loads(plan.summary)
    facts = []
    if plan.where is not None:
        facts.append(("Where", one_line(mask.text(plan.where)) or "everything there was"))
    elif not plan.undo_of:
        facts.append(("Where", "the tasks that were chosen"))
    if plan.reason:
        facts.append(("Reason", one_line(mask.text(plan.reason))))
    if options.tag is not None:
        facts.append(("To tag", tag_label(options.tag)))
    if options.ttl:
        facts.append(("For", duration(options.ttl / SECOND)))
    if plan.rate is not None:
        facts.append(("Rate", f"at most {plan.rate:,g} {'task' if plan.rate == 1 else 'tasks'} a second"))
    if plan.canary is not None:
        passed = "passed" if plan.canary_passed else "not passed yet"
        facts.append(
            ("Canary", f"{plural(plan.canary.size, 'task')}, {plan.canary.success:.0%} have to succeed: {passed}")
        )
    facts += _selection(summary)
    facts.append(
        ("Made", f"{_when(plan.created, at)} by {one_line(plan.actor)} ({plan.role}, {one_line(plan.origin)})")
    )
    if plan.runner:
        facts.append(("Run by", f"{one_line(plan.runner)}, heard of {_when(plan.beat, at)}"))
    if plan.note:
        facts.append(("Note", one_line(mask.text(plan.note))))
    if plan.ended:
        facts.append(("Ended", _when(plan.ended, at)))
    if plan.undone_by:
        facts.append(("Undone by", f"plan {plan.undone_by}"))
    elif plan.over and not plan.kept:
        facts.append(("Undo", "no longer: what it changed was kept for 7 days"))
    return facts


def _selection(summary: dict[str, object]) -> list[tuple[str, str]]:
    tags, known = summary.get("tags"), summary.get("tags_in_all")
    if not isinstance(tags, dict) or not tags:
        return []
    named = [f"{tag_label(tag)}: {count:,}" for tag, count in list(tags.items())[:NAMED]]
    more = int(str(known)) - len(named)
    facts = [("Tags", ", ".join(named + ([f"and {plural(more, 'more tag')}"] if more > 0 else [])))]
    if summary.get("oldest"):
        facts.append(("Oldest, newest", f"{_stamp(str(summary['oldest']))}, {_stamp(str(summary['newest']))}"))
    return facts


def _stamp(iso: str) -> str:
    return f"{datetime.fromisoformat(iso):%Y-%m-%d %H:%M:%S} UTC"


def _when(micro: int, at: datetime) -> str:
    return f"{duration(span(at, moment(micro)))} ago, {moment(micro):%Y-%m-%d %H:%M:%S} UTC"


# --- the audit ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Entries that fit, the newest first. ``looked`` were looked at; ``before`` is where to go on, None at the end."""

    frame: pd.DataFrame
    looked: int
    before: int | None
    total: int


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """``actor`` is a part of who acted, ``text`` a part of any word of an entry, as it is shown; both in upper or lower
    case. ``action`` is exact; None: any."""

    actor: str = ""
    action: str | None = None
    text: str = ""


ALL = AuditFilter()


def audit_page(
    view: View, wanted: AuditFilter = ALL, *, before: int | None = None, limit: int = 100, looked_at: int = LOOKED,
    mask: Redactor | None = None,
) -> AuditPage:  # fmt: skip
    """The newest entries numbered below ``before`` (None: all) that fit, at most ``limit``.

    At most ``looked_at`` entries are looked at.
    """
    total = view.reader.meta.audits
    top = total if before is None else min(before - 1, total)
    found, count, looked = [], 0, 0
    while top > 0 and count < limit and looked < looked_at:
        entries = view.audit(after=max(top - PIECE, 0), limit=min(PIECE, top))
        piece = audit_frame(reversed([entry for entry in entries if entry.number <= top]), mask)
        fits = piece[_fits(piece, wanted)].head(limit - count)
        full = count + len(fits) == limit
        bottom = int(fits["number"].iloc[-1]) if full else max(top - PIECE, 0) + 1
        looked += top - bottom + 1
        found.append(fits)
        count += len(fits)
        top = bottom - 1
    frame = pd.concat(found, ignore_index=True) if found else audit_frame(())
    return AuditPage(frame, looked, top + 1 if top > 0 else None, total)


def _fits(frame: pd.DataFrame, wanted: AuditFilter) -> pd.Series:
    fits = _has(frame["actor"], wanted.actor)
    if wanted.action is not None:
        fits &= frame["action"] == wanted.action
    if wanted.text:
        said = pd.Series(False, index=frame.index)
        for name in ("actor", "origin", "action", "where", "reason", "intent", "outcome"):
            said |= _has(frame[name], wanted.text)
        fits &= said
    return fits


def _has(words: pd.Series, text: str) -> pd.Series:
    return words.fillna("").str.casefold().str.contains(text.casefold(), regex=False).astype(bool)


def audit_csv(frame: pd.DataFrame) -> bytes:
    """The audit frame as CSV that no spreadsheet takes for formulas."""
    safe = frame.apply(lambda column: column.map(neutral) if AUDIT[str(column.name)] == "str" else column)
    return str(safe.to_csv(index=False)).encode("utf-8")


def audit_ndjson(frame: pd.DataFrame) -> bytes:
    """The audit frame as a JSON document a line; times as ISO text."""
    if frame.empty:
        return b""
    lines = frame.to_json(orient="records", lines=True, date_format="iso", date_unit="us", force_ascii=False)
    return str(lines).encode("utf-8")


# --- the store ------------------------------------------------------------------------------------


def capability_facts(can: Capabilities) -> list[tuple[str, str]]:
    """What a store can do, in words."""
    return [
        ("Durable", "yes: flushed before a call returns" if can.durable else "no: it ends with its process"),
        ("Shared by processes", "yes" if can.multi_process else "no: only by the threads of one"),
        ("History", "yes" if can.history else "no: there are no charts over time"),
        ("Journal", "yes" if can.journal else "no: past serves are not known"),
        ("Plans and audit", "yes" if can.plans else "no: what people do is in the log queue_core.audit"),
    ]


def store_facts(view: View) -> list[tuple[str, str]]:
    """Which kind of store it is: its format, how often it was restored, and its age."""
    meta, now = view.reader.meta, moment(view.reader.now)
    restored = "0, never restored" if not meta.epoch else f"{meta.epoch:,}: so often restored from a backup"
    return [
        ("Format of the store", str(meta.format)), ("Epoch", restored),
        ("Made", _when(meta.created, now) if meta.created else "it is not known when"),
    ]  # fmt: skip
