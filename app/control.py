"""What people do from the dashboard: through ``Operator``, in the name and the role of who is signed in.

``QUEUE_ROLE`` is the role of whoever opens the page (operator unless set), ``QUEUE_ACTOR`` a name for the audit.
"""

import json
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import streamlit as st

from app import data, signin
from app.verbs import PAST, Outcome, Result, Target, Undone, Verb
from queue_core import (
    Conflict,
    InvalidArgument,
    InvalidPayload,
    Queue,
    QueueError,
    State,
    StoreError,
    StoreFull,
    Task,
    TaskNotFound,
)
from queue_core.control import Operator, Role, payload_lines, rewritten
from queue_core.frames import error_line, one_line, plan_words
from queue_core.plans import Plan, PlanState
from queue_core.plans import Result as PlanResult
from queue_core.plans import Verdict as Came

T = TypeVar("T")
ORIGIN = "dashboard"


# --- who ------------------------------------------------------------------------------------------


def actor() -> str:
    """Who acts, for the audit: who is signed in, or what ``QUEUE_ACTOR`` says."""
    return str(st.user.get("email") or os.environ.get("QUEUE_ACTOR") or "dashboard")


def role() -> Role:
    """The role of who looks at the page. Raises InvalidArgument for a QUEUE_ROLE that there is not."""
    given = signin.role() or Role.VIEWER
    try:
        return Role(given)
    except ValueError:
        raise InvalidArgument(f"QUEUE_ROLE is {given!r:.60}: it is one of {', '.join(Role)}") from None


def may(action: str) -> bool:
    """Whether the role allows a method of ``Operator``, by its name."""
    return Operator.allows(role(), action)


def question() -> int:
    """The number of a question that is asked now, so that what is answered to it is done once: see ``answered``."""
    st.session_state["questions"] = number = st.session_state.get("questions", 0) + 1
    return int(number)


def answered(question: int) -> bool:
    """Whether it was answered before, as by the first of two quick clicks."""
    return question <= int(st.session_state.get("answered", 0))


def answer(question: int) -> None:
    """From now on it is answered."""
    st.session_state["answered"] = max(question, st.session_state.get("answered", 0))


def _as_operator(use: Callable[[Operator], T]) -> T:
    """Ask the queue in the name of who looks at the page; after it, all that is shown is read anew."""
    who, what = actor(), role()
    try:
        return data.with_queue(lambda queue: use(Operator(queue, who, what, origin=ORIGIN)))
    finally:
        data.forget()


# --- selected tasks -------------------------------------------------------------------------------


def act(
    verb: Verb, targets: Sequence[Target], reason: str = "", ttl: float | None = None, tag: str | None = None
) -> Outcome:
    """Do it to each target that is still as it was chosen. Never raises a QueueError: the results say what happened.

    It is one plan where the store keeps plans and it can be undone, or there are several. Else it is done to one after
    the other, and when the store fails, the rest is not tried.
    """
    given = {name: value for name, value in (("ttl", ttl), ("tag", tag)) if value is not None}
    planned = len(targets) > 1 or verb is not Verb.EXTEND
    if planned and data.with_queue(lambda queue: queue.capabilities.plans):
        return _together(verb, targets, reason, given)
    return Outcome(_one_by_one(verb, targets, reason, given))


def _together(verb: Verb, targets: Sequence[Target], reason: str, given: dict[str, Any]) -> Outcome:
    came: dict[str, PlanResult] = {}
    failed, plan = "", None
    try:
        plan = _as_operator(lambda operator: operator.plan(verb, **_chosen(targets), reason=reason, **given))
        number = plan.number
        _as_operator(lambda operator: operator.run(number))
    except StoreFull as error:
        if len(targets) == 1:  # to act at once takes less room than a plan, which could be undone
            return Outcome(_one_by_one(verb, targets, reason, given))
        failed = error_line(error)
    except QueueError as error:
        failed = error_line(error)
    if plan is not None:
        try:
            found = data.read(lambda view: view.outcome(number, limit=len(targets)))
            came = {id: result for _, id, result in found}
        except QueueError as error:
            failed = failed or error_line(error)
    hindrances = "; ".join(plan.ineligible) if plan is not None else ""
    results = [_result(target, came.get(target.id), failed, hindrances) for target in targets]
    undoable = any(_can_be_given_back(verb, result) for result in came.values())
    return Outcome(results, plan.number if plan is not None and undoable else None)


def _chosen(targets: Sequence[Target]) -> dict[str, Any]:
    """Tasks for a plan; one alone as a filter, so that the audit names it."""
    if len(targets) == 1:
        return {"where": f"id:{targets[0].id} version={targets[0].version}"}
    return {"ids": [(target.id, target.version) for target in targets]}


def _result(target: Target, result: PlanResult | None, failed: str, hindrances: str) -> Result:
    if result is None:
        if failed:
            return Result(target, "failed", failed)
        return Result(target, "skipped", _now(target, hindrances))
    if result.verdict is Came.MOVED:
        return Result(target, "done")
    changed = "it has changed" in result.why or "it is gone" in result.why
    return Result(target, str(result.verdict), _now(target) if changed else result.why)


def _can_be_given_back(verb: Verb, result: PlanResult) -> bool:
    """Whether an undo has something to give back: a lease that was ended is none."""
    if result.verdict is not Came.MOVED or result.before is None:
        return False
    return verb is not Verb.REQUEUE or result.before.state is State.SCHEDULED


def _now(target: Target, otherwise: str = "") -> str:
    """What a task is now, in words; ``otherwise`` is told of one that is still as it was chosen."""
    try:
        (task, _), _ = data.task(target.id)
    except TaskNotFound:
        return "gone: it was acknowledged or expunged"
    except QueueError as error:
        return error_line(error)
    if otherwise and task.version == target.version:
        return otherwise
    return f"now {task.state}, version {task.version}"


def _one_by_one(verb: Verb, targets: Sequence[Target], reason: str, given: dict[str, Any]) -> list[Result]:
    results: list[Result] = []
    stopped = ""
    for target in targets:
        if stopped:
            results.append(Result(target, "failed", f"not tried, because the store failed before: {stopped}"))
            continue
        results.append(_act(verb, target, reason, given))
        if results[-1].outcome == "failed":
            stopped = results[-1].detail
    return results


def _act(verb: Verb, target: Target, reason: str, given: dict[str, Any]) -> Result:
    try:
        _as_operator(lambda operator: _do(operator, verb, target, reason, given))
    except Conflict as error:
        changed = str(error).startswith(f"task {target.id} ")  # else it is another task that is in the way
        now = f"now {error.state}, version {error.version}"
        return Result(target, "skipped", now if changed else error_line(error))
    except TaskNotFound:
        return Result(target, "skipped", "gone: it was acknowledged or expunged")
    except StoreError as error:
        return Result(target, "failed", error_line(error))
    except QueueError as error:
        return Result(target, "skipped", error_line(error))
    return Result(target, "done")


def _do(operator: Operator, verb: Verb, target: Target, reason: str, given: dict[str, Any]) -> None:
    getattr(operator, verb)(target.id, reason=reason, version=target.version, **given)


# --- one task, settings, groups -------------------------------------------------------------------


def payload_text(task: Task) -> str:
    """The payload of a task, which is masked where it is seen, as text to be edited."""
    return "\n".join(payload_lines(task.payload))


def changes(id: str, version: int, text: str) -> list[str]:
    """What an edited text would change, line by line, masked. Raises QueueError: what cannot be saved says why."""
    return _as_operator(lambda operator: _rewritten(operator, id, version, text)[1])


def edit(id: str, version: int, text: str, reason: str) -> int:
    """The edited text as the payload of a task that still has the version that was seen: the version that it has then.

    A value that was left as its mask keeps what it hides. Raises QueueError.
    """

    def change(operator: Operator) -> int:
        new, _ = _rewritten(operator, id, version, text)
        return operator.edit(id, new, version=version, reason=reason).version

    return _as_operator(change)


def take_back_edit(id: str, version: int, redrive: int | None = None) -> Undone:
    """Give a task the payload of before an edit again, if it still has the ``version`` of after it.

    One that was redriven then, by the plan ``redrive``, is a dead letter again first.
    """
    dead_again = False
    try:
        if redrive is not None:
            plan = _as_operator(lambda operator: operator.run(operator.undo(redrive).number))
            if not plan.moved:
                return Undone(
                    "The edit was not undone: the task was redriven since", False, tuple(plan_words(plan)[1:])
                )
            ((_, _, result),) = data.read(lambda view: view.outcome(plan.number))
            version, dead_again = result.version, True
        _as_operator(lambda operator: _edit_back(operator, id, version))
    except QueueError as error:
        half = "Its redrive was undone, the edit was not" if dead_again else "The edit was not undone"
        return Undone(half, False, (error_line(error),))
    return Undone(f"Undone: it has the payload of before again{', and is a dead letter' if dead_again else ''}", True)


def _edit_back(operator: Operator, id: str, version: int) -> None:
    task = operator.queue.get(id)
    if task.version != version or not task.record.edits:
        raise Conflict(f"it has changed since: it is {task.state} at version {task.version}; look at it again")
    try:
        before = json.loads(task.record.edits[-1].payload)
    except ValueError as error:
        raise InvalidPayload(f"what it had before is not JSON: {error}") from None
    operator.edit(id, before, version=version, reason="undo of an edit")


def _rewritten(operator: Operator, id: str, version: int, text: str) -> tuple[Any, list[str]]:
    task = operator.queue.get(id)
    if task.version != version:
        raise Conflict(f"it has changed since: it is {task.state} at version {task.version}; look at it again")
    new, told = rewritten(task, text, operator.redactor)
    operator.queue.dump(new)  # says what is too large, or no JSON
    return new, told


def configure(tag: str | None, reason: str = "", **settings: Any) -> None:
    """Change settings of a tag, or (None) of the queue. Raises QueueError."""
    _as_operator(lambda operator: operator.configure(tag, reason=reason, **settings))


def resolve(group: str, resolved: bool, reason: str = "") -> bool:
    """The cause of an error group is mended, or is not after all; False when that had been said before. Raises
    QueueError."""
    groups = data.with_queue(lambda queue: queue.groups())
    if any(one.fingerprint.hex() == group and bool(one.resolved) == resolved for one in groups):
        return False
    _as_operator(lambda o: o.resolve(group, reason=reason) if resolved else o.reopen(group, reason=reason))
    return True


# --- plans ----------------------------------------------------------------------------------------


def export(where: str, kind: str, limit: int) -> bytes:
    """The first tasks that a filter finds, masked, as ``csv`` or ``ndjson``. Raises QueueError."""
    with TemporaryDirectory() as home:
        file = Path(home) / f"tasks.{kind}"
        _as_operator(lambda operator: operator.export_tasks(file, where, limit=limit))
        return file.read_bytes()


def draft(action: str, where: str, **given: Any) -> Plan:
    """Freeze what a filter finds. Raises QueueError, InvalidFilter for a filter that cannot be read."""
    return _as_operator(lambda operator: operator.plan(action, where, **given))


def undo(number: int, reason: str = "") -> Plan:
    """A plan, to be run, that gives back what another has moved. Raises Conflict."""
    return _as_operator(lambda operator: operator.undo(number, reason))


def take_back(number: int) -> Undone:
    """Undo a plan of selected tasks."""
    try:
        plan = _as_operator(lambda operator: operator.run(operator.undo(number).number))
    except QueueError as error:
        return Undone("Nothing was undone", False, (error_line(error),))
    was = f"{'it' if plan.selected == 1 else 'they'} had been {PAST[Verb(plan.action)]}"
    words = f"Undone: {plan.outcome}; {was}" if plan.moved else f"Not undone: {plan.outcome}; {was}"
    return Undone(words, plan.moved == plan.selected, tuple(plan_words(plan)[1:]))


def stop(number: int, reason: str = "") -> None:
    """No further task of the plan is moved. Raises Conflict."""
    try:
        _as_operator(lambda operator: operator.stop(number, reason))
    except Conflict as error:
        if error.state != PlanState.STOPPED:  # else it was clicked twice
            raise


@st.cache_resource(show_spinner=False)
def _runs() -> dict[tuple[tuple[str, int], int], "Running"]:
    """Runs of this server, by store and plan: shared by all sessions, so that a page that is left stops none."""
    return {}


class Running:
    """A plan that runs beside the pages. ``error`` tells why it ended early, in words; ``refused`` is set when it never
    began."""

    def __init__(self, url: str, number: int, operator: Callable[[Queue], Operator]) -> None:
        self.error = ""
        self.refused: Conflict | None = None
        self._thread = threading.Thread(
            target=self._run, args=(url, number, operator), name=f"plan {number}", daemon=True
        )
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Until it has ended, or so long."""
        self._thread.join(seconds)

    def _run(self, url: str, number: int, operator: Callable[[Queue], Operator]) -> None:
        try:
            data.with_queue_at(url, lambda queue: operator(queue).run(number))
        except QueueError as error:
            self.error, self.refused = error_line(error), error if isinstance(error, Conflict) else None
        finally:
            data.forget()


def start(number: int, wait: float = 1.0) -> None:
    """Run a plan, or go on with it, beside the pages; ``wait`` up to so many seconds for its end.

    It goes on when the page is left. When the server ends, it can be resumed from anywhere. Raises Conflict when it
    cannot be run, as somebody else runs it, or has.
    """
    who, what = actor(), role()
    if not may("run"):
        _as_operator(lambda operator: operator.run(number))  # says who may
    before = _runs().get((data.store(), number))
    if before is not None and before.alive:  # it was clicked twice
        return
    running = Running(data.url(), number, lambda queue: Operator(queue, who, what, origin=ORIGIN))
    running.wait(wait)
    data.forget()
    if running.refused is not None:  # this is for who asked, and no trouble of the plan
        raise running.refused
    _runs()[data.store(), number] = running


def start_undo(number: int) -> tuple[int, str]:
    """Make the plan that undoes another, and run it: its number, or that of the other when there is none, and what went
    wrong, in words."""
    try:
        number = undo(number).number
        start(number)
    except QueueError as error:
        return number, error_line(error)
    return number, ""


def trouble(number: int) -> str:
    """Why the last run of a plan by this server ended early; nothing when it did not."""
    running = _runs().get((data.store(), number))
    return one_line(running.error) if running is not None else ""


def goes_on(plan: Plan) -> bool:
    """Whether a plan is being run, by anybody."""
    return plan.state is PlanState.RUNNING
