"""Why a task is not running yet, and when it may."""

from queue_core import forecast, rotation
from queue_core.forecast import Forecast
from queue_core.ledger import Tag
from queue_core.series import MINUTE
from queue_core.snapshot import AHEAD_LIMIT, COUNT_LIMIT, Explanation, WhyNot
from queue_core.stores.base import Found
from queue_core.stores.engine.measure import mark_of
from queue_core.stores.engine.read import get, why_not
from queue_core.stores.engine.records import Records
from queue_core.task import SECOND, Record, State, Task, moment

_RATE = ("pending", "leased")
RECENT = 5 * MINUTE  # how far back the rate of serves is looked at


def explain(tx: Records, id: bytes) -> tuple[Found, Explanation]:
    found = get(tx, id)
    record, meta = found.record, tx.meta
    tag = tx.tag(record.tag)
    due = sum(number == tag.number for _, _, number in tx.index(State.SCHEDULED, tx.now, COUNT_LIMIT))
    expired = [number for _, _, number in tx.index(State.INFLIGHT, tx.now, COUNT_LIMIT)]
    blocked = why_not(tag, meta, tx.now, due, expired.count(tag.number), len(expired))
    task = Task(record, found.tag, bytes)
    if record.state is not State.PENDING:
        return found, Explanation(task, None, True, None, None, blocked, _why_not_pending(record, tx.now))
    ahead = tx.ahead(tag.number, record.place, AHEAD_LIMIT)
    exact = ahead < AHEAD_LIMIT
    turns = serves = None
    limited = False  # by a limit of a tag, which the rate of all serves does not tell of
    if blocked is None and exact:
        others = [other for other in tx.tags() if other.number != tag.number and other.may_be_served()]
        load = ((other.number, other.weight, other.counts.pending) for other in others)
        turns, serves = rotation.serves_before(meta.turn, tag.number, ahead, tag.weight, load)
        limited = any(one.max_inflight is not None or one.min_interval for one in (tag, *others))
    expected = None
    if serves is not None:
        expected = forecast.forecast(ahead + 1, recent_serves(tx, tag))
        if expected is None and not limited:
            expected = forecast.forecast(serves + 1, recent_serves(tx))
    text = _in_words(ahead, exact, turns, serves, blocked) + _when(tx, serves, limited, expected)
    return found, Explanation(task, ahead, exact, turns, serves, blocked, text, expected)


def recent_serves(tx: Records, tag: Tag | None = None) -> list[tuple[int, float]]:
    """(serves, seconds) of the last spans in which there was always something to serve, the present one first.

    Of one tag, they tell what the present load does not: other tags that keep coming, limits, weights. A bucket at
    whose end nothing was pending, or of which the tag's part is not known, ends the search: before it, workers may
    have been short of tasks. A pause in which nothing was written counts in full.
    """
    meta, past = tx.meta, tx.past() if tx.meta.measuring else None
    if past is None or not meta.bucket or tx.now - meta.opened > RECENT:
        return []
    if tag is None:
        now = meta.totals.leased - past.mark.leased
    else:
        now = tag.totals.leased - mark_of(tag).leased if tag.measured.bucket == meta.bucket else 0
    spans = [(now, (tx.now - meta.opened) / SECOND)]
    begin = meta.opened
    for _, bucket in tx.buckets(0, reverse=True):
        pending, leased = (bucket.whole(field) if tag is None else bucket.of(tag.number, field) for field in _RATE)
        if not tx.now - RECENT <= bucket.start < begin or not pending or pending < 0 or leased is None:
            break
        spans.append((leased, (begin - bucket.start) / SECOND))
        begin = bucket.start
    return spans if tx.now >= meta.opened else []


def _in_words(ahead: int, exact: bool, turns: int | None, serves: int | None, blocked: WhyNot | None) -> str:
    first = (
        "it is the next of its tag" if not ahead else f"{ahead:,}{'' if exact else ' or more'} ahead of it in its tag"
    )
    if blocked is not None:
        return f"pending: {first}; its tag is not served: {blocked}"
    if turns is None or serves is None:
        return f"pending: {first}"
    before = (
        "nothing is served before it" if not serves else f"{serves:,} serve{'s' * (serves > 1)} of all tags before it"
    )
    return f"pending: {first}; its tag's turn number {turns:,} from now serves it, {before}"


def _when(tx: Records, serves: int | None, limited: bool, expected: Forecast | None) -> str:
    if serves is None:
        return ""
    if expected is not None:
        return f"; {expected.text}"
    if not tx.meta.history:
        return "; when cannot be told: no history is kept"
    if limited:
        return "; when cannot be told: limits of tags decide with"
    return f"; when cannot be told: fewer than {forecast.LEAST} serves in the last {RECENT // MINUTE} minutes"


def _why_not_pending(record: Record, now: int) -> str:
    match record.state:
        case State.SCHEDULED if record.due <= now:
            return "due: the next lease of any worker moves it to pending"
        case State.SCHEDULED:
            wait = (record.due - now) / SECOND
            return f"scheduled: not before {moment(record.due):%Y-%m-%d %H:%M:%S} UTC, in {wait:,.0f} s"
        case State.INFLIGHT:
            owner = (record.hold.owner if record.hold else "") or "somebody"
            if record.order <= now:
                return f"expired: {owner} has been silent; the next lease of any worker takes it back"
            return f"in flight: held by {owner}"
        case State.DEAD:
            return f"dead: {record.reason}; redrive it to run it again"
        case _:
            return "in the trash: restore it to bring it back"
