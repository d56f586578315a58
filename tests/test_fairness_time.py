"""Jain's index in windows, and the standings of an earlier moment, against the queue itself at that moment."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from injected import Clock

from queue_core import Queue, fairness, open_queue
from queue_core.fairness import Waiting, as_of, index, over_time, spells, standing
from queue_core.history import Entry, Kind
from queue_core.task import microseconds


def leases(tags: str, weight: dict[str, int] | None = None) -> list[Entry]:
    return [Entry(Kind.LEASE, i, ord(tag), serve=i, weight=(weight or {}).get(tag, 1)) for i, tag in enumerate(tags, 1)]


def waiting(tags: str) -> dict[int, Waiting]:
    return {ord(tag): Waiting(0, 1) for tag in tags}


def test_windows_are_whole_and_end_with_the_last_serve() -> None:
    found = over_time(leases("abcabcabca"), waiting("abc"), 3)
    assert [(one.first, one.last, one.serves, one.stayed, one.index) for one in found] == [
        (2, 4, 3, 3, 1.0), (5, 7, 3, 3, 1.0), (8, 10, 3, 3, 1.0),
    ]  # fmt: skip


def test_an_unfair_window_shows() -> None:
    found = over_time(leases("abab" + "aaaa" + "abab"), waiting("ab"), 4)
    assert [one.index for one in found] == [1.0, 0.5, 1.0]


def test_no_round_has_no_index_and_no_serves_have_no_windows() -> None:
    assert [one.index for one in over_time(leases("ab"), waiting("abcd"), 2)] == [None]
    assert over_time([], {}, 5) == []


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_a_perfect_rotation_is_no_lower_than_told(rounds: int) -> None:
    lowest = min(
        one.index or 1.0
        for tags in range(2, 12)
        for extra in range(tags)
        for one in over_time(leases("abcdefghijkl"[:tags] * 40), waiting("abcdefghijkl"[:tags]), rounds * tags + extra)
    )
    assert lowest >= 1 - 1 / (2 * rounds + 1) ** 2 - 1e-9


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("abcd"), max_size=60), st.integers(1, 20), st.sets(st.sampled_from("abcd")))
def test_each_window_is_the_index_of_its_serves(tags: list[str], size: int, still: set[str]) -> None:
    entries = leases("".join(tags))
    claims = waiting("".join(sorted(still)))
    found = over_time(entries, claims, size)
    assert len(found) == len(entries) // size
    for one in found:
        assert one.index == pytest.approx(index(entries, spells(entries, claims), one.first - 1, one.last))


STEP = st.tuples(st.sampled_from(["push", "lease", "ack", "nack", "requeue", "expire"]), st.sampled_from("abc"))


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, max_size=30), st.lists(STEP, max_size=30))
def test_standings_then_are_those_of_then(before: list[tuple[str, str]], after: list[tuple[str, str]]) -> None:
    """What was in flight is exact; a tag that is told to have been eligible was, since that serve."""
    clock = Clock()
    with open_queue("memory://", clock=clock) as queue:
        run(queue, clock, before)
        then = queue.snapshot()
        clock.advance(1)
        run(queue, clock, after)
        now = queue.snapshot()
        entries = [event.entry for event in queue.journal(limit=10_000)]
        told = as_of(entries, map(standing, now.tags), microseconds(then.at, "at"))
        assert len(told.before) == sum(entry.at <= microseconds(then.at, "at") for entry in entries)
        real = {tag.number: standing(tag) for tag in then.tags}
        for one in told.standings:
            assert one.inflight == (real[one.tag].inflight if one.tag in real else 0)
            if one.since is not None:
                assert real[one.tag].since == one.since
        assert queue.check() == []


def run(queue: Queue, clock: Clock, steps: list[tuple[str, str]]) -> None:
    held: list[Any] = []
    for step, tag in steps:
        clock.advance(0.5)
        if step == "push":
            queue.push("x", tag=tag)
        elif step == "lease":
            held += queue.lease_many(1, ttl=10_000)
        elif step == "expire":
            queue.requeue_inflight()
            held.clear()
        elif held:
            lease = held.pop()
            {"ack": queue.ack, "nack": lambda one: queue.nack(one, "no"), "requeue": lambda one: queue.requeue(one.id)}[
                step
            ](lease)


def test_worker_time_then_is_what_it_was(queue: Queue, clock: Clock) -> None:
    queue.push_many([("x", tag) for tag in "aabb"])
    first = queue.lease(ttl=900)
    clock.advance(5)
    queue.lease(ttl=900)
    clock.advance(5)
    then = queue.snapshot()
    before = fairness.assess(
        [event.entry for event in queue.journal()], map(standing, then.tags), microseconds(then.at, "at")
    )
    clock.advance(60)
    queue.ack(first)
    now = queue.snapshot()
    told = as_of([event.entry for event in queue.journal()], map(standing, now.tags), microseconds(then.at, "at"))
    after = fairness.assess(told.before, told.standings, microseconds(then.at, "at"))
    assert Counter({tag.tag: tag.worker_time for tag in after.tags}) == Counter(
        {tag.tag: tag.worker_time for tag in before.tags}
    )
    assert sum(tag.worker_time for tag in after.tags) == 15
