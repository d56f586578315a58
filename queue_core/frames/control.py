"""Error groups, plans, the audit and the attempts of a task as DataFrames: declared as those of ``tables`` are."""

from collections.abc import Iterable
from datetime import datetime

import pandas as pd

from queue_core.frames.tables import UTC, Schema, rows, span
from queue_core.frames.text import error_preview, one_line, plural, tag_label
from queue_core.groups import Group
from queue_core.plans import AuditEntry, Plan, Result
from queue_core.queue import View
from queue_core.redact import Redactor, masking
from queue_core.task import SECOND, Task, id_text, moment

GROUPS: Schema = {
    "group": "str", "text": "str", "count": "int64", "tags": "int64", "deaths": "int64", "first_at": UTC,
    "last_at": UTC, "since_first": "float64", "since_last": "float64", "status": "str", "resolved": "bool",
    "resolved_by": "str", "resolved_at": UTC, "reopened_at": UTC, "sample": "str", "error": "str",
}  # fmt: skip
HEAT: Schema = {"group": "str", "text": "str", "tag": "str", "label": "str", "count": "int64"}
PLANS: Schema = {
    "plan": "int64", "action": "str", "state": "str", "void": "bool", "where": "str", "reason": "str", "actor": "str",
    "origin": "str", "selected": "int64", "moved": "int64", "skipped": "int64", "failed": "int64", "left": "int64",
    "progress": "float64", "rate": "float64", "canary": "Int64", "runner": "str", "note": "str", "outcome": "str",
    "created_at": UTC, "started_at": UTC, "ended_at": UTC, "undo_of": "Int64", "undone_by": "Int64",
}  # fmt: skip
RESULTS: Schema = {"number": "int64", "id": "str", "verdict": "str", "version": "Int64", "why": "str"}
AUDIT: Schema = {
    "number": "int64", "at": UTC, "actor": "str", "role": "str", "origin": "str", "action": "str", "where": "str",
    "reason": "str", "count": "int64", "intent": "str", "outcome": "str", "plan": "Int64",
}  # fmt: skip
ATTEMPTS: Schema = {
    "number": "int64", "cycle": "int64", "owner": "str", "started_at": UTC, "ended_at": UTC, "took": "float64",
    "outcome": "str", "error": "str",
}  # fmt: skip


def _at(micro: int) -> datetime | None:
    return moment(micro) if micro else None


def _status(group: Group) -> str:
    if group.resolved:
        return f"resolved by {one_line(group.resolved_by, 40)}"
    return "reopened" if group.reopened else "open"


def groups_frame(groups: Iterable[Group], at: datetime, mask: Redactor | None = None) -> pd.DataFrame:
    """One row per error group; ``since_first`` and ``since_last`` are seconds since the first and the newest death, as
    of ``at``. ``status``: open, reopened (by a death after it was resolved), or resolved by whom."""
    mask = masking(mask)
    return rows(
        GROUPS,
        (
            (
                group.fingerprint.hex(), one_line(group.said(mask.text)), group.count, group.tags, group.deaths,
                _at(group.first), _at(group.last), span(at, _at(group.first)), span(at, _at(group.last)),
                _status(group), bool(group.resolved), one_line(group.resolved_by) or None, _at(group.resolved),
                _at(group.reopened), id_text(group.sample) if group.sample else None,
                error_preview(group.error, mask),
            )
            for group in groups
        ),
    )  # fmt: skip


def groups_sentence(groups: pd.DataFrame) -> str:
    """How many error groups of a groups frame there are, how many need a look, and the largest of them."""
    if groups.empty:
        return "No error groups"
    waiting = groups[~groups["resolved"]]
    told = plural(len(groups), "error group")
    if waiting.empty:
        return f"{told}, all resolved"
    largest = waiting.iloc[int(waiting["count"].argmax())]
    open_ones = "" if len(waiting) == len(groups) else f", {len(waiting):,} of them not resolved"
    return f"{told}{open_ones}; the largest, {largest['count']:,} dead: {largest['text'] or '(no error text)'}"


def heat_frame(view: View, groups: Iterable[Group], mask: Redactor | None = None) -> pd.DataFrame:
    """One row per error group and tag that has dead letters of it: how many."""
    mask = masking(mask)
    return rows(
        HEAT,
        (
            (group, text, tag, tag_label(tag), count)
            for group, text in [(group.fingerprint.hex(), one_line(group.said(mask.text))) for group in groups]
            for tag, count in view.group_tags(group).items()
        ),
    )


def plans_frame(plans: Iterable[Plan], epoch: int, mask: Redactor | None = None) -> pd.DataFrame:
    """One row per plan, in the order given. ``progress`` is the share of its tasks that were dealt with. ``void``: made
    before the store was restored (``epoch`` is the store's)."""
    mask = masking(mask)
    return rows(
        PLANS,
        (
            (
                plan.number, plan.action, plan.state, not plan.over and plan.epoch != epoch,
                None if plan.where is None else one_line(mask.text(plan.where)), one_line(mask.text(plan.reason)),
                one_line(plan.actor), one_line(plan.origin), plan.selected, plan.moved, plan.skipped, plan.failed,
                plan.left, plan.done / plan.selected if plan.selected else None, plan.rate,
                plan.canary.size if plan.canary else None, one_line(plan.runner),
                one_line(mask.text(plan.note)), plan.outcome, _at(plan.created), _at(plan.started), _at(plan.ended),
                plan.undo_of or None, plan.undone_by or None,
            )
            for plan in plans
        ),
    )  # fmt: skip


def results_frame(results: Iterable[tuple[int, str, Result]]) -> pd.DataFrame:
    """One row per task of a plan that was dealt with, as ``View.outcome`` gives them."""
    return rows(
        RESULTS,
        (
            (number, id, result.verdict, result.version or None, one_line(result.why) or None)
            for number, id, result in results
        ),
    )


def audit_frame(entries: Iterable[AuditEntry], mask: Redactor | None = None) -> pd.DataFrame:
    """One row per entry of the audit, in the order given."""
    mask = masking(mask)
    return rows(
        AUDIT,
        (
            (
                entry.number, _at(entry.at), one_line(entry.actor), entry.role, one_line(entry.origin), entry.action,
                None if entry.where is None else one_line(mask.text(entry.where)), one_line(mask.text(entry.reason)),
                entry.count, one_line(mask.text(entry.intent)), one_line(mask.text(entry.outcome)), entry.plan or None,
            )
            for entry in entries
        ),
    )  # fmt: skip


def attempts_frame(task: Task, mask: Redactor | None = None) -> pd.DataFrame:
    """One row per closed attempt of a task that is kept, the first one first; ``took`` in seconds."""
    mask = masking(mask)
    return rows(
        ATTEMPTS,
        (
            (
                attempt.number, attempt.cycle, one_line(attempt.owner), attempt.started_at, attempt.ended_at,
                max(attempt.ended - attempt.started, 0) / SECOND, attempt.outcome,
                error_preview(attempt.error, mask) or None,
            )
            for attempt in task.history
        ),
    )  # fmt: skip
