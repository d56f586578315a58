"""What the two systems that this queue replaces could do, each as a test of its own."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from drive import Open, fill, payloads

from queue_core import LeaseLost, Outcome, Queue, State, TaskNotFound, Undecodable, open_queue

needs = pytest.mark.needs


# --- the round-robin queue ------------------------------------------------------------------------


def test_rotation_serves_a_b_c_a_b_c(queue: Queue) -> None:
    fill(queue, a=3, b=3, c=3)
    assert payloads(queue, 99) == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


def test_lease_many_is_the_same_rotation(queue: Queue) -> None:
    fill(queue, a=3, b=1, c=2)
    assert [lease.payload for lease in queue.lease_many(5)] == ["a0", "b0", "c0", "a1", "c1"]


def test_empty_tags_are_skipped(queue: Queue) -> None:
    fill(queue, a=100, b=1, c=1)
    queue.cancel(queue.tasks("pending", tag="b").items[0].id)
    assert payloads(queue, 4) == ["a0", "c0", "a1", "a2"]


def test_a_drained_tag_keeps_its_seat_and_rejoins(queue: Queue) -> None:
    fill(queue, a=3, b=1, c=3)
    assert payloads(queue, 4) == ["a0", "b0", "c0", "a1"]
    fill(queue, b=1)
    assert payloads(queue, 3) == ["b0", "c1", "a2"]
    assert queue.snapshot().ring.tags == ("a", "b", "c")


def test_a_new_tag_joins_at_the_end_of_the_round_in_mid_run(queue: Queue) -> None:
    fill(queue, a=4, b=4)
    assert payloads(queue, 1) == ["a0"]
    fill(queue, c=2)
    assert payloads(queue, 6) == ["b0", "c0", "a1", "b1", "c1", "a2"]


def test_a_tag_first_seen_after_the_last_of_the_round_waits_for_the_next_round(queue: Queue) -> None:
    fill(queue, a=2, b=2)
    assert payloads(queue, 2) == ["a0", "b0"]  # the cursor has moved on to a
    fill(queue, c=1)
    assert payloads(queue, 3) == ["a1", "b1", "c0"]


@needs("durable")
def test_a_restart_keeps_order_and_cursor(opened: Open) -> None:
    served = []
    first = opened()
    fill(first, a=3, b=3, c=3)
    first.close()
    for _ in range(9):
        queue = opened()
        served += payloads(queue, 1)
        queue.close()
    assert served == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


@needs("durable")
def test_a_restart_keeps_leases_and_what_is_left_of_a_turn(opened: Open) -> None:
    first = opened()
    first.configure("a", weight=3)
    fill(first, a=3, b=1)
    lease = first.lease()
    assert lease is not None
    first.close()
    second = opened()
    assert payloads(second, 2) == ["a1", "a2"]
    second.ack(lease.token)
    assert payloads(second, 9) == ["b0"]


def test_recovery_brings_tasks_back_to_their_original_place(queue: Queue) -> None:
    fill(queue, a=5)
    queue.lease_many(3)
    assert queue.requeue_inflight() == 3
    assert payloads(queue, 9) == ["a0", "a1", "a2", "a3", "a4"]


def test_nack_with_no_attempts_left_moves_to_the_dead_letters(queue: Queue) -> None:
    queue.push("x", tag="a", max_attempts=1)
    lease = queue.lease()
    assert lease is not None
    dead = queue.nack(lease, "boom")
    assert (dead.state, dead.error, queue.counts().dead) == (State.DEAD, "boom", 1)


def test_pushing_a_task_again_clears_its_lease(queue: Queue) -> None:
    task = queue.push("first", tag="a")
    lease = queue.lease()
    assert lease is not None
    again = queue.push("second", tag="a", id=task.id)
    assert (again.state, again.place, again.payload) == (State.PENDING, task.place, "second")
    assert [attempt.outcome for attempt in again.history] == [Outcome.REPUSHED]
    with pytest.raises(LeaseLost):
        queue.ack(lease)
    assert payloads(queue, 9) == ["second"]


def test_replace_changes_the_stored_task_and_nothing_else(queue: Queue) -> None:
    fill(queue, a=2)
    task = queue.tasks("pending").items[0]
    new = queue.replace(task, payload={"n": 1})
    assert (new.payload, new.place, new.state, new.attempts) == ({"n": 1}, task.place, task.state, 0)
    assert new.version > task.version
    assert payloads(queue, 9) == [{"n": 1}, "a1"]


def test_tasks_are_first_in_first_out_inside_a_tag(queue: Queue) -> None:
    fill(queue, a=300)
    assert payloads(queue, 999) == [f"a{i}" for i in range(300)]


def test_four_leasers_on_three_tags_of_fifty(opened: Open) -> None:
    queue = opened()
    fill(queue, a=50, b=50, c=50)
    got: list[tuple[int, str]] = []
    start = threading.Barrier(4)

    def work() -> None:
        mine = opened()
        start.wait()
        while (lease := mine.lease()) is not None:
            got.append((lease.fence, lease.payload))
            mine.ack(lease)

    with running(*[work] * 4):
        pass
    assert [payload for _, payload in sorted(got)] == [f"{tag}{i}" for i in range(50) for tag in "abc"]
    assert queue.snapshot().totals.acked == 150


@contextmanager
def running(*functions: Callable[[], None]) -> Iterator[None]:
    """Run each in a thread; what one raises is raised here."""
    raised: list[BaseException] = []

    def guarded(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert raised == []


SIZES = [0, 1, 255, 511, 512, 2_000, 65_535]


@pytest.mark.parametrize("letter", ["a", "é", "🙂", "/", "\n", "\0"])
@pytest.mark.parametrize("size", SIZES)
def test_tags_of_every_length_in_bytes(queue: Queue, size: int, letter: str) -> None:
    each = len(letter.encode())
    tag = letter * (size // each) + "x" * (size % each)
    other = tag[:-1] if size == SIZES[-1] else tag + "x"
    queue.push_many([(1, tag), (2, other), (3, tag)])
    assert len(tag.encode()) == size
    assert [(lease.tag, lease.payload) for lease in queue.lease_many(9)] == [(tag, 1), (other, 2), (tag, 3)]
    assert queue.tasks("inflight", tag=tag).total == 2
    assert [stats.name for stats in queue.snapshot().tags] == [tag, other]


def test_tags_are_compared_as_exact_bytes(queue: Queue) -> None:
    tags = ["é", "e\u0301", "E\u0301", "x", "x-1", "x/", "x\0"]
    queue.push_many([(tag, tag) for tag in tags])
    assert [queue.tasks("pending", tag=tag).total for tag in tags] == [1] * len(tags)
    assert payloads(queue, 99) == tags


class Bracketed:
    """A serializer that keeps a set as a sorted list."""

    def dump(self, payload: Any) -> Any:
        return sorted(payload)

    def load(self, value: Any) -> Any:
        return set(value)


def test_a_serializer_maps_payloads(opened: Open) -> None:
    queue = opened(serializer=Bracketed())
    assert queue.push({3, 1, 2}).payload == {1, 2, 3}
    lease = queue.lease()
    assert lease is not None
    assert lease.payload == {1, 2, 3}
    assert opened().get(lease.id).payload == [1, 2, 3]


@dataclass
class Page:
    url: str
    depth: int = 0


class Struct(msgspec.Struct):
    url: str


@pytest.mark.parametrize("payload", [Page("https://example.org", 2), Struct("https://example.org")])
def test_payload_type_gives_and_takes_typed_payloads(opened: Open, payload: Any) -> None:
    queue = opened(payload_type=type(payload), tag_of=lambda given: given.url)
    assert queue.push(payload).payload == payload
    lease = queue.lease()
    assert lease is not None
    assert (lease.payload, lease.tag) == (payload, payload.url)


def test_the_tag_is_derived_from_the_payload_unless_one_is_given(opened: Open) -> None:
    queue = opened(tag_of=lambda payload: payload["site"])
    tags = [task.tag for task in queue.push_many([{"site": "a"}, ({"site": "a"}, "given"), ({"site": "a"}, "")])]
    assert tags == ["a", "given", ""]


# --- the one-file-per-task queue ------------------------------------------------------------------


def test_a_heartbeat_makes_the_old_token_stale(queue: Queue, clock: Any) -> None:
    queue.push("x")
    old = queue.lease(ttl=30)
    assert old is not None
    clock.advance(10)
    new = queue.heartbeat(old)
    assert new.token != old.token
    assert new.expires_at == clock.at(30)
    for verb in (queue.heartbeat, queue.ack, queue.release, lambda token: queue.nack(token, "late")):
        with pytest.raises(LeaseLost) as caught:
            verb(old)
        assert caught.value.tokens == (old.token,)
    queue.ack(new)


def test_ack_by_token_is_accepted_once(queue: Queue) -> None:
    queue.push("x")
    lease = queue.lease()
    assert lease is not None
    queue.ack(lease.token)
    with pytest.raises(LeaseLost):
        queue.ack(lease.token)
    with pytest.raises(TaskNotFound):
        queue.get(lease.id)


@pytest.mark.parametrize("text", ["../x", "", "a.b.c", "/etc/passwd", "0" * 32 + ".1.2", "\0", "é" * 500])
def test_text_that_is_no_token_is_a_lost_lease(queue: Queue, text: str) -> None:
    queue.push("x")
    with pytest.raises(LeaseLost, match="lease lost"):
        queue.ack(text)
    assert queue.counts().pending == 1


def test_cutoffs_in_the_past_touch_nothing(queue: Queue, clock: Any) -> None:
    fill(queue, a=3)
    leases = queue.lease_many(3)
    before = [queue.get(lease.id) for lease in leases]
    assert queue.requeue_inflight(older_than=clock.at(-1)) == 0
    assert queue.dead_letter_inflight(older_than=clock.at(-1), reason="stuck") == 0
    assert [queue.get(lease.id) for lease in leases] == before
    queue.ack_many(leases)


def test_a_cutoff_is_compared_with_the_last_heartbeat_inclusively(queue: Queue, clock: Any) -> None:
    fill(queue, a=3)
    silent, exact, fresh = queue.lease_many(3, ttl=1_000)
    clock.advance(10)
    cutoff = clock.at()
    exact = queue.heartbeat(exact)
    clock.advance(0.000001)
    fresh = queue.heartbeat(fresh)
    assert queue.requeue_inflight(older_than=cutoff) == 2
    assert {lease.id for lease in (silent, exact)} == {task.id for task in queue.tasks("pending")}
    queue.ack(fresh)


def test_recovery_dead_letters_with_lease_and_reason(queue: Queue, clock: Any) -> None:
    queue.push("x", tag="a")
    lease = queue.lease(owner="w1")
    assert lease is not None
    clock.advance(5)
    assert queue.dead_letter_inflight(older_than=clock.at(), reason="stuck") == 1
    dead = queue.get(lease.id)
    assert (dead.state, dead.reason, dead.owner, dead.attempts) == (State.DEAD, "stuck", "w1", 1)
    assert (dead.leased_at, dead.expires_at) == (lease.leased_at, lease.expires_at)
    assert [(a.outcome, a.owner, a.error) for a in dead.history] == [(Outcome.DEAD_LETTERED, "w1", "stuck")]


def test_the_length_of_each_state_is_counted(queue: Queue) -> None:
    fill(queue, a=9)
    queue.push("later", delay=60)
    one, two, _ = queue.lease_many(3)
    queue.dead_letter(one, "bad")
    queue.purge(queue.dead_letter(two, "bad").id)
    counts = queue.counts()
    assert (counts.pending, counts.scheduled, counts.inflight, counts.dead, counts.trash) == (6, 1, 1, 1, 1)


def test_two_handles_on_one_store_share_everything(opened: Open) -> None:
    one, two = opened(), opened()
    fill(one, a=2, b=2)
    assert payloads(one, 1) + payloads(two, 1) + payloads(one, 1) == ["a0", "b0", "a1"]
    lease = two.lease()
    assert lease is not None
    one.close()
    one.close()  # closing twice takes nothing from the other
    two.ack(lease)
    assert two.counts().all == 0


def test_an_undecodable_payload_is_set_aside_with_its_bytes(opened: Open) -> None:
    plain, typed = opened(), opened(payload_type=Page)
    plain.push_many([{"url": 1, "wrong": True}, *({"url": str(i)} for i in range(5))])
    assert [payload.url for payload in payloads(typed, 99)] == ["0", "1", "2", "3", "4"]
    (dead,) = plain.tasks("dead")
    assert dead.payload == {"url": 1, "wrong": True}
    assert dead.reason is not None
    assert dead.reason.startswith("payload does not decode")
    (shown,) = typed.tasks("dead")
    assert isinstance(shown.payload, Undecodable)
    assert shown.payload.data == b'{"url":1,"wrong":true}'


def test_an_undecodable_payload_that_is_taken_back_meanwhile_costs_no_other_lease(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, typed = opened(), opened(payload_type=Page)
    bad = plain.push({"url": 1, "wrong": True})
    plain.push_many([{"url": "0"}, {"url": "1"}])
    settle = typed._store.settle

    def late(*given: Any) -> Any:
        plain.requeue(bad.id)
        return settle(*given)

    monkeypatch.setattr(typed._store, "settle", late)
    assert [lease.payload.url for lease in typed.lease_many(3)] == ["0", "1"]
    assert plain.get(bad.id).state == "pending"


def test_a_private_memory_queue_is_its_own() -> None:
    with open_queue("memory://") as one, open_queue("memory://") as two:
        one.push(1)
        assert (one.counts().pending, two.counts().pending) == (1, 0)
        assert one.check() == two.check() == []


def test_counts_of_done_work_by_tag_are_exact(queue: Queue) -> None:
    fill(queue, a=5, b=3)
    done = Counter(payload[0] for payload in payloads(queue, 6))
    totals = {stats.name: stats.totals.acked for stats in queue.snapshot().tags}
    assert totals == dict(done) == {"a": 3, "b": 3}
