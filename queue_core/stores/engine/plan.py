"""Plans inside one transaction: frozen, claimed by one runner at a time, moved on piece by piece, undone.

What came of each task is written in the transaction that moved it, so that a killed runner leaves neither a task that
was moved and not noted nor one that was noted and not moved.
"""

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from queue_core.errors import Conflict, InvalidArgument, InvalidPayload, StoreFull
from queue_core.plans import (
    DRAFT_RETENTION,
    PART,
    AuditEntry,
    Before,
    Plan,
    PlanState,
    Result,
    Selected,
    Verdict,
    unpack,
)
from queue_core.stores.base import PIECE, Change
from queue_core.stores.engine.operate import ACTIONS
from queue_core.stores.engine.records import Book, Records
from queue_core.stores.engine.undo import UNDO
from queue_core.task import Record, State

LATEST = 100  # plans among which drafts that were left behind are looked for
REASONS = 50  # different reasons that are counted one by one
RESULTS = 20  # in one value
FREEING = frozenset({"purge", "expunge", "cancel"})  # how a full store is emptied
OTHER_REASONS = "other reasons"


def book_of(tx: Records) -> Book:
    """Raises InvalidArgument where the store keeps none."""
    if tx.book is None:
        raise InvalidArgument("this store keeps neither plans nor an audit: use lmdb, or act on tasks one by one")
    return tx.book


def known(book: Book, number: int) -> Plan:
    """Raises Conflict for a number that no plan has."""
    plan = book.plan(number)
    if plan is None:
        raise Conflict(f"there is no plan {number}: queue-core plan list names those that there are")
    return plan


def note(tx: Records, book: Book, entry: AuditEntry) -> AuditEntry:
    """Append to the audit: number and time are given here."""
    tx.meta.audits += 1
    entry = replace(entry, number=tx.meta.audits, at=tx.now)
    book.put_audit(entry)
    return entry


# --- freezing ---------------------------------------------------------------------------------------


def draft(tx: Records, book: Book, plan: Plan) -> Plan:
    """A new plan, still empty. Drafts that were left behind are forgotten."""
    for old in [old for old in islice(book.plans(), LATEST) if old.state is PlanState.DRAFT]:
        left = old.epoch != tx.meta.epoch or tx.now - old.created > DRAFT_RETENTION
        if left and old.kept:  # whoever still fills it is told so, and no half of it is ever frozen
            old.kept = False
            book.put_plan(old)
        if left and not book.drop_parts(old.number, PIECE):
            book.remove_plan(old.number)
    tx.meta.plans += 1
    plan = replace(plan, number=tx.meta.plans, created=tx.now, epoch=tx.meta.epoch, state=PlanState.DRAFT)
    book.put_plan(plan)
    return plan


def drafted(book: Book, number: int) -> None:
    """Raises Conflict for what is no draft, or is being forgotten."""
    plan = known(book, number)
    if plan.state is not PlanState.DRAFT:
        raise Conflict(f"plan {number} is frozen already: it cannot be changed")
    if not plan.kept:
        raise Conflict(f"plan {number} was not frozen for so long that it is forgotten: make it again")


def freeze(tx: Records, book: Book, plan: Plan, entry: AuditEntry) -> Plan:
    """The draft is whole, as given: from now on it can be run."""
    drafted(book, plan.number)
    plan = replace(plan, state=PlanState.READY, aged=tx.meta.aged)
    _keep(tx, plan)
    note(tx, book, replace(entry, plan=plan.number))
    book.put_plan(plan)
    return plan


# --- running ----------------------------------------------------------------------------------------


def claim(
    tx: Records, book: Book, number: int, runner: str, rate: float | None, skip_canary: bool, entry: AuditEntry
) -> Plan:
    """Begin a run of it, if nobody else runs it. Raises Conflict."""
    plan = known(book, number)
    if void(tx, plan):
        raise Conflict(f"plan {number} is void: the store was restored after it was made; make a new plan")
    if plan.state in (PlanState.DRAFT, PlanState.FINISHED):
        raise Conflict(f"plan {number} is {plan.state}: {plan.outcome}; make a new plan", state=plan.state)
    if not plan.alone(tx.now):
        raise Conflict(f"plan {number} is being run by {plan.runner}: stop it first", state=plan.state)
    if not plan.kept:
        raise Conflict(f"plan {number} was left for so long that its selection is no longer kept: make a new plan")
    if plan.undo_of and not known(book, plan.undo_of).kept:
        raise Conflict(f"what plan {plan.undo_of} has changed is no longer known: plan {number} cannot be run")
    _room(tx, plan)
    after = f", after {plan.runner} fell silent: {plan.outcome}" if plan.state is PlanState.RUNNING else ""
    note(tx, book, replace(entry, plan=number, outcome=f"begun{after}"))
    plan.state, plan.runner, plan.run, plan.note = PlanState.RUNNING, runner, plan.run + 1, ""
    plan.moved_before, plan.canary_passed = plan.moved, plan.canary_passed or skip_canary
    plan.rate = rate if rate is not None else plan.rate
    plan.beat, plan.started = tx.now, plan.started or tx.now
    book.put_progress(plan)
    return plan


def _room(tx: Records, plan: Plan) -> None:
    """Raises StoreFull while the room that is left is for draining the store: what came of each task is kept."""
    if (plan.undo_of or plan.action not in FREEING) and tx.short():
        raise StoreFull(
            f"there is no room for what plan {plan.number} writes down of each task: work off tasks, expunge trash, or "
            "open the store with a larger max_size, and run it again"
        )


def _keep(tx: Records, plan: Plan) -> None:
    """Look in time whether its selection has to go."""
    check = tx.meta.plan_check
    tx.meta.plan_check = min(check, plan.kept_until) if check else plan.kept_until


def void(tx: Records, plan: Plan) -> bool:
    """Whether the store was restored since: ids and versions may mean other tasks now."""
    return not plan.over and plan.epoch != tx.meta.epoch


def stop(tx: Records, book: Book, number: int, run: int | None, why: str, entry: AuditEntry) -> Plan:
    """End the run; it can be resumed. ``run``: only if this run of it still goes on."""
    plan = known(book, number)
    if run is not None:
        plan.check_run(run)
    if plan.state not in (PlanState.READY, PlanState.RUNNING):
        raise Conflict(f"plan {number} is {plan.state}: there is nothing to stop", state=plan.state)
    plan.state, plan.note, plan.beat, plan.aged = PlanState.STOPPED, why, tx.now, tx.meta.aged
    _keep(tx, plan)
    moved = plan.moved - plan.moved_before
    note(tx, book, replace(entry, plan=number, count=moved, outcome=f"stopped: {plan.outcome}"))
    book.put_progress(plan)
    return plan


def passed(book: Book, number: int, run: int) -> Plan:
    """Its canary has shown enough."""
    plan = known(book, number)
    plan.check_run(run)
    plan.canary_passed = True
    book.put_progress(plan)
    return plan


def advance(tx: Records, book: Book, number: int, run: int, limit: int, entry: AuditEntry) -> Plan:
    """Deal with the next tasks of the selection, at most ``limit``; with the last one the plan is finished.

    It is stopped when the selection ends before, as that of a plan does whose undo came too late.
    """
    plan = known(book, number)
    plan.check_run(run)
    if limit:
        _room(tx, plan)
    plan.beat = max(plan.beat, tx.now)
    piece = list(islice(walk(book, plan, plan.next), min(limit, plan.left)))
    if limit and plan.left and not piece:
        why = f"what plan {plan.undo_of} has changed is no longer known" if plan.undo_of else "it has no more tasks"
        return stop(tx, book, number, run, why, replace(entry, intent=why))
    records = tx.find_many([one.id for one in piece])
    results = [_deal(tx, plan, one, record) for one, record in zip(piece, records, strict=True)]
    for at in range(0, len(results), RESULTS):
        book.put_results(number, plan.done + at, results[at : at + RESULTS])
    for result in results:
        _count(plan, result)
    if piece:
        plan.next = piece[-1].next
    if not plan.left:
        plan.state, plan.ended, plan.aged = PlanState.FINISHED, tx.now, tx.meta.aged
        _keep(tx, plan)
        moved = plan.moved - plan.moved_before
        note(tx, book, replace(entry, plan=number, count=moved, outcome=f"finished: {plan.outcome}"))
    book.put_progress(plan)
    return plan


def walk(book: Book, plan: Plan, at: int) -> Iterator[Selected]:
    """The tasks of a plan from ``at`` on: its own selection, or what the plan that it undoes has moved."""
    if plan.undo_of:
        yield from _moved(book, plan.undo_of, at)
        return
    part = at // PART
    while entries := unpack(book.selection(plan.number, part)):
        for place, (id, version) in enumerate(entries, part * PART):
            if place >= at:
                yield Selected(place + 1, id, version)
        part += 1


def _moved(book: Book, number: int, at: int) -> Iterator[Selected]:
    entries: dict[int, list[tuple[bytes, int]]] = {}
    for first, results in book.results(number, at):
        for place, result in enumerate(results, first):
            if place < at or result.verdict is not Verdict.MOVED:
                continue
            if place // PART not in entries:
                entries = {place // PART: unpack(book.selection(number, place // PART))}
                if not entries[place // PART]:
                    return
            id, _ = entries[place // PART][place % PART]
            yield Selected(place + 1, id, result.version, result.before)


def _deal(tx: Records, plan: Plan, one: Selected, old: Record | None) -> Result:
    """Move one task if it is still as it was frozen; else say what it is now."""
    if old is None:
        return Result(Verdict.SKIPPED, why="it is gone: acknowledged, or expunged")
    if not old.version:
        return Result(Verdict.FAILED, why="its record does not decode: run queue-core check")
    if old.version != one.version:
        return Result(Verdict.SKIPPED, why=f"it has changed: it is {old.state} now")
    tag = tx.tag(old.tag)
    try:
        if plan.undo_of:
            assert one.before is not None
            new = UNDO[plan.action](tx, tag, old, one.before)
        else:
            states, act = ACTIONS[plan.action]
            if old.state not in states:
                return Result(Verdict.SKIPPED, why=f"it is {old.state}")
            new = act(tx, tag, old, asked(plan))
    except Conflict as error:
        return Result(Verdict.SKIPPED, why=error.brief)
    except InvalidPayload as error:
        return Result(Verdict.FAILED, why=str(error)[:200])
    return Result(Verdict.MOVED, new.version, before=before_of(old) if plan.action in UNDO else None)


def before_of(old: Record) -> Before:
    """What an undo has to know of a task as it was."""
    if old.state not in (State.DEAD, State.TRASH):
        return Before(old.state, old.tag, old.place, old.due, old.attempts, None)
    return Before(
        old.state, old.tag, old.place, old.due, old.attempts, old.reason, old.entry, old.entered, old.aged, old.hold
    )


def asked(plan: Plan) -> Change:
    options = plan.options
    return Change(plan.action, None, options.reason, options.ttl, options.payload or b"", options.tag)


def _count(plan: Plan, result: Result) -> None:
    if result.verdict is Verdict.MOVED:
        plan.moved += 1
        return
    if result.verdict is Verdict.SKIPPED:
        plan.skipped += 1
    else:
        plan.failed += 1
    why = result.why if result.why in plan.why or len(plan.why) < REASONS else OTHER_REASONS
    plan.why[why] = plan.why.get(why, 0) + 1


def undo(tx: Records, book: Book, plan: Plan, entry: AuditEntry) -> Plan:
    """A plan that gives back what another has moved. Raises Conflict when that cannot be."""
    source = known(book, plan.undo_of)
    if source.state not in (PlanState.FINISHED, PlanState.STOPPED):
        raise Conflict(f"plan {source.number} is {source.state}: stop it first, then undo it", state=source.state)
    if source.action not in UNDO or source.undo_of:
        raise Conflict(f"plan {source.number} ({source.action}) cannot be undone: make a new plan instead")
    if source.undone_by:
        raise Conflict(f"plan {source.number} is undone by plan {source.undone_by} already")
    if not source.kept or source.epoch != tx.meta.epoch:
        raise Conflict(f"what plan {source.number} has changed is no longer known: it was too long ago")
    plan = draft(tx, book, replace(plan, action=source.action, options=source.options, selected=source.moved))
    source.undone_by = plan.number
    if not source.over:  # what it has not reached stays as it is
        source.state, source.ended, source.aged = PlanState.FINISHED, tx.now, tx.meta.aged
        source.note = f"ended by its undo, plan {plan.number}"
        _keep(tx, source)
    book.put_progress(source)
    return freeze(tx, book, plan, entry)


def outcome(book: Book, plan: Plan, verdict: Verdict | None, after: int, limit: int) -> list[tuple[int, bytes, Result]]:
    """(number, id, result) of tasks that were dealt with, in the order of the selection; numbered from 1."""
    begin = 0 if plan.undo_of else after  # the walk of an undo passes over tasks that it has no result for
    results = (
        result for first, block in book.results(plan.number, begin) for result in block[max(begin - first, 0) :]
    )  # fmt: skip
    every = enumerate(zip(walk(book, plan, begin), results, strict=False), begin + 1)
    found = ((number, one.id, result) for number, (one, result) in every if verdict in (None, result.verdict))
    return list(islice((row for row in found if row[0] > after), limit))
