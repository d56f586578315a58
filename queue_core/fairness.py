"""Formulas over what was served. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from queue_core.history import Entry


@dataclass(frozen=True, slots=True)
class Violation:
    """A tag that stayed eligible and saw another served more than its weight between two of its own serves."""

    tag: int
    since: int
    until: int
    other: int
    served: int
    weight: int

    @property
    def text(self) -> str:
        return (
            f"tag number {self.tag}, eligible throughout, waited from serve {self.since} to serve {self.until} while "
            f"tag number {self.other} of weight {self.weight} was served {self.served} times"
        )


def violations(leases: Iterable[Entry]) -> Iterator[Violation]:
    """Breaches of the rotation's guarantee among journal entries of leases, in serve order.

    Between two serves of a tag that stayed eligible (or between becoming eligible and its first serve)
    every other tag is served at most its own weight, the largest it had in the gap. A breach is a run of
    weight + 1 serves of one tag inside a gap of another; the gap of the longest reach that begins before
    a run decides, so the whole check is O(n log n).
    """
    entries = list(leases)
    gaps: list[tuple[int, int, int]] = []  # (begin, end, tag); the serves strictly between are inside
    runs: list[tuple[int, int, int]] = []  # (first serve, last serve, tag) of weight + 1 serves in a row
    served: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        mine = served[entry.tag]
        begin = max(mine[-1].serve if mine else 0, entry.since)
        if begin >= entries[0].serve - 1:
            gaps.append((begin, entry.serve, entry.tag))
        mine.append(entry)
        if len(mine) > entry.weight:
            runs.append((mine[-entry.weight - 1].serve, entry.serve, entry.tag))
    gaps.sort(reverse=True)
    reach: list[tuple[int, int, int]] = []  # heap of (-end, begin, tag)
    for first, last, other in sorted(runs):
        while gaps and gaps[-1][0] < first:
            begin, end, tag = gaps.pop()
            heappush(reach, (-end, begin, tag))
        while reach and -reach[0][0] < first:
            heappop(reach)
        if reach and -reach[0][0] > last:
            end, begin, tag = -reach[0][0], reach[0][1], reach[0][2]
            inside = [entry.weight for entry in served[other] if begin < entry.serve < end]
            if len(inside) > max(inside):
                yield Violation(tag, begin, end, other, len(inside), max(inside))
