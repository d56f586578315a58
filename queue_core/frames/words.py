"""The answer to each page's question, in one sentence. Pure.

The text holds labels of tags: show it as plain text, never as Markdown.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pandas as pd

from queue_core.frames.text import duration, one_line, plural, tag_label
from queue_core.snapshot import Snapshot, WhyNot, counted

SLOW_WAIT = 300.0  # seconds: a tag whose next task has waited longer needs a look
QUIET = 60.0  # seconds without a serve while a tag could be served: nobody is working
WORKER_SILENT = 30.0  # seconds: a worker reports every 10
TOLERATED = 0.05  # the part of what was due by which a tag may be behind
HELD = (WhyNot.PAUSED, WhyNot.QUEUE_PAUSED)


class Level(StrEnum):
    """How a queue is. ``attention`` and ``trouble`` need a person."""

    EMPTY = "empty"
    IDLE = "idle"
    HEALTHY = "healthy"
    ATTENTION = "attention"
    TROUBLE = "trouble"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the queue is, in one sentence, with the reasons one by one."""

    level: Level
    text: str
    reasons: tuple[str, ...] = ()


def verdict(snapshot: Snapshot) -> Verdict:
    """Whether the queue is healthy, from one snapshot, and why not."""
    trouble, attention = _trouble(snapshot), _attention(snapshot)
    if trouble or attention:
        level = Level.TROUBLE if trouble else Level.ATTENTION
        first, *reasons = trouble + attention
        dead = (dead_sentence(snapshot),) if snapshot.dead else ()
        return Verdict(level, first[0].upper() + first[1:], (*reasons, *dead))
    return calm(snapshot)


def _working(snapshot: Snapshot) -> str:
    running = plural(snapshot.inflight, "task is", "tasks are") + " in flight"
    if not snapshot.backlog:
        return f"Healthy: {running}, none waits"
    longest = duration(snapshot.oldest_wait)
    return f"Healthy: {running}, {snapshot.backlog:,} wait; no tag has waited longer than {longest}"


def _trouble(snapshot: Snapshot) -> list[str]:
    """What stops work."""
    if snapshot.settings.paused and snapshot.backlog:
        return [f"the queue is paused while {plural(snapshot.backlog, 'task waits', 'tasks wait')}"]
    if snapshot.ring.next is None or snapshot.inflight > snapshot.expired:  # nobody can be served, or all are busy
        return []
    served = [tag.last_served_at for tag in snapshot.tags if tag.last_served_at is not None]
    started = max(served, default=min(tag.first_seen_at for tag in snapshot.tags))
    since = max(tag.eligible_since or tag.first_seen_at for tag in snapshot.tags if tag.why_not is None)
    quiet = (snapshot.at - max(started, since)).total_seconds()
    if quiet < QUIET:
        return []
    waiting = plural(snapshot.backlog, "task waits", "tasks wait")
    return [f"nobody has leased a task for {duration(quiet)} while {waiting}"]


def _attention(snapshot: Snapshot) -> list[str]:
    """What holds some tasks up."""
    found = []
    slow = [tag for tag in snapshot.tags if (tag.oldest_wait or 0.0) > SLOW_WAIT and tag.why_not not in HELD]
    if slow:
        worst = max(slow, key=lambda tag: tag.oldest_wait or 0.0)
        found.append(
            f"{plural(len(slow), 'tag has', 'tags have')} waited more than {duration(SLOW_WAIT)}; "
            f"the oldest is {tag_label(worst.name)}, {duration(worst.oldest_wait)}"
        )
    if snapshot.expired:
        ran_out = "lease has run out and waits" if snapshot.expired == 1 else "leases have run out and wait"
        found.append(f"{counted(snapshot.expired)} {ran_out} to be taken back by the next lease")
    paused = [tag for tag in snapshot.tags if tag.why_not is WhyNot.PAUSED]
    if paused:
        tasks = sum(tag.backlog for tag in paused)
        found.append(f"{plural(len(paused), 'tag is', 'tags are')} paused with {plural(tasks, 'task')} waiting")
    lost = [
        worker
        for worker in snapshot.workers
        if worker.stopped_at is None and (snapshot.at - worker.seen_at).total_seconds() > WORKER_SILENT
    ]
    if lost:
        silent = (snapshot.at - max(worker.seen_at for worker in lost)).total_seconds()
        found.append(f"{plural(len(lost), 'worker has', 'workers have')} been silent for {duration(silent)} or more")
    return found


def fairness_sentence(snapshot: Snapshot, shares: pd.DataFrame | None) -> str:
    """Who is next, and whether every tag got its share. ``shares`` is None where the store keeps no journal."""
    ready = sum(tag.why_not is None for tag in snapshot.tags)
    if snapshot.ring.next is None:
        turn = "Nobody can be served now"
    else:
        among = f"one of {ready:,} tags" if ready > 1 else "the only tag"
        turn = f"{tag_label(snapshot.ring.next)} is next, {among} that can be served"
    if shares is None:
        return f"{turn}; this store keeps no journal, so it cannot be told who was served"
    if shares.empty:
        return f"{turn}; nothing has been served yet"
    window = plural(int(shares["served"].sum()), "serve")
    behind = lagging(shares)
    if behind is None:
        return f"{turn}; in the last {window} every tag got its share, to within a turn or {TOLERATED:.0%}"
    return (
        f"{turn}; in the last {window} {behind['label']} got {int(behind['served']):,} where "
        f"{behind['entitled']:,.3g} were due"
    )


def lagging(shares: pd.DataFrame) -> pd.Series | None:
    """The tag that is furthest behind its share, as its row of the shares frame; None while all are tolerable.

    In the middle of a round a tag is behind by up to a turn: its weight.
    """
    tolerable = (TOLERATED * shares["entitled"]).clip(lower=shares["weight"] + 1)
    late = shares.loc[shares["difference"] < -tolerable]
    return None if late.empty else late.iloc[int(late["difference"].argmin())]


def inflight_sentence(snapshot: Snapshot, leases: pd.DataFrame) -> str:
    """How many are held, how many of them have run out, and which is the oldest of those shown."""
    if not snapshot.inflight:
        return "Nothing is in flight"
    held = plural(snapshot.inflight, "task is", "tasks are") + " in flight"
    if snapshot.expired:
        held += f", {counted(snapshot.expired)} of them past their time"
    if leases.empty:
        return held
    oldest = leases.iloc[int(leases["age"].argmax())]
    return f"{held}; the oldest shown has been held for {duration(oldest['age'])} by {oldest['owner'] or 'somebody'}"


def dead_sentence(snapshot: Snapshot) -> str:
    """How many are dead, and where most of them are."""
    if not snapshot.dead:
        return "No dead letters"
    tags = [tag for tag in snapshot.tags if tag.dead]
    worst = max(tags, key=lambda tag: tag.dead)
    letters, label = plural(snapshot.dead, "dead letter"), tag_label(worst.name)
    if len(tags) == 1:
        return f"{letters}, of {label}" if snapshot.dead == 1 else f"{letters}, all of {label}"
    if worst.dead == 1:
        return f"{letters}, each of another tag"
    return f"{letters} in {len(tags):,} tags; most are of {label}: {worst.dead:,}"


def error_line(error: BaseException) -> str:
    """An error as one safe line."""
    return one_line(f"{type(error).__name__}: {error}", 600)


def calm(snapshot: Snapshot) -> Verdict:
    """How a queue is in which nothing needs a person."""
    dead = (dead_sentence(snapshot),) if snapshot.dead else ()
    if snapshot.backlog or snapshot.inflight:
        return Verdict(Level.HEALTHY, _working(snapshot), dead)
    if snapshot.totals.pushed + snapshot.totals.moved_in == 0:
        return Verdict(Level.EMPTY, "Nothing has been pushed into this queue yet")
    if snapshot.scheduled:
        return Verdict(Level.IDLE, f"Nothing waits: {plural(snapshot.scheduled, 'task')} scheduled for later", dead)
    if snapshot.dead:
        return Verdict(Level.IDLE, "Nothing waits", dead)
    return Verdict(Level.IDLE, f"Nothing waits: all of {plural(snapshot.totals.pushed, 'task')} were handled")


def guarantee_sentence(violations: pd.DataFrame, serves: int) -> str:
    """Whether the rotation kept its guarantee in so many serves."""
    if not serves:
        return "Nothing to check: no serve is in the journal"
    times = len(violations)
    how = "not once" if not times else "once" if times == 1 else f"{times:,} times"
    return (
        f"The guarantee was {'kept' if not times else 'broken'}: {how} in {plural(serves, 'serve')} was a tag that "
        "stayed eligible passed over while another was served more than its weight"
    )


def violation_sentence(violations: pd.DataFrame) -> str:
    """The first breach in words; empty when there is none."""
    if violations.empty:
        return ""
    first = violations.iloc[0]
    waited = "waits still" if pd.isna(first["until"]) else f"waited until serve {first['until']:,}"
    return (
        f"{first['label']} could be served from serve {first['since']:,} on and {waited}, while "
        f"{first['other_label']} of weight {first['weight']:,} was served {first['served']:,} times"
    )


def jain_sentence(windows: pd.DataFrame) -> str:
    """Jain's index now, and the lowest it was."""
    known = windows.dropna(subset=["index"])
    if known.empty:
        return "Jain's index has no value yet: in no window was there a whole round of two tags that stayed eligible"
    now, least = known.iloc[-1], known.iloc[int(known["index"].argmin())]
    tags = plural(int(now["stayed"]), "tag")
    return (
        f"Jain's index is {now['index']:.4f} over {tags} in the last {plural(int(now['serves']), 'serve')}; "
        f"the lowest shown is {least['index']:.4f} (1 is exactly by weight)"
    )


def noisy_sentence(shares: pd.DataFrame) -> str:
    """Who takes much of the workers."""
    loud = shares[shares["noisy"].notna()]
    if loud.empty:
        return "No tag takes more than a tenth of the workers away from others"
    named = [f"{row.label} ({row.noisy})" for row in loud.head(5).itertuples()]
    more = f" and {plural(len(loud) - 5, 'more tag')}" if len(loud) > 5 else ""
    takes = "takes" if len(loud) == 1 else "take"
    return f"{', '.join(named)}{more} {takes} more than a tenth of all"


def skipped_sentence(ring: pd.DataFrame) -> str:
    """Why the scan passes tags over, with how many; empty when it passes none."""
    held = ring["why_not"].dropna().value_counts()
    return f"Skipped: {', '.join(f'{count:,} {why}' for why, count in held.items())}" if len(held) else ""


NOBODY = "(no owner)"


def held_sentence(held: pd.DataFrame) -> str:
    """What is nearest to running out, who has been silent longest, and how much lost workers hold, of a held frame."""
    if held.empty:
        return "No lease is held now"
    said = []
    good = held[~held["expired"]]
    if not good.empty:
        soonest = good.iloc[int(good["expires_in"].argmin())]
        said.append(f"next to run out: {soonest['label']}, in {duration(soonest['expires_in'])}")
    silent = held.iloc[int(held["silence"].argmax())]
    said.append(f"longest silence: {duration(silent['silence'])}, by {silent['owner'] or NOBODY}")
    over, lost = int(held["expired"].sum()), int(held["mark"].str.contains("worker").sum())
    said.append(f"{plural(over, 'lease has', 'leases have')} run out")
    said.append(f"{plural(lost, 'is', 'are')} held by workers that are lost or have stopped")
    text = "; ".join(said)
    return text[0].upper() + text[1:]


def lease_lines(ids: dict[str, str], held: pd.DataFrame) -> str:
    """A line for each lease of ``ids`` (id and label), as it is in the held frame of now."""
    now: dict[str, Any] = {str(row.id): row for row in held.itertuples()}
    lines = []
    for id, label in ids.items():
        row = now.get(id)
        if row is None:
            lines.append(f"{label} … {id[-4:]}: it is not in flight any more")
            continue
        left = f"ran out {duration(-row.expires_in)} ago" if row.expired else f"runs out in {duration(row.expires_in)}"
        mark = f"; {row.mark}" if row.mark else ""
        lines.append(f"{label} … {id[-4:]}: silent for {duration(row.silence)}, {left}{mark}")
    return "\n".join(lines)


def then_sentence(around: pd.DataFrame, unseen: int = 0) -> str:
    """Who was served last by a moment, and who came next in fact, of an around frame; ``unseen`` serves about then are
    in no journal."""
    if unseen:
        are = "is" if unseen == 1 else "are"
        return f"Who was served last by then is not known: {plural(unseen, 'serve')} about then {are} in no journal"
    before, after = around[~around["after"]], around[around["after"]]
    if before.empty:
        return "Nothing had been served by then, as far as the journal reaches"
    last = f"Served last by then: {before['label'].iloc[-1]}"
    if after.empty:
        return f"{last}; nobody has been served since"
    return f"{last}; the next serves went to {', '.join(after['label'].head(8))}"
