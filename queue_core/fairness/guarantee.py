"""The rotation's guarantee, checked on what was served. Pure."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sortedcontainers import SortedList

from queue_core.history import Entry

KEPT = 1_000_001  # serves of a tag that are looked back at: one more than the largest weight


@dataclass(frozen=True, slots=True)
class Violation:
    """A tag that stayed eligible and saw another served more than its weight between two of its own serves.

    It waited from serve ``since`` to its serve ``until``; None: it waits still.
    """

    tag: int
    since: int
    until: int | None
    other: int
    served: int
    weight: int

    @property
    def text(self) -> str:
        waited = f"has waited since serve {self.since}"
        if self.until is not None:
            waited = f"waited from serve {self.since} to serve {self.until}"
        return (
            f"tag number {self.tag}, eligible throughout, {waited} while "
            f"tag number {self.other} of weight {self.weight} was served {self.served} times"
        )


@dataclass(slots=True)
class _Served:
    """The newest serves of a tag, oldest first, and the largest weights it had."""

    serves: "array[int]" = field(default_factory=lambda: array("Q"))
    largest: list[tuple[int, int]] = field(default_factory=list)  # (serve, weight), no larger weight after it
    run: tuple[int, int] | None = None  # its entry among the runs

    def add(self, lease: Entry) -> None:
        self.serves.append(lease.serve)
        if len(self.serves) == 2 * KEPT:
            del self.serves[:KEPT]
        while self.largest and self.largest[-1][1] <= lease.weight:
            self.largest.pop()
        self.largest.append((lease.serve, lease.weight))

    def after(self, serve: int) -> tuple[int, int]:
        """How often it was served since then, at least once, and the largest weight it had."""
        count = len(self.serves) - bisect_right(self.serves, serve)
        return count, self.largest[bisect_right(self.largest, serve, key=lambda one: one[0])][1]


class Guarantee:
    """Checks invariant 3 serve by serve, for as long as one likes, in O(log of the tags) each.

    Between two serves of a tag that stayed eligible, or between becoming eligible and its next serve, every other
    tag is served at most its own weight, the largest it had in this gap. Only a run of weight + 1 serves that began
    inside a gap can break that, so the newest run of each tag is kept, in the order in which they began. What happened
    before the first serve it saw is not judged; a hole in the serves is a new beginning.
    """

    def __init__(self) -> None:
        self._begin(0)

    def _begin(self, serve: int) -> None:
        self.first = serve  # it has seen every serve from this to the last; 0: none
        self.last = max(serve - 1, 0)
        self._served: dict[int, _Served] = {}
        self._runs: SortedList[tuple[int, int]] = SortedList()  # (first serve of its newest weight + 1, tag)

    def feed(self, lease: Entry) -> Violation | None:
        """The journal's next lease; the breach that it ends, if there is one."""
        if not self.first or lease.serve != self.last + 1:
            self._begin(lease.serve)
        found = self._judge(lease.tag, lease.since, lease.serve)
        self.last = lease.serve
        mine = self._served.setdefault(lease.tag, _Served())
        mine.add(lease)
        if mine.run is not None:
            self._runs.remove(mine.run)
            mine.run = None
        if len(mine.serves) > lease.weight:
            mine.run = (mine.serves[-lease.weight - 1], lease.tag)
            self._runs.add(mine.run)
        return found

    def waiting(self, tag: int, since: int) -> Violation | None:
        """The breach under way against a tag that has been eligible since that serve and still is."""
        return self._judge(tag, since, None)

    def _judge(self, tag: int, since: int, until: int | None) -> Violation | None:
        mine = self._served.get(tag)
        begin = max(mine.serves[-1] if mine else 0, since)  # the gap: the serves after it, and before ``until``
        if not self.first or begin < self.first - 1:
            return None
        for start, other in reversed(self._runs):
            if start <= begin:
                return None
            served, weight = self._served[other].after(begin)
            if served > weight:  # else its weight was lowered inside the gap
                return Violation(tag, begin, until, other, served, weight)
        return None


def violations(leases: Iterable[Entry], waiting: Mapping[int, int] | None = None) -> Iterator[Violation]:
    """Breaches of the guarantee among journal entries of leases, in serve order: at most one for each gap.

    ``waiting`` are the tags that are eligible after the last lease, each with the serve since which it is.
    """
    guarantee = Guarantee()
    found = [guarantee.feed(lease) for lease in leases]
    found += [guarantee.waiting(tag, since) for tag, since in (waiting or {}).items()]
    return (violation for violation in found if violation is not None)
