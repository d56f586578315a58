"""Worker time, and all that is judged of a queue, against queues that live through anything."""

import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_core import LeaseLost, Queue, fairness, open_queue
from queue_core.fairness import Gaps, noisy
from queue_core.history import Entry, Kind
from queue_core.task import SECOND, microseconds

# --- worker time ----------------------------------------------------------------------------------


def entry(kind: Kind, at: int, id: bytes, tag: int = 1, owner: str = "w") -> Entry:
    return Entry(kind, at, tag, id, owner)


def test_worker_time_of_leases_from_their_begin_to_their_end() -> None:
    journal = [
        entry(Kind.LEASE, 10, b"a"), entry(Kind.LEASE, 12, b"b", 2), entry(Kind.EXTEND, 13, b"a"),
        entry(Kind.ACK, 15, b"a"), entry(Kind.LEASE, 16, b"c"), entry(Kind.NACK, 14, b"c"),
    ]  # fmt: skip
    assert fairness.worker_time(journal, 10, 20) == {1: 5, 2: 8}  # the clock was set back in c; b is open
    assert fairness.worker_time(journal, 11, 13) == {1: 2, 2: 1}
    assert fairness.worker_time(journal, 20, 10) == {1: 0, 2: 0}
    assert fairness.worker_time([], 0, 10) == {}
    assert fairness.worker_time([], 0, 10, {3: 2}) == {3: 20}  # leases older than the journal


@pytest.mark.parametrize("kind", ["ack", "nack", "expire", "release", "defer", "requeue", "dead_letter", "repush"])
def test_every_ending_ends_it(kind: str) -> None:
    journal = [entry(Kind.LEASE, 10, b"a"), entry(Kind(kind), 15, b"a", owner=""), entry(Kind.PROMOTE, 17, b"a")]
    assert fairness.worker_time(journal, 0, 20) == {1: 5}


def test_an_end_without_its_lease_counts_from_the_begin_when_there_was_one() -> None:
    for kind in (Kind.ACK, Kind.REQUEUE, Kind.DEAD_LETTER):
        assert fairness.worker_time([entry(kind, 15, b"a")], 10, 20) == {1: 5}
    for kind in (Kind.REQUEUE, Kind.DEAD_LETTER, Kind.REPUSH):  # of a task that was not leased
        assert fairness.worker_time([entry(kind, 15, b"a", owner="")], 10, 20) == {}


def test_a_time_without_a_journal_is_nobodys_worker_time() -> None:
    journal = [
        entry(Kind.LEASE, 10, b"a"), entry(Kind.LEASE, 12, b"b", 2), entry(Kind.ACK, 15, b"b", 2),
        Entry(Kind.CONFIGURE, 900, 0, detail="history=True"),  # a ended meanwhile, and b was leased again
        entry(Kind.ACK, 903, b"b", 2),
    ]  # fmt: skip
    assert fairness.worker_time(journal, 0, 1_000) == {1: 5, 2: 6}
    assert fairness.worker_time(journal, 0, 1_000, {3: 1})[3] == 100


ENDINGS: dict[str, Callable[[Queue, str], object]] = {
    "ack": lambda queue, token: queue.ack(token),
    "nack": lambda queue, token: queue.nack(token, "no", retry_in=1),
    "release": lambda queue, token: queue.release(token),
    "defer": lambda queue, token: queue.defer(token, 2),
    "bury": lambda queue, token: queue.dead_letter(token, "no"),
}
STEPS = st.lists(
    st.tuples(st.sampled_from(["push", "lease", "repush", "requeue", *ENDINGS]), st.sampled_from("abc"),
              st.integers(0, 3)),
    max_size=40,
)  # fmt: skip


def step(queue: Queue, held: list[str], verb: str, tag: str, number: int) -> None:
    """Leases begin, and end in every way: by their holder, by an operator, by running out of time."""
    if verb == "push":
        queue.push_many([(number, tag)] * (number + 1))
    elif verb == "lease":
        held += [lease.token for lease in queue.lease_many(number + 1, ttl=5)]
    elif verb in ("repush", "requeue"):
        for task in queue.tasks("inflight", limit=1):
            queue.requeue(task.id) if verb == "requeue" else queue.push(number, tag=task.tag, id=task.id)
    elif held:
        with suppress(LeaseLost):
            ENDINGS[verb](queue, held.pop(0))


@given(STEPS, STEPS)
@settings(max_examples=150, deadline=None)
def test_worker_time_is_what_was_in_flight_summed_over_time(
    before: list[tuple[str, str, int]], after: list[tuple[str, str, int]]
) -> None:
    now = [1_750_000_000 * SECOND]
    with open_queue("memory://", clock=lambda: now[0]) as queue:
        held: list[str] = []
        for verb, tag, number in before:
            now[0] += number * SECOND
            step(queue, held, verb, tag, number)
        begin, seen, summed = now[0], len(queue.journal(limit=10_000)), Counter[int]()
        for verb, tag, number in after:
            if verb == "repush" and before:
                continue  # the journal does not say whether it ended a lease, so that has to be in the journal
            for stats in queue.snapshot().tags:
                summed[stats.number] += stats.inflight * number * SECOND
            now[0] += number * SECOND
            step(queue, held, verb, tag, number)
        journal = [event.entry for event in queue.journal(after=seen, limit=10_000)]  # it begins in the middle
        inflight = {stats.number: stats.inflight for stats in queue.snapshot().tags}
        assert +Counter(fairness.worker_time(journal, begin, now[0], inflight)) == +summed
        assert queue.check() == []


def test_noisy_tags() -> None:
    assert noisy({}, {}) == {}
    assert noisy({1: 1_000}, {1: 10}) == {}  # it disturbs nobody
    assert noisy({1: 29, 2: 1}, {}) == {}
    assert noisy({1: 30, 2: 1}, {}) == {1: ("in flight",)}
    assert noisy({1: 30, 2: 270}, {}) == {2: ("in flight",)}  # a tenth is not more than a tenth
    assert noisy({1: 31, 2: 269}, {1: 1, 2: 9}) == {1: ("in flight",), 2: ("in flight", "worker time")}
    assert noisy({}, dict.fromkeys(range(10), 5)) == {}
    assert noisy({}, {1: 6, **dict.fromkeys(range(2, 11), 5)}) == {1: ("worker time",)}
    assert noisy({1: 0, 2: 0}, {1: 0, 2: 0}) == {}


# --- all of it ------------------------------------------------------------------------------------


def assess(queue: Queue, last: int = 10_000) -> fairness.Fairness:
    with queue.view() as view:
        snapshot = view.snapshot()
        journal = [event.entry for event in view.journal(limit=100_000)]
    standings = [fairness.standing(tag) for tag in snapshot.tags]
    return fairness.assess(fairness.latest(journal, last), standings, microseconds(snapshot.at, "at"))


def test_of_a_queue_that_served_nothing(queue: Queue) -> None:
    for pushed in (0, 1):
        queue.push_many([(n, "a") for n in range(pushed)])
        found = assess(queue)
        assert found == fairness.Fairness(0, None, None, None, None, (), ())
    assert fairness.latest([], 5) == ()


def test_of_a_rotation_by_weight(queue: Queue, clock: Any) -> None:
    queue.configure("heavy", weight=3)
    queue.push_many([(n, tag) for n in range(100) for tag in ("light", "heavy", "other")])
    for _ in range(60):
        held = queue.lease_many(1, ttl=1_000)
        clock.advance(2 if held[0].tag == "light" else 1)
        queue.ack_many(held)
    found = assess(queue)
    assert (found.serves, found.first, found.last, found.span, found.index) == (60, 1, 60, 72.0, 1.0)
    heavy, light, _ = found.tags
    assert (heavy.weight, heavy.served, heavy.entitled, heavy.served_share) == (3, 36, pytest.approx(36.0), 0.6)
    assert (light.worker_time, light.worker_share, light.stayed) == (24.0, 24 / 72, True)
    assert heavy.gaps == Gaps(pytest.approx(57 / 35), pytest.approx(5 / 3), 3, 2)
    assert light.gaps == Gaps(5.0, pytest.approx(5.0), 5, 2)
    assert found.violations == ()
    assert json.loads(json.dumps(msgspec.to_builtins(found), allow_nan=False))["tags"][0]["entitled"] == pytest.approx(
        36.0
    )
    latest = assess(queue, 10)
    assert (latest.serves, latest.first, latest.span) == (10, 51, 12.0)
    assert [tag.served for tag in latest.tags] == [6, 2, 2]


def test_a_tag_that_has_waited_and_one_that_only_holds_are_told(queue: Queue, clock: Any) -> None:
    queue.push_many([(0, "holding")])
    lease = queue.lease(ttl=1_000)
    queue.push_many([(n, "a") for n in range(9)])
    queue.ack_many(queue.lease_many(8))
    queue.push("late", tag="b")
    clock.advance(3)
    found = assess(queue, 4)
    assert [(tag.tag, tag.served, tag.entitled) for tag in found.tags] == [
        (2, 4, 4.0),
        (1, 0, 0.0),
    ]  # b was due none yet
    assert [tag.worker_time for tag in found.tags] == [0.0, 3.0]
    assert found.index == 1.0  # one tag stayed eligible
    assert lease is not None
    queue.ack(lease)
    assert [tag.worker_share for tag in assess(queue, 4).tags] == [0.0, 1.0]


@pytest.mark.parametrize("seed", range(3))
def test_the_rotation_stays_within_a_turn_of_what_is_due(queue: Queue, clock: Any, seed: int) -> None:
    draw = random.Random(seed)
    tags = [f"tag-{number}" for number in range(12)]
    for number, tag in enumerate(tags):
        queue.configure(tag, weight=draw.choice([1, 2, 3, 7]))
        queue.push_many([(0, tag)] * (1_500 if number < 4 else 1))
    for _ in range(700):
        clock.advance(1)
        if draw.random() < 0.5:  # eight tags run empty and come back
            queue.push_many([(0, draw.choice(tags))] * draw.choice([1, 1, 5, 20]))
        queue.ack_many(queue.lease_many(draw.choice([1, 2, 5])))
    for last in (200, 500, 5_000):
        found = assess(queue, last)
        assert max(abs(tag.served - tag.entitled) - tag.weight for tag in found.tags) <= 1
        assert found.index is not None
        assert found.index > 0.99


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_of_any_history(steps: list[tuple[str, str, int]]) -> None:
    now = [1_750_000_000 * SECOND]
    with open_queue("memory://", clock=lambda: now[0]) as queue:
        held: list[str] = []
        for number, tag in enumerate("abc", 1):
            queue.configure(tag, weight=number)
        for verb, tag, number in steps:
            now[0] += number * SECOND
            step(queue, held, verb, tag, number)
        found = assess(queue)
        assert found.serves == queue.snapshot().ring.serves
        assert found.violations == ()
        for tags in [found.tags] if found.serves else []:
            assert sum(tag.served_share for tag in tags) == pytest.approx(1.0)
            assert sum(tag.entitled_share for tag in tags) == pytest.approx(1.0)
            shares = [tag.worker_share for tag in tags if tag.worker_share is not None]
            assert not shares or sum(shares) == pytest.approx(1.0)
            others = len(tags) - 1
            assert all(tag.gaps is None or tag.gaps.turns <= others for tag in tags)
        json.dumps(msgspec.to_builtins(found), allow_nan=False)
        assert queue.check() == []
