"""What a scrape says of all tags together: pure, and quick, for there may be many."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from queue_core.snapshot import Snapshot, TagStats, WhyNot
from queue_core.task import State

WORKER_SILENT = 30.0  # seconds: a worker reports every 10
HELD = (WhyNot.PAUSED, WhyNot.QUEUE_PAUSED)
SUMMED = (*(state.value for state in State), "backlog", "due", "expired")
STATUSES = {
    None: "servable", WhyNot.EMPTY: "empty", WhyNot.SCHEDULED: "only_scheduled", WhyNot.QUEUE_PAUSED: "queue_paused",
    WhyNot.PAUSED: "paused", WhyNot.QUEUE_LIMIT: "queue_inflight_limit", WhyNot.LIMIT: "inflight_limit",
    WhyNot.QUEUE_INTERVAL: "queue_interval", WhyNot.INTERVAL: "interval",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rest:
    """All tags that are not exported by name, together."""

    pending: int
    scheduled: int
    inflight: int
    dead: int
    trash: int
    backlog: int
    due: int
    expired: int
    oldest_wait: float | None


@dataclass(frozen=True, slots=True)
class Survey:
    """What is said of all tags and workers together. Times in seconds; None when nothing waits."""

    oldest_unpaused: float | None
    longest_unserved: float | None
    round: int
    paused_backlog: int
    statuses: dict[str, int]
    workers: dict[str, int]
    slots: int


def survey(snapshot: Snapshot) -> Survey:
    """What the metrics of the whole queue need to know of all tags."""
    waiting = [tag for tag in snapshot.tags if tag.oldest_wait is not None]
    moving = [tag for tag in waiting if tag.why_not not in HELD]
    counted = Counter(tag.why_not for tag in snapshot.tags)
    live = [worker for worker in snapshot.workers if worker.stopped_at is None]
    running = [worker for worker in live if (snapshot.at - worker.seen_at).total_seconds() <= WORKER_SILENT]
    return Survey(
        oldest_unpaused=max((tag.oldest_wait or 0.0 for tag in moving), default=None),
        longest_unserved=_unserved(moving, snapshot.at),
        round=sum(tag.weight for tag in snapshot.tags if tag.oldest_wait is not None or tag.inflight),
        paused_backlog=sum(tag.backlog for tag in waiting if tag.why_not in HELD),
        statuses={name: counted[why_not] for why_not, name in STATUSES.items()},
        workers={"running": len(running), "lost": len(live) - len(running)},
        slots=sum(worker.concurrency for worker in running),
    )


def _unserved(waiting: Sequence[TagStats], at: datetime) -> float | None:
    """The longest time for which a tag had a task waiting and was not served, in seconds."""
    served = sorted((tag for tag in waiting if tag.last_serve), key=lambda tag: tag.last_serve or 0)
    longest = max((tag.oldest_wait or 0.0 for tag in waiting if not tag.last_serve), default=None)
    for tag in served:
        assert tag.last_served_at is not None
        since = max((at - tag.last_served_at).total_seconds(), 0.0)
        if longest is not None and since <= longest:
            break  # those that follow were served later still
        longest = max(longest or 0.0, min(tag.oldest_wait or 0.0, since))
    return longest


def rest(snapshot: Snapshot, shown: Sequence[TagStats]) -> Rest:
    """What the queue has beside the tags that are shown."""
    numbers = {tag.number for tag in shown}
    sums = {name: getattr(snapshot, name) - sum(getattr(tag, name) for tag in shown) for name in SUMMED}
    waiting = [tag for tag in snapshot.tags if tag.oldest_wait is not None]
    longest_first = sorted(waiting, key=attrgetter("oldest_wait"), reverse=True)
    return Rest(**sums, oldest_wait=next((tag.oldest_wait for tag in longest_first if tag.number not in numbers), None))
