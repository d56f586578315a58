"""The triage as a box of ipywidgets: everything in it is a call of the triage that it belongs to."""

from collections.abc import Callable
from typing import Any

import pandas as pd
from ipywidgets import (
    HTML,
    BoundedFloatText,
    BoundedIntText,
    Button,
    Dropdown,
    HBox,
    Layout,
    SelectMultiple,
    Text,
    VBox,
)

from queue_core.errors import InvalidFilter, QueueError
from queue_core.figures.base import records
from queue_core.frames import dead_sentence, duration, error_line, groups_sentence, one_line, plural, safe_text
from queue_core.frames.tables import DEAD, rows
from queue_core.notebook.cards import Card, Table
from queue_core.notebook.display import plan_card
from queue_core.notebook.handling import ROWS, Handling, Planned

GROUPS, LISTED = 8, 8  # rows of the table, and of the list
SHORT = 80  # characters of an error in a line
ACTIONS = [("Redrive", "redrive"), ("Move", "move_tag"), ("Purge", "purge"), ("Restore from the trash", "restore")]
WIDE = Layout(width="30em")


class Box:
    """What a person sees. A plan is run by the number that was looked at; whatever is changed after that puts it
    away."""

    def __init__(self, triage: Handling) -> None:
        self._triage = triage
        self._planned: Planned | None = None
        self._ran: Planned | None = None
        self._filling = False
        self._rows = rows(DEAD, [])  # that were found
        self.where = Text(
            description="Filter", placeholder="error:timeout tag:acme", continuous_update=False, layout=WIDE
        )
        self.refresh = _button("Refresh", self._find)
        self.group = Dropdown(description="Group", layout=WIDE)
        self.groups, self.found, self.detail, self.outcome = HTML(), HTML(), HTML(), HTML()
        self.tasks = SelectMultiple(description="Tasks", rows=LISTED, layout=Layout(width="60em"))
        self.action = Dropdown(description="Action", options=ACTIONS, layout=Layout(width="18em"))
        self.reason = Text(description="Reason", layout=WIDE)
        self.tag = Text(description="To tag", layout=Layout(width="18em"))
        self.rate = BoundedFloatText(
            description="Per second", max=1e6, tooltip="0: as fast as it goes", layout=_narrow()
        )
        self.canary = BoundedIntText(description="Canary", max=10_000, tooltip="0: none", layout=_narrow())
        self.look = _button("Look what it would do", self._look)
        self.run = _button("Run", self._run)
        self.undo = _button("Undo", self._undo)
        self.view = VBox([
            self.groups, HBox([self.group, self.where, self.refresh]), self.found, self.tasks, self.detail,
            HBox([self.action, self.reason, self.tag]), HBox([self.rate, self.canary, self.look]), self.outcome,
            HBox([self.run, self.undo]),
        ])  # fmt: skip
        self.where.observe(lambda _: self._find(), "value")
        self.group.observe(lambda change: self._of(change["new"]), "value")
        self.tasks.observe(lambda _: self._show(), "value")
        for field in (self.action, self.reason, self.tag, self.rate, self.canary):
            field.observe(lambda _: self._put_away(), "value")
        self.action.observe(lambda _: self._find(), "value")
        self._find()

    # --- looking

    def _find(self) -> None:
        self.tag.disabled = self.action.value != "move_tag"
        self._put_away()
        self.tasks.options = ()
        self._guarded(self._read)

    def _read(self) -> None:
        where, trash = self.where.value.strip(), self.action.value == "restore"
        self._rows = self._triage.find(where, state="trash" if trash else "dead")
        groups, said = self._triage.groups(), dead_sentence(self._triage.queue.snapshot())
        heads = ("Error", ">Dead", ">Tags", "Last", "Status", "Group")
        told = [
            (row.text, f"{row.count:,}", f"{row.tags:,}", _ago(row.since_last), row.status, row.group)
            for row in records(groups.head(GROUPS))
        ]
        self.groups.value = Card(said, [groups_sentence(groups)], tables=[Table(heads, told)]).html()
        self._fill(where, groups)
        count, state = plural(len(self._rows), "task"), "in the trash" if trash else "dead"
        title = f"{'The newest ' if len(self._rows) == ROWS else ''}{count} {state} by this filter"
        does = "An action is for all that the filter finds, or for those that are selected here"
        self.found.value = Card(title, [does] if len(self._rows) else []).html()
        self.tasks.options = list(zip(_listed(self._rows), self._rows["id"], strict=True))

    def _fill(self, where: str, groups: pd.DataFrame) -> None:
        """The groups to choose from; what is chosen is what the filter says."""
        labels = {"": "All"} | {f"group:{row.group}": f"{row.count:,} × {_short(row.text)}" for row in records(groups)}
        labels.setdefault(where, "—")
        self._filling = True
        try:
            self.group.options = [(label, filter) for filter, label in labels.items()]
            self.group.value = where
        finally:
            self._filling = False

    def _of(self, where: str) -> None:
        if not self._filling:
            self.where.value = where

    def _show(self) -> None:
        self._put_away()
        self.detail.value = ""
        if len(self.tasks.value) == 1:
            self._guarded(self._inspect)

    def _inspect(self) -> None:
        (id,) = self.tasks.value
        self.detail.value = self._triage.show(id).html()

    # --- acting

    def _look(self) -> None:
        self._put_away()
        self._guarded(self._plan)

    def _plan(self) -> None:
        tag = self.tag.value if self.action.value == "move_tag" else None
        selected = self._rows[self._rows["id"].isin(self.tasks.value)]
        where = self.where.value.strip() if selected.empty else selected
        self._planned = self._triage.plan(
            self.action.value, where, reason=self.reason.value.strip(), rate=self.rate.value or None,
            canary=self.canary.value or None, tag=tag,
        )  # fmt: skip
        count = self._planned.plan.selected
        self.run.description = f"{self.action.label.split()[0]} {plural(count, 'task')}"
        self.run.disabled = not (self._triage.armed and count)
        self._told(plan_card(self._planned.plan))

    def _run(self) -> None:
        planned, self._planned = self._planned, None  # the second of two quick clicks finds none
        if planned is not None:
            self._act(lambda: self._triage.run(planned))

    def _undo(self) -> None:
        ran, self._ran = self._ran, None
        if ran is not None:
            self._act(lambda: self._triage.undo(ran))

    def _act(self, act: Callable[[], Planned]) -> None:
        self.run.disabled = self.undo.disabled = True
        self._guarded(lambda: self._done(act()))

    def _done(self, done: Planned) -> None:
        self._read()
        self._told(plan_card(done.plan))
        if done.plan.moved and not done.plan.undo_of:
            self._ran, self.undo.disabled = done, False

    # --- words

    def _put_away(self) -> None:
        self._planned, self.run.disabled, self.run.description = None, True, "Run"
        if self._ran is None:
            self.undo.disabled = True
        self._told(Card("" if self._triage.armed else "Read-only: arm it by triage(queue, actor=…, armed=True)"))

    def _told(self, card: Card) -> None:
        self.outcome.value = card.html()

    def _guarded(self, do: Callable[[], None]) -> None:
        """What goes wrong is said where the outcome is."""
        try:
            do()
        except InvalidFilter as mistake:
            self._told(Card("The filter has a mistake", code=safe_text(str(mistake))))
        except QueueError as error:
            self._told(Card(error_line(error)))
        except KeyboardInterrupt:
            self._told(Card("Interrupted: what was moved stays moved, and the plan can be run on by its number"))


def _button(name: str, do: Callable[[], None]) -> Any:
    button = Button(description=name, layout=Layout(width="auto", flex="none"))
    button.on_click(lambda _: do())
    return button


def _narrow() -> Layout:
    return Layout(width="14em")


def _listed(frame: pd.DataFrame) -> list[str]:
    """A line for each task."""
    known = frame.fillna({"error": "", "reason": ""})
    return [
        safe_text(f"{row.label} · {_ago(row.age)} · {_short(row.error or row.reason)} · {one_line(row.payload, 40)}")
        for row in records(known)
    ]


def _short(text: str) -> str:
    return safe_text(one_line(text, SHORT))


def _ago(seconds: float) -> str:
    return "—" if seconds != seconds else f"{duration(seconds)} ago"
