"""Every family that is exported, once: its name, its help, and where its numbers come from.

Names follow Prometheus' conventions (https://prometheus.io/docs/practices/naming/): base units, ``_total`` on counters
only. What is not known or not set has no sample. Families of the whole queue begin with ``queue_core_``, those of
tags with ``queue_core_tag_`` and have the label ``tag``, so that no sum counts a task twice.

Counters and histograms of tags have no ``_other``. Which tags are exported changes, so a sum over the rest would jump
and fall, and Prometheus would take each fall for a restart. The rest is the counter of the queue less those of tags.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Generic, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from queue_core.histogram import Times, begins
from queue_core.prometheus.survey import Rest, Survey
from queue_core.snapshot import Snapshot, Storage, TagStats
from queue_core.task import SECOND, State

GAUGE, COUNTER, HISTOGRAM = GaugeMetricFamily, CounterMetricFamily, HistogramMetricFamily
PREFIX, TAG_PREFIX = "queue_core_", "queue_core_tag_"
BOUNDS = 28  # every doubling from 1.024 ms to 38 h: ends of the buckets that are stored, so that counts are exact

T = TypeVar("T")
Value = float | Times | Mapping[str, float] | None  # a mapping: by the family's label; None: no sample


@dataclass(frozen=True, slots=True)
class Reading:
    """What one scrape has read."""

    snapshot: Snapshot
    storage: Storage
    survey: Survey


@dataclass(frozen=True, slots=True)
class Family(Generic[T]):
    """One family; ``value`` takes its numbers from the queue, a tag, or whatever it is about."""

    kind: Callable[..., Any]
    name: str
    text: str
    value: Callable[[T], Value]
    label: str | None = None

    def metric(self, prefix: str, names: Sequence[str], parts: Iterable[tuple[Sequence[str], T]]) -> Metric:
        """With a sample of each part, which comes with the values of the labels that are named."""
        own = () if self.label is None else (self.label,)
        text = f"{self.text}; by tag." if names else f"{self.text}."
        metric: Any = self.kind(prefix + self.name, text, labels=(*names, *own))
        for labels, part in parts:
            match self.value(part):
                case None:
                    pass
                case Times() as times:
                    metric.add_metric(labels, cumulative(times), times.sum)
                case Mapping() as values:
                    for key, number in values.items():
                        metric.add_metric((*labels, key), number)
                case number:
                    metric.add_metric(labels, number)
        built: Metric = metric
        return built


ENDS = [str(begins(4 * bound + 1) / SECOND) for bound in range(BOUNDS)] + ["+Inf"]


def cumulative(times: Times) -> list[tuple[str, float]]:
    """(``le``, samples below it) of the fixed bounds, which are the same for all series, so that they add up."""
    parts = [0] * len(ENDS)
    for bucket, count in times.buckets.items():
        parts[min((bucket + 3) // 4, BOUNDS)] += count  # bucket 0 ends at the first bound; then four to a doubling
    return list(zip(ENDS, accumulate(parts), strict=True))


# --- what the queue and each tag have ------------------------------------------------------------


def _tasks(part: Snapshot | TagStats | Rest) -> Value:
    return {state.value: getattr(part, state.value) for state in State}


def _attempts(part: Snapshot | TagStats) -> Value:
    totals = part.totals
    names = ("acked", "nacked", "expired", "released", "deferred")
    ended = {name: getattr(totals, name) for name in names}
    return ended | {"other": totals.leased - part.inflight - sum(ended.values())}


def _deaths(part: Snapshot | TagStats) -> Value:
    totals = part.totals
    return {"nacked": totals.died_nacked, "expired": totals.died_expired, "dead_lettered": totals.dead_lettered}


STANDING: list[Family[Snapshot | TagStats | Rest]] = [
    Family(GAUGE, "tasks", "Tasks by state", _tasks, "state"),
    Family(GAUGE, "backlog_tasks", "Tasks that wait for a lease: pending and due", lambda part: part.backlog),
    Family(
        GAUGE, "due_tasks", "Scheduled tasks whose time has come, counted up to 1000 of the queue",
        lambda part: part.due,
    ),
    Family(
        GAUGE, "expired_tasks",
        "Leases that have run out and wait to be taken back by the next lease, counted up to 1000 of the queue",
        lambda part: part.expired,
    ),
    Family(
        GAUGE, "oldest_wait_seconds",
        "How long the next task has waited, the longest of all tags; paused time counts; no sample while nothing waits",
        lambda part: part.oldest_wait,
    ),
]  # fmt: skip

COUNTED: list[Family[Snapshot | TagStats]] = [
    Family(COUNTER, "pushed_total", "Tasks pushed", lambda part: part.totals.pushed),
    Family(
        COUNTER, "leases_total", "Leases, each an attempt begun and a serve of the rotation",
        lambda part: part.totals.leased,
    ),
    Family(
        COUNTER, "attempts_total",
        "Attempts ended, by outcome; other: ended by a dead-letter, a requeue or a push of the same id",
        _attempts, "outcome",
    ),
    Family(
        COUNTER, "deaths_total",
        "Tasks that became dead letters: no attempts left after a nack, none left after a lease ran out, or by a verb",
        _deaths, "reason",
    ),
    Family(
        COUNTER, "eligible_seconds_total",
        "Time for which a tag could be served, counted when each stretch of it ends",
        lambda part: part.totals.eligible / SECOND,
    ),
    Family(
        HISTOGRAM, "wait_seconds",
        "Wait of a task from becoming pending to its lease, a sample a lease; neither delay nor backoff counts",
        lambda part: part.waits,
    ),
    Family(
        HISTOGRAM, "service_seconds",
        "From lease to end, a sample an attempt that ended, whatever its outcome", lambda part: part.services,
    ),
]  # fmt: skip

SETTINGS: list[Family[Snapshot | TagStats]] = [
    Family(GAUGE, "paused", "1 while paused by its setting", lambda part: part.settings.paused),
    Family(
        GAUGE, "max_inflight_tasks", "Limit of tasks in flight; no sample without one",
        lambda part: part.settings.max_inflight,
    ),
    Family(
        GAUGE, "max_pending_tasks", "Limit of waiting tasks, above which pushes are refused; none without one",
        lambda part: part.settings.max_pending,
    ),
    Family(
        GAUGE, "min_interval_seconds", "Least time between two serves",
        lambda part: part.settings.min_interval,
    ),
]  # fmt: skip

TAG_ONLY: list[Family[TagStats]] = [
    Family(GAUGE, "weight", "Tasks served in a turn", lambda tag: tag.weight),
    Family(GAUGE, "servable", "1 when the next lease may serve it", lambda tag: tag.why_not is None),
]


# --- what only the queue has ---------------------------------------------------------------------


def _moves(read: Reading) -> Value:
    totals = read.snapshot.totals
    names = ("promoted", "requeued", "redriven", "cancelled", "purged", "restored", "retired", "moved_in", "moved_out")
    moves = {name: getattr(totals, name) for name in names}
    return moves | {"expunged": totals.expunged - totals.retired}


QUEUE_ONLY: list[Family[Reading]] = [
    Family(
        COUNTER, "moves_total",
        "Tasks moved: promoted when due, by a person, removed for ever by a verb (expunged) or a retention (retired), "
        "or from and to another store", _moves, "move",
    ),
    Family(
        GAUGE, "oldest_unpaused_wait_seconds",
        "The same as oldest_wait_seconds, without what is paused: the queue or its tag",
        lambda read: read.survey.oldest_unpaused,
    ),
    Family(
        GAUGE, "longest_unserved_seconds",
        "How long a tag has had a waiting task and was not served, the longest of all tags that are not paused",
        lambda read: read.survey.longest_unserved,
    ),
    Family(
        GAUGE, "round_serves",
        "Serves of one round of the rotation at most: the weights of tags that have waiting tasks or tasks in flight",
        lambda read: read.survey.round,
    ),
    Family(
        GAUGE, "paused_backlog_tasks", "Waiting tasks that nobody gets, because the queue or the tag is paused",
        lambda read: read.survey.paused_backlog,
    ),
    Family(
        GAUGE, "tags", "Known tags, by what keeps the next lease from them; servable: nothing",
        lambda read: read.survey.statuses, "status",
    ),
    Family(
        GAUGE, "workers", "Workers that have not stopped, by whether they reported in the last 30 seconds",
        lambda read: read.survey.workers, "state",
    ),
    Family(
        GAUGE, "worker_slots", "Tasks that the running workers can have at a time",
        lambda read: read.survey.slots,
    ),
    Family(
        GAUGE, "store_used_bytes", "Room taken by records in the store", lambda read: read.storage.used
    ),
    Family(
        GAUGE, "store_file_bytes", "Size of the store on its disk, which does not shrink",
        lambda read: read.storage.file,
    ),
    Family(
        GAUGE, "store_limit_bytes", "What store_used_bytes may reach; no sample without a limit",
        lambda read: read.storage.limit,
    ),
    Family(
        GAUGE, "dead_retention_seconds", "Dead letters are removed after this; no sample: never",
        lambda read: read.snapshot.settings.dead_retention,
    ),
    Family(
        GAUGE, "max_payload_bytes", "Limit of a payload as JSON",
        lambda read: read.snapshot.settings.max_payload,
    ),
]  # fmt: skip
