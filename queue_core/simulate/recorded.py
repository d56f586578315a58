"""A journal as arrivals and service times. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from queue_core.fairness.effort import ENDS, MAY_END, resumes
from queue_core.history import Entry, Event, Kind

NEW_PLACE = frozenset({Kind.PUSH, Kind.REDRIVE, Kind.MOVE})  # at the tail of a tag
WAITS = frozenset({Kind.PUSH, Kind.REDRIVE, Kind.PROMOTE, Kind.RELEASE, Kind.REQUEUE, Kind.EXPIRE})
STAYS = frozenset({Kind.ACK, Kind.EXTEND, Kind.REPLACE, Kind.EDIT, Kind.CONFIGURE, Kind.REPUSH})

Place = tuple[bool, int]  # whether it is known from the journal; its position there, or since when it had waited


@dataclass(frozen=True, slots=True)
class Recorded:
    """The columns of a workload, as ``simulate.Workload`` has them."""

    names: tuple[str, ...]
    at: Sequence[int]
    tag: Sequence[int]
    service: Sequence[int | None]
    begin: int
    known: int
    cursor: int
    weights: dict[str, int]
    early: int
    at_once: int


@dataclass(slots=True)
class _Row:
    place: Place
    tag: int
    ready: int
    service: int | None = None


@dataclass(slots=True)
class _Reading:
    """What is known of the tasks while the journal is read."""

    rows: list[_Row] = field(default_factory=list)
    places: dict[bytes, Place] = field(default_factory=dict)
    held: dict[bytes, tuple[int, _Row]] = field(default_factory=dict)  # since when
    waiting: dict[bytes, tuple[int, int]] = field(default_factory=dict)  # (tag, since when)
    at_once: int = 0

    def read(self, position: int, entry: Entry) -> None:
        kind, id = entry.kind, entry.id
        if kind in NEW_PLACE:
            self.places[id] = (True, position)
        if kind is Kind.LEASE:
            ready = entry.at - entry.wait
            row = _Row(self.places.setdefault(id, (False, ready)), entry.tag, ready)
            self.rows.append(row)
            self.held[id] = entry.at, row
            self.at_once = max(self.at_once, len(self.held))
        elif (kind in ENDS or kind in MAY_END) and id in self.held:
            since, row = self.held.pop(id)
            row.service = max(entry.at - since, 0)
            if kind is Kind.REPUSH:
                self.waiting[id] = entry.tag, entry.at
        if kind in WAITS and entry.detail != "dead":
            self.waiting[id] = entry.tag, entry.at
        elif kind not in STAYS:
            self.waiting.pop(id, None)

    def all(self, begin: int) -> list[_Row]:
        """The rows by place, those that wait at the end among them."""
        left = [_Row(self.places.get(id, (False, begin)), tag, since) for id, (tag, since) in self.waiting.items()]
        return sorted(self.rows + left, key=lambda row: row.place)


def recorded(journal: Iterable[Event]) -> Recorded:
    """Reads a journal, oldest first: ``Workload.from_journal`` says how."""
    events = list(journal)
    resumed = [place for place, event in enumerate(events) if resumes(event.entry)]
    events = events[resumed[-1] + 1 :] if resumed else events
    if not events:
        return Recorded((), [], [], [], 0, 0, 1, {}, 0, 0)
    named = {event.entry.tag: event.tag or "" for event in events if event.entry.tag}
    numbers = {old: new for new, old in enumerate(sorted(named), 1)}  # tags that it does not name leave no hole
    begin, reading = events[0].entry.at, _Reading()
    firsts: dict[int, Kind] = {}
    for position, event in enumerate(events):
        firsts.setdefault(event.entry.tag, event.kind)
        reading.read(position, event.entry)
    rows = reading.all(begin)
    leases = [event.entry for event in events if event.kind is Kind.LEASE]
    there = [numbers[tag] for tag, kind in firsts.items() if tag and kind is not Kind.PUSH]
    return Recorded(
        names=tuple(named[tag] for tag in sorted(named)),
        at=[max(row.ready - begin, 0) for row in rows],
        tag=[numbers[row.tag] for row in rows],
        service=[row.service for row in rows],
        begin=begin,
        known=max(there, default=0),  # numbers are given out in order: those before are older
        cursor=numbers[leases[0].tag] if leases and leases[0].serve > 1 else 1,
        weights={named[lease.tag]: lease.weight for lease in leases},
        early=sum(row.ready < begin for row in rows),
        at_once=reading.at_once,
    )
