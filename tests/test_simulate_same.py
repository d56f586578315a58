"""What is simulated is what a queue does: serve by serve, against the memory store, and from its journal."""

import random
from typing import NamedTuple, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from injected import Clock

from queue_core import Lease, Queue, open_queue
from queue_core.history import Entry, Event, Kind
from queue_core.simulate import Limit, Workload, limits_of, simulate
from queue_core.task import SECOND

BEGIN = 1_750_000_000 * SECOND
LONG = 1e9  # seconds that a lease is good for


class Case(NamedTuple):
    work: Workload
    weights: dict[str, int]
    limits: dict[str, Limit]
    workers: int

    def name(self, row: int) -> str:
        return self.work.names[self.work.tag[row] - 1]


@st.composite
def cases(draw: st.DrawFn, pushed: bool) -> Case:
    """Small work on few moments, so that much happens at once. ``pushed``: in the order of the rows, and tags join when
    they come; else all tags are known, and rows arrive in any order, as tasks do that were pushed with a delay."""
    whole = st.tuples(st.integers(0, 15), st.sampled_from("abcd"), st.integers(0, 5))
    drawn = draw(st.lists(whole, max_size=30))
    if pushed:
        drawn.sort(key=lambda row: row[0])
    numbers = {name: number for number, name in enumerate(dict.fromkeys(name for _, name, _ in drawn), 1)}
    weights = {name: draw(st.integers(1, 3)) for name in numbers}
    limit = st.builds(Limit, st.sampled_from([None, None, 1, 2]), st.sampled_from([0, 0, 1, 3]), st.just(False))
    limits = {name: draw(st.one_of(limit, limit, limit, st.just(Limit(paused=True)))) for name in numbers}
    work = Workload(
        tuple(numbers), [at * SECOND for at, _, _ in drawn], [numbers[name] for _, name, _ in drawn],
        [service * SECOND for _, _, service in drawn], BEGIN, 0 if pushed else len(numbers),
    )  # fmt: skip
    return Case(work, weights, limits, draw(st.integers(1, 3)))


class Server(Protocol):
    """Serves one task after the other."""

    def end(self, row: int) -> None: ...

    def arrive(self, row: int) -> None: ...

    def serve(self, now: int, worker: int) -> int | None:
        """The row that is served; None when nothing can be."""


def played(case: Case, server: Server, clock: Clock) -> list[tuple[int, int, int]]:
    """(when, row, worker) of every serve: workers take the next task whenever they are free."""
    work, done = case.work, []
    free, busy = list(range(1, case.workers + 1)), []
    coming, moments = list(range(len(work))), set(work.at)
    while moments:
        now = min(moments)
        moments.remove(now)
        clock.now = BEGIN + now
        for held in [held for held in busy if held[0] == now]:
            busy.remove(held)
            free.append(held[2])
            server.end(held[1])
        for row in [row for row in coming if work.at[row] == now]:
            coming.remove(row)
            server.arrive(row)
        while free and (row := server.serve(now, min(free))) is not None:
            done.append((now, row, min(free)))
            end = now + (work.service[row] or 0)
            busy.append((end, row, min(free)))
            free.remove(min(free))
            interval = round(case.limits[case.name(row)].min_interval * SECOND)
            moments |= {end, now + interval} if interval else {end}
    return done


class Stored:
    """By a queue on the memory store."""

    def __init__(self, queue: Queue, case: Case) -> None:
        self.queue, self.case = queue, case
        self.leases: dict[int, Lease] = {}
        for name in case.work.names[: case.work.known]:
            self.configure(name)
        if case.work.known:
            for row, at in enumerate(case.work.at):  # places in this order, whenever they come
                queue.push(row, tag=case.name(row), delay=at / SECOND)

    def configure(self, name: str) -> None:
        limit = self.case.limits[name]
        self.queue.configure(
            name, weight=self.case.weights[name], max_inflight=limit.max_inflight, min_interval=limit.min_interval,
            paused=limit.paused,
        )  # fmt: skip

    def end(self, row: int) -> None:
        self.queue.ack(self.leases[row])

    def arrive(self, row: int) -> None:
        if not self.case.work.known:
            self.queue.push(row, tag=self.case.name(row))
            self.configure(self.case.name(row))

    def serve(self, now: int, worker: int) -> int | None:
        lease = self.queue.lease(ttl=LONG)
        if lease is None:
            return None
        self.leases[lease.payload] = lease
        return int(lease.payload)


class Naive:
    """One line for all, looked through from its begin."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.line: list[int] = []
        self.held: list[int] = []
        self.rests: dict[str, int] = {}

    def end(self, row: int) -> None:
        self.held.remove(row)

    def arrive(self, row: int) -> None:
        self.line.append(row)

    def serve(self, now: int, worker: int) -> int | None:
        for row in sorted(self.line):
            name = self.case.name(row)
            limit = self.case.limits[name]
            inflight = sum(self.case.name(other) == name for other in self.held)
            full = limit.max_inflight is not None and inflight >= limit.max_inflight
            if not limit.paused and not full and now >= self.rests.get(name, 0):
                self.line.remove(row)
                self.held.append(row)
                self.rests[name] = now + round(limit.min_interval * SECOND)
                return row
        return None


def told(leases: list[Entry], names: list[str]) -> list[tuple[object, ...]]:
    return [
        (entry.serve, entry.at, name, entry.wait, entry.since, entry.weight)
        for entry, name in zip(leases, names, strict=True)
    ]


def leased(journal: list[Event]) -> list[tuple[object, ...]]:
    found = [event for event in journal if event.kind is Kind.LEASE]
    return told([event.entry for event in found], [event.tag or "" for event in found])


@settings(deadline=None)
@given(st.one_of(cases(True), cases(False)))
def test_the_rotation_serves_as_the_memory_store_does(case: Case) -> None:
    clock = Clock(BEGIN)
    result = simulate(case.work, weights=case.weights, limits=case.limits, workers=case.workers)
    with open_queue("memory://", clock=clock) as queue:
        serves = played(case, Stored(queue, case), clock)
        assert told(list(result.leases), list(result.serves["tag"])) == leased(queue.journal(limit=10_000))
        assert queue.check() == []
    assert list(result.serves["worker"]) == [worker for _, _, worker in serves]
    assert list(result.serves["service"] * SECOND) == [case.work.service[row] for _, row, _ in serves]


@settings(deadline=None)
@given(st.one_of(cases(True), cases(False)))
def test_one_line_serves_the_earliest_that_can_be_served(case: Case) -> None:
    result = simulate(case.work, weights=case.weights, limits=case.limits, workers=case.workers, policy="fifo")
    serves = played(case, Naive(case), Clock(BEGIN))
    got = zip((result.serves["time"] * SECOND).astype(int), result.serves["tag"], result.serves["worker"], strict=True)
    assert list(got) == [(at, case.name(row), worker) for at, row, worker in serves]
    assert list(result.serves["service"] * SECOND) == [case.work.service[row] for _, row, _ in serves]


# --- from a journal -------------------------------------------------------------------------------


def busy(queue: Queue, clock: Clock, seconds: int, workers: int = 2, seed: int = 3) -> None:
    """Two workers and four tags, second by second; some tasks fail once, some are given back; until all is done."""
    numbers = random.Random(seed)
    held: list[tuple[int, Lease]] = []
    for second in range(10 * seconds):
        for end, lease in [one for one in held if one[0] == second]:
            held.remove((end, lease))
            if lease.task.leases > 1 or (chance := numbers.random()) < 0.7:
                queue.ack(lease)
            elif chance < 0.85:
                queue.nack(lease, "no", retry_in=numbers.randint(1, 9))
            else:
                queue.release(lease)
        if second < seconds:
            for _ in range(numbers.choice((0, 0, 1, 2))):
                queue.push(second, tag=numbers.choice("aaabbcd"), delay=numbers.choice((0, 0, 0, 4)))
        while len(held) < workers and (taken := queue.lease(ttl=LONG)) is not None:
            held.append((second + numbers.randint(1, 3), taken))
        clock.advance(1)
        if second >= seconds and not held and queue.counts().all == 0:
            return
    raise AssertionError("the work was not done in time")


def test_a_journal_is_played_again_as_it_was(queue: Queue, clock: Clock) -> None:
    queue.configure("b", weight=2)
    queue.configure("c", max_inflight=1, min_interval=2)
    busy(queue, clock, 200)
    journal = queue.journal(limit=100_000)
    assert {Kind.NACK, Kind.PROMOTE, Kind.RELEASE} <= {event.kind for event in journal}
    work = Workload.from_journal(journal)
    assert (work.at_once, work.early) == (2, 0)
    result = simulate(work, workers=2, limits=limits_of(queue.snapshot()))
    assert told(list(result.leases), list(result.serves["tag"])) == leased(journal)
    assert result.assumptions == ()
    total = queue.snapshot().totals
    assert result.tags["worker_time"].sum() == pytest.approx(total.service / SECOND)
    assert len(simulate(journal, workers=4).serves) == len(result.serves)


def test_what_the_journal_does_not_tell_is_assumed_and_said(queue: Queue, clock: Clock) -> None:
    queue.push_many([(n, "a") for n in range(4)])
    clock.advance(10)
    before = queue.journal()[-1].number
    first, second = queue.lease_many(2, ttl=LONG)
    clock.advance(3)
    queue.push(9, tag="b")
    queue.ack(first)
    queue.lease(ttl=LONG)
    clock.advance(1)
    result = simulate(queue.journal(after=before), workers=3)
    assert result.assumed_arrivals == 3  # of the fourth nothing is told
    assert result.assumed_services == 3  # two are in flight, and one waits
    assert list(result.serves["wait"]) == [0, 0, 0, 0]
    assert list(result.serves["service"]) == [3, 3, 3, 3]
    assert list(result.serves["tag"]) == ["a", "a", "a", "b"]
    assert "3 tasks had waited before the begin" in repr(result)
    assert "3 service times not known" in repr(result)
    queue.ack(second)


def test_a_task_that_cannot_run_any_more_is_no_work(queue: Queue, clock: Clock) -> None:
    gone, dead, kept = queue.push_many([(n, "a") for n in range(3)])
    queue.cancel(gone.id)
    queue.dead_letter(dead.id, "no")
    clock.advance(1)
    lease = queue.lease(ttl=LONG)
    assert lease is not None
    assert lease.id == kept.id
    clock.advance(2)
    queue.nack(lease, "no", retry_in=60)
    assert len(Workload.from_journal(queue.journal())) == 1
    clock.advance(60)
    assert queue.lease(ttl=LONG) is not None
    work = Workload.from_journal(queue.journal())
    assert (list(work.at), list(work.service)) == ([0, 62 * SECOND + SECOND], [2 * SECOND, None])


def test_where_no_journal_was_written_it_begins_anew(queue: Queue, clock: Clock) -> None:
    queue.push_many([(n, "a") for n in range(3)])
    queue.lease(ttl=LONG)
    queue.configure(history=False)
    clock.advance(60)
    queue.configure(history=True)
    queue.push(3, tag="b")
    lease = queue.lease(ttl=LONG)
    assert lease is not None
    clock.advance(2)
    queue.ack(lease)
    work = Workload.from_journal(queue.journal())
    assert (len(work), work.begin) == (2, clock.now - 2 * SECOND)
    assert sorted(map(str, work.service)) == [str(2 * SECOND), "None"]
