"""What is exported equals the snapshot, and never breaks a scrape."""

import logging
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from scraping import Scrape, lease

from queue_core import Queue, State, open_queue
from queue_core.histogram import Times, begins
from queue_core.ledger import WorkerRecord
from queue_core.prometheus import OTHER, QueueCollector
from queue_core.prometheus.families import ENDS, cumulative
from queue_core.prometheus.survey import STATUSES
from queue_core.task import SECOND


@pytest.fixture
def mixed(queue: Queue, clock: Any) -> Queue:
    """Tasks in every state; three died by expiry, two by nack, one by a verb; settings and workers."""
    queue.push_many([(n, f"tag {n % 3}") for n in range(30)])
    for _ in range(5):
        queue.push(0, tag="dying", max_attempts=1)
    doomed = queue.push(0, tag="dying")
    clock.advance(3)
    queue.configure(paused=True)
    for name in ("tag 0", "tag 1", "tag 2"):
        queue.configure(name, paused=True)
    queue.configure(paused=False)
    held = [lease(queue, ttl=10) for _ in range(5)]
    clock.advance(0.5)
    for token in held[:2]:
        queue.nack(token, "no")
    clock.advance(20)
    queue.requeue_inflight()
    queue.dead_letter(doomed.id, "by hand")
    for name in ("tag 0", "tag 1", "tag 2"):
        queue.configure(name, paused=False)
    queue.configure("tag 0", weight=4, max_inflight=7, max_pending=90, min_interval=0.25)
    queue.configure(max_inflight=50, dead_retention=86_400)
    queue.push(1, tag="later", delay=3600)
    queue.push(1, tag="soon", delay=5)
    queue.cancel(queue.push(1, tag="gone").id)
    for act in (queue.ack, queue.release, lambda token: queue.defer(token, 60), lambda token: queue.nack(token, "x")):
        act(lease(queue, ttl=5))
        clock.advance(0.3)
    taken = queue.lease_many(3, ttl=5)
    queue.requeue(taken[0].task.id)
    queue.dead_letter(taken[1].task.id, "by hand")
    queue.push(2, id=taken[2].task.id, tag=taken[2].tag)
    assert queue.lease_many(4, ttl=5)
    clock.advance(6)
    for age, stopped in ((5, False), (30, False), (31, False), (5, True)):
        at = clock() - age * SECOND
        queue.report(WorkerRecord(f"w{age}{stopped}", "host", 1, at, at, at if stopped else 0, concurrency=4))
    return queue


def test_the_whole_queue_as_its_snapshot_has_it(mixed: Queue) -> None:
    scrape, snapshot = Scrape(QueueCollector(mixed)), mixed.snapshot()
    totals = snapshot.totals
    assert scrape("up") == 1
    assert {state: scrape("tasks", state=state) for state in State} == {s: getattr(snapshot, s) for s in State}
    assert all(scrape("tasks", state=state) for state in State)
    assert scrape("backlog_tasks") == snapshot.backlog
    assert (scrape("due_tasks"), scrape("expired_tasks")) == (snapshot.due, snapshot.expired) == (2, 4)
    assert scrape("oldest_wait_seconds") == snapshot.oldest_wait
    assert scrape("pushed_total") == totals.pushed == 39
    assert scrape("leases_total") == totals.leased == snapshot.ring.serves
    assert scrape("eligible_seconds_total") == totals.eligible / SECOND > 0
    assert scrape("paused") == 0
    assert scrape("max_inflight_tasks") == 50
    assert not scrape.has("max_pending_tasks")
    assert scrape("dead_retention_seconds") == 86_400
    assert scrape("max_payload_bytes") == 1 << 20
    assert scrape("moves_total", move="requeued") == totals.requeued == 1
    assert scrape("moves_total", move="cancelled") == totals.cancelled == 1
    assert scrape("workers", state="running") == 2
    assert scrape("workers", state="lost") == 1
    assert scrape("worker_slots") == 8
    assert sum(scrape("tags", status=status) for status in STATUSES.values()) == len(snapshot.tags)


def test_attempts_by_outcome_add_up_and_deaths_are_told_apart(mixed: Queue) -> None:
    scrape = Scrape(QueueCollector(mixed))
    attempts = {
        outcome: scrape("attempts_total", outcome=outcome)
        for outcome in ("acked", "nacked", "expired", "released", "deferred", "other")
    }
    assert attempts == {"acked": 1, "nacked": 3, "expired": 3, "released": 1, "deferred": 1, "other": 3}
    assert sum(attempts.values()) + scrape("tasks", state="inflight") == scrape("leases_total")
    deaths = {reason: scrape("deaths_total", reason=reason) for reason in ("nacked", "expired", "dead_lettered")}
    assert deaths == {"nacked": 2, "expired": 3, "dead_lettered": 2}


def test_each_tag_as_the_snapshot_has_it(mixed: Queue) -> None:
    scrape, snapshot = Scrape(QueueCollector(mixed)), mixed.snapshot()
    for tag in snapshot.tags:
        totals = tag.totals
        assert {state: scrape("tag_tasks", tag=tag.name, state=state) for state in State} == {
            state: getattr(tag, state) for state in State
        }
        assert scrape("tag_backlog_tasks", tag=tag.name) == tag.backlog
        assert scrape("tag_due_tasks", tag=tag.name) == tag.due
        assert scrape("tag_expired_tasks", tag=tag.name) == tag.expired
        assert scrape.has("tag_oldest_wait_seconds", tag=tag.name) == (tag.oldest_wait is not None)
        assert scrape("tag_pushed_total", tag=tag.name) == totals.pushed
        assert scrape("tag_leases_total", tag=tag.name) == totals.leased
        assert scrape("tag_attempts_total", tag=tag.name, outcome="expired") == totals.expired
        assert scrape("tag_deaths_total", tag=tag.name, reason="expired") == totals.died_expired
        assert scrape("tag_wait_seconds_count", tag=tag.name) == tag.waits.count == totals.leased
        assert scrape("tag_service_seconds_sum", tag=tag.name) == tag.services.sum == totals.service / SECOND
        assert scrape("tag_weight", tag=tag.name) == tag.settings.weight
        assert scrape("tag_paused", tag=tag.name) == tag.settings.paused
        assert scrape("tag_servable", tag=tag.name) == (tag.why_not is None)
    assert scrape("tag_max_inflight_tasks", tag="tag 0") == 7
    assert scrape("tag_min_interval_seconds", tag="tag 0") == 0.25
    assert scrape("tag_backlog_tasks", tag=OTHER) == 0
    assert not scrape.has("tag_oldest_wait_seconds", tag=OTHER)


@pytest.mark.parametrize("name", ["wait", "service"])
def test_histograms_have_the_same_bounds_everywhere_and_exact_counts(mixed: Queue, name: str) -> None:
    scrape, snapshot = Scrape(QueueCollector(mixed)), mixed.snapshot()
    times = snapshot.waits if name == "wait" else snapshot.services
    assert times.count > 0
    for end in ENDS:
        below = sum(count for bucket, count in times.buckets.items() if begins(bucket) / SECOND < float(end))
        assert scrape(f"{name}_seconds_bucket", le=end) == below
    assert scrape(f"{name}_seconds_count") == times.count == scrape(f"{name}_seconds_bucket", le="+Inf")
    assert scrape(f"{name}_seconds_sum") == times.sum
    bounds = defaultdict(set)
    for sample, labels in scrape.values:
        if sample.endswith(f"{name}_seconds_bucket"):
            bounds[sample, dict(labels).get("tag")].add(dict(labels)["le"])
    assert len(bounds) == len(snapshot.tags) + 1
    assert all(found == set(ENDS) for found in bounds.values())


@given(st.dictionaries(st.integers(0, 127), st.integers(1, 9), max_size=20))
def test_a_bound_never_splits_a_stored_bucket(buckets: dict[int, int]) -> None:
    for end, count in cumulative(Times(buckets)):
        inside = [n for bucket, n in buckets.items() if begins(bucket) / SECOND < float(end)]
        wholly = [n for bucket, n in buckets.items() if bucket < 127 and begins(bucket + 1) / SECOND <= float(end)]
        assert count == sum(inside)
        assert end == "+Inf" or sum(inside) == sum(wholly)


def test_an_empty_queue_has_every_counter_at_zero_and_no_wait(queue: Queue) -> None:
    scrape = Scrape(QueueCollector(queue))
    assert scrape("up") == 1
    assert scrape("leases_total") == scrape("wait_seconds_bucket", le="+Inf") == 0
    assert scrape("deaths_total", reason="nacked") == 0
    for name in ("oldest_wait", "oldest_unpaused_wait", "longest_unserved"):
        assert not scrape.has(f"{name}_seconds")
    assert not scrape.has("store_limit_bytes"), "the memory store has no limit"
    assert scrape.tags == {OTHER}
    assert "NaN" not in scrape.text


def test_room_of_a_store_on_disk(tmp_path: Path) -> None:
    with open_queue(tmp_path / "queue", max_size=64 << 20) as queue:
        queue.push("x" * 100_000)
        scrape, storage = Scrape(QueueCollector(queue)), queue.storage()
        assert scrape("store_used_bytes") == storage.used
        assert scrape("store_file_bytes") == storage.file
        assert scrape("store_limit_bytes") == storage.limit
        assert queue.check() == []


# --- the collector -------------------------------------------------------------------------------


def test_a_scrape_reads_one_snapshot_and_no_task(mixed: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def spied(name: str) -> Callable[..., Any]:
        real = getattr(Queue, name)

        def spy(self: Queue, *args: Any, **how: Any) -> Any:
            calls.append(name)
            return real(self, *args, **how)

        return spy

    with monkeypatch.context() as patch:
        for name in ("snapshot", "storage", "tasks", "get", "counts", "explain", "journal", "check"):
            patch.setattr(Queue, name, spied(name))
        Scrape(QueueCollector(mixed))
    assert calls == ["snapshot", "storage"]


def test_openmetrics_is_valid_too(mixed: Queue) -> None:
    registry = CollectorRegistry()
    registry.register(QueueCollector(mixed))
    names = {family.name for family in parse_openmetrics(generate_openmetrics(registry).decode())}
    assert {"queue_core_leases", "queue_core_tag_wait_seconds", "queue_core_build"} <= names


def test_every_family_has_help_and_is_described(mixed: Queue, promtool: str) -> None:
    collector = QueueCollector(mixed)
    scrape = Scrape(collector)
    assert [family.name for family in collector.describe()] == [family.name for family in collector.collect()]
    assert all(family.documentation.endswith(".") for family in scrape.families.values())
    checked = subprocess.run([promtool, "check", "metrics"], input=scrape.text, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_a_registry_takes_one_queue_and_serves_single_names(mixed: Queue) -> None:
    registry = CollectorRegistry()
    registry.register(QueueCollector(mixed))
    with pytest.raises(ValueError, match="queue_core_up"):
        registry.register(QueueCollector(mixed))
    one = list(registry.restricted_registry(["queue_core_backlog_tasks"]).collect())
    assert [family.name for family in one] == ["queue_core_backlog_tasks"]


def test_negative_tags_are_refused(queue: Queue) -> None:
    with pytest.raises(ValueError, match="tags=-1"):
        QueueCollector(queue, tags=-1)


def test_a_store_that_goes_and_comes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "queue"
    collector = QueueCollector(lambda: open_queue(path, create=False))
    with caplog.at_level(logging.INFO, "queue_core.prometheus"):
        for _ in range(2):
            scrape = Scrape(collector)
            assert scrape("up") == 0
            assert {name for name, _ in scrape.values} == {"queue_core_up", "queue_core_build_info"}
        assert len(caplog.records) == 1, "the same trouble is told once"
        with open_queue(path) as queue:
            queue.push(0)
            assert Scrape(collector)("backlog_tasks") == 1
            assert queue.check() == []
        assert "can be read again" in caplog.text
        shutil.rmtree(path)
        assert Scrape(collector)("up") == 0
        assert type(collector.trouble).__name__ == "StoreGone"
        with open_queue(path) as queue:
            assert Scrape(collector)("up") == 1
            assert queue.check() == []
        assert collector.trouble is None
    collector.close()


def test_a_queue_that_was_given_is_not_closed(queue: Queue) -> None:
    collector = QueueCollector(queue)
    collector.close()
    assert Scrape(collector)("up") == 1
    with open_queue("memory://") as other:
        closed = QueueCollector(other)
    assert Scrape(closed)("up") == 0


def test_without_prometheus_client_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['prometheus_client'] = None; import queue_core.prometheus"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "MissingDriver" in done.stderr
    assert "queue_core[metrics]" in done.stderr
