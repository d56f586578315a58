"""How a queue is judged: rules with thresholds that a person can read, and tune by the TOML file ``QUEUE_RULES``.

Judging is pure: from a snapshot, the room of the store and what happened lately. Each reason names its rule, the value
that was found and where the rule begins to speak.
"""

import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pandas as pd

from queue_core.errors import InvalidArgument
from queue_core.frames.tables import Schema, rows
from queue_core.frames.text import duration, plural, share_text, tag_label
from queue_core.frames.words import HELD, QUIET, SLOW_WAIT, WORKER_SILENT, Level, Verdict, calm, dead_sentence
from queue_core.snapshot import Snapshot, Storage, TagStats, WhyNot, WorkerStats, counted

VARIABLE = "QUEUE_RULES"
RULES: Schema = {
    "rule": "str", "name": "str", "level": "str", "value": "str", "attention": "str", "trouble": "str", "about": "str",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """From which value on a rule asks for attention, and from which on it is trouble; None: never."""

    attention: float | None = None
    trouble: float | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """All thresholds. Times in seconds. Of data older than ``stale`` nothing is said; deaths are counted over
    ``deaths_within``."""

    stale: float = 30.0
    deaths_within: float = 900.0
    paused_queue: Limits = Limits(trouble=1)
    no_serve: Limits = Limits(trouble=QUIET)
    store_used: Limits = Limits(0.8, 0.95)
    starvation: Limits = Limits(2, 20)
    oldest_wait: Limits = Limits(SLOW_WAIT, 3_600)
    expired_leases: Limits = Limits(1, 1_000)
    no_worker: Limits = Limits(attention=1)
    silent_worker: Limits = Limits(attention=WORKER_SILENT)
    deaths: Limits = Limits(10, 1_000)
    paused_tags: Limits = Limits(attention=1)


DEFAULT = Rules()


@dataclass(frozen=True, slots=True)
class Found:
    """What one rule found. ``value`` is None where it is not known, ``level`` where the rule has nothing to say."""

    rule: "Rule"
    limits: Limits
    value: float | None
    level: Level | None
    says: str

    @property
    def reason(self) -> str:
        """The rule, its value, and where it begins to speak."""
        return f"{self.rule.title}: {self.words(self.value)}, {self.begins}"

    @property
    def begins(self) -> str:
        pairs = (("attention", self.limits.attention), ("trouble", self.limits.trouble))
        return " and ".join(f"{name} from {self.rule.unit(limit)}" for name, limit in pairs if limit is not None)

    def words(self, value: float | None) -> str:
        return "—" if value is None else self.rule.unit(value)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict, and what each rule found."""

    verdict: Verdict
    found: tuple[Found, ...]


class Facts(NamedTuple):
    """What rules look at. ``room`` and ``recent`` (a totals frame) are None where they are not known."""

    snapshot: Snapshot
    rules: Rules
    room: Storage | None
    recent: pd.DataFrame | None


Measured = tuple[float | None, str]  # the value, and what to say when it is too high
NOTHING: Measured = (0.0, "")
UNKNOWN: Measured = (None, "")


class Rule(NamedTuple):
    """One rule: the field of ``Rules`` with its thresholds, and how its value is found and said."""

    name: str
    title: str
    about: str
    unit: Callable[[float], str]
    measure: Callable[[Facts], Measured]


# --- judging --------------------------------------------------------------------------------------


def judge(
    snapshot: Snapshot, rules: Rules = DEFAULT, *, now: datetime | None = None, room: Storage | None = None,
    recent: pd.DataFrame | None = None,
) -> Judgement:  # fmt: skip
    """Whether the queue is healthy, and why not.

    ``now``: when it is looked at, so that old data is told from new. ``recent``: a totals frame (of
    ``series_totals_frame``) that reaches back as far as ``rules.deaths_within`` at least; its spans are whole.
    """
    facts = Facts(snapshot, rules, room, recent)
    found = tuple(_found(rule, getattr(rules, rule.name), *rule.measure(facts)) for rule in TABLE)
    age = 0.0 if now is None else (now - snapshot.at).total_seconds()
    if age > rules.stale:
        old = f"Stale data: {duration(age)} old, unknown from {duration(rules.stale)}"
        return Judgement(Verdict(Level.UNKNOWN, f"Unknown: what is shown is {duration(age)} old", (old,)), found)
    speaking = [one for level in (Level.TROUBLE, Level.ATTENTION) for one in found if one.level is level]
    if not speaking:
        return Judgement(calm(snapshot), found)
    first, *others = speaking
    reasons = [first.reason, *(f"{one.says[0].upper()}{one.says[1:]} ({one.reason})" for one in others)]
    dead = [dead_sentence(snapshot)] if snapshot.dead else []
    text = first.says[0].upper() + first.says[1:]
    return Judgement(Verdict(first.level or Level.UNKNOWN, text, (*reasons, *dead)), found)


def _found(rule: Rule, limits: Limits, value: float | None, says: str) -> Found:
    level = None
    if value is not None and says:
        if limits.trouble is not None and value >= limits.trouble:
            level = Level.TROUBLE
        elif limits.attention is not None and value >= limits.attention:
            level = Level.ATTENTION
    return Found(rule, limits, value, level, says)


def rules_frame(judgement: Judgement) -> pd.DataFrame:
    """One row per rule: what it found, where it begins to speak, and how it was judged."""
    return rows(
        RULES,
        (
            (
                one.rule.title, one.rule.name, one.level or ("not known" if one.value is None else "good"),
                one.words(one.value), one.words(one.limits.attention), one.words(one.limits.trouble), one.rule.about,
            )
            for one in judgement.found
        ),
    )  # fmt: skip


# --- the rules ------------------------------------------------------------------------------------


def _paused_queue(facts: Facts) -> Measured:
    waits = facts.snapshot.backlog
    if not facts.snapshot.settings.paused or not waits:
        return NOTHING
    return waits, f"the queue is paused while {plural(waits, 'task waits', 'tasks wait')}"


def _no_serve(facts: Facts) -> Measured:
    snapshot = facts.snapshot
    if snapshot.ring.next is None or snapshot.inflight > snapshot.expired:  # nobody can be served, or all are busy
        return NOTHING
    served = [tag.last_served_at for tag in snapshot.tags if tag.last_served_at is not None]
    started = max(served, default=min(tag.first_seen_at for tag in snapshot.tags))
    since = max(tag.eligible_since or tag.first_seen_at for tag in snapshot.tags if tag.why_not is None)
    quiet = max((snapshot.at - max(started, since)).total_seconds(), 0.0)
    waiting = plural(snapshot.backlog, "task waits", "tasks wait")
    return quiet, f"nobody has leased a task for {duration(quiet)} while {waiting}"


def _store_used(facts: Facts) -> Measured:
    if facts.room is None or facts.room.used is None or not facts.room.limit:
        return UNKNOWN
    part = facts.room.used / facts.room.limit
    return part, f"the store is {share_text(part)} full: when there is no room, nothing can be pushed"


def _starvation(facts: Facts) -> Measured:
    snapshot = facts.snapshot
    weights = sum(tag.weight for tag in snapshot.tags)
    worst, most = None, 0.0
    for tag in snapshot.tags:
        if tag.why_not is None and tag.eligible_since_serve is not None:
            waited = snapshot.ring.serves - max(tag.last_serve or 0, tag.eligible_since_serve)
            rounds = waited / max(weights - tag.weight, 1)
            if rounds > most:
                worst, most = tag, rounds
    if worst is None:
        return NOTHING
    return most, f"{tag_label(worst.name)} could be served and was passed over for {most:,.3g} rounds of all others"


def _oldest_wait(facts: Facts) -> Measured:
    waiting = [tag for tag in facts.snapshot.tags if tag.oldest_wait is not None and tag.why_not not in HELD]
    if not waiting:
        return NOTHING

    def wait(tag: TagStats) -> float:
        return tag.oldest_wait or 0.0

    worst = max(waiting, key=wait)
    given = facts.rules.oldest_wait
    limit = given.attention if given.attention is not None else given.trouble
    slow = sum(limit is not None and wait(tag) >= limit for tag in waiting)
    return wait(worst), (
        f"{plural(slow, 'tag has', 'tags have')} waited more than {duration(limit)}; "
        f"the oldest is {tag_label(worst.name)}, {duration(worst.oldest_wait)}"
    )


def _expired_leases(facts: Facts) -> Measured:
    expired = facts.snapshot.expired
    ran_out = "lease has run out and waits" if expired == 1 else "leases have run out and wait"
    return expired, f"{counted(expired)} {ran_out} to be taken back by the next lease"


def silent_for(worker: WorkerStats, at: datetime) -> float | None:
    """Seconds since a worker reported; None for one that has said that it stops."""
    return None if worker.stopped_at is not None else max((at - worker.seen_at).total_seconds(), 0.0)


def _no_worker(facts: Facts) -> Measured:
    snapshot, limit = facts.snapshot, facts.rules.silent_worker.attention or WORKER_SILENT
    if not snapshot.workers:  # programs may lease without ever reporting as a worker
        return UNKNOWN
    silences = [silent_for(worker, snapshot.at) for worker in snapshot.workers]
    if any(silence is not None and silence <= limit for silence in silences) or not snapshot.backlog:
        return NOTHING
    seen = (snapshot.at - max(worker.seen_at for worker in snapshot.workers)).total_seconds()
    waiting = plural(snapshot.backlog, "task waits", "tasks wait")
    return snapshot.backlog, f"no worker is there while {waiting}; the last was seen {duration(seen)} ago"


def _silent_worker(facts: Facts) -> Measured:
    snapshot, given = facts.snapshot, facts.rules.silent_worker
    limit = given.attention if given.attention is not None else given.trouble
    silences = [silent_for(worker, snapshot.at) for worker in snapshot.workers]
    lost = [silence for silence in silences if silence is not None and limit is not None and silence >= limit]
    longest = max((silence for silence in silences if silence is not None), default=0.0)
    if not lost:
        return longest, ""
    return longest, f"{plural(len(lost), 'worker has', 'workers have')} been silent for {duration(min(lost))} or more"


def _deaths(facts: Facts) -> Measured:
    if facts.recent is None:
        return UNKNOWN
    ends = facts.recent["start"] + pd.to_timedelta(facts.recent["seconds"], unit="s")
    lately = facts.recent[ends > facts.snapshot.at - timedelta(seconds=facts.rules.deaths_within)]
    died, within = int(lately["died"].sum()), float(lately["seconds"].sum())
    return died, f"{plural(died, 'task has', 'tasks have')} died in the last {duration(within)}"


def _paused_tags(facts: Facts) -> Measured:
    paused = [tag for tag in facts.snapshot.tags if tag.why_not is WhyNot.PAUSED]
    tasks = sum(tag.backlog for tag in paused)
    return tasks, f"{plural(len(paused), 'tag is', 'tags are')} paused with {plural(tasks, 'task')} waiting"


def _tasks(value: float) -> str:
    return plural(round(value), "task")


def _leases(value: float) -> str:
    return plural(round(value), "lease")


def _rounds(value: float) -> str:
    return f"{value:,.3g} {'round' if value == 1 else 'rounds'}"


TABLE = (
    Rule("paused_queue", "Paused queue", "tasks that wait while the whole queue is paused", _tasks, _paused_queue),
    Rule(
        "no_serve", "No serve", "time without a lease while a tag could be served and nothing is in flight", duration,
        _no_serve,
    ),
    Rule("store_used", "Store nearly full", "part of the store's room that records take", share_text, _store_used),
    Rule(
        "starvation", "Starvation",
        "serves that a tag which could be served was passed over for, in rounds: the weights of all other tags. The "
        "rotation allows one", _rounds, _starvation,
    ),
    Rule("oldest_wait", "Oldest wait", "how long the next task of a tag that is not paused has waited", duration,
         _oldest_wait),
    Rule("expired_leases", "Expired leases", "leases that have run out and were not taken back", _leases,
         _expired_leases),
    Rule(
        "no_worker", "No worker seen", "tasks that wait while every worker that ever reported has stopped or is silent",
        _tasks, _no_worker,
    ),
    Rule("silent_worker", "Silent worker", "time since a worker, that has not said it stops, reported", duration,
         _silent_worker),
    Rule("deaths", "Growth of dead letters", "tasks that died lately, within deaths_within", _tasks, _deaths),
    Rule("paused_tags", "Paused tags", "tasks that wait in paused tags", _tasks, _paused_tags),
)  # fmt: skip


# --- the file -------------------------------------------------------------------------------------


def configured() -> Rules:
    """The rules that hold now: the default ones, or those of the file that ``QUEUE_RULES`` names, read anew each time.

    Raises InvalidArgument for a file that cannot be read or understood.
    """
    path = os.environ.get(VARIABLE)
    return load(path) if path else DEFAULT


def load(path: str | os.PathLike[str]) -> Rules:
    """The rules of a TOML file; what it leaves out is as by default, ``false`` switches a threshold off.

    ``stale = 60`` and ``deaths_within = 600`` are seconds; every other rule is a table, as in ``[oldest_wait]``
    with ``attention = 600`` and ``trouble = false``. Raises InvalidArgument with the file and the key that is wrong.
    """
    try:
        with open(path, "rb") as file:
            given = tomllib.load(file)
    except (OSError, ValueError) as error:  # ValueError: not TOML, not UTF-8, a NUL in the path
        raise InvalidArgument(f"{VARIABLE}={str(path)!r:.200} cannot be read: {error}") from None
    try:
        return _made(given)
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error}") from None


def _made(given: dict[str, Any]) -> Rules:
    names = [field.name for field in fields(Rules)]
    if unknown := sorted({*given} - {*names}):
        raise InvalidArgument(f"there is no rule {unknown[0]!r:.60}; there are {', '.join(names)}")
    changes: dict[str, Any] = {}
    for name, value in given.items():
        default = getattr(DEFAULT, name)
        changes[name] = _limits(name, value, default) if isinstance(default, Limits) else _number(name, value)
    return replace(DEFAULT, **changes)


def _limits(name: str, given: Any, default: Limits) -> Limits:
    keys = [field.name for field in fields(Limits)]
    if not isinstance(given, dict):
        raise InvalidArgument(f"{name} is {given!r:.60}: it is a table with {' and '.join(keys)}")
    if unknown := sorted({*given} - {*keys}):
        raise InvalidArgument(f"{name} has no {unknown[0]!r:.60}: it has {' and '.join(keys)}")
    return replace(
        default,
        **{key: None if value is False else _number(f"{name}.{key}", value) for key, value in given.items()},
    )


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise InvalidArgument(f"{name} is {value!r:.60}: it is a number above 0")
    return value
