"""A forecast's span holds what comes in nine of ten cases, for steady serves and for bursts."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_core.forecast import LEAST, TICK, Forecast, forecast, roughly


def exponential(draw: random.Random, number: int, rate: float) -> list[float]:
    return [draw.expovariate(rate) for _ in range(number)]


def counted(times: list[float], width: float) -> list[tuple[int, float]]:
    """Moments of serves, as how many fell into each span; the spans end with the last whole one."""
    spans = int(max(times) // width)
    return [(sum(n * width <= time < (n + 1) * width for time in times), width) for n in range(spans)]


@pytest.mark.parametrize("wanted", [1, 3, 20, 100])
def test_nine_of_ten_spans_hold_the_true_time(wanted: int) -> None:
    draw = random.Random(wanted)
    inside = tried = 0
    for _ in range(1_000):
        moments, now = [], 0.0
        for gap in exponential(draw, 80, rate=1.0):
            moments.append(now := now + gap)
        found = forecast(wanted, counted(moments, 10.0))
        assert found is not None
        tried += 1
        inside += found.earliest <= sum(exponential(draw, wanted, rate=1.0)) <= found.latest
    assert 0.87 < inside / tried < 0.96


def test_bursts_widen_the_span() -> None:
    steady = forecast(50, [(10, 10.0)] * 10)
    bursts = forecast(50, [(0, 10.0), (50, 10.0)] + [(0, 10.0)] * 4 + [(50, 10.0)] + [(0, 10.0)] * 3)
    assert steady is not None
    assert bursts is not None
    assert steady.expected == bursts.expected == 50
    assert bursts.latest - bursts.earliest > 2 * (steady.latest - steady.earliest)


@given(
    st.integers(1, 1_000_000),
    st.lists(st.tuples(st.integers(0, 10_000), st.floats(0, 1_000)), max_size=40),
)
def test_a_forecast_is_ordered_and_finite_or_none(serves: int, recent: list[tuple[int, float]]) -> None:
    found = forecast(serves, recent)
    if found is None:
        assert sum(count for count, _ in recent) < LEAST or sum(span for _, span in recent) < TICK
    else:
        assert 0 <= found.earliest <= found.expected <= found.latest < float("inf")


def test_too_few_serves_tell_nothing() -> None:
    assert forecast(3, []) is None
    assert forecast(3, [(LEAST - 1, 100.0)]) is None
    assert forecast(3, [(10, 0.0)]) is None


def test_a_forecast_says_how_sure_it_is() -> None:
    assert Forecast(28.1, 19.4, 44.0).text == "expected in about 28 s (19 s to 44 s in nine cases of ten)"


def test_estimates_are_said_roughly() -> None:
    assert [roughly(seconds) for seconds in (0.01, 0.42, 7, 61, 600, 90_000, 900_000)] == [
        "under 0.1 s", "0.42 s", "7 s", "61 s", "10 min", "25 h", "10 days",
    ]  # fmt: skip
