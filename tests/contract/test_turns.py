"""Weight, pause, limits and intervals: how the rotation is bent, and that it is bent no further."""

from typing import Any

import pytest
from drive import Open, fill, serve

from queue_core import InvalidArgument, Queue, Settings, WhyNot


def tags(queue: Queue, n: int = 1) -> str:
    """Those of the next ``n`` serves as one text."""
    return "".join(found.tag for found in serve(queue, n))


def test_a_turn_serves_up_to_the_weight(queue: Queue) -> None:
    queue.configure("a", weight=3)
    fill(queue, a=7, b=3, c=3)
    assert tags(queue, 11) == "aaabcaaabca"


def test_a_turn_spans_calls_of_different_sizes(queue: Queue) -> None:
    queue.configure("a", weight=4)
    fill(queue, a=8, b=4)
    served = ["".join(lease.tag for lease in queue.lease_many(n)) for n in (3, 1, 2, 4)]
    assert served == ["aaa", "a", "ba", "aaab"]


def test_a_new_weight_holds_from_the_next_turn(queue: Queue) -> None:
    queue.configure("a", weight=3)
    fill(queue, a=9, b=9)
    assert tags(queue, 1) == "a"
    queue.configure("a", weight=1)
    assert tags(queue, 6) == "aababa"
    queue.configure("b", weight=2)
    assert tags(queue, 4) == "bbab"


def test_a_turn_whose_tag_has_run_dry_is_over(queue: Queue) -> None:
    queue.configure("a", weight=5)
    fill(queue, a=2, b=2)
    assert tags(queue, 3) == "aab"
    fill(queue, a=9)
    assert tags(queue, 7) == "aaaaaba"


def test_no_tag_is_served_more_than_its_weight_between_two_serves_of_another(queue: Queue) -> None:
    queue.configure("a", weight=2)
    fill(queue, a=40, b=40, c=1)
    served = tags(queue, 81)
    assert served.index("c") <= 3
    assert "aaa" not in served[:60]
    assert "bb" not in served[:60]


def test_the_cursor_goes_past_the_tag_just_served(queue: Queue) -> None:
    fill(queue, a=100, b=1, c=1)
    for task in queue.tasks("pending", tag="b"):
        queue.cancel(task.id)
    assert tags(queue, 4) == "acaa"


# --- pause ----------------------------------------------------------------------------------------


def test_a_paused_tag_costs_no_turns_and_gets_no_burst(queue: Queue) -> None:
    fill(queue, a=10, b=3)
    queue.configure("a", paused=True)
    assert tags(queue, 9) == "bbb"
    queue.configure("a", paused=False)
    fill(queue, b=5)
    assert tags(queue, 8) == "abababab"


def test_pause_loses_nothing_and_leaks_nothing(queue: Queue, clock: Any) -> None:
    queue.push_many([(name, "a") for name in ("expired", "nacked", "r1", "r2")])
    _, nacked = queue.lease_many(2, ttl=5)
    queue.nack(nacked, "boom", retry_in=1)
    queue.push("delayed", tag="a", delay=5)
    queue.configure("a", paused=True)
    queue.push("new", tag="a")
    clock.advance(10)
    assert tags(queue, 9) == ""
    assert queue.counts().pending == 6
    queue.configure("a", paused=False)
    assert [lease.payload for lease in queue.lease_many(9)] == ["expired", "nacked", "r1", "r2", "delayed", "new"]


def test_pausing_everything(queue: Queue) -> None:
    fill(queue, a=2, b=2)
    assert tags(queue) == "a"
    queue.configure(paused=True)
    assert tags(queue) == ""
    assert queue.snapshot().settings.paused
    queue.configure(paused=False)
    assert tags(queue, 9) == "bab"


def test_a_pause_is_seen_by_the_next_serve_of_any_handle(opened: Open) -> None:
    one, two = opened(), opened()
    fill(one, a=2)
    assert tags(two) == "a"
    one.configure("a", paused=True)
    assert tags(two) == ""
    assert tags(opened()) == ""


# --- limits and intervals -------------------------------------------------------------------------


def test_a_tag_at_its_limit_is_passed_over(queue: Queue) -> None:
    queue.configure("a", max_inflight=2)
    fill(queue, a=9, b=3)
    leases = queue.lease_many(99)
    assert "".join(lease.tag for lease in leases) == "ababb"
    queue.ack(leases[0])
    assert [lease.tag for lease in queue.lease_many(9)] == ["a"]


def test_the_limit_of_the_queue(queue: Queue) -> None:
    queue.configure(max_inflight=3)
    fill(queue, a=9, b=9)
    leases = queue.lease_many(9)
    assert [lease.tag for lease in leases] == ["a", "b", "a"]
    assert queue.lease() is None
    queue.release(leases[2])
    assert [lease.payload for lease in queue.lease_many(9)] == ["b1"]


def test_a_lowered_limit_takes_no_lease_away(queue: Queue) -> None:
    fill(queue, a=5)
    leases = queue.lease_many(3)
    queue.configure("a", max_inflight=1)
    queue.ack_many(leases[:2])
    assert queue.lease() is None
    queue.ack(leases[2])
    assert tags(queue) == "a"


def test_the_minimum_interval_of_a_tag(queue: Queue, clock: Any) -> None:
    queue.configure("a", min_interval=10)
    fill(queue, a=3, b=3)
    assert [lease.tag for lease in queue.lease_many(9)] == ["a", "b", "b", "b"]
    clock.advance(9.999999)
    assert queue.lease() is None
    clock.advance(0.000001)
    assert [lease.payload for lease in queue.lease_many(9)] == ["a1"]
    queue.configure("a", min_interval=0)
    assert [lease.payload for lease in queue.lease_many(9)] == ["a2"]


def test_the_minimum_interval_of_the_queue(queue: Queue, clock: Any) -> None:
    queue.configure(min_interval=1)
    fill(queue, a=2, b=2)
    assert [lease.tag for lease in queue.lease_many(9)] == ["a"]
    assert queue.lease() is None
    clock.advance(1)
    assert [lease.tag for lease in queue.lease_many(9)] == ["b"]
    queue.configure(min_interval=0)
    assert [lease.tag for lease in queue.lease_many(9)] == ["a", "b"]


def test_a_tag_past_its_interval_stays_so_when_the_clock_goes_back(queue: Queue, clock: Any) -> None:
    queue.configure("a", min_interval=10)
    fill(queue, a=2)
    assert tags(queue) == "a"
    clock.advance(10)
    fill(queue, b=1)
    assert tags(queue) == "a"
    clock.advance(10)
    assert tags(queue) == "b"  # this lease has stored that the interval of a is over
    clock.advance(-15)
    fill(queue, a=1)
    assert tags(queue) == "a"


# --- settings -------------------------------------------------------------------------------------


def test_settings_are_returned_and_kept(opened: Open) -> None:
    queue = opened()
    given: dict[str, Any] = {"weight": 3, "paused": True, "max_inflight": 4, "min_interval": 0.5, "max_pending": 6}
    assert queue.configure("a", **given) == Settings(3, True, 4, 0.5, 6)
    assert queue.configure("a", weight=2) == Settings(2, True, 4, 0.5, 6)
    assert queue.configure("a") == Settings(2, True, 4, 0.5, 6)
    assert opened().snapshot().tags[0].settings == Settings(2, True, 4, 0.5, 6)
    assert queue.configure(max_pending=7).max_pending == 7


@pytest.mark.parametrize(
    ("tag", "settings", "message"),
    [
        ("a", {"weight": 0}, "weight is 0: it is a whole number from 1"),
        ("a", {"weight": 1.5}, "weight is 1.5"),
        ("a", {"weight": None}, "weight is None"),
        ("a", {"paused": 1}, "paused is 1: it is True or False"),
        ("a", {"max_inflight": 0}, "max_inflight is 0"),
        ("a", {"min_interval": -1}, "min_interval is -1"),
        ("a", {"max_pending": -1}, "max_pending is -1"),
        ("a", {"dead_retention": 5}, "dead_retention is a setting of the whole queue"),
        ("a", {"max_payload": 5}, "max_payload is a setting of the whole queue"),
        (None, {"weight": 2}, "weight is a setting of one tag"),
        (None, {"max_payload": 0}, "max_payload is 0"),
        (None, {"dead_retention": float("nan")}, "dead_retention is nan"),
    ],
)
def test_bad_settings_are_named(queue: Queue, tag: str | None, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        queue.configure(tag, **settings)
    assert queue.snapshot().ring.tags == ()


def test_why_a_tag_is_not_served(queue: Queue, clock: Any) -> None:
    def why(tag: str) -> WhyNot | None:
        return {stats.name: stats.why_not for stats in queue.snapshot().tags}[tag]

    queue.configure("empty", weight=1)
    assert why("empty") == WhyNot.EMPTY
    queue.push("x", tag="later", delay=5)
    assert why("later") == WhyNot.SCHEDULED
    clock.advance(5)
    assert why("later") is None
    fill(queue, a=3)
    assert why("a") is None
    queue.configure("a", paused=True)
    assert why("a") == WhyNot.PAUSED
    queue.configure(paused=True)
    assert why("a") == WhyNot.QUEUE_PAUSED
    queue.configure(paused=False)
    queue.configure("a", paused=False, max_inflight=1, min_interval=10)
    queue.lease_many(2)
    assert why("a") == WhyNot.LIMIT
    queue.configure("a", max_inflight=None)
    assert why("a") == WhyNot.INTERVAL
    queue.configure("a", min_interval=0)
    queue.configure(max_inflight=2)
    assert why("a") == WhyNot.QUEUE_LIMIT
    queue.configure(max_inflight=None, min_interval=10)
    assert tags(queue) == "a"
    assert why("a") == WhyNot.QUEUE_INTERVAL


def test_a_queue_at_its_limit_with_expired_leases_says_who_is_next(queue: Queue, clock: Any) -> None:
    queue.configure(max_inflight=1)
    fill(queue, a=2, b=1)
    queue.lease(ttl=5)
    assert queue.snapshot().ring.next is None
    clock.advance(5)
    assert queue.snapshot().ring.next == "b"
    assert tags(queue) == "b"


def test_the_settings_of_the_whole_queue_can_be_read_back(queue: Queue) -> None:
    queue.configure(max_inflight=3, dead_retention=60.0, max_payload=100, tag_retention=5.0, history=False)
    assert queue.snapshot().settings == Settings(
        max_inflight=3, dead_retention=60.0, max_payload=100, tag_retention=5.0, history=False
    )
    queue.configure(dead_retention=None)
    assert queue.snapshot().settings.dead_retention is None
