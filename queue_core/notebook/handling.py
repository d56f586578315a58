"""Dead letters in a notebook: find, inspect, plan, run, undo. Read-only until it is armed.

It reads what the dashboard reads, and acts through ``control.Operator``, so that roles, reasons and the audit are the
same. Not armed, a plan is made by the same code, against a store that keeps nothing.
"""

import getpass
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import pandas as pd

from queue_core.control import Operator, Role
from queue_core.errors import InvalidArgument, NotPermitted
from queue_core.figures.base import records
from queue_core.frames import (
    dead_frame,
    duration,
    filter_of,
    groups_frame,
    groups_of,
    newest,
    planned_frame,
    planned_words,
    task_story,
)
from queue_core.notebook.cards import Card, Table
from queue_core.notebook.display import plan_card, put, task_card
from queue_core.notebook.links import dashboard_url
from queue_core.plans import AuditEntry, Plan, PlanState
from queue_core.queue import Queue
from queue_core.queue.arguments import as_state
from queue_core.stores.base import Done
from queue_core.task import State

STATES = {"redrive": State.DEAD, "move_tag": State.DEAD, "purge": State.DEAD, "restore": State.TRASH}
ROWS = 200
TOLD = 0.5  # seconds between two words on how far a plan is
READ_ONLY = "this triage is read-only, and nothing was changed: make it with triage(queue, actor=…, armed=True)"


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan as it was made, or as a run left it. ``kept`` is False for one that was only looked at."""

    plan: Plan
    kept: bool

    @property
    def number(self) -> int:
        """Its number; 0 for one that was only looked at."""
        return self.plan.number

    @property
    def words(self) -> list[str]:
        """What the dashboard says before it asks for a yes, a sentence each."""
        return planned_words(self.plan)

    @property
    def tags(self) -> pd.DataFrame:
        """How many tasks each tag has: see ``frames.planned_frame``."""
        return planned_frame(self.plan)

    def url(self, base: str | None = None) -> str:
        """Where the dashboard shows it."""
        return dashboard_url("operations", plan=self.plan.number or None, base=base)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return plan_card(self.plan).bundle()

    def __repr__(self) -> str:
        return plan_card(self.plan).plain()


class Handling:
    """All that a triage does. ``where`` is the filter that was looked for last."""

    def __init__(
        self, queue: Queue, actor: str | None = None, *, armed: bool = False, role: Role | str | None = None
    ) -> None:
        self.queue, self.armed, self.where = queue, armed, ""
        who, wanted = actor or _somebody(), role or os.environ.get("QUEUE_ROLE") or Role.OPERATOR
        self._operator = Operator(queue, who, wanted, origin="notebook")
        self.actor, self.role = self._operator.actor, self._operator.role if armed else Role.VIEWER

    # --- looking

    def find(self, where: str = "", *, state: State | str = State.DEAD, limit: int = ROWS) -> pd.DataFrame:
        """The dead letters (or the ``trash``) that a filter finds, the newest first, as a dead frame. InvalidFilter."""
        kind = as_state(state)
        whole = filter_of(kind, where)
        with self.queue.view() as view:
            snapshot, found = view.snapshot(), newest(view, kind, whole, limit=limit)
        self.where = where
        return dead_frame(found.tasks, snapshot.at)

    def groups(self, tag: str | None = None) -> pd.DataFrame:
        """The error groups that have dead letters, the largest first, as a groups frame; of one tag, where given."""
        with self.queue.view() as view:
            snapshot = view.snapshot()
            found, _ = groups_of(view, snapshot, tag)
        return groups_frame(found, snapshot.at)

    def show(self, id: str) -> Card:
        """One task with its story, masked. TaskNotFound, InvalidArgument for what is no id."""
        with self.queue.view() as view:
            told = task_story(view, id)
        card = task_card(told.task)
        rows = [
            (f"{row.at:%Y-%m-%d %H:%M:%S}", duration(row.after), row.what, row.who, row.detail)
            for row in records(told.story)
        ]
        story = Table(("When, UTC", ">Later by", "What", "Who", "Detail"), rows, "Story")
        return Card(card.title, [told.sentence, *card.lines[1:]], card.facts, [*card.tables, story], card.code)

    def url(self, base: str | None = None) -> str:
        """Where the dashboard shows what was looked for last."""
        return dashboard_url("dead", where=self.where, base=base)

    # --- acting

    def plan(
        self, action: str, where: str | pd.DataFrame = "", *, reason: str = "", rate: float | None = None,
        canary: int | None = None, success: float = 0.9, tag: str | None = None,
    ) -> Planned:  # fmt: skip
        """What an action would be done to, to be looked at before ``run``: all that a filter finds, or the rows of a
        frame that ``find`` gave, as they were then.

        ``action``: redrive, move_tag (to ``tag``), purge, restore (from the trash). The rest is as for
        ``Operator.plan``. Not armed, nothing is kept of it. Raises InvalidArgument, InvalidFilter, NotPermitted.
        """
        if action not in STATES:
            raise InvalidArgument(
                f"action is {action!r:.100}: dead letters and trash are for {', '.join(STATES)}; for others use "
                "queue_core.control.Operator"
            )
        chosen: dict[str, Any]
        if isinstance(where, pd.DataFrame):
            chosen = {"ids": list(zip(where["id"].tolist(), where["version"].tolist(), strict=True))}
        else:
            chosen = {"where": filter_of(STATES[action], where)}
        by = self._operator if self.armed else _looking(self._operator)
        plan = by.plan(action, **chosen, reason=reason, rate=rate, canary=canary, success=success, tag=tag)
        return Planned(plan, self.armed)

    def run(self, plan: "Planned | Plan | int", *, skip_canary: bool = False) -> Planned:
        """Run a plan, or go on with it, to its end; what came of it. An interrupt stops it: what was moved stays
        moved. Conflict, NotPermitted."""
        number = self._number(plan)
        return Planned(self._operator.run(number, skip_canary=skip_canary, progress=_telling()), True)

    def undo(self, plan: "Planned | Plan | int", reason: str = "") -> Planned:
        """Give back what a plan has moved, and has not moved on since; what came of it. Conflict, NotPermitted."""
        return self.run(self._operator.undo(self._number(plan), reason))

    def _number(self, plan: "Planned | Plan | int") -> int:
        if not self.armed:
            _refuse()
        number = plan if isinstance(plan, int) else plan.number
        if not number:
            raise InvalidArgument("this plan was only looked at, when the triage was not armed: make it again")
        return number

    def __repr__(self) -> str:
        how = f"{self.role}: {self.actor}" if self.armed else "read-only"
        return f"{type(self).__name__}({self.queue.url!r}, {how})"


def _refuse() -> NoReturn:
    raise NotPermitted(READ_ONLY)


def _somebody() -> str:
    return os.environ.get("QUEUE_ACTOR") or f"{getpass.getuser()}@{socket.gethostname()}"


def _telling() -> Callable[[Plan], None]:
    """Says how far a plan is while it takes its time, in one output that is updated."""
    begun = time.monotonic()
    handle: Any = None

    def tell(plan: Plan) -> None:
        nonlocal begun, handle
        if plan.state is PlanState.RUNNING and time.monotonic() - begun < TOLD:
            return
        begun = time.monotonic()
        if handle is not None:
            handle.update(plan_card(plan).bundle(), raw=True)
        elif plan.state is PlanState.RUNNING:
            handle = put(plan_card(plan).bundle())

    return tell


# --- looking at what would be done -------------------------------------------------------------------


class _Nothing:
    """Takes a draft as a store does that keeps plans, and keeps nothing."""

    def __init__(self, url: str, plans: bool) -> None:
        self.url = url
        self.control = self if plans else None

    def draft(self, plan: Plan) -> Done[Plan]:
        return Done(plan, ())

    def fill(self, number: int, first: int, parts: Any) -> Done[None]:
        return Done(None, ())

    def freeze(self, plan: Plan, entry: AuditEntry) -> Done[Plan]:
        return Done(plan, ())


class _Unwritten:
    """A queue that is read, and to which nothing is written."""

    def __init__(self, queue: Queue) -> None:
        self.view, self.dump, self._nothing = queue.view, queue.dump, _Nothing(queue.url, queue.capabilities.plans)

    def perform(self, verb: Callable[[Any], Done[Any]]) -> Any:
        return verb(self._nothing).result


def _looking(operator: Operator) -> Operator:
    """Somebody who plans without a trace; for that, a viewer may look at what an operator would do."""
    role = Role.OPERATOR if operator.role is Role.VIEWER else operator.role
    return Operator(cast(Queue, _Unwritten(operator.queue)), operator.actor, role, origin=operator.origin)
