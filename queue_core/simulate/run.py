"""The simulation itself: one event after the other, by the functions of ``queue_core.rotation``. Pure.

What is simulated is what the memory store does when tasks are pushed as they arrive, leased by workers as these become
free, and acknowledged when their time is over. That store spends most of its time on records, counters and journal;
here a tag is only its line of waiting tasks, so that a million events take seconds. The tests drive both with the same
random work, and the serves are the same: order, times, workers, and since when each tag was eligible.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Protocol

from queue_core import rotation
from queue_core.history import Entry, Kind
from queue_core.rotation import Turn
from queue_core.simulate.workload import Workload

NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Limit:
    """What keeps a tag from being served: at most so many leases at a time, seconds between two serves, or at all."""

    max_inflight: int | None = None
    min_interval: float = 0.0
    paused: bool = False


class Line:
    """A tag: its waiting tasks by place, and what ``ledger.Tag`` knows of its eligibility."""

    __slots__ = (
        "eligible", "inflight", "interval", "most", "number", "paused", "resting", "since", "waiting", "weight",
    )  # fmt: skip

    def __init__(self, number: int, weight: int, limit: Limit, interval: int) -> None:
        self.number, self.weight = number, weight
        self.paused, self.interval = limit.paused, interval  # microseconds
        self.most = NEVER if limit.max_inflight is None else limit.max_inflight
        self.waiting: list[int] = []  # a heap of rows
        self.inflight = self.since = 0
        self.resting = self.eligible = False

    def may_be_served(self) -> bool:
        return bool(self.waiting) and not self.paused and not self.resting and self.inflight < self.most


class Policy(Protocol):
    """Who is served next."""

    def seen(self, number: int) -> None:
        """A task of this tag arrives."""

    def review(self, line: Line, turned: bool) -> None:
        """The waiting tasks of a tag have changed, and, if it has ``turned``, whether it is eligible."""

    def next(self) -> int | None:
        """The tag to serve now; None when none is eligible."""

    def serve(self, line: Line) -> int:
        """It is served; the weight that counts for this serve."""


class Rotation:
    """Tags in turn, as the queue serves them."""

    def __init__(self, work: Workload) -> None:
        self.turn = Turn(work.cursor)
        self.last = work.known
        self.ready: list[int] = []

    def first(self, number: int) -> int | None:
        at = bisect_left(self.ready, number)
        return self.ready[at] if at < len(self.ready) else None

    def seen(self, number: int) -> None:
        self.last = max(self.last, number)

    def review(self, line: Line, turned: bool) -> None:
        if turned:
            at = bisect_left(self.ready, line.number)
            self.ready[at : at + (not line.eligible)] = [line.number] if line.eligible else []

    def next(self) -> int | None:
        return rotation.next_tag(self.turn, self.first)

    def serve(self, line: Line) -> int:
        turn = rotation.begin(self.turn, line.number, line.weight)
        self.turn = rotation.advance(turn, self.last)
        return turn.weight


class Fifo:
    """One line for all: of the eligible tags, the one whose next task has the earliest place."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        self.heads: list[tuple[int, int]] = []  # (row, tag): of every eligible tag its next task, and some that were
        self.entered = [-1] * len(lines)  # by tag, the row with which it is among the heads

    def seen(self, number: int) -> None:
        pass  # there is no ring to join

    def review(self, line: Line, turned: bool) -> None:
        if line.eligible and self.entered[line.number] != line.waiting[0]:
            self.entered[line.number] = line.waiting[0]
            heappush(self.heads, (line.waiting[0], line.number))

    def next(self) -> int | None:
        while self.heads:
            row, number = self.heads[0]
            current = row == self.entered[number]
            if current and self.lines[number].eligible:
                return number
            heappop(self.heads)
            if current:
                self.entered[number] = -1
        return None

    def serve(self, line: Line) -> int:
        return line.weight


@dataclass(slots=True)
class Run:
    """What was served, in order: entries as a journal has them, and for each the row of the work and the worker."""

    leases: list[Entry] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)
    ended: int = 0  # when the last task ended, in microseconds since the begin


class Simulation:
    """Workers, numbered from 1, that take the next task whenever they are free; of several the one numbered lowest.

    What happens at one moment happens in this order: tasks end, tasks arrive, intervals are over, tasks are served.
    """

    def __init__(
        self, work: Workload, services: Sequence[int], lines: Sequence[Line], policy: Policy, workers: int
    ) -> None:
        self.work, self.services, self.lines, self.policy = work, services, lines, policy
        self.free = list(range(1, workers + 1))
        self.ends: list[tuple[int, int, int]] = []  # (when, row, worker)
        self.rests: list[tuple[int, int]] = []  # (until when, tag)
        self.done = Run()
        heapify(self.free)

    def run(self) -> Run:
        at, ends, rests = self.work.at, self.ends, self.rests
        order = sorted(range(len(at)), key=at.__getitem__)
        position, arrives = 0, at[order[0]] if order else NEVER
        while True:
            now = min(arrives, ends[0][0] if ends else NEVER, rests[0][0] if rests else NEVER)
            if now == NEVER:
                return self.done
            while ends and ends[0][0] == now:
                self.end(now)
            while arrives == now:
                self.arrive(order[position])
                position += 1
                arrives = at[order[position]] if position < len(order) else NEVER
            while rests and rests[0][0] == now:
                self.rested()
            while self.free and (number := self.policy.next()) is not None:
                self.serve(self.lines[number], now)

    def arrive(self, row: int) -> None:
        line = self.lines[self.work.tag[row]]
        self.policy.seen(line.number)
        heappush(line.waiting, row)
        self.review(line)

    def serve(self, line: Line, now: int) -> None:
        row, worker = heappop(line.waiting), heappop(self.free)
        done, weight = self.done, self.policy.serve(line)
        wait = now - self.work.at[row]
        serve = len(done.rows) + 1
        done.leases.append(
            Entry(Kind.LEASE, self.work.begin + now, line.number, b"", "", serve, line.since, wait, "", weight)
        )
        done.rows.append(row)
        done.workers.append(worker)
        line.inflight += 1
        if line.interval:
            line.resting = True
            heappush(self.rests, (now + line.interval, line.number))
        heappush(self.ends, (now + self.services[row], row, worker))
        self.review(line)

    def end(self, now: int) -> None:
        _, row, worker = heappop(self.ends)
        heappush(self.free, worker)
        self.done.ended = now
        line = self.lines[self.work.tag[row]]
        line.inflight -= 1
        self.review(line)

    def rested(self) -> None:
        line = self.lines[heappop(self.rests)[1]]
        line.resting = False
        self.review(line)

    def review(self, line: Line) -> None:
        may = line.may_be_served()
        turned = may != line.eligible
        if turned:
            line.eligible = may
            if may:
                line.since = len(self.done.rows)
        self.policy.review(line, turned)
