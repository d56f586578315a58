"""The transitions between states: each takes a frozen record and returns a new one. Pure."""

from msgspec.structs import replace

from queue_core.task.records import HISTORY_EDGE, LAST_MOMENT, Attempt, Hold, Outcome, Record, State


def leased(record: Record, *, version: int, hold: Hold) -> Record:
    """Pending → in flight; the attempt is counted now, so that a task which kills its worker uses it up."""
    return replace(
        record,
        state=State.INFLIGHT,
        version=version,
        attempts=record.attempts + 1,
        leases=record.leases + 1,
        hold=hold,
    )


def beaten(record: Record, *, nonce: int, now: int, ttl: int | None) -> Record:
    """The same lease under a new token; its expiry is never lowered and its version stays."""
    hold = record.hold
    assert hold is not None
    ttl = hold.ttl if ttl is None else ttl
    fresh = replace(hold, nonce=nonce, beat=max(hold.beat, now), expires=max(hold.expires, now + ttl), ttl=ttl)
    return replace(record, hold=fresh)


def closed(record: Record, *, now: int, outcome: Outcome, error: str | None = None) -> Record:
    """The open attempt ended and written into the history, once; given back when it does not count."""
    hold = record.hold
    if hold is None or record.state is not State.INFLIGHT:
        return record
    attempt = Attempt(record.leases, record.cycle, hold.owner, hold.leased, max(now, hold.leased), outcome, error)
    history = record.history
    if len(history) >= 2 * HISTORY_EDGE:
        history = history[:HISTORY_EDGE] + history[HISTORY_EDGE + 1 :]
    given_back = outcome in (Outcome.RELEASED, Outcome.DEFERRED)
    return replace(
        record,
        hold=None,
        history=(*history, attempt),
        attempts=record.attempts - given_back,
        defers=record.defers + (outcome is Outcome.DEFERRED),
        error=error if outcome is Outcome.NACKED else record.error,  # a reason is not an error
    )


def pending(record: Record, *, version: int, now: int) -> Record:
    """At its place again, waiting from now on."""
    return replace(
        record, state=State.PENDING, version=version, ready=now, hold=None, reason=None, entry=0, entered=0,
        aged=0, origin=None, group=b"",
    )  # fmt: skip


def scheduled(record: Record, *, version: int, due: int) -> Record:
    """Not before ``due``."""
    return replace(pending(record, version=version, now=due), state=State.SCHEDULED, due=min(due, LAST_MOMENT))


def dead(record: Record, *, version: int, now: int, aged: int, reason: str, hold: Hold | None) -> Record:
    """In the dead-letter queue; ``hold`` is the lease it died under, kept for the reader."""
    return replace(
        record,
        state=State.DEAD,
        version=version,
        reason=reason,
        hold=hold,
        entry=version,
        entered=now,
        aged=aged,
    )


def trashed(record: Record, *, version: int, now: int, aged: int) -> Record:
    """In the trash, knowing where it came from."""
    return replace(
        record, state=State.TRASH, version=version, origin=record.state, entry=version, entered=now, aged=aged
    )


def revived(record: Record, *, version: int, now: int, place: int) -> Record:
    """A new cycle, counted from zero, at the given place."""
    fresh = pending(record, version=version, now=now)
    return replace(fresh, place=place, cycle=record.cycle + 1, attempts=0)
