"""What each tag was served, against what it was due. Pure.

Whether a tag was eligible at a serve is known from the journal: a lease tells since which serve its tag had been.
A spell that ended without a serve (the tag was paused, say) is not seen, and gives no claim.
"""

import heapq
import math
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import attrgetter

from msgspec import Struct

from queue_core.history import Entry


class Spell(Struct, gc=False):  # there is one at least for each tag that waits
    """A time in which a tag stayed eligible, in places among the serves looked at: ``begin`` is the first serve at
    which it was, ``end`` the first at which it no longer was known to be. ``open``: it still is. ``first`` is the
    weight it had at the begin, ``changed`` are those that followed, each with the place from which on it had it."""

    begin: int
    end: int
    tag: int
    first: int
    changed: tuple[tuple[int, int], ...] = ()
    served: int = 0
    open: bool = False

    @property
    def weights(self) -> list[tuple[int, int]]:
        """All it had, each with the place from which on it had it."""
        return [(self.begin, self.first), *self.changed]

    @property
    def weight(self) -> int:
        """The last one."""
        return self.changed[-1][1] if self.changed else self.first


class Waiting(Struct, frozen=True, gc=False):
    """A tag that is eligible after the last serve: the newest serve of all when it became so, and its weight."""

    since: int
    weight: int


def spells(leases: Sequence[Entry], waiting: Mapping[int, Waiting]) -> list[Spell]:
    """Every spell of every tag, by its begin."""
    serves = [lease.serve for lease in leases]
    found: dict[int, list[Spell]] = defaultdict(list)

    def at(tag: int, since: int, weight: int) -> Spell:
        """The spell of a tag that has been eligible since that serve: the last one when that did not end before."""
        mine = found[tag]
        end = mine[-1].end if mine else 0
        if not mine or since > serves[end - 1]:
            begin = max(bisect_right(serves, since), end)
            mine.append(Spell(begin, begin, tag, weight))
        elif weight != mine[-1].weight:
            mine[-1].changed += ((end, weight),)
        return mine[-1]

    for place, lease in enumerate(leases):
        spell = at(lease.tag, lease.since, lease.weight)
        spell.end = place + 1
        spell.served += 1
    end, idle = len(leases), []
    for tag, of in waiting.items():
        if tag in found:
            spell = at(tag, of.since, of.weight)
            spell.end, spell.open = end, True
        else:
            idle.append(Spell(bisect_right(serves, of.since), end, tag, of.weight, open=True))
    return sorted(chain(*found.values(), idle), key=attrgetter("begin", "end", "tag"))


def jain(shares: Iterable[float]) -> float | None:
    """Jain's index of fairness: (Σ x)² / (n Σ x²), from 1/n (one has all) to 1 (all have the same).

    ``x`` is what each got for its weight, served / weight. It does not change when all are scaled. One share gives 1;
    none, or nothing but zeros, has no index: None. R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness and
    discrimination for resource allocation in shared computer systems", DEC TR-301, 1984.
    """
    values = list(shares)
    top = max(values, default=0)
    if not top:
        return None
    scaled = [value / top for value in values]  # so that no square is too small or too large
    return min(sum(scaled) ** 2 / (len(scaled) * sum(value * value for value in scaled)), 1.0)


def index(leases: Sequence[Entry], found: Iterable[Spell], begin: int = 0, end: int | None = None) -> float | None:
    """Jain's index over the tags that stayed eligible in the serves at places ``begin`` to ``end``, by weight.

    None when there is no such tag, and for fewer serves than one round of them (the sum of their weights): whose turn
    has not come yet has not been treated unfairly. Where a weight was changed, each serve counts by that of its turn.
    """
    end = len(leases) if end is None else end
    stayed = {spell.tag: spell.weight for spell in found if spell.begin <= begin and spell.end >= end}
    if end - begin < sum(stayed.values()):
        return None
    got = dict.fromkeys(stayed, 0.0)
    for (tag, weight), served in Counter((lease.tag, lease.weight) for lease in leases[begin:end]).items():
        if tag in got:
            got[tag] += served / weight
    return jain(got.values())


def entitled(found: Sequence[Spell], serves: int) -> dict[int, float]:
    """Of so many serves, how many each tag was due: the weighted max-min fair share, at every serve anew.

    It is what an ideal server would have given that serves all at once: generalized processor sharing (A. Parekh,
    R. Gallager, IEEE/ACM Transactions on Networking 1(3), 1993; fair queueing: A. Demers, S. Keshav, S. Shenker,
    SIGCOMM 1989). At every serve each tag with a claim left is due weight / Σ weights of those tags. A spell that
    ended claims what it was served, from its begin on; one that has not ended claims all it can get. So a tag that
    needs less than its share is due what it needed, and what it leaves is divided among the others by weight, which
    is max-min fairness (D. Bertsekas, R. Gallager, Data Networks, 2nd ed., 6.5.2). The shares sum to ``serves``.

    Deficit round robin (M. Shreedhar, G. Varghese, SIGCOMM 1995), which the rotation is for tasks of equal size, stays
    within about a turn of that.
    """
    claims: list[tuple[int, int, int, float]] = []
    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    spells_of = Counter(spell.tag for spell in found)
    for spell in found:
        if spell.open and not spell.served and not spell.changed and spells_of[spell.tag] == 1:
            alike[spell.begin, spell.first].append(spell.tag)
            continue
        claims.append((spell.begin, spell.tag, spell.first, math.inf if spell.open else spell.served))
        claims += [(place, spell.tag, weight, 0) for place, weight in spell.changed]
    groups = {~tags[0]: tags for tags in alike.values()}  # they get the same, so there is one claim for all of them
    claims += [(begin, ~tags[0], weight * len(tags), math.inf) for (begin, weight), tags in alike.items()]
    coming = deque(sorted(claims))
    fluid = _Fluid()
    for place in range(serves):
        while coming and coming[0][0] <= place:
            fluid.claim(*coming.popleft()[1:])
        fluid.serve(1.0)
    given: dict[int, float] = {}
    for who, got in fluid.given().items():
        given |= dict.fromkeys(groups[who], got / len(groups[who])) if who in groups else {who: got}
    return given


@dataclass(slots=True)
class _Flow:
    """What a tag has been given until ``start``; it is given ``weight`` for each unit of virtual time until ``end``."""

    given: float
    start: float
    end: float
    weight: int
    active: bool

    def until(self, now: float) -> float:
        return self.given + self.weight * (min(now, self.end) - self.start)


class _Fluid:
    """Serves all tags with a claim at once, by weight. Its time is virtual: 1 / Σ weights passes with each serve, so
    that the end of a claim does not change when others come and go."""

    def __init__(self) -> None:
        self._now = 0.0
        self._load = 0  # the sum of the weights of tags with a claim left
        self._flows: dict[int, _Flow] = {}
        self._ends: list[tuple[float, int]] = []

    def claim(self, tag: int, weight: int, serves: float) -> None:
        """The tag wants so many serves more, and has this weight from now on."""
        flow = self._flows.get(tag)
        given = left = 0.0
        if flow is not None:
            given = flow.until(self._now)
            if flow.active:
                left = flow.weight * (flow.end - self._now)
                self._load -= flow.weight
        flow = self._flows[tag] = _Flow(given, self._now, self._now + (left + serves) / weight, weight, True)
        self._load += weight
        heapq.heappush(self._ends, (flow.end, tag))

    def serve(self, amount: float) -> None:
        """Divide so many serves among the tags."""
        while self._ends:
            end, tag = self._ends[0]
            flow = self._flows[tag]
            if flow.end != end or not flow.active:  # it has claimed more since then
                heapq.heappop(self._ends)
                continue
            room = (end - self._now) * self._load
            if room > amount:
                self._now += amount / self._load
                return
            amount -= room
            self._now = end
            self._load -= flow.weight
            flow.active = False

    def given(self) -> dict[int, float]:
        return {tag: flow.until(self._now) for tag, flow in self._flows.items()}


class Gaps(Struct, frozen=True, gc=False):
    """How far apart the serves of a tag were while it stayed eligible, in serves; None where it had no two.

    ``ideal`` is what ``mean`` is in a perfect rotation, weighted round robin (M. Katevenis, S. Sidiropoulos,
    C. Courcoubetis, IEEE Journal on Selected Areas in Communications 9(8), 1991): Σ weights of the eligible tags / its
    own weight. Where these change it is the harmonic mean over the serves in the gaps: their number, over what the tag
    was due of them, own weight / Σ weights of each. ``longest`` is more than that for a tag of weight w > 1, which is
    served w times in a row: Σ weights - w + 1.
    ``turns`` is the largest number of turns of other tags that it waited through for a serve: never more than there
    were other eligible tags, when all is fair.
    """

    mean: float | None
    ideal: float | None
    longest: int | None
    turns: int | None


def gaps(leases: Sequence[Entry], found: Iterable[Spell]) -> dict[int, Gaps]:
    """The gaps between the serves of each tag that was served."""
    changes = [0] * (len(leases) + 1)
    begins: dict[int, list[int]] = defaultdict(list)
    for spell in found:
        if spell.served:
            begins[spell.tag].append(spell.begin)
        changes[spell.begin] += spell.first
        before = spell.first
        for begin, weight in spell.changed:
            changes[begin] += weight - before
            before = weight
        changes[spell.end] -= before
    loads = list(accumulate(changes))[:-1]  # the weights of the tags that were eligible at each place
    parts = list(accumulate((1 / load for load in loads), initial=0.0))  # what weight 1 was due before each, summed
    tags = [lease.tag for lease in leases]
    turns = list(accumulate((now != before for before, now in zip([None, *tags], tags, strict=False)), initial=0))
    places: dict[int, list[int]] = defaultdict(list)
    for place, tag in enumerate(tags):
        places[tag].append(place)
    out = {}
    for tag, mine in places.items():
        weights = [leases[place].weight for place in mine]
        out[tag] = _gaps(mine, weights, begins[tag], parts, turns)
    return out


def _gaps(
    places: Sequence[int], weights: Sequence[int], begins: Sequence[int], parts: Sequence[float], turns: Sequence[int]
) -> Gaps:
    total = longest = count = waited = 0
    due = 0.0
    before = -1
    for place, weight in zip(places, weights, strict=True):
        begin = begins[bisect_right(begins, place) - 1]
        if begin <= before:  # it stayed eligible since its last serve
            count += 1
            total += place - before
            longest = max(longest, place - before)
            due += weight * (parts[place + 1] - parts[before + 1])
        first = max(begin, before + 1)
        waited = max(waited, turns[place] - turns[first + 1] + 1 if first < place else 0)
        before = place
    if not count:
        return Gaps(None, None, None, waited)
    return Gaps(total / count, total / due, longest, waited)
