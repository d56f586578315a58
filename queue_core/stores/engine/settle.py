"""What the holder of a lease can do: keep it alive, or end it."""

from collections.abc import Callable, Sequence

from queue_core import task as tasks
from queue_core.errors import LeaseLost
from queue_core.groups import FAILED
from queue_core.history import Kind
from queue_core.ledger import Tag
from queue_core.stores.base import Ending, Found
from queue_core.stores.engine import moves
from queue_core.stores.engine.records import Records
from queue_core.task import Outcome, Record, Token


def heartbeat(tx: Records, token: Token, ttl: int | None) -> Found:
    """A new token; the expiry is never lowered, the version stays."""
    (old,) = held(tx, [token])
    tag = tx.tag(old.tag)
    new = tasks.beaten(old, nonce=tasks.nonce(), now=tx.now, ttl=ttl)
    tx.put(old, new)
    return Found(new, tag.name)


def held(tx: Records, tokens: Sequence[Token]) -> list[Record]:
    """The records that the tokens hold, a token given twice once. Raises LeaseLost with every stale one."""
    records = {token: tx.find(token.id) for token in tokens}
    stale = [str(token) for token, record in records.items() if not token.fits(record)]
    if stale:
        raise LeaseLost(stale)
    return [record for record in records.values() if record is not None]


def settle(tx: Records, tokens: Sequence[Token], ending: Ending) -> list[Found]:
    """End every lease so, or none."""
    found = held(tx, tokens)
    end = _ENDINGS[ending.outcome]
    out = []
    for record in found:
        tag = tx.tag(record.tag)
        out.append(Found(end(tx, tag, record, ending), tag.name))
    return out


def _ack(tx: Records, tag: Tag, old: Record, _: Ending) -> Record:
    ended = moves.end(tx, tag, old, Outcome.ACKED)
    moves.shift(tx, tag, old, None)
    for totals in (tag.totals, tx.meta.totals):
        totals.acked += 1
    moves.log(tx, Kind.ACK, tag, old, owner=old.hold.owner if old.hold else "")
    return ended


def _nack(tx: Records, tag: Tag, old: Record, ending: Ending) -> Record:
    owner = old.hold.owner if old.hold else ""
    ended = moves.end(tx, tag, old, Outcome.NACKED, ending.error)
    moves.count(tx, tag, nacked=1)
    if ended.attempts >= ended.max_attempts:
        new = moves.to_dead(tx, tag, old, ended, FAILED)
        moves.count(tx, tag, died_nacked=1)
        moves.log(tx, Kind.NACK, tag, new, owner=owner, detail="dead")
        return new
    delay = tasks.backoff(old.id, ended.cycle, ended.attempts) if ending.delay is None else ending.delay
    new = moves.to_scheduled(tx, tag, old, ended, delay)
    moves.log(tx, Kind.NACK, tag, new, owner=owner)
    return new


def _release(tx: Records, tag: Tag, old: Record, _: Ending) -> Record:
    new = moves.to_pending(tx, tag, old, moves.end(tx, tag, old, Outcome.RELEASED))
    moves.count(tx, tag, released=1)
    moves.log(tx, Kind.RELEASE, tag, new, owner=old.hold.owner if old.hold else "")
    return new


def _defer(tx: Records, tag: Tag, old: Record, ending: Ending) -> Record:
    new = moves.to_scheduled(tx, tag, old, moves.end(tx, tag, old, Outcome.DEFERRED), ending.delay or 0)
    moves.count(tx, tag, deferred=1)
    moves.log(tx, Kind.DEFER, tag, new, owner=old.hold.owner if old.hold else "")
    return new


def _dead_letter(tx: Records, tag: Tag, old: Record, ending: Ending) -> Record:
    return bury(tx, tag, old, ending.reason)


def bury(tx: Records, tag: Tag, old: Record, reason: str) -> Record:
    """A live task into the dead-letter queue by somebody's decision."""
    owner = old.hold.owner if old.hold else ""
    ended = moves.end(tx, tag, old, Outcome.DEAD_LETTERED, reason)
    new = moves.to_dead(tx, tag, old, ended, reason)
    moves.count(tx, tag, dead_lettered=1)
    moves.log(tx, Kind.DEAD_LETTER, tag, new, owner=owner, detail=reason)
    return new


_ENDINGS: dict[Outcome, Callable[[Records, Tag, Record, Ending], Record]] = {
    Outcome.ACKED: _ack,
    Outcome.NACKED: _nack,
    Outcome.RELEASED: _release,
    Outcome.DEFERRED: _defer,
    Outcome.DEAD_LETTERED: _dead_letter,
}
