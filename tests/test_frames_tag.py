"""The frames and sentences of one tag and of operations: declared, defined when empty, true to the queue."""

import json

import pandas as pd
import pytest
from injected import Clock

from queue_core import Item, Queue, figures, frames, open_queue
from queue_core.control import Operator
from queue_core.frames import operations, tag
from queue_core.snapshot import Storage

ODD = ["", "a\0b", "<b>bold</b>", "x" * 10_000, "nan", "a\nb", "\u202eevil"]


def fill(queue: Queue) -> None:
    queue.push_many([Item({"big": 2**70, "n": n}, name, max_attempts=1) for n in range(6) for name in ODD])
    for n in range(3 * len(ODD)):
        lease = queue.lease(owner=f"w{n}\0<i>")
        if n < len(ODD):
            queue.ack(lease)
        elif n < 2 * len(ODD):
            queue.nack(lease, f"timeout after {n} s \0 \ud800 password=hunter2hunter")


def story(queue: Queue, name: str) -> frames.TagStory:
    with queue.view() as view:
        return frames.tag_story(view, name)


def kinds(frame: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(kind) for name, kind in frame.dtypes.items()}


@pytest.mark.parametrize("name", [*ODD, "no such tag"])
@pytest.mark.parametrize("filled", [False, True])
def test_a_story_is_declared_whatever_there_is(queue: Queue, name: str, filled: bool) -> None:
    if filled:
        fill(queue)
    found = story(queue, name)
    assert (found.tag is None) == (not filled or name == "no such tag")
    assert kinds(found.series) == dict(tag.TAG_SERIES)
    assert kinds(found.times) == dict(tag.TIMES)
    assert kinds(found.groups) == dict(tag.TAG_GROUPS)
    for what in ("wait", "service"):
        figures.times_histogram(found.times, what, name, (None, 0.1)).to_json()
    figures.backlog_over_time(found.known).to_json()
    figures.throughput(found.known).to_json()
    if found.tag is not None:
        assert frames.tag_verdict(found.snapshot, found.tag).text.startswith(frames.tag_label(name))
        assert len(found.groups) == 1
        assert "hunter2" not in str(found.groups.values)


def test_the_numbers_are_those_of_the_tag(queue: Queue, clock: Clock) -> None:
    fill(queue)
    clock.advance(1)
    found = story(queue, "nan")
    stats = found.tag
    assert stats is not None
    assert int(found.series["pushed"].sum()) == stats.totals.pushed == 6
    assert int(found.series["acked"].sum()) == stats.totals.acked == 1
    assert int(found.series["failed"].sum()) == stats.totals.nacked == 1
    assert found.series["pending"].iloc[-1] == stats.pending
    assert found.times.loc[found.times["what"] == "wait", "count"].sum() == stats.waits.count == 3
    assert found.looked == stats.dead == 1
    assert len(found.leases) == stats.inflight == 1
    assert found.serves["serve"].is_monotonic_decreasing


def test_what_is_not_kept_by_name_is_not_zero(queue: Queue, clock: Clock) -> None:
    """Of 150 tags a closed bucket keeps 100 by name."""
    queue.push_many([Item("x", f"tag {n}") for n in range(150) for _ in range(1 + (n < 100))])
    clock.advance(30)
    queue.push("x", tag="tag 0")
    kept, lost = story(queue, "tag 5").series, story(queue, "tag 149").series
    assert kept["known"].iloc[0]
    assert kept["pushed"].iloc[0] == 2
    assert not lost["known"].iloc[0]


def test_a_sentence_for_each_tag_says_who_is_next(queue: Queue) -> None:
    queue.push_many([("x", name) for name in ("a", "b", "c")])
    told = [frames.tag_verdict(story(queue, name).snapshot, story(queue, name).tag).text for name in "abc"]  # type: ignore[arg-type]
    assert told[0].startswith("a is next; 1 task waits")
    assert told[1].startswith("b is served in turn, after 1 other tag; ")
    assert told[2].startswith("c is served in turn, after 2 other tags; ")


# --- operations -----------------------------------------------------------------------------------


def test_plans_and_workers_are_declared(queue: Queue) -> None:
    with queue.view() as view:
        empty = frames.plans_seen(view)
    assert kinds(empty.frame) == dict(operations.PROGRESS)
    assert kinds(frames.workers_frame(empty.snapshot)) == dict(operations.WORKERS)
    fill(queue)
    operator = Operator(queue, "ann\0", origin="<b>")
    plan = operator.plan("redrive", "state:dead", reason="password=hunter2hunter")
    operator.plan("cancel", 'tag:"nothing like it"', reason="x")
    with queue.view() as view:
        seen = frames.plans_seen(view)
        one = frames.plan_seen(view, plan.number)
    assert kinds(seen.frame) == dict(operations.PROGRESS)
    assert list(seen.frame["progress"]) == [0.0, 0.0]
    assert kinds(one.reasons) == dict(operations.REASONS)
    assert "hunter2" not in str(one) + str(seen.frame.values)
    assert (one.runnable, one.stoppable, one.undoable) == (True, True, False)


def test_a_plan_of_a_store_that_was_restored_is_void(queue: Queue) -> None:
    fill(queue)
    plan = Operator(queue, "ann").plan("redrive", "state:dead")
    told = frames.plan_sentence(plan, plan.epoch + 1, queue.snapshot().at)
    assert told.reasons == ("The store was restored after it was made: it can no longer be run",)
    assert list(frames.progress_frame([plan], plan.epoch + 1, queue.snapshot().at)["standing"]) == ["ready, void"]


def test_the_audit_as_ndjson_is_what_the_frame_says(queue: Queue) -> None:
    Operator(queue, "ann \0é").configure("a\0b", weight=2, reason="é <b>\n")
    with queue.view() as view:
        page = frames.audit_page(view)
    (line,) = frames.audit_ndjson(page.frame).decode().splitlines()
    assert json.loads(line)["where"] == page.frame["where"][0]
    assert (page.looked, page.before, page.total) == (1, None, 1)


@pytest.mark.parametrize(
    ("size", "text"),
    [(None, "—"), (0, "0 B"), (999, "999 B"), (1_000, "1 kB"), (12_345_678, "12.3 MB"), (999_600, "1 MB")],
)
def test_sizes(size: int | None, text: str) -> None:
    assert frames.size_text(size) == text


def test_how_a_store_grows() -> None:
    facts = dict(frames.storage_facts(Storage(2_000_000, 4_000_000, 8_000_000), Storage(1_500_000, 1, 1), 120.0))
    assert facts["Since first seen"] == "grown by 500 kB, in 2 min"
    assert facts["Limit"] == "8 MB, 25 % of it used"
    assert frames.storage_facts(Storage(None, None, None), Storage(None, None, None), 9.0)[0][1].startswith(
        "this store"
    )


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("lmdb:///var/lib/app/queue", "lmdb …/app/queue"), ("/var/queue", "lmdb /var/queue"),
        ("memory://name", "memory name"), ("files:///a/b/c/d", "files …/c/d"),
    ],
)  # fmt: skip
def test_short_addresses(url: str, text: str) -> None:
    assert frames.short_address(url) == text


def test_an_address_with_a_password_is_masked() -> None:
    assert "hunter2" not in frames.address_text("postgresql://bob:hunter2hunter@host/queue")


def test_a_silent_worker_and_a_stopped_plan_need_a_person(clock: Clock) -> None:
    with open_queue("memory://", clock=clock) as queue:
        fill(queue)
        operator = Operator(queue, "ann")
        number = operator.plan("redrive", "state:dead").number
        operator.stop(number, "not now")
        with queue.view() as view:
            told = frames.plans_seen(view).verdict
        assert told.reasons == ("1 plan was stopped and can be resumed",)
        assert queue.check() == []
