"""Plans through the verbs of a store; where a store keeps none, what a plan does to its tasks, one by one."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from queue_core import Queue
from queue_core.plans import PART, AuditEntry, Before, Options, Plan, Selected, Verdict, pack
from queue_core.stores.base import Control, Done
from queue_core.stores.embedded import EmbeddedStore
from queue_core.stores.engine import plan as plans
from queue_core.stores.engine.records import Records
from queue_core.task import Hold, State, id_text, parse_id

T = TypeVar("T")
ENTRY = AuditEntry(0, 0, "ann", "operator", "test", "run")
Chosen = Sequence[tuple[str, int]]  # ids and versions


def control(queue: Queue, act: Callable[[Control], Done[T]]) -> T:
    """What a verb of the store's control returns."""

    def run(store: Any) -> Done[T]:
        assert store.control is not None, f"{store.url} keeps no plans"
        return act(store.control)

    return queue.perform(run)


def empty(action: str, **options: Any) -> Plan:
    """A plan as it is before it is drafted."""
    return Plan(0, action, Options(**options), ENTRY.actor, ENTRY.role, ENTRY.origin, 0, 0)


def frozen(queue: Queue, action: str, chosen: Chosen, **options: Any) -> Plan:
    """A plan that can be run, of these tasks."""
    draft = control(queue, lambda c: c.draft(empty(action, **options)))
    entries = [(parse_id(id), version) for id, version in chosen]
    parts = [pack(entries[at : at + PART]) for at in range(0, len(entries), PART)]
    control(queue, lambda c: c.fill(draft.number, 0, parts))
    draft.selected = len(entries)
    return control(queue, lambda c: c.freeze(draft, ENTRY))


def claimed(queue: Queue, number: int, runner: str) -> Plan:
    return control(queue, lambda c: c.claim(number, runner, replace(ENTRY, action="claim")))


def advanced(queue: Queue, number: int, run: int, limit: int) -> Plan:
    return control(queue, lambda c: c.advance(number, run, limit, ENTRY))


def stopped(queue: Queue, number: int, run: int | None, why: str) -> Plan:
    return control(queue, lambda c: c.stop(number, run, why, ENTRY))


def undone(queue: Queue, number: int) -> Plan:
    """The plan that undoes it, frozen."""
    plan = empty("undo")
    plan.undo_of = number
    return control(queue, lambda c: c.undo(plan, ENTRY))


def to_the_end(queue: Queue, number: int, piece: int = 3) -> Plan:
    """Run it in pieces."""
    plan = claimed(queue, number, "runner")
    while True:
        plan = advanced(queue, number, plan.run, piece)
        if plan.over:
            return plan


def planned(queue: Queue, action: str, *ids: str, **options: Any) -> Plan:
    """A plan of these tasks as they are now, run to its end."""
    chosen = [(id, queue.get(id).version) for id in ids]
    return to_the_end(queue, frozen(queue, action, chosen, **options).number)


def results(queue: Queue, number: int, verdict: Verdict | None = None) -> list[tuple[str, str, str]]:
    """(id, verdict, why) of what a plan has dealt with."""
    with queue.view() as view:
        found = view.outcome(number, verdict=verdict)
    return [(id, result.verdict.value, result.why) for _, id, result in found]


# --- where no plans are kept


def by_hand(
    queue: Queue, action: str, chosen: Chosen, befores: Sequence[dict[str, Any]], **options: Any
) -> list[list[Any]]:
    """[id, verdict, version after] of each task, dealt with in one commit as a plan would; with ``befores``, undone.

    A before is what the task was, by the fields of its record, with the name of its tag.
    """
    plan = empty(action, **options)
    plan.undo_of = int(bool(befores))

    def deal(tx: Records) -> list[list[Any]]:
        out = []
        for at, (id, version) in enumerate(chosen):
            one = Selected(at + 1, parse_id(id), version, _before(tx, befores[at]) if befores else None)
            result = plans._deal(tx, plan, one, tx.find(one.id))
            out.append([id_text(one.id), result.verdict.value, result.version])
        return out

    def write(store: Any) -> Done[list[list[Any]]]:
        assert isinstance(store, EmbeddedStore)
        return store._write(deal)

    return queue.perform(write)


def _before(tx: Records, before: dict[str, Any]) -> Before:
    tag, hold = tx.find_tag(before["tag"]), before["hold"]
    assert tag is not None
    lease = hold and Hold(hold[0], 0, *hold[1:])
    return Before(**before | {"state": State(before["state"]), "tag": tag.number, "hold": lease})
