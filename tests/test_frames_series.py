"""Frames of the measured history: exact against the totals, without holes, defined when empty, with any tags."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queue_core import InvalidArgument, LeaseLost, Queue, frames, open_queue
from queue_core.frames import OTHERS, series_frame, series_totals_frame, times_frame
from queue_core.frames.series import COUNTED, SERIES, STATES, TIMES, TOTALS, WAITS
from queue_core.ledger import Totals
from queue_core.series import KEPT
from queue_core.task import SECOND

Frame = pd.DataFrame
START = 1_750_000_200 * SECOND  # a whole ten minutes
STEPS = [None, 10, 60.0, timedelta(minutes=10), 7_200]


def types(frame: Frame) -> dict[str, str]:
    return {name: str(kind) for name, kind in frame.dtypes.items()}


def summed(frame: Frame) -> Totals:
    counts = {name: int(frame[name].sum()) for name in COUNTED}
    return Totals(**counts, **{name: round(frame[name].sum() * SECOND) for name in TIMES})


@pytest.fixture
def minute(clock: Any) -> None:
    clock.now = START


# --- what a frame is ------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_columns_and_dtypes_are_declared_also_when_empty(queue: Queue, clock: Any, step: Any) -> None:
    for _ in range(2):
        series = queue.series()
        assert types(series_frame(series, step=step)) == dict(SERIES)
        assert types(series_totals_frame(series, step=step)) == dict(TOTALS)
        assert types(times_frame(queue.snapshot())) == dict(WAITS)
        queue.push_many([("x", tag) for tag in ("a", "b")])
        clock.advance(100)
        queue.push("x", tag="b")


def test_rows_are_spans_and_tags(queue: Queue, clock: Any, minute: None) -> None:
    queue.push_many([("x", "a"), ("x", "a"), ("x", "b")])
    clock.advance(60)
    queue.ack(queue.lease())
    clock.advance(5)
    frame = series_frame(queue.series(), step=60)
    begin = pd.Timestamp(clock.at(-65))
    assert list(frame["start"]) == [begin] * 3 + [begin + pd.Timedelta("60s")] * 3
    assert list(frame["seconds"]) == [60.0] * 3 + [5.0] * 3
    assert list(frame["number"]) == [1, 2, 0] * 2
    assert list(frame["tag"]) == ["a", "b", "_other"] * 2
    assert list(frame["label"]) == ["a", "b", OTHERS] * 2
    assert list(frame["other"]) == [False, False, True] * 2
    assert list(frame["pushed"]) == [2, 1, 0, 0, 0, 0]
    assert list(frame["acked"]) == [0, 0, 0, 1, 0, 0]
    assert list(frame["pending"]) == [2, 1, 0, 1, 1, 0]
    assert list(frame["wait"]) == [0, 0, 0, 60, 0, 0]
    assert [*frame["oldest"].fillna(-1)] == [60, 60, -1, 65, 65, -1]
    assert [*frame["longest"].fillna(-1)] == [-1, -1, -1, 60, -1, -1]


def test_the_whole_queue_with_its_rates(queue: Queue, clock: Any, minute: None) -> None:
    queue.push_many([("x", "a")] * 30)
    for _ in range(3):
        clock.advance(20)
        queue.nack(queue.lease(), "no", retry_in=600)
        queue.ack(queue.lease())
    queue.lease(ttl=1)
    clock.advance(10)
    queue.ack(queue.lease())
    frame = series_totals_frame(queue.series(), step=60)
    assert list(frame["pushed_rate"]) == [0.5, 0.0]
    assert list(frame["acked_rate"]) == pytest.approx([2 / 60, 0.2])
    assert list(frame["leased_rate"]) == pytest.approx([4 / 60, 0.4])
    assert list(frame["failed"]) == [2, 2]
    assert list(frame["expired"]) == [0, 1]
    assert list(frame["failed_rate"]) == pytest.approx([2 / 60, 0.2])
    assert list(frame["pending"]) == [26, 23]
    assert list(frame["scheduled"]) == [2, 3]
    assert list(frame["oldest"]) == pytest.approx([60.0, 70.0])


def test_fields_can_be_chosen(queue: Queue) -> None:
    queue.push("x", tag="a")
    frame = series_frame(queue.series(), fields=["pending", "wait"])
    assert list(frame) == ["start", "seconds", "number", "tag", "label", "other", "pending", "wait"]
    with pytest.raises(InvalidArgument, match="no such field: depth; there are pushed, leased"):
        series_frame(queue.series(), fields=["pending", "depth"])


# --- holes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [None, 60])
def test_an_idle_time_has_rows_of_its_own(queue: Queue, clock: Any, minute: None, step: Any) -> None:
    queue.push_many([("x", "a"), ("x", "b")])
    queue.lease(ttl=3_600)
    clock.advance(600)
    queue.push("x", tag="a")
    frame = series_frame(queue.series(), step=step)
    idle = frame[(frame["start"] > frame["start"].iloc[0]) & (frame["start"] < frame["start"].iloc[-1])]
    assert len(idle) == 3 * (9 if step else 1)
    assert not idle[list(COUNTED)].any(axis=None)
    assert set(idle.loc[idle["tag"] == "a", "inflight"]) == {1}
    assert set(idle.loc[idle["tag"] == "b", "pending"]) == {1}
    assert set(idle["longest"].isna()) == {True}
    waits = idle.loc[idle["tag"] == "b", "oldest"]
    assert list(waits) == ([60.0 * n for n in range(2, 11)] if step else [600.0]), "the oldest wait goes on"
    totals = series_totals_frame(queue.series(), step=step)
    assert list(totals["oldest"])[-2] == 600.0
    assert totals["seconds"].sum() == pytest.approx(600, abs=1e-3)


def test_a_queue_that_slept_all_the_time_is_shown_as_it_stands(queue: Queue, clock: Any, minute: None) -> None:
    queue.push_many([("x", "a"), ("x", "b")])
    clock.advance(86_400)
    series = queue.series(since=clock.at(-900))
    frame = series_frame(series, step=60)
    assert set(frame["pending"]) == {0, 1}
    assert len(frame) == 15 * 3
    assert list(series_totals_frame(series, step=60)["pending"]) == [2] * 15
    assert series_totals_frame(series, step=60)["oldest"].iloc[-1] == 86_400


# --- tags -----------------------------------------------------------------------------------------


def test_a_tag_may_be_called_as_the_others_are(queue: Queue, clock: Any, minute: None) -> None:
    queue.push_many([("x", f"tag{n:03}") for n in range(150)] + [("x", "_other")] * 9 + [("x", OTHERS)] * 9)
    clock.advance(60)
    frame = series_frame(queue.series(), step=60)
    mine = frame[(frame["tag"] == "_other") & ~frame["other"]]
    rest = frame[frame["other"]]
    assert (len(mine), int(mine["pushed"].iloc[0]), int(mine["number"].iloc[0])) == (1, 9, 151)
    assert (len(rest), int(rest["pushed"].iloc[0]), int(rest["number"].iloc[0])) == (1, 152 - KEPT, 0)
    assert frame["label"].is_unique
    assert int(frame["pushed"].sum()) == queue.snapshot().totals.pushed


def test_a_tag_that_is_not_kept_is_unknown_not_zero(queue: Queue, clock: Any, minute: None) -> None:
    queue.push("x", tag="seen early")
    queue.push_many([("x", f"tag{n:03}") for n in range(150)])
    queue.lease(ttl=3_600)
    clock.advance(10)
    queue.push_many([(n, f"tag{n:03}") for n in range(50)] * 3)
    clock.advance(3_600)
    frame = series_frame(queue.series(), step=60).set_index("tag")
    early = frame.loc["seen early"]
    assert int(early["leased"]) == 1 if isinstance(early, pd.Series) else set(early["leased"]) == {1}
    first = frame[frame["start"] == frame["start"].min()]
    assert first.loc["seen early", "inflight"] is pd.NA
    assert first.loc["_other", "inflight"] == 1
    assert first["inflight"].sum() == 1


def test_where_the_others_have_none_it_is_zero_of_each(queue: Queue, clock: Any, minute: None) -> None:
    queue.push_many([("x", "a"), ("x", "b")])
    for _ in range(2):
        queue.ack(queue.lease())
    clock.advance(10)
    queue.push("x", tag="b")
    frame = series_frame(queue.series(), step=60).set_index("tag")
    assert frame.loc["a", "pending"] == 0
    assert frame.loc["b", "pending"] == 1
    assert math.isnan(frame.loc["a", "oldest"])


def test_tags_of_every_kind_are_exact(queue: Queue) -> None:
    odd = ["", "nan", "001", "1e5", "a\0b", "a\nb", "x" * 10_000, "x" * 9_999 + "y", "\u202eevil", "é"]
    queue.push_many([("x", tag) for tag in odd])
    frame = series_frame(queue.series())
    assert list(frame["tag"]) == [*odd, "_other"]
    assert frame["label"].is_unique
    assert frame["label"].str.len().max() <= 40
    assert list(times_frame(queue.snapshot())["tag"]) == ["", *odd]


# --- exactness ------------------------------------------------------------------------------------

MOVES = st.lists(
    st.tuples(
        st.sampled_from(["push", "lease", "ack", "nack", "dead", "redrive"]),
        st.integers(0, 160),
        st.sampled_from([0, 0, 0, 1, 7, 10, 59, 600, 3_600, 90_000, -3, -40, -3_600]),
    ),
    max_size=40,
)


@contextmanager
def lived(moves: list[tuple[str, int, int]]) -> Iterator[Queue]:
    """A queue after a random life; tag 160 stands for a push of 120 tags."""
    now = [START]
    held: list[Any] = []
    with open_queue("memory://", clock=lambda: now[0]) as queue:
        for verb, tag, seconds in moves:
            now[0] += seconds * SECOND
            if verb == "push":
                queue.push_many([("x", f"t{n}") for n in (range(120) if tag == 160 else [tag])])
            elif verb == "lease":
                held += queue.lease_many(1 + tag % 5, ttl=60)
            elif verb == "redrive":
                for task in queue.tasks("dead", limit=1):
                    queue.redrive(task.id)
            elif held:
                with suppress(LeaseLost):  # it has run out, and somebody else has it
                    end = {"ack": queue.ack, "nack": queue.nack, "dead": queue.dead_letter}[verb]
                    end(held.pop(), *(["no"] if verb != "ack" else []))
        yield queue
        assert queue.check() == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MOVES)
def test_all_rows_make_up_the_totals(moves: list[tuple[str, int, int]]) -> None:
    with lived(moves) as queue:
        with queue.view() as view:
            snapshot, series = view.snapshot(), view.series()
        expected = snapshot.totals.plus(series.remainder, -1)
        for step in (None, 3_600, timedelta(days=1)):
            frame, totals = series_frame(series, step=step), series_totals_frame(series, step=step)
            assert summed(frame) == summed(totals) == expected
            assert (totals["seconds"] > 0).all()
            assert (frame[list(COUNTED)] >= 0).all(axis=None)
            assert step is None or not frame.duplicated(["start", "number"]).any()
            by_span = frame.groupby(frame["other"].cumsum() - frame["other"])
            for state in STATES:
                assert list(by_span[state].sum()) == list(totals[state])
            if len(snapshot.tags) <= KEPT:
                assert list(by_span["oldest"].max().fillna(-1)) == list(totals["oldest"].fillna(-1))
        if series.buckets:
            last = series_totals_frame(series).iloc[-1]
            assert [int(last[state]) for state in STATES] == [getattr(snapshot, state) for state in STATES]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MOVES, st.integers(0, 60))
def test_a_cut_takes_nothing_and_doubles_nothing(moves: list[tuple[str, int, int]], minutes: int) -> None:
    with lived([(verb, tag, abs(seconds) % 700) for verb, tag, seconds in moves]) as queue:
        cut = datetime.fromtimestamp(START / SECOND, UTC) + timedelta(minutes=minutes)
        parts = [queue.series(until=cut), queue.series(since=cut)]
        for make in (series_frame, series_totals_frame):
            both = pd.concat([make(part, step=60) for part in parts], ignore_index=True)
            pd.testing.assert_frame_equal(both, make(queue.series(), step=60))


def test_large_numbers_stay_exact(queue: Queue, clock: Any, minute: None) -> None:
    queue.push_many([("x", "a")] * 300)
    clock.advance(40_000_000)
    queue.ack_many(queue.lease_many(300))
    frame = series_frame(queue.series())
    assert int(frame["leased"].sum()) == 300
    assert frame["wait"].sum() == 300 * 40_000_000
    assert frame["longest"].max() == 40_000_000


# --- how long it took -----------------------------------------------------------------------------


def test_times_are_those_of_the_snapshot(queue: Queue, clock: Any) -> None:
    queue.push_many([("x", tag) for tag in ("a", "b", "whole queue") for _ in range(3)])
    for wait in (0.2, 2, 20, 200):
        clock.advance(wait)
        held = queue.lease()
        clock.advance(wait / 10)
        queue.ack(held)
    snapshot = queue.snapshot()
    frame = times_frame(snapshot)
    assert list(frame["whole"]) == [True, False, False, False]
    assert list(frame["wait_count"]) == [4, 2, 1, 1]
    assert frame["label"].is_unique
    for row, times in zip(frame.itertuples(), [snapshot.waits, *(tag.waits for tag in snapshot.tags)], strict=True):
        assert (row.wait_mean, row.wait_p50, row.wait_p95) == (times.mean, times.p50, times.p95)
    assert frame["service_mean"].iloc[0] == pytest.approx((0.02 + 0.2 + 2 + 20) / 4)
    assert list(times_frame(snapshot, ["b"])["tag"]) == ["", "b"]


def test_no_sample_is_missing_not_zero(queue: Queue) -> None:
    queue.push("x", tag="a")
    frame = times_frame(queue.snapshot())
    assert list(frame["wait_count"]) == [0, 0]
    assert frame[["wait_mean", "wait_p50", "wait_p95", "wait_p99", "service_p50"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (float("nan"), "—"), (0.0005, "< 1 ms"), (0.00123, "1.2 ms"), (0.512, "510 ms"), (1.0, "1 s"), (9.96, "10 s"),
        (59.0, "59 s"), (61, "1 min"), (3_469, "58 min"), (27_750, "7.7 h"), (86_400, "1 d"), (864_000 * 12, "120 d"),
    ],
)  # fmt: skip
def test_a_quantile_has_two_digits(seconds: float, words: str) -> None:
    assert frames.quantile_text(seconds) == words
