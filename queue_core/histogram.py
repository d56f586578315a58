"""Log-scale histograms of times: pure, in whole numbers, so that stores agree and merging is exact.

Bucket 0 is below 1,024 µs. Above, each doubling is cut into four equal parts, as in HdrHistogram (Gil Tene):
bucket 1 + 4 (b - 10) + s holds the times whose highest bit is b and whose next two bits are s. Bucket 127 has no
upper end; it begins at 38 days. A histogram is a mapping of bucket to count, without empty buckets.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from queue_core.task import SECOND

FIRST_BIT = 10
LAST = 127
RELATIVE_ERROR = 1 / 9  # of a quantile of 1.024 ms or more: both ends of the widest bucket are this far from its answer
ABSOLUTE_ERROR = 0.001024  # seconds, of a smaller one

Counts = Mapping[int, int]


def bucket_of(time: int) -> int:
    """The bucket of a time in microseconds."""
    bit = time.bit_length() - 1
    if bit < FIRST_BIT:
        return 0
    return min(1 + 4 * (bit - FIRST_BIT) + ((time >> (bit - 2)) & 3), LAST)


def begins(bucket: int) -> int:
    """The smallest time of a bucket, in microseconds."""
    if not bucket:
        return 0
    octave, part = divmod(bucket - 1, 4)
    return (4 + part) << (FIRST_BIT + octave - 2)


def merged(many: Iterable[Counts]) -> dict[int, int]:
    """The histogram of all samples together: exact."""
    total: dict[int, int] = {}
    for counts in many:
        for bucket, count in counts.items():
            total[bucket] = total.get(bucket, 0) + count
    return total


@dataclass(frozen=True, slots=True)
class Times:
    """What is known of many times: how many in each bucket, and their sum. Reported in seconds.

    A quantile is off by at most a ninth of itself (11.2 %), below 1.024 ms by at most that; it has no bound beyond
    38 days.
    """

    buckets: Counts
    total: int = 0  # microseconds

    @property
    def count(self) -> int:
        return sum(self.buckets.values())

    @property
    def sum(self) -> float:
        """Seconds, exact to the microsecond."""
        return self.total / SECOND

    @property
    def mean(self) -> float | None:
        """Seconds; None without a sample."""
        count = self.count
        return self.sum / count if count else None

    def quantile(self, q: float) -> float | None:
        """Seconds; None without a sample. ``q`` from 0 to 1.

        The nearest-rank sample (the smallest with at least q of all samples at or below it) lies in the bucket that
        is found; the harmonic mean of the bucket's ends is the answer with the smallest relative error.
        """
        if not 0 <= q <= 1:
            raise ValueError(f"q={q} is not between 0 and 1")
        count = self.count
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen and seen >= q * count:
                low = begins(bucket)
                if bucket == LAST:
                    return low / SECOND
                high = begins(bucket + 1)
                return (2 * low * high / (low + high) if low else high / 2) / SECOND
        return None

    @property
    def p50(self) -> float | None:
        return self.quantile(0.5)

    @property
    def p95(self) -> float | None:
        return self.quantile(0.95)

    @property
    def p99(self) -> float | None:
        return self.quantile(0.99)

    def cumulative(self) -> list[tuple[float, int]]:
        """(upper end in seconds, samples below it) of every bucket in use; the last bucket's end is infinity."""
        out, seen = [], 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            out.append((begins(bucket + 1) / SECOND if bucket < LAST else float("inf"), seen))
        return out
