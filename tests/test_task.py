"""Tokens, backoff, cleaned text, and the pure transitions."""

import json
import os
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_core import task as tasks
from queue_core.errors import InvalidArgument, LeaseLost
from queue_core.task import SECOND, Hold, Lease, Outcome, Record, State, Task, Token

NEW = Record(bytes(range(16)), 1, 7, State.PENDING, 1, b'"x"', 100, 100, 0)
HOLD = Hold(5, 6, "w1", 200, 200, 300, 100)
LEASED = tasks.leased(NEW, version=2, hold=HOLD)

# --- tokens ---------------------------------------------------------------------------------------


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_a_token_is_read_back(id: bytes, fence: int, nonce: int) -> None:
    token = Token(id, fence, nonce)
    assert tasks.parse_token(str(token)) == token
    assert tasks.is_token(str(token))
    assert not tasks.is_token(str(UUID(bytes=id)))


BAD = ["", "x", "../x", "0" * 32, f"{'0' * 32}.01.{'0' * 16}", f"{'A' * 32}.1.{'0' * 16}", f"{'0' * 32}.1.{'0' * 16}\n",
       f"{'0' * 32}.{'1' * 17}.{'0' * 16}", None, 7, b"x"]  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_anything_else_is_a_lost_lease(text: Any) -> None:
    with pytest.raises(LeaseLost):
        tasks.parse_token(text)


@given(st.text())
def test_random_text_is_a_lost_lease_and_nothing_worse(text: str) -> None:
    with pytest.raises(LeaseLost) as caught:
        tasks.parse_token(text)
    assert caught.value.tokens == (text,)


def test_only_the_newest_token_of_a_live_lease_fits() -> None:
    token = Token(NEW.id, HOLD.fence, HOLD.nonce)
    assert token.fits(LEASED)
    beaten = tasks.beaten(LEASED, nonce=9, now=250, ttl=None)
    dead = tasks.dead(LEASED, version=3, now=1, aged=0, reason="", hold=HOLD)
    for other in (None, NEW, beaten, dead, replace(LEASED, hold=replace(HOLD, fence=6))):
        assert not token.fits(other)


def test_ids_are_uuids() -> None:
    id = uuid4()
    assert tasks.parse_id(id) == tasks.parse_id(str(id)) == id.bytes
    assert tasks.id_text(id.bytes) == str(id)
    for bad in ("", "x", 5, None, b"x" * 16):
        with pytest.raises(InvalidArgument, match="is not a UUID, such as 00000000-"):
            tasks.parse_id(bad)  # type: ignore[arg-type]


# --- times ----------------------------------------------------------------------------------------


@given(st.datetimes(timezones=st.timezones() | st.just(UTC), min_value=datetime(1970, 1, 3)))  # noqa: DTZ001
def test_times_survive_to_the_microsecond(value: datetime) -> None:
    # A time in a repeated hour equals none of another zone (PEP 495): the instants are compared.
    assert tasks.moment(tasks.microseconds(value, "at")) == value.astimezone(UTC)


def test_a_naive_time_is_refused_by_name() -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    instant = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert tasks.microseconds(instant.astimezone(zone), "x") == tasks.microseconds(instant, "x")
    for bad in (instant.replace(tzinfo=None), 5, "2026-01-01", None):
        with pytest.raises(InvalidArgument, match=r"older_than is .*: give a datetime with a time zone"):
            tasks.microseconds(bad, "older_than")


# --- backoff --------------------------------------------------------------------------------------


@pytest.mark.parametrize("attempt", [0, 1, 2, 9, 10, 64, 1_024, 5_000, 10**9])
def test_backoff_doubles_from_one_second_to_five_minutes(attempt: int) -> None:
    full = min(2 ** min(max(attempt, 1) - 1, 20), 300) * SECOND
    delays = {tasks.backoff(id.to_bytes(16), 1, attempt) for id in range(200)}
    assert all(full // 2 <= delay <= full for delay in delays)
    assert max(delays) - min(delays) > full // 4, "it is jittered"


def test_backoff_is_the_same_everywhere_and_differs_by_id_cycle_and_attempt() -> None:
    one = bytes(16)
    assert tasks.backoff(one, 1, 9) == tasks.backoff(one, 1, 9)
    drawn = [tasks.backoff(one, cycle, attempt) for cycle in (1, 2, 3) for attempt in (10, 11, 12)]
    assert len(set(drawn)) == 9


# --- text -----------------------------------------------------------------------------------------


class Broken(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (KeyError("k"), "KeyError: 'k'"),
        (5, "5"),
        ("a\0b", "a\ufffdb"),
        (Broken(), "<Broken whose str() raises>"),
        ("é" * 30_000, "é" * 30_000),
    ],
)
def test_text_is_cleaned(value: object, text: str) -> None:
    assert tasks.clean_text(value) == text


@given(st.text(st.characters(), max_size=50), st.integers(1, 5_000))
def test_cleaned_text_can_be_kept_anywhere(text: str, times: int) -> None:
    kept = tasks.clean_text(text * times)
    assert "\0" not in kept
    assert len(kept.encode()) <= tasks.TEXT_LIMIT + 3
    if "\0" not in text and len((text * times).encode("utf-8", "replace")) < tasks.TEXT_LIMIT // 3:
        assert kept == (text * times).encode("utf-8", "surrogatepass").decode("utf-8", "replace")


# --- transitions ----------------------------------------------------------------------------------


def test_a_lease_counts_its_attempt_when_it_begins() -> None:
    assert (LEASED.state, LEASED.attempts, LEASED.leases, LEASED.hold) == (State.INFLIGHT, 1, 1, HOLD)
    assert NEW.attempts == 0, "records are frozen"


def test_a_heartbeat_renews_and_never_lowers() -> None:
    beaten = tasks.beaten(LEASED, nonce=9, now=250, ttl=None)
    assert beaten.hold == Hold(5, 9, "w1", 200, 250, 350, 100)
    assert beaten.version == LEASED.version
    early = tasks.beaten(LEASED, nonce=9, now=50, ttl=10)
    assert early.hold == Hold(5, 9, "w1", 200, 200, 300, 10)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_an_attempt_is_closed_once_and_given_back_by_release_and_defer_only(outcome: Outcome) -> None:
    ended = tasks.closed(LEASED, now=260, outcome=outcome, error="e")
    (attempt,) = ended.history
    assert (attempt.number, attempt.cycle, attempt.owner, attempt.error) == (1, 1, "w1", "e")
    assert (attempt.started, attempt.ended, attempt.outcome) == (200, 260, outcome)
    assert ended.attempts == (0 if outcome in (Outcome.RELEASED, Outcome.DEFERRED) else 1)
    assert ended.defers == (outcome is Outcome.DEFERRED)
    again = tasks.pending(ended, version=3, now=1)
    assert tasks.closed(again, now=300, outcome=outcome) == again


def test_an_attempt_never_ends_before_it_began() -> None:
    (attempt,) = tasks.closed(LEASED, now=150, outcome=Outcome.ACKED).history
    assert attempt.ended == attempt.started
    assert attempt.ended_at == attempt.started_at == tasks.moment(200)


def test_the_first_and_the_last_fifty_attempts_are_kept() -> None:
    record = NEW
    for number in range(130):
        leased = tasks.leased(record, version=number, hold=HOLD)
        record = tasks.pending(tasks.closed(leased, now=1, outcome=Outcome.NACKED), version=number, now=1)
    assert [attempt.number for attempt in record.history] == [*range(1, 51), *range(81, 131)]
    assert record.leases == 130


def test_the_last_error_stays_until_another_comes() -> None:
    failed = tasks.closed(LEASED, now=1, outcome=Outcome.NACKED, error="first")
    again = tasks.leased(tasks.pending(failed, version=3, now=1), version=4, hold=HOLD)
    assert tasks.closed(again, now=2, outcome=Outcome.EXPIRED).error == "first"


def test_a_redrive_is_a_new_cycle() -> None:
    died = tasks.dead(LEASED, version=3, now=400, aged=1, reason="why", hold=HOLD)
    assert (died.state, died.reason, died.hold, died.entry, died.entered) == (State.DEAD, "why", HOLD, 3, 400)
    back = tasks.revived(died, version=4, now=500, place=9)
    assert (back.state, back.cycle, back.attempts, back.place, back.ready) == (State.PENDING, 2, 0, 9, 500)
    assert (back.reason, back.hold, back.entry, back.entered) == (None, None, 0, 0)


def test_trash_knows_where_it_came_from() -> None:
    binned = tasks.trashed(tasks.scheduled(NEW, version=2, due=900), version=3, now=5, aged=6)
    assert (binned.state, binned.origin, binned.due, binned.order) == (State.TRASH, State.SCHEDULED, 900, 3)


def test_a_due_time_ends_with_the_calendar() -> None:
    assert tasks.moment(tasks.scheduled(NEW, version=2, due=10**20).due).year == 9999


def test_what_a_state_is_ordered_by() -> None:
    assert NEW.order == 7
    assert tasks.scheduled(NEW, version=2, due=900).order == 900
    assert LEASED.order == 300
    assert tasks.dead(LEASED, version=3, now=1, aged=0, reason="", hold=None).order == 3


# --- what callers get -----------------------------------------------------------------------------


def test_a_task_shows_only_the_times_of_its_state() -> None:
    waiting, held = Task(NEW, "a", json.loads), Task(LEASED, "a", json.loads)
    assert (waiting.pending_since, waiting.due_at, waiting.leased_at) == (tasks.moment(100), None, None)
    assert (held.pending_since, held.leased_at, held.expires_at) == (None, tasks.moment(200), tasks.moment(300))
    assert Task(tasks.scheduled(NEW, version=2, due=900), "a", json.loads).due_at == tasks.moment(900)
    assert repr(held) == "Task(00010203-0405-0607-0809-0a0b0c0d0e0f, tag='a', inflight, attempts=1/5)"
    assert held == Task(LEASED, "a", json.loads)
    assert held != waiting
    assert len({held, waiting, Task(NEW, "a", json.loads)}) == 2


def test_a_payload_is_decoded_once_when_it_is_asked_for() -> None:
    asked = []

    def load(data: bytes) -> Any:
        asked.append(data)
        return json.loads(data)

    task = Task(NEW, "a", load)
    assert asked == []
    assert (task.payload, task.payload, asked) == ("x", "x", [b'"x"'])


def test_a_lease_has_its_token_and_times() -> None:
    lease = Lease(Task(LEASED, "a", json.loads))
    assert lease.token == "000102030405060708090a0b0c0d0e0f.5.0000000000000006"
    assert (lease.fence, lease.owner, lease.attempt, lease.ttl) == (5, "w1", 1, 0.0001)
    assert repr(lease) == "Lease(00010203-0405-0607-0809-0a0b0c0d0e0f, tag='a', owner='w1', fence=5)"


def test_nonces_are_random_and_a_forked_child_draws_its_own() -> None:
    assert len({tasks.nonce() for _ in range(2_000)}) == 2_000
    assert all(0 <= tasks.nonce() < 1 << 64 for _ in range(100))
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, tasks.nonce().to_bytes(8))
        os._exit(0)
    os.wait()
    assert int.from_bytes(os.read(read, 8)) not in [tasks.nonce() for _ in range(600)]
