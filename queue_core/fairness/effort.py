"""Worker time, and who takes much of it. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from queue_core.history import Entry, Kind

ENDS = frozenset({Kind.ACK, Kind.NACK, Kind.EXPIRE, Kind.RELEASE, Kind.DEFER})  # only of a lease
MAY_END = frozenset({Kind.REQUEUE, Kind.DEAD_LETTER, Kind.REPUSH})  # of a lease when its owner is named
NOISY_PART = 0.1
NOISY_LEASES = 30


def worker_time(
    journal: Iterable[Entry], begin: int, end: int, inflight: Mapping[int, int] | None = None
) -> dict[int, int]:
    """Microseconds for which tasks of each tag were held by workers between two moments, ``begin`` and ``end``.

    A task is held from its lease to the entry that ends it. The journal given may begin later than its leases: those
    that it sees only the end of have been held since ``begin``, and so have those in flight at the end (``inflight``,
    by tag) of which it sees nothing. Where no journal was written for a while, leases count up to that time,
    and those that it sees only the end of from its end. A clock that was set back makes no time negative.
    """
    held: defaultdict[int, int] = defaultdict(int)
    open: dict[bytes, Entry] = {}

    def add(tag: int, since: int, until: int) -> None:
        held[tag] += max(min(until, end) - max(since, begin), 0)

    newest = known = begin
    for entry in journal:
        if resumes(entry):
            for unseen in open.values():  # nothing was written for a while: what ended meanwhile was not seen
                add(unseen.tag, unseen.at, newest)
            open.clear()
            known = entry.at
        newest = entry.at
        if entry.kind is Kind.LEASE:
            open[entry.id] = entry
        elif entry.kind in ENDS or entry.kind in MAY_END:
            lease = open.pop(entry.id, None)
            if lease is not None:
                add(entry.tag, lease.at, entry.at)
            elif entry.kind in ENDS or entry.owner:
                add(entry.tag, known, entry.at)
    for lease in open.values():
        add(lease.tag, lease.at, end)
    seen = Counter(lease.tag for lease in open.values())
    for tag, count in (inflight or {}).items():
        held[tag] += max(count - seen[tag], 0) * max(end - known, 0)
    return dict(held)


def resumes(entry: Entry) -> bool:
    """Whether the journal goes on here after a while in which none was written."""
    return entry.kind is Kind.CONFIGURE and not entry.tag and "history=True" in entry.detail


def noisy(inflight: Mapping[int, int], time: Mapping[int, int]) -> dict[int, tuple[str, ...]]:
    """The tags that take much of the workers, each with what it takes much of: "in flight", "worker time".

    Much is more than a tenth of all leases in flight, with at least 30 of its own, or more than a tenth of the recent
    worker time: the thresholds of fair queues in Amazon SQS (Developer Guide, "How Amazon SQS fair queues work"). They
    tell something where there are many tags; among fewer than ten, one always has more than a tenth. A tag that is
    the only one has no neighbours: it is not noisy.
    """
    found: dict[int, tuple[str, ...]] = {}
    all_leases, all_time = sum(inflight.values()), sum(time.values())
    busy = sorted(tag for tag in {*inflight, *time} if inflight.get(tag) or time.get(tag))
    if len(busy) == 1:
        return found
    for tag in busy:
        leases = inflight.get(tag, 0)
        much = ["in flight"] if leases >= NOISY_LEASES and leases > NOISY_PART * all_leases else []
        much += ["worker time"] if time.get(tag, 0) > NOISY_PART * all_time else []
        if much:
            found[tag] = tuple(much)
    return found
