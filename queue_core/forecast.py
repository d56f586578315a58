"""When a number of further serves will have happened, judged by how they went lately. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

TICK = 1e-6  # seconds: what a clock can tell apart
LEAST = 5  # serves from which a rate can be told
Z = 1.6448536  # 5 % of a normal distribution lie above it


@dataclass(frozen=True, slots=True)
class Forecast:
    """Seconds from now: the expected time, and a span that holds the true one in nine of ten cases."""

    expected: float
    earliest: float
    latest: float

    @property
    def text(self) -> str:
        span = f"{roughly(self.earliest)} to {roughly(self.latest)}"
        return f"expected in about {roughly(self.expected)} ({span} in nine cases of ten)"


def forecast(serves: int, recent: Sequence[tuple[int, float]]) -> Forecast | None:
    """The time until ``serves`` further serves, from recent spans as (serves, seconds); None for too few to tell.

    With n serves in T seconds the expected time of k more is k T / n. Were they a Poisson process, the time over k to T
    over n would follow F(2k, 2n) (Nelson, Applied Life Data Analysis, 1982, section on prediction); its quantiles
    by Paulson's approximation (E. Paulson, Ann. Math. Statist. 13, 1942). Real serves come in bursts: k and n are
    divided by the index of dispersion, the Pearson statistic of the spans over its degrees of freedom, at least 1.
    """
    number, seconds = sum(count for count, _ in recent), sum(span for _, span in recent)
    if number < LEAST or seconds < TICK:
        return None
    rate = number / seconds
    spread = sum((count - rate * span) ** 2 / (rate * span) for count, span in recent if span >= TICK)
    dispersion = max(spread / (len(recent) - 1), 1.0) if len(recent) > 1 else 1.0
    low, high = _quantiles(
        max(serves / dispersion, 0.5), max(number / dispersion, 1.0)
    )  # below, it is no approximation
    expected = serves / rate
    return Forecast(expected, expected * min(low, 1.0), expected * max(high, 1.0))


def _quantiles(k: float, n: float) -> tuple[float, float]:
    """5 % and 95 % of F(2k, 2n)."""
    a, b = 1 / (9 * k), 1 / (9 * n)
    square = (1 - b) ** 2 - Z * Z * b
    root = Z * sqrt(max(a * (1 - b) ** 2 + b * (1 - a) ** 2 - a * b * Z * Z, 0))
    middle = (1 - a) * (1 - b)
    return (max(middle - root, 0) / square) ** 3, (max(middle + root, 0) / square) ** 3


def roughly(seconds: float) -> str:
    """A span that is an estimate: two digits and a unit."""
    if seconds < 0.1:
        return "under 0.1 s"
    for unit, size in (("s", 1.0), ("min", 60.0), ("h", 3600.0)):
        if seconds < 100 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds / 86_400:,.0f} days"
