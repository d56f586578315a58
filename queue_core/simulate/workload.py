"""Work to be done: what arrives when, of which tag, and how long it takes a worker. Pure."""

import csv
import math
import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from queue_core.errors import InvalidArgument
from queue_core.history import Event
from queue_core.queue import check_tag
from queue_core.queue.arguments import as_span, as_whole
from queue_core.simulate.recorded import Recorded, recorded
from queue_core.task import SECOND

MOST = 20_000_000  # arrivals that can be meant
COLUMNS = ("time", "tag", "service")

Service = float | Callable[[random.Random], float]
Row = tuple[int, str, int | None]  # microseconds, name of the tag, microseconds


@dataclass(frozen=True, slots=True)
class Workload:
    """One row per task to be served, in the order of their places: inside a tag the first that is pending goes first.

    ``at`` is when it becomes pending, ``service`` how long it keeps a worker (None: not known, a simulation draws it),
    in microseconds since ``begin``, which is in microseconds since the epoch. ``tag`` is its number: an index into
    ``names``, from 1, which are in the order of the ring. ``known`` tags were in it before the first arrival; the
    others join with theirs. ``cursor`` is the tag whose turn it is first. ``weights`` are those that were recorded.
    ``early`` rows had been waiting before the begin, and arrive at it. ``at_once`` is the most leases that were
    recorded at one time: how many workers there were at least; None where nothing was recorded.
    """

    names: tuple[str, ...]
    at: Sequence[int] = field(repr=False)
    tag: Sequence[int] = field(repr=False)
    service: Sequence[int | None] = field(repr=False)
    begin: int = 0
    known: int = 0
    cursor: int = 1
    weights: Mapping[str, int] = field(default_factory=dict)
    early: int = 0
    at_once: int | None = None

    def __len__(self) -> int:
        return len(self.at)

    @classmethod
    def of(cls, arrivals: Iterable[tuple[float, str, float | None]]) -> "Workload":
        """From (time, tag, service time), in seconds, in any order; None is a service time that is not known.

        Tags join the ring in the order in which they first arrive. Raises InvalidArgument with the number of the row.
        """
        return _workload(_row(number, *arrival) for number, arrival in enumerate(arrivals, 1))

    @classmethod
    def from_journal(cls, journal: Iterable[Event]) -> "Workload":
        """From what a queue recorded, in the order of the journal, without gaps (``queue.journal(limit=…)``).

        Each lease is a row: it arrives when its task became pending, which the lease tells, and is served for as long
        as the lease was held. So a task that was tried again is one more row, at the time and the place at which it
        was; it does not wait for its first try to end. A task that waits at the end is a row too; one that was pushed
        with a delay is not told from it until it is promoted. What had been waiting before the journal began arrives
        at its begin. The service time of a lease that has not ended is not known. Where no journal was written for a
        while, only what comes after that is taken.

        The turn under way at the begin is taken for a new one. Weights are the last ones; limits are not recorded
        (``limits_of(queue.snapshot())`` has them), nor is when workers were busy with other things.
        """
        found: Recorded = recorded(journal)
        return cls(
            found.names, found.at, found.tag, found.service, found.begin, found.known, found.cursor, found.weights,
            found.early, found.at_once,
        )  # fmt: skip

    @classmethod
    def from_frame(cls, frame: Any) -> "Workload":
        """From a DataFrame with the columns ``time`` and ``service`` in seconds, and ``tag``; a service time that is
        missing is not known. Raises InvalidArgument."""
        _has_columns(frame.columns, "the frame")
        services = frame["service"].astype("float64").tolist()
        columns = zip(frame["time"].tolist(), frame["tag"].tolist(), services, strict=True)
        return cls.of((time, tag, None if math.isnan(service) else service) for time, tag, service in columns)

    @classmethod
    def from_csv(cls, path: str | os.PathLike[str]) -> "Workload":
        """From a CSV file (UTF-8) with the same columns; an empty service time is not known. Raises InvalidArgument."""
        with open(path, encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file)
            _has_columns(lines.fieldnames or (), os.fspath(path))
            return cls.of(
                (_number(line["time"], row), line["tag"], _number(line["service"], row) if line["service"] else None)
                for row, line in enumerate(lines, 1)
            )


def poisson(
    *, rates: Mapping[str, float], service: Service | Mapping[str, Service], seconds: float, seed: int = 0
) -> Workload:
    """Arrivals at random times for so many seconds: for each tag a Poisson process of so many per second.

    ``service`` is the mean of exponential service times in seconds, a function that draws one from a
    ``random.Random``, or either for each tag. Each tag has its own stream of numbers, so that it arrives the same
    whatever the others do. All tags are in the ring from the begin, in the order of ``rates``. Raises InvalidArgument.
    """
    span = as_span(seconds, "seconds") / SECOND
    seed = as_whole(seed, "seed", -(1 << 62), 1 << 62)
    for tag, rate in rates.items():
        _check_rate(check_tag(tag), rate)
        if isinstance(service, Mapping) and tag not in service:
            raise InvalidArgument(f"service has nothing for tag {tag[:100]!r}: give a mean or a function for each tag")
    if (expected := sum(rates.values()) * span) > MOST:
        raise InvalidArgument(f"{expected:,.0f} arrivals are too many (at most {MOST:,}): give fewer seconds")
    rows: list[Row] = []
    for tag, rate in rates.items():
        draw = _drawing(service[tag] if isinstance(service, Mapping) else service)
        times, sizes = random.Random(f"times {seed} {tag}"), random.Random(f"services {seed} {tag}")
        at = times.expovariate(rate) if rate else math.inf
        while at < span:
            rows.append((round(at * SECOND), tag, as_span(draw(sizes), "service")))
            at += times.expovariate(rate)
    return _workload(rows, tuple(rates))


def _check_rate(tag: str, rate: Any) -> None:
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < math.inf:
        raise InvalidArgument(f"the rate of tag {tag[:100]!r} is {rate!r:.100}: it is a number per second from 0")


def _drawing(service: Service) -> Callable[[random.Random], float]:
    if callable(service):
        return service
    as_span(service, "service", 1)
    return lambda numbers: numbers.expovariate(1 / service)


def _workload(rows: Iterable[Row], names: tuple[str, ...] = ()) -> Workload:
    ordered = sorted(rows, key=lambda row: row[0])
    numbers = {name: number for number, name in enumerate(names, 1)}
    tags = [numbers.setdefault(name, len(numbers) + 1) for _, name, _ in ordered]
    at, service = [row[0] for row in ordered], [row[2] for row in ordered]
    return Workload(tuple(numbers), at, tags, service, known=len(names))


def _row(number: int, time: Any, tag: Any, service: Any) -> Row:
    try:
        return as_span(time, "time"), check_tag(tag), None if service is None else as_span(service, "service")
    except InvalidArgument as error:
        raise InvalidArgument(f"row {number:,}: {error}") from None


def _number(text: Any, row: int) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        raise InvalidArgument(f"row {row:,}: {text!r:.100} is no number of seconds") from None


def _has_columns(names: Iterable[Any], what: str) -> None:
    missing = [name for name in COLUMNS if name not in set(names)]
    if missing:
        raise InvalidArgument(
            f"{what:.200} has no column {', '.join(missing)}: arrivals have time and service in seconds, and tag"
        )
