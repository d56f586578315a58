"""What came of a simulation: frames, and the numbers that sum it up."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from queue_core import fairness
from queue_core.errors import InvalidArgument
from queue_core.frames import duration, plural, share_text, tag_label
from queue_core.frames.tables import Schema, rows, table
from queue_core.frames.turns import JAIN, LEAST, ROUNDS, WINDOWS
from queue_core.history import Entry
from queue_core.simulate.run import NEVER, Limit, Run
from queue_core.simulate.workload import Workload
from queue_core.task import SECOND, moment

SERVES: Schema = {
    "serve": "int64", "time": "float64", "number": "int64", "tag": "str", "label": "str", "wait": "float64",
    "service": "float64", "worker": "int64",
}  # fmt: skip
TAGS: Schema = {
    "number": "int64", "tag": "str", "label": "str", "weight": "int64", "arrived": "int64", "served": "int64",
    "wait_mean": "float64", "wait_p50": "float64", "wait_p95": "float64", "wait_p99": "float64",
    "longest_wait": "float64", "share": "float64", "entitled": "float64", "entitled_share": "float64",
    "difference": "float64", "worker_time": "float64", "worker_share": "float64", "noisy": "str",
}  # fmt: skip
MEASURES = ("served", "wait_mean", "wait_p95", "longest_wait")
COMPARED: Schema = {
    "tag": "str", "label": "str",
    **{f"{name}_{which}": "float64" for name in MEASURES for which in ("before", "after", "change")},
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Result:
    """What a simulation did. Spans in seconds, shares as parts of 1; what is undefined is None, or missing in a frame.

    ``serves`` has one row per serve: ``time`` since the begin of the work, ``wait`` and ``service`` time, ``worker``
    from 1. ``tags`` has one row per tag, that which was due most first, as ``tags_until`` says. ``windows`` is Jain's
    index in windows of whole rounds of all tags (``fairness.over_time``), and ``jain`` is its mean over those in which
    two tags or more stayed eligible; None: there was no such window. ``makespan`` runs from the first arrival to the
    last end; ``utilisation`` is the part of it for which the workers were busy, Σ service / (workers × makespan).

    ``assumed_arrivals`` tasks had waited before the begin and arrive at it; ``assumed_services`` service times were
    drawn. ``leases`` are the serves as entries of a journal, for the formulas of ``queue_core.fairness``.
    """

    policy: str
    workers: int
    seed: int
    weights: Mapping[str, int]
    limits: Mapping[str, Limit]
    serves: pd.DataFrame
    tags: pd.DataFrame
    windows: pd.DataFrame
    jain: float | None
    makespan: float | None
    utilisation: float | None
    assumed_arrivals: int
    assumed_services: int
    leases: Sequence[Entry]
    _work: Workload = field(repr=False)
    _services: Sequence[int] = field(repr=False)  # by serve

    def tags_until(self, seconds: float) -> pd.DataFrame:
        """The tags frame of what arrived and was served up to a time since the begin, that moment included.

        Where all is served in the end, each tag's share of it is what it pushed, by whatever policy: who is served
        first is seen while tasks wait. Waits are of the served tasks, with the nearest-rank percentiles; ``entitled``
        is the weighted max-min share by ``fairness.entitled``, in serves, and ``difference`` is ``served`` less that;
        ``worker_time`` is what was worked until then.
        """
        if not seconds >= 0:
            raise InvalidArgument(f"seconds is {seconds!r:.100}: it is a number of seconds from 0")
        return _tags(self._work, self.leases, self._services, self.weights, seconds)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was assumed, in words."""
        early, drawn = self.assumed_arrivals, self.assumed_services
        said = []
        if early:
            said.append(f"{plural(early, 'task')} had waited before the begin: there they arrive, and wait from then")
        if drawn:
            said.append(f"{plural(drawn, 'service time')} not known: drawn from those of the tag, or of all tags")
        return tuple(said)

    def __repr__(self) -> str:
        used = "—" if self.utilisation is None else share_text(self.utilisation)
        index = "—" if self.jain is None else f"{self.jain:.4f}"
        said = (
            f"{self.policy}, {plural(self.workers, 'worker')}: {len(self.serves):,} of "
            f"{plural(len(self._work), 'task')} served in {duration(self.makespan)}",
            f"workers busy {used} of it", f"Jain's index {index}", *self.assumptions,
        )  # fmt: skip
        return f"Result({'; '.join(said)})"


def result(
    run: Run, work: Workload, services: Sequence[int], drawn: int, policy: str, workers: int, seed: int,
    weights: Mapping[str, int], limits: Mapping[str, Limit],
) -> Result:  # fmt: skip
    """Sum up a run; ``services`` by row of the work, in microseconds."""
    mine = [services[row] for row in run.rows]
    windows = _windows(run.leases, work, weights)
    known = windows["index"].dropna()
    span = run.ended - min(work.at) if mine else 0
    return Result(
        policy, workers, seed, weights, limits, _serves(run, work, mine),
        _tags(work, run.leases, mine, weights, math.inf), windows, float(known.mean()) if len(known) else None,
        span / SECOND if mine else None, sum(mine) / (workers * span) if span else None, work.early, drawn,
        run.leases, work, mine,
    )  # fmt: skip


def _serves(run: Run, work: Workload, services: Sequence[int]) -> pd.DataFrame:
    numbers = np.array([lease.tag for lease in run.leases], dtype="int64")
    times = np.array([lease.at - work.begin for lease in run.leases], dtype="float64") / SECOND
    waits = np.array([lease.wait for lease in run.leases], dtype="float64") / SECOND
    names = pd.array(work.names, dtype="str")
    labels = pd.array([tag_label(name) for name in work.names], dtype="str")
    return pd.DataFrame(
        {
            "serve": np.arange(1, len(numbers) + 1, dtype="int64"), "time": times, "number": numbers,
            "tag": names.take(numbers - 1), "label": labels.take(numbers - 1), "wait": waits,
            "service": np.array(services, dtype="float64") / SECOND, "worker": np.array(run.workers, dtype="int64"),
        }
    )  # fmt: skip


def _windows(leases: Sequence[Entry], work: Workload, weights: Mapping[str, int]) -> pd.DataFrame:
    """Windows of whole rounds, so that a perfect rotation has exactly 1 where all tags stayed eligible."""
    if not leases:
        return rows(JAIN, [])
    one = sum(weights[work.names[tag - 1]] for tag in {lease.tag for lease in leases})
    rounds = max(ROUNDS, math.ceil(LEAST / one), math.ceil(len(leases) / WINDOWS / one))
    found = fairness.over_time(leases, {}, min(rounds * one, len(leases)))
    return rows(
        JAIN,
        (
            (
                window.first, window.last, moment(window.begun), moment(window.ended), window.serves, window.stayed,
                window.index if window.stayed > 1 else None,
            )
            for window in found
        ),
    )  # fmt: skip


def _tags(
    work: Workload, leases: Sequence[Entry], services: Sequence[int], weights: Mapping[str, int], seconds: float
) -> pd.DataFrame:
    until = seconds * SECOND
    count = bisect_right(leases, work.begin + until, key=lambda lease: lease.at)
    before = leases[:count]
    waiting = {  # after these serves, as the next one of each tag tells
        lease.tag: fairness.Waiting(lease.since, lease.weight)
        for lease in reversed(leases[count:])
        if lease.since < count
    }
    due = fairness.entitled(fairness.spells(before, waiting), count)
    arrived = Counter(tag for tag, at in zip(work.tag, work.at, strict=True) if at <= until)
    waits: dict[int, list[int]] = {number: [] for number in range(1, len(work.names) + 1)}
    held = dict.fromkeys(waits, 0)
    for lease, service in zip(before, services, strict=False):
        waits[lease.tag].append(lease.wait)
        held[lease.tag] += min(service, int(min(until, NEVER)) - lease.at + work.begin)
    noisy = fairness.noisy({}, held)
    found = []
    for number, mine in waits.items():
        name, owed, worked = work.names[number - 1], due.get(number, 0.0), held[number]
        found.append((
            number, name, tag_label(name), weights[name], arrived[number], len(mine), *_spread(mine),
            _part(len(mine), count), owed, _part(owed, count), len(mine) - owed, worked / SECOND,
            _part(worked, sum(held.values())), ", ".join(noisy.get(number, ())) or None,
        ))  # fmt: skip
    return rows(TAGS, sorted(found, key=lambda row: (-due.get(row[0], 0.0), row[0])))


def _spread(waits: list[int]) -> tuple[float | None, ...]:
    """Mean, median, 95th and 99th percentile, and longest, in seconds."""
    if not waits:
        return (None,) * 5
    ordered = sorted(waits)
    ranks = [ordered[math.ceil(q * len(ordered)) - 1] for q in (0.5, 0.95, 0.99, 1.0)]
    return tuple(value / SECOND for value in (sum(ordered) / len(ordered), *ranks))


def _part(of: float, all: float) -> float | None:
    return of / all if all else None


def compare(before: Result, after: Result) -> pd.DataFrame:
    """Two results by tag: each measure before and after, and the change (after less before); waits in seconds.

    The tags are those of both, in the order of ``before.tags``; where a tag was not served there is no wait.
    """
    first, second = (one.tags.set_index("tag") for one in (before, after))
    tags = list(dict.fromkeys([*first.index, *second.index]))
    columns: dict[str, list[object]] = {"tag": tags, "label": [tag_label(tag) for tag in tags]}
    for name in MEASURES:
        old, new = (one[name].reindex(tags).astype("float64") for one in (first, second))
        columns |= {f"{name}_before": list(old), f"{name}_after": list(new), f"{name}_change": list(new - old)}
    return table(COMPARED, columns)
