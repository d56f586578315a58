"""Buckets cover every time once, quantiles keep their stated error, merging is exact."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_core.histogram import ABSOLUTE_ERROR, LAST, RELATIVE_ERROR, Times, begins, bucket_of, merged

SECOND = 1_000_000
TIMES = st.integers(0, 100) | st.integers(0, 10 * SECOND) | st.integers(0, 60 * 24 * 3600 * SECOND)


def of(times: list[int]) -> Times:
    return Times(merged({bucket_of(time): 1} for time in times), sum(times))


@given(TIMES)
def test_a_time_lies_in_its_bucket(time: int) -> None:
    bucket = bucket_of(time)
    assert begins(bucket) <= time
    assert bucket == LAST or time < begins(bucket + 1)


def test_buckets_follow_one_another() -> None:
    ends = [begins(bucket) for bucket in range(LAST + 1)]
    assert ends == sorted(set(ends))
    assert [bucket_of(end) for end in ends] == list(range(LAST + 1))
    assert ends[:6] == [0, 1024, 1280, 1536, 1792, 2048]


@given(st.lists(st.integers(0, 30 * 24 * 3600 * SECOND), min_size=1), st.floats(0, 1))
def test_a_quantile_is_within_its_error_of_the_nearest_rank(times: list[int], q: float) -> None:
    exact = sorted(times)[max(math.ceil(q * len(times)) - 1, 0)] / SECOND
    found = of(times).quantile(q)
    assert found is not None
    assert abs(found - exact) <= max(exact * (RELATIVE_ERROR + 1e-9), ABSOLUTE_ERROR)


@given(st.lists(TIMES), st.lists(TIMES))
def test_merging_is_exact(some: list[int], others: list[int]) -> None:
    both = of(some + others)
    assert merged([of(some).buckets, of(others).buckets]) == both.buckets
    assert both.count == len(some) + len(others)


def test_nothing_has_no_quantile_and_no_mean() -> None:
    assert (Times({}).p50, Times({}).p95, Times({}).p99, Times({}).mean, Times({}).count) == (None,) * 4 + (0,)
    assert Times({}).cumulative() == []


def test_one_sample_is_every_quantile() -> None:
    one = of([3 * SECOND])
    assert one.p50 == one.p99 == pytest.approx(3, rel=RELATIVE_ERROR)
    assert one.mean == 3.0


def test_a_quantile_outside_0_to_1_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        of([1]).quantile(1.5)


@given(st.lists(TIMES, min_size=1))
def test_cumulative_ends_with_all_samples(times: list[int]) -> None:
    pairs = of(times).cumulative()
    assert pairs == sorted(pairs)
    assert pairs[-1][1] == len(times)
    for end, below in pairs:
        assert below == sum(time / SECOND < end for time in times)
