"""The sentences of the pages Tag and Operations. Pure; the text holds names: show it as plain text."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from heapq import nlargest
from typing import Any

from queue_core.frames.series import quantile_text
from queue_core.frames.text import duration, one_line, plural, share_text, tag_label, told_apart
from queue_core.frames.words import HELD, SLOW_WAIT, WORKER_SILENT, Level, Verdict
from queue_core.histogram import Times
from queue_core.plans import Plan, PlanState
from queue_core.redact import masking
from queue_core.snapshot import Settings, Snapshot, Storage, TagStats, WhyNot, WorkerStats
from queue_core.task import microseconds

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
LEVELS = {
    Level.EMPTY: "Empty", Level.IDLE: "Idle", Level.HEALTHY: "Healthy", Level.ATTENTION: "Needs attention",
    Level.TROUBLE: "Trouble", Level.UNKNOWN: "Unknown",
}  # fmt: skip


def named(verdict: Verdict) -> str:
    """The verdict in one line that begins with its level, so that it is told without a colour."""
    level = LEVELS[verdict.level]
    return verdict.text if verdict.text.startswith(level) else f"{level}: {verdict.text}"


# --- one tag --------------------------------------------------------------------------------------


def tag_verdict(snapshot: Snapshot, tag: TagStats) -> Verdict:
    """Whether a tag is served, and why, or why not."""
    name, waiting = tag_label(tag.name), plural(tag.backlog, "task waits", "tasks wait")
    reasons = []
    if tag.expired:
        reasons.append(f"{plural(tag.expired, 'lease')} past its time: the next lease takes it back")
    if tag.dead:
        reasons.append(plural(tag.dead, "dead letter"))
    text = _turn(snapshot, tag) if tag.why_not is None else f"{name} is not served: {_held(snapshot, tag)}"
    if tag.backlog:
        text += f"; {waiting}, the oldest for {duration(tag.oldest_wait)}"
    slow = (tag.oldest_wait or 0.0) > SLOW_WAIT
    if (tag.why_not in HELD and tag.backlog) or slow or tag.expired:
        level = Level.ATTENTION
    else:
        level = Level.HEALTHY if tag.backlog or tag.inflight else Level.IDLE
    return Verdict(level, text, tuple(reasons))


def busiest(snapshot: Snapshot, most: int) -> list[str]:
    """What the tags with most to see are called, by name."""
    tags = nlargest(most, snapshot.tags, key=lambda tag: tag.backlog + tag.inflight + tag.dead)
    return sorted(told_apart(tag.name for tag in tags).values(), key=str.casefold)


def _turn(snapshot: Snapshot, tag: TagStats) -> str:
    name = tag_label(tag.name)
    if snapshot.ring.next == tag.name:
        return f"{name} is next"
    cursor = next((one.number for one in snapshot.tags if one.name == snapshot.ring.cursor), 1)
    place = (tag.number < cursor, tag.number)  # those before the cursor come when it has gone round
    before = sum(one.why_not is None and (one.number < cursor, one.number) < place for one in snapshot.tags)
    return f"{name} is served in turn, after {plural(before, 'other tag')}"


def _held(snapshot: Snapshot, tag: TagStats) -> str:
    """What keeps the next lease from a tag, with the numbers."""
    own, whole = tag.settings, snapshot.settings
    since = "never" if tag.last_served_at is None else f"{duration(_age(snapshot.at, tag.last_served_at))} ago"
    match tag.why_not:
        case WhyNot.PAUSED:
            return "it is paused"
        case WhyNot.LIMIT:
            return f"it has {tag.inflight:,} in flight, and its limit is {own.max_inflight or 0:,}"
        case WhyNot.QUEUE_LIMIT:
            return f"the queue has {snapshot.inflight:,} in flight, and its limit is {whole.max_inflight or 0:,}"
        case WhyNot.INTERVAL:
            return f"{duration(own.min_interval)} have to pass between serves, and it was last served {since}"
        case WhyNot.QUEUE_INTERVAL:
            return f"{duration(whole.min_interval)} have to pass between any two serves"
        case WhyNot.SCHEDULED:
            return f"it has only {plural(tag.scheduled, 'scheduled task')}"
        case WhyNot.EMPTY:
            return "nothing waits in it"
    return str(tag.why_not)


def _age(at: datetime, then: datetime) -> float:
    return max((at - then).total_seconds(), 0.0)


def times_words(times: Times) -> str:
    """How long things took, in words."""
    if not times.count:
        return "nothing yet"
    named = (("half within", times.p50), ("95 % within", times.p95), ("99 % within", times.p99))
    return ", ".join(f"{name} {quantile_text(at)}" for name, at in named if at is not None) + f", of {times.count:,}"


def settings_words(settings: Settings) -> str:
    """The settings of a tag as one line."""
    words = ["paused"] if settings.paused else []
    words += [f"weight {settings.weight:,}"]
    words += [_setting(name, getattr(settings, name)) for name in ("max_inflight", "min_interval", "max_pending")]
    return ", ".join(words)


def changed_words(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Settings that were changed: "weight 1 is weight 3 now"."""
    return "; ".join(f"{_setting(name, old[name])} is {_setting(name, value)} now" for name, value in new.items())


def _setting(name: str, value: Any) -> str:
    match name:
        case "paused":
            return "paused" if value else "not paused"
        case "weight":
            return f"weight {value:,}"
        case "max_inflight":
            return "no limit in flight" if value is None else f"at most {value:,} in flight"
        case "min_interval":
            return f"{duration(value)} between serves" if value else "no interval between serves"
        case "max_pending":
            return "no limit of waiting tasks" if value is None else f"at most {value:,} waiting"
    return f"{name} {value}"


# --- operations -----------------------------------------------------------------------------------


def operations_verdict(plans: Sequence[Plan], snapshot: Snapshot, epoch: int) -> Verdict:
    """What is being done to the queue, and who works on it."""
    running = [plan for plan in plans if plan.state is PlanState.RUNNING]
    silent = [plan for plan in running if plan.alone(microseconds(snapshot.at, "at"))]
    stopped = [plan for plan in plans if plan.state is PlanState.STOPPED and plan.epoch == epoch]
    states = [worker_state(worker, snapshot.at) for worker in snapshot.workers]
    working, lost = states.count("working"), states.count("silent")
    text = f"{plural(len(running), 'plan is', 'plans are')} running" if running else "No plan is running"
    text += f"; {plural(working, 'worker')} at work" if working else "; no worker is at work"
    reasons = []
    if silent:
        numbers = ", ".join(str(plan.number) for plan in silent)
        reasons.append(f"whoever ran plan {numbers} has fallen silent: it can be resumed")
    if stopped:
        reasons.append(f"{plural(len(stopped), 'plan was', 'plans were')} stopped and can be resumed")
    if lost:
        reasons.append(f"{plural(lost, 'worker has', 'workers have')} been silent for {WORKER_SILENT:.0f} s or more")
    level = Level.ATTENTION if silent or lost else Level.HEALTHY if running or working else Level.IDLE
    return Verdict(level, text, tuple(reasons))


def worker_state(worker: WorkerStats, at: datetime) -> str:
    """``working``, ``stopped``, or ``silent``: it should have reported, and has not."""
    if worker.stopped_at is not None:
        return "stopped"
    return "silent" if _age(at, worker.seen_at) > WORKER_SILENT else "working"


def plan_name(plan: Plan) -> str:
    """What a plan does, in a word or two."""
    return f"undo of {plan.undo_of}" if plan.undo_of else plan.action.replace("_", "-")


def plan_sentence(plan: Plan, epoch: int, at: datetime) -> Verdict:
    """How far a plan has come."""
    text = f"Plan {plan.number}, {plan_name(plan)}: {plan.state}, {plan.outcome}"
    if not plan.over and plan.epoch != epoch:
        return Verdict(Level.UNKNOWN, text, ("The store was restored after it was made: it can no longer be run",))
    if plan.state is PlanState.RUNNING and plan.alone(microseconds(at, "at")):
        return Verdict(Level.ATTENTION, text, ("Whoever ran it has fallen silent: it can be resumed",))
    level = {PlanState.RUNNING: Level.HEALTHY, PlanState.STOPPED: Level.ATTENTION}.get(plan.state, Level.IDLE)
    if plan.failed or (plan.over and plan.skipped):
        level = Level.ATTENTION
    return Verdict(level, text)


# --- room -----------------------------------------------------------------------------------------


def size_text(size: float | None) -> str:
    """Bytes in three significant digits: "12.3 MB"; "—" when unknown."""
    if size is None:
        return "—"
    for unit in UNITS:
        if size < 999.5 or unit == UNITS[-1]:
            break
        size /= 1_000
    return f"{size:,.3g} {unit}" if size < 999.5 else f"{size:,.0f} {unit}"


def storage_facts(storage: Storage, before: Storage, seconds: float) -> list[tuple[str, str]]:
    """How much room a store takes and may take, and how it has grown in so many seconds since ``before``."""
    if storage.used is None:
        return [("Room", "this store cannot tell how much it takes")]
    facts = [("Used by records", size_text(storage.used)), ("File on the disk", size_text(storage.file))]
    if storage.limit:
        facts.append(("Limit", f"{size_text(storage.limit)}, {share_text(storage.used / storage.limit)} of it used"))
    if before.used is not None and seconds >= 1:
        grown = storage.used - before.used
        how = f"{'grown' if grown >= 0 else 'shrunk'} by {size_text(abs(grown))}" if grown else "the same"
        facts.append(("Since first seen", f"{how}, in {duration(seconds)}"))
    facts.append(("Growth", "what is freed is used again; the file itself does not shrink"))
    return facts


def address_text(url: str, limit: int = 300) -> str:
    """The address of a store as it may be seen."""
    return one_line(masking(None).text(url), limit)


def short_address(url: str) -> str:
    """The kind of a store and the end of its path: "lmdb …/app/queue"."""
    scheme, _, path = address_text(url).partition("://")
    if not path:
        scheme, path = "lmdb", scheme
    parts = path.split("/")
    return f"{scheme} {path}" if len(parts) <= 3 else f"{scheme} …/{'/'.join(parts[-2:])}"
