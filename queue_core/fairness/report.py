"""Every formula on one journal. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import Struct

from queue_core.fairness.effort import noisy, worker_time
from queue_core.fairness.guarantee import Violation, violations
from queue_core.fairness.shares import Gaps, Spell, Waiting, entitled, gaps, index, spells
from queue_core.history import Entry, Kind
from queue_core.snapshot import TagStats
from queue_core.task import SECOND


class Standing(Struct, frozen=True, gc=False):
    """A tag as it is after the journal's end: its leases in flight, and the serve since which it has been eligible;
    None: it is not."""

    tag: int
    weight: int = 1
    inflight: int = 0
    since: int | None = None


def standing(tag: TagStats) -> Standing:
    """The standing of a tag of a snapshot."""
    return Standing(tag.number, tag.weight, tag.inflight, tag.eligible_since_serve)


class TagFairness(Struct, frozen=True, gc=False):
    """What a tag got and was due. ``stayed``: it was eligible at every serve looked at. ``worker_time`` in seconds;
    shares are parts of 1, None of nothing; ``noisy`` says what it takes much of."""

    tag: int
    weight: int
    stayed: bool
    served: int
    entitled: float
    served_share: float
    entitled_share: float
    worker_time: float
    worker_share: float | None
    gaps: Gaps | None
    noisy: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fairness:
    """How fair the serves ``first`` to ``last`` were. ``span`` in seconds, from the first serve to now."""

    serves: int
    first: int | None
    last: int | None
    span: float | None
    index: float | None
    tags: tuple[TagFairness, ...]
    violations: tuple[Violation, ...]


NOTHING = Fairness(0, None, None, None, None, (), ())


def latest(journal: Sequence[Entry], last: int) -> Sequence[Entry]:
    """The end of the journal that holds its ``last`` leases, beginning with the first of them."""
    leases = [place for place, entry in enumerate(journal) if entry.kind is Kind.LEASE]
    return journal[leases[-last:][0] :] if leases else ()


@dataclass(frozen=True, slots=True)
class _Looked:
    """What is judged: the leases, the tags after them, and when each was eligible."""

    leases: list[Entry]
    known: dict[int, Standing]
    waiting: dict[int, Waiting]
    found: list[Spell]


def assess(journal: Sequence[Entry], standings: Iterable[Standing], now: int) -> Fairness:
    """How fair the serves in this part of the journal were, up to ``now`` in microseconds, at which the standings are.

    Tags that were not served, were due nothing and held no worker are left out; the one that was due most comes first.
    """
    looked = _look(journal, standings)
    if not looked.leases:
        return NOTHING
    first, last = looked.leases[0], looked.leases[-1]
    return Fairness(
        len(looked.leases), first.serve, last.serve, max(now - first.at, 0) / SECOND,
        index(looked.leases, looked.found), _tags(looked, journal, now),
        tuple(violations(looked.leases, {tag: one.since for tag, one in looked.waiting.items()})),
    )  # fmt: skip


def got(journal: Sequence[Entry], standings: Iterable[Standing], now: int) -> tuple[TagFairness, ...]:
    """The tags of ``assess`` alone."""
    looked = _look(journal, standings)
    return _tags(looked, journal, now) if looked.leases else ()


def _look(journal: Sequence[Entry], standings: Iterable[Standing]) -> _Looked:
    leases = [entry for entry in journal if entry.kind is Kind.LEASE]
    known = {standing.tag: standing for standing in standings}
    waiting = {tag: Waiting(of.since, of.weight) for tag, of in known.items() if of.since is not None}
    return _Looked(leases, known, waiting, spells(leases, waiting) if leases else [])


def _tags(looked: _Looked, journal: Sequence[Entry], now: int) -> tuple[TagFairness, ...]:
    leases, known, found = looked.leases, looked.known, looked.found
    inflight = {tag: of.inflight for tag, of in known.items() if of.inflight}
    time = worker_time(journal, leases[0].at, now, inflight)
    served, due, apart = Counter(lease.tag for lease in leases), entitled(found, len(leases)), gaps(leases, found)
    stayed = {spell.tag for spell in found if spell.begin == 0 and spell.end == len(leases)}
    last_weight = {lease.tag: lease.weight for lease in leases}
    all_time, loud = sum(time.values()), noisy(inflight, time)
    return tuple(
        TagFairness(
            tag, known[tag].weight if tag in known else last_weight.get(tag, 1), tag in stayed, served[tag],
            due.get(tag, 0.0), served[tag] / len(leases), due.get(tag, 0.0) / len(leases), time.get(tag, 0) / SECOND,
            time.get(tag, 0) / all_time if all_time else None, apart.get(tag), loud.get(tag, ()),
        )
        for tag in sorted({*due, *time}, key=lambda tag: (-due.get(tag, 0.0), tag))
    )  # fmt: skip
