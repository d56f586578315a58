"""What people do from the dashboard: through ``Operator``, in the name and the role of who is signed in.

``QUEUE_ROLE`` is the role of whoever opens the page (operator unless set), ``QUEUE_ACTOR`` a name for the audit.
"""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import streamlit as st

from app import data, signin
from queue_core import Conflict, InvalidArgument, Queue, QueueError, StoreError, Task, TaskNotFound
from queue_core.control import Operator, Role, payload_lines, rewritten
from queue_core.frames import error_line, one_line, plural
from queue_core.plans import Plan, PlanState
from queue_core.plans import Verdict as Came

T = TypeVar("T")
ORIGIN = "dashboard"


class Verb(StrEnum):
    """What can be done with selected tasks."""

    REQUEUE = "requeue"
    DEAD_LETTER = "dead_letter"
    REDRIVE = "redrive"
    PURGE = "purge"
    RESTORE = "restore"
    EXTEND = "extend"
    CANCEL = "cancel"
    MOVE = "move_tag"


PAST = {
    Verb.REQUEUE: "requeued", Verb.DEAD_LETTER: "dead-lettered", Verb.REDRIVE: "redriven", Verb.PURGE: "purged",
    Verb.RESTORE: "restored", Verb.EXTEND: "extended", Verb.CANCEL: "cancelled",
    Verb.MOVE: "moved",
}  # fmt: skip
NEEDS_REASON = (Verb.DEAD_LETTER, Verb.PURGE, Verb.CANCEL)


@dataclass(frozen=True, slots=True)
class Target:
    """A task as it was when a person chose it."""

    id: str
    version: int
    label: str


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one target: ``done``, ``skipped`` (it is no longer as it was chosen) or ``failed``."""

    target: Target
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an action did. ``plan`` is its number where the store keeps plans, so that it can be undone."""

    results: list[Result]
    plan: int | None = None


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


def _as_operator(use: Callable[[Operator], T]) -> T:
    """Ask the queue in the name of who looks at the page."""
    who, what = actor(), role()
    return data.with_queue(lambda queue: use(Operator(queue, who, what, origin=ORIGIN)))


# --- selected tasks -------------------------------------------------------------------------------


def act(
    verb: Verb, targets: Sequence[Target], reason: str = "", ttl: float | None = None, tag: str | None = None
) -> Outcome:
    """Do it to each target that is still as it was chosen. Never raises a QueueError: the results say what happened.

    Several are one plan where the store keeps plans; else one after the other, and when the store fails, the rest is
    not tried.
    """
    given = {name: value for name, value in (("ttl", ttl), ("tag", tag)) if value is not None}
    if len(targets) > 1 and data.with_queue(lambda queue: queue.capabilities.plans):
        outcome = _together(verb, targets, reason, given)
    else:
        outcome = Outcome(_one_by_one(verb, targets, reason, given))
    data.forget()
    return outcome


def _together(verb: Verb, targets: Sequence[Target], reason: str, given: dict[str, Any]) -> Outcome:
    moved: set[str] = set()
    whys: dict[str, tuple[Came, str]] = {}
    failed, number = "", None
    try:
        chosen = [(target.id, target.version) for target in targets]
        number = _as_operator(lambda operator: operator.plan(verb, ids=chosen, reason=reason, **given)).number
        _as_operator(lambda operator: operator.run(number))
    except QueueError as error:
        failed = error_line(error)
    if number is not None:
        try:
            found = data.read(lambda view: view.outcome(number, limit=len(targets)))
            moved = {id for _, id, result in found if result.verdict is Came.MOVED}
            whys = {id: (result.verdict, result.why) for _, id, result in found if result.verdict is not Came.MOVED}
        except QueueError as error:
            failed = failed or error_line(error)
    results = []
    for target in targets:
        if target.id in moved:
            results.append(Result(target, "done"))
        elif target.id in whys:
            verdict, why = whys[target.id]
            changed = "it has changed" in why or "it is gone" in why
            results.append(Result(target, str(verdict), _now(target) if changed else why))
        else:
            results.append(Result(target, "failed", failed) if failed else Result(target, "skipped", _now(target)))
    return Outcome(results, number if moved else None)


def _now(target: Target) -> str:
    """What a task is now, in words."""
    try:
        (task, _), _ = data.task(target.id)
    except TaskNotFound:
        return "gone: it was acknowledged or expunged"
    except QueueError as error:
        return error_line(error)
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


def summary(verb: Verb, results: Sequence[Result]) -> str:
    """What was done, in a sentence that holds no text of tasks."""
    done = sum(result.outcome == "done" for result in results)
    skipped = sum(result.outcome == "skipped" for result in results)
    failed = len(results) - done - skipped
    total = plural(len(results), "task")
    text = f"{total} {PAST[verb]}" if done == len(results) else f"{done:,} of {total} {PAST[verb]}"
    if skipped:
        changed = "it has changed" if skipped == 1 else "they have changed"
        text += f"; {skipped:,} skipped, because {changed} since the selection"
    return text + (f"; {failed:,} failed" if failed else "")


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

    try:
        return _as_operator(change)
    finally:
        data.forget()


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
    data.forget()


def resolve(group: str, resolved: bool, reason: str = "") -> None:
    """The cause of an error group is mended, or is not after all. Raises QueueError."""
    _as_operator(lambda o: o.resolve(group, reason=reason) if resolved else o.reopen(group, reason=reason))
    data.forget()


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


def take_back(number: int) -> tuple[str, bool]:
    """Undo a plan of selected tasks: what came of it in words, and whether all were given back."""
    try:
        plan = _as_operator(lambda operator: operator.run(operator.undo(number).number))
    except QueueError as error:
        return error_line(error), False
    finally:
        data.forget()
    return f"Undone: {plan.outcome}", plan.moved == plan.selected


def stop(number: int, reason: str = "") -> Plan:
    """No further task of the plan is moved. Raises Conflict."""
    return _as_operator(lambda operator: operator.stop(number, reason))


@st.cache_resource(show_spinner=False)
def _runs() -> dict[tuple[str, int], "Running"]:
    """Runs of this server, by queue and plan: shared by all sessions, so that a page that is left stops none."""
    return {}


class Running:
    """A plan that runs beside the pages. ``error`` tells why it ended early, in words."""

    def __init__(self, url: str, number: int, operator: Callable[[Queue], Operator]) -> None:
        self.error = ""
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
            self.error = error_line(error)


def start(number: int, wait: float = 1.0) -> None:
    """Run a plan, or go on with it, beside the pages; ``wait`` up to so many seconds for its end.

    It goes on when the page is left. When the server ends, it can be resumed from anywhere.
    """
    who, what = actor(), role()
    if not may("run"):
        _as_operator(lambda operator: operator.run(number))  # says who may
    running = Running(data.url(), number, lambda queue: Operator(queue, who, what, origin=ORIGIN))
    _runs()[data.url(), number] = running
    running.wait(wait)
    data.forget()


def trouble(number: int) -> str:
    """Why the last run of a plan by this server ended early; nothing when it did not."""
    running = _runs().get((data.url(), number))
    return one_line(running.error) if running is not None else ""


def goes_on(plan: Plan) -> bool:
    """Whether a plan is being run, by anybody."""
    return plan.state is PlanState.RUNNING
