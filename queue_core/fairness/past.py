"""The rotation as it was at an earlier moment, told from the journal. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from queue_core.fairness.effort import ENDS, MAY_END
from queue_core.fairness.report import Standing
from queue_core.history import Entry, Kind


@dataclass(frozen=True, slots=True)
class Then:
    """``before``: the entries up to the moment; ``standings``: the tags as they were after the last of them."""

    before: Sequence[Entry]
    standings: list[Standing]


def as_of(journal: Sequence[Entry], now: Iterable[Standing], at: int) -> Then:
    """What the journal tells of the moment ``at``, in microseconds; ``now`` are the standings after its end.

    A later lease tells since which serve its tag had been eligible, and so does a tag that has waited since then
    without one. What became ineligible without a serve (it was paused, say) is not seen. In flight were those in flight
    now, less what was leased since, and what has ended since.
    """
    before = list(takewhile(lambda entry: entry.at <= at, journal))
    after = journal[len(before) :]
    last = max((entry.serve for entry in before), default=0)
    moved: Counter[int] = Counter()
    following: dict[int, Entry] = {}
    for entry in after:
        if entry.kind is Kind.LEASE:
            moved[entry.tag] -= 1
            following.setdefault(entry.tag, entry)
        elif entry.kind in ENDS or (entry.kind in MAY_END and entry.owner):
            moved[entry.tag] += 1
    known = {standing.tag: standing for standing in now}
    standings = []
    for tag in sorted({*known, *following}):
        mine = known.get(tag, Standing(tag))
        lease = following.get(tag)
        since = mine.since if lease is None else lease.since
        weight = mine.weight if lease is None else lease.weight
        was = since if since is not None and since < last else None
        standings.append(Standing(tag, weight, max(mine.inflight + moved[tag], 0), was))
    return Then(before, standings)
