"""The rotation as it was at an earlier moment, told from the journal. Pure."""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from queue_core import rotation
from queue_core.fairness.effort import ENDS, MAY_END, resumes
from queue_core.fairness.report import Standing
from queue_core.history import Entry, Kind
from queue_core.rotation import Turn


@dataclass(slots=True)
class Later:
    """What came after a moment, fed entry by entry: as much of it as tells how the tags stood at the moment.

    ``moved``: leases that ended, less those that were given; ``following``: the first lease of each tag; ``stirred``:
    the tags to which something else happened before that one; ``configured``: the tags whose settings were changed;
    ``next``: the first lease of all; ``hole``: no journal was written for a while.
    """

    moved: Counter[int] = field(default_factory=Counter)
    following: dict[int, Entry] = field(default_factory=dict)
    stirred: set[int] = field(default_factory=set)
    configured: set[int] = field(default_factory=set)
    next: Entry | None = None
    hole: bool = False

    def feed(self, entries: Iterable[Entry]) -> None:
        """The next entries of the journal, oldest first."""
        moved, following = self.moved, self.following
        for entry in entries:
            tag, kind = entry.tag, entry.kind
            if kind is Kind.LEASE:
                moved[tag] -= 1
                if tag not in following:
                    following[tag] = entry
                    self.next = self.next or entry
                continue
            if tag not in following:
                self.stirred.add(tag)
            if kind in ENDS or (kind in MAY_END and entry.owner):
                moved[tag] += 1
            elif kind is Kind.CONFIGURE:
                self.configured.add(tag)
                self.hole |= resumes(entry)

    def since(self, now: Standing) -> int | None:
        """Since which serve the tag had been eligible at its next lease, or is now, when there was none."""
        lease = self.following.get(now.tag)
        return now.since if lease is None else lease.since

    def standing(self, now: Standing, last: int, timed: bool = False) -> Standing:
        """The tag at the moment, at which serve ``last`` was the newest of all; ``timed``: it has a minimum interval.

        It is known to have been eligible when it became so before that serve; or behind it, and the journal tells of
        nothing since then that could have made it so.
        """
        tag, since = now.tag, self.since(now)
        lease = self.following.get(tag)
        still = not (timed or self.hole or tag in self.stirred)
        was = since if since is not None and (since < last or (since == last and still)) else None
        weight = now.weight if lease is None or tag not in self.configured else lease.weight
        return Standing(tag, weight, max(now.inflight + self.moved[tag], 0), was)


@dataclass(frozen=True, slots=True)
class Then:
    """``before``: the entries up to the moment; ``standings``: the tags as they were after the last of them."""

    before: Sequence[Entry]
    standings: list[Standing]


def as_of(journal: Sequence[Entry], now: Iterable[Standing], at: int, timed: Container[int] = ()) -> Then:
    """What the journal tells of the moment ``at``, in microseconds; ``now`` are the standings after its end.

    A later lease tells since which serve its tag had been eligible, and so does a tag that has waited since then
    without one. What became ineligible without a serve (it was paused, say) is not seen. In flight were those in flight
    now, less what was leased since, and what has ended since. ``timed`` are the tags that have a minimum interval,
    whose end the journal does not tell.
    """
    before = list(takewhile(lambda entry: entry.at <= at, journal))
    later = Later()
    later.feed(journal[len(before) :])
    last = max((entry.serve for entry in before), default=0)
    known = {tag: Standing(tag, lease.weight) for tag, lease in later.following.items()}
    known |= {standing.tag: standing for standing in now}
    return Then(before, [later.standing(known[tag], last, tag in timed) for tag in sorted(known)])


def turn_after(leases: Sequence[Entry], end: int) -> Turn | None:
    """The cursor after the last of these leases, whose serves are without a gap; ``end`` was the ring's last tag then.

    None when that cannot be told: they all are of one tag, and where in its turn they begin is not known.
    """
    if not leases:
        return None
    place = len(leases) - 1
    while not _begins(leases, place):
        place -= 1
        if place < 0:
            return None
    turn = Turn()
    for lease in leases[place:]:
        turn = rotation.advance(rotation.begin(turn, lease.tag, lease.weight), end)
    return turn


def _begins(leases: Sequence[Entry], place: int) -> bool:
    """Whether a turn is known to begin with this lease: a turn is of one tag, and of one weight."""
    lease = leases[place]
    if lease.weight == 1 or lease.serve == 1:
        return True
    before = leases[place - 1] if place else None
    return before is not None and (before.tag != lease.tag or before.weight != lease.weight)
