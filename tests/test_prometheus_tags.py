"""Which tags are exported by name and under which label, and what the alerts watch of all of them."""

import random
import subprocess
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from scraping import Scrape, lease

from queue_core import Queue
from queue_core.prometheus import OTHER, QueueCollector, label
from queue_core.prometheus.survey import STATUSES
from queue_core.snapshot import WhyNot

PLAIN = ['quo"te\\', "e\u0301 é", " ", "y" * 100]
ODD = ["", OTHER, "_empty", "a\0b", "two\nlines", "\u202eevil", "👩\u200d🚀", "y" * 101, "x" * 65_535, *PLAIN]


def test_odd_tags_are_told_apart_and_break_no_scrape(queue: Queue, promtool: str) -> None:
    for number, tag in enumerate(ODD, 1):
        queue.push_many([(0, tag)] * number)
    scrape = Scrape(QueueCollector(queue))
    for number, tag in enumerate(ODD, 1):
        assert scrape("tag_backlog_tasks", tag=label(tag)) == number
        assert len(label(tag)) <= 133
    assert scrape("tag_backlog_tasks", tag=OTHER) == 0
    assert len(scrape.tags) == len(ODD) + 1
    assert label("") == "_empty"
    assert [tag for tag in ODD if label(tag) == tag] == PLAIN
    checked = subprocess.run([promtool, "check", "metrics"], input=scrape.text, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


texts = st.text(st.one_of(st.characters(exclude_categories=()), st.sampled_from("#_0a\0\n")), max_size=120)


@given(texts, texts)
def test_no_two_tags_share_a_label(one: str, other: str) -> None:
    assert (label(one) == label(other)) == (one == other)
    assert label(label(one)) != label(one) or label(one) == one
    assert label(one) not in ("", OTHER)
    assert label(one).isprintable()


def test_the_largest_backlogs_are_named_and_the_rest_is_summed(queue: Queue, clock: Any) -> None:
    for number in range(1, 9):
        queue.push_many([(0, f"tag {number}")] * number)
        clock.advance(1)
    scrape = Scrape(QueueCollector(queue, tags=3))
    assert scrape.tags == {"tag 8", "tag 7", "tag 6", OTHER}
    assert scrape("tag_backlog_tasks", tag=OTHER) == 1 + 2 + 3 + 4 + 5
    assert scrape("tag_tasks", tag=OTHER, state="pending") == 15
    assert scrape("tag_oldest_wait_seconds", tag=OTHER) == 8
    assert scrape("tag_oldest_wait_seconds", tag="tag 6") == 3
    assert not scrape.has("tag_pushed_total", tag=OTHER), "a sum over a changing set is no counter"


def test_fifty_tags_are_named_unless_asked_otherwise(queue: Queue) -> None:
    queue.push_many([(0, f"tag {number}") for number in range(60)])
    scrape = Scrape(QueueCollector(queue))
    assert len(scrape.tags - {OTHER}) == 50
    assert scrape("tag_backlog_tasks", tag=OTHER) == 10


def test_among_equal_backlogs_the_busiest_are_named(queue: Queue) -> None:
    for number in range(4):
        queue.push_many([(0, f"tag {number}")] * (number % 3 + 1))
    while leased := queue.lease():
        queue.ack(leased)
    assert Scrape(QueueCollector(queue, tags=2)).tags == {"tag 1", "tag 2", OTHER}


def test_a_named_tag_stays_until_twice_as_many_have_more(queue: Queue) -> None:
    collector = QueueCollector(queue, tags=2)
    queue.push_many([(0, "a"), (0, "a"), (0, "b")])
    assert Scrape(collector).tags == {"a", "b", OTHER}
    queue.push_many([(0, tag) for tag in "cd" for _ in range(5)])
    assert Scrape(collector).tags == {"a", "b", OTHER}, "they are still among the four largest"
    queue.push_many([(0, tag) for tag in "e" for _ in range(5)])
    assert Scrape(collector).tags == {"a", "c", OTHER}, "b is the fifth"
    assert Scrape(QueueCollector(queue, tags=2)).tags == {"c", "d", OTHER}


def test_no_tag_is_named_with_zero(queue: Queue) -> None:
    queue.push_many([(0, "a"), (0, "b")])
    queue.ack(lease(queue))
    scrape = Scrape(QueueCollector(queue, tags=0))
    assert scrape.tags == set()
    assert "tag_" not in scrape.text.replace("max_inflight_tasks", "")
    assert scrape("backlog_tasks") == queue.snapshot().backlog == 1


def test_the_number_of_series_is_bounded(queue: Queue) -> None:
    queue.push_many([(0, f"tag {number:04}") for number in range(20)])
    collector = QueueCollector(queue, tags=5)
    before = len(Scrape(collector).values)
    queue.push_many([(0, f"tag {number:04}") for number in range(2_000)])
    assert len(Scrape(collector).values) == before


def test_no_counter_ever_falls_while_the_named_tags_change(queue: Queue, clock: Any) -> None:
    chance = random.Random(7)
    collector = QueueCollector(queue, tags=2)
    before = Scrape(collector)
    named = set()
    for _ in range(60):
        queue.push_many([(0, f"tag {chance.randrange(12)}")] * chance.randrange(1, 12))
        for leased in queue.lease_many(chance.randrange(1, 8), ttl=5):
            verb = chance.choice([queue.ack, queue.release, lambda lease: queue.nack(lease, "x"), lambda lease: None])
            verb(leased)
        clock.advance(chance.choice([0.5, 3, 9]))
        scrape = Scrape(collector)
        for (name, labels), value in scrape.values.items():
            if name.endswith(("_total", "_count", "_sum", "_bucket")) and (name, labels) in before.values:
                assert value >= before.values[name, labels], name
        named |= scrape.tags
        before = scrape
    assert len(named) > 4, "the named tags changed"


# --- what the alerts watch -----------------------------------------------------------------------


def test_paused_tags_are_left_out_of_the_waits_that_alert(queue: Queue, clock: Any) -> None:
    queue.push_many([(0, "held"), (0, "held")])
    queue.configure("held", paused=True)
    clock.advance(100)
    queue.push(0, tag="free")
    clock.advance(10)
    scrape = Scrape(QueueCollector(queue))
    assert scrape("oldest_wait_seconds") == 110
    assert scrape("oldest_unpaused_wait_seconds") == scrape("longest_unserved_seconds") == 10
    assert scrape("paused_backlog_tasks") == 2
    assert scrape("tags", status="paused") == scrape("tags", status="servable") == 1
    queue.configure(paused=True)
    scrape = Scrape(QueueCollector(queue))
    assert scrape("paused_backlog_tasks") == 3
    assert not scrape.has("oldest_unpaused_wait_seconds")
    assert scrape("paused") == 1


def test_a_tag_whose_limit_is_taken_up_counts_as_unserved(queue: Queue, clock: Any) -> None:
    queue.push_many([(0, "stuck")] * 3)
    queue.configure("stuck", max_inflight=1)
    lease(queue, ttl=10_000)
    for _ in range(20):
        clock.advance(10)
        queue.push(0, tag="lively")
        queue.ack(lease(queue, ttl=10_000))
    scrape = Scrape(QueueCollector(queue))
    assert scrape("longest_unserved_seconds") == 200
    assert scrape("round_serves") == 1
    queue.push(0, tag="lively")
    queue.configure("lively", weight=5)
    assert Scrape(QueueCollector(queue))("round_serves") == 6
    assert scrape("tags", status="inflight_limit") == 1


def test_every_reason_has_a_status() -> None:
    assert set(STATUSES) == {None, *WhyNot}


def test_a_tag_that_was_served_long_ago_is_unserved_only_while_it_has_waited(queue: Queue, clock: Any) -> None:
    queue.push(0, tag="seldom")
    queue.ack(lease(queue))
    clock.advance(1_000)
    queue.push(0, tag="seldom")
    clock.advance(7)
    assert Scrape(QueueCollector(queue))("longest_unserved_seconds") == 7
