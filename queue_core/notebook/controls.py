"""The triage as a box of ipywidgets: everything in it is a call of the triage that it belongs to."""

from collections.abc import Callable
from typing import Any

import pandas as pd
from ipywidgets import HTML, BoundedFloatText, BoundedIntText, Button, Dropdown, HBox, Layout, Text, VBox

from queue_core.errors import InvalidFilter, QueueError
from queue_core.figures.base import records
from queue_core.frames import dead_sentence, duration, error_line, groups_sentence, plural, safe_text
from queue_core.notebook.cards import Card, Table
from queue_core.notebook.display import plan_card
from queue_core.notebook.handling import Handling, Planned

GROUPS, LISTED = 8, 12  # rows of the tables
ACTIONS = [("Redrive", "redrive"), ("Move", "move_tag"), ("Purge", "purge"), ("Restore from the trash", "restore")]
WIDE = Layout(width="30em")


class Box:
    """What a person sees. A plan is run by the number that was looked at; whatever is changed after that puts it
    away."""

    def __init__(self, triage: Handling) -> None:
        self._triage = triage
        self._planned: Planned | None = None
        self._ran: Planned | None = None
        self.where = Text(
            description="Filter", placeholder="error:timeout tag:acme", continuous_update=False, layout=WIDE
        )
        self.refresh = _button("Refresh", self._find)
        self.groups, self.rows, self.detail, self.outcome = HTML(), HTML(), HTML(), HTML()
        self.task = Dropdown(description="Inspect", layout=WIDE)
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
            HBox([self.where, self.refresh]), self.groups, self.rows, self.task, self.detail,
            HBox([self.action, self.reason, self.tag]), HBox([self.rate, self.canary, self.look]), self.outcome,
            HBox([self.run, self.undo]),
        ])  # fmt: skip
        self.where.observe(lambda _: self._find(), "value")
        self.task.observe(lambda _: self._show(), "value")
        for field in (self.action, self.reason, self.tag, self.rate, self.canary):
            field.observe(lambda _: self._put_away(), "value")
        self.action.observe(lambda _: self._find(), "value")
        self._find()

    # --- looking

    def _find(self) -> None:
        self._put_away()
        self._guarded(self._read)

    def _read(self) -> None:
        trash = self.action.value == "restore"
        frame = self._triage.find(self.where.value.strip(), state="trash" if trash else "dead")
        groups, said = self._triage.groups(), dead_sentence(self._triage.queue.snapshot())
        heads = ("Error", ">Dead", ">Tags", "Last", "Status", "Group")
        told = [
            (row.text, f"{row.count:,}", f"{row.tags:,}", _ago(row.since_last), row.status, row.group)
            for row in records(groups.head(GROUPS))
        ]
        self.groups.value = Card(said, [groups_sentence(groups)], tables=[Table(heads, told)]).html()
        found = "in the trash" if trash else "dead"
        title = f"{plural(len(frame), 'task')} {found} by this filter; the newest of them" if len(frame) else "None"
        self.rows.value = Card(title, tables=[_listed(frame)]).html()
        labels = [f"{row.label} · {row.id}" for row in records(frame)]
        self.task.options = [("—", None), *zip(labels, frame["id"], strict=True)]

    def _show(self) -> None:
        self.detail.value = ""
        if self.task.value is not None:
            self._guarded(self._inspect)

    def _inspect(self) -> None:
        self.detail.value = self._triage.show(self.task.value).html()

    # --- acting

    def _look(self) -> None:
        self._put_away()
        self._guarded(self._plan)

    def _plan(self) -> None:
        tag = self.tag.value if self.action.value == "move_tag" else None
        self._planned = self._triage.plan(
            self.action.value, self.where.value.strip(), reason=self.reason.value.strip(), rate=self.rate.value or None,
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
    button = Button(description=name, layout=Layout(width="auto"))
    button.on_click(lambda _: do())
    return button


def _narrow() -> Layout:
    return Layout(width="14em")


def _listed(frame: pd.DataFrame) -> Table:
    rows = [
        (row.label, _ago(row.age), row.error or row.reason, f"{row.attempts:,} of {row.max_attempts:,}", row.payload)
        for row in records(frame.head(LISTED).fillna({"error": "", "reason": ""}))
    ]
    return Table(("Tag", "Since", "Last error", ">Attempts", "Payload"), rows)


def _ago(seconds: float) -> str:
    return "—" if seconds != seconds else f"{duration(seconds)} ago"
