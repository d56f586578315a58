"""Plans as text for a person, and as JSON for a program."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from queue_core.cli.base import count
from queue_core.cli.show import UNKNOWN, lines, plain, safe, since, table, tag_text, when
from queue_core.plans import Plan, PlanState, Result
from queue_core.task import SECOND, moment

if TYPE_CHECKING:
    from queue_core.redact import Redactor

TAGS = 10  # that are named for a person
REASONS = 20  # that are told a person


def reasons(counts: Mapping[str, int]) -> list[str]:
    """How often what was the reason, the most frequent first."""
    most = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    told = [f"{number:,} × {safe(why, 200)}" for why, number in most[:REASONS]]
    return told + [f"… and {count(len(most) - REASONS, 'more reason')}"] * (len(most) > REASONS)


def state_text(plan: Plan, void: bool = False) -> str:
    """Where it is, in one or two words."""
    return f"{plan.state}, void" if void else str(plan.state)


def selection_text(plan: Plan) -> str:
    """What was frozen: how many tasks, of which tags, how old, and what was left out."""
    return _facts(_selection(plan, datetime.now(UTC)))


def plan_text(plan: Plan, redactor: "Redactor", *, void: bool = False) -> str:
    """All that there is to know of a plan, but for its tasks one by one."""
    now = datetime.now(UTC)
    facts = [("plan", f"{plan.number}"), ("action", plan.action.replace("_", "-"))]
    if void:
        facts.append(("state", f"{plan.state}, void: the store was restored after it was made; make a new plan"))
    else:
        facts.append(("state", str(plan.state)))
    if plan.undo_of:
        facts.append(("takes back", f"plan {plan.undo_of}"))
    if plan.where is not None:
        facts.append(("where", safe(redactor.text(plan.where), 1_000) or "all there were"))
    facts += _options(plan, redactor) + _selection(plan, now)
    if plan.started:
        facts += _progress(plan, redactor, now)
    by = f"by {safe(plan.actor)} ({plan.role}, {safe(plan.origin)})"
    facts.append(("made", f"{when(moment(plan.created), now)} {by}"))
    for name, at in (("started", plan.started), ("ended", plan.ended)):
        facts += [(name, when(moment(at), now))] if at else []
    if plan.undone_by:
        facts.append(("taken back by", f"plan {plan.undone_by}"))
    elif plan.over and not plan.kept:
        facts.append(("undo", "no longer: what it changed was kept for 7 days"))
    return _facts(facts)


def _facts(facts: list[tuple[str, str]]) -> str:
    indent = "\n" + " " * 16
    return "\n".join(f"{name:<15} {indent.join(value.split(chr(10)))}" for name, value in facts)


def _options(plan: Plan, redactor: "Redactor") -> list[tuple[str, str]]:
    facts = []
    if plan.reason:
        facts.append(("reason", lines(redactor.text(plan.reason))))
    if plan.options.tag is not None:
        facts.append(("to tag", tag_text(plan.options.tag, 200)))
    if plan.options.ttl:
        facts.append(("for", f"{plan.options.ttl / SECOND:,g} s"))
    if plan.options.payload is not None:
        facts.append(("payload", safe(redactor.stored(plan.options.payload).decode("utf-8", "replace"), 1_000)))
    if plan.rate is not None:
        facts.append(("rate", f"at most {plan.rate:,g} tasks a second"))
    if plan.canary is not None:
        passed = "passed" if plan.canary_passed else "not passed yet"
        facts.append(("canary", f"{count(plan.canary.size)}, {plan.canary.success:.0%} have to succeed: {passed}"))
    return facts


def _selection(plan: Plan, now: datetime) -> list[tuple[str, str]]:
    summary = json.loads(plan.summary)
    facts = [("tasks", f"{plan.selected:,}")]
    if plan.selected:
        tags, known = summary["tags"], summary["tags_in_all"]
        named = [f"{tag_text(tag)} {number:,}" for tag, number in list(tags.items())[:TAGS]]
        named += [f"… and {count(known - TAGS, 'more tag')}"] * (known > TAGS)
        facts.append(("tags", ", ".join(named)))
        facts += [(name, when(datetime.fromisoformat(summary[name]), now)) for name in ("oldest", "newest")]
        facts.append(("such as", "\n".join(summary["sample"])))
    if plan.ineligible:
        facts.append(("not eligible", "\n".join(reasons(plan.ineligible))))
    return facts


def _progress(plan: Plan, redactor: "Redactor", now: datetime) -> list[tuple[str, str]]:
    facts = [("outcome", plan.outcome)]
    if plan.why:
        facts.append(("because", "\n".join(reasons(plan.why))))
    heard = f"heard of {since(moment(plan.beat), now)} ago"
    if plan.state is PlanState.RUNNING and plan.alone(int(now.timestamp() * SECOND)):
        facts.append(("run by", f"{safe(plan.runner)}, {heard}: it has fallen silent, and the plan can be resumed"))
    elif plan.state is PlanState.RUNNING:
        facts.append(("run by", f"{safe(plan.runner)}, {heard}"))
    if plan.note:
        facts.append(("note", lines(redactor.text(plan.note))))
    return facts


def plan_json(plan: Plan, redactor: "Redactor", *, void: bool = False) -> dict[str, Any]:
    """All of it as JSON values: times as ISO text, spans in seconds, secrets in payload and words masked."""
    options, canary = plan.options, plan.canary
    payload = options.payload
    return {
        "number": plan.number, "action": plan.action, "state": plan.state.value, "void": void,
        "where": None if plan.where is None else redactor.text(plan.where),
        "reason": redactor.text(plan.reason), "tag": options.tag, "ttl_seconds": options.ttl / SECOND or None,
        "payload": None if payload is None else json.loads(redactor.stored(payload)),
        "actor": plan.actor, "role": plan.role, "origin": plan.origin,
        "selected": plan.selected, "moved": plan.moved, "skipped": plan.skipped, "failed": plan.failed,
        "left": plan.left, "why": plan.why, "ineligible": plan.ineligible, **json.loads(plan.summary),
        "rate": plan.rate,
        "canary": canary and {"size": canary.size, "success": canary.success, "passed": plan.canary_passed},
        "runner": plan.runner or None, "note": redactor.text(plan.note),
        **{f"{name}_at": plain(moment(at)) if at else None for name, at in (
            ("created", plan.created), ("started", plan.started), ("heard", plan.beat), ("ended", plan.ended),
        )},
        "undo_of": plan.undo_of or None, "undone_by": plan.undone_by or None, "undo_kept": plan.kept,
    }  # fmt: skip


def plan_table(plans: list[tuple[Plan, bool]]) -> str:
    """Plans, each with whether it is void, a line each."""
    from queue_core.redact import configured

    now, mask = datetime.now(UTC), configured()
    heads = (">PLAN", "STATE", "ACTION", ">SELECTED", ">MOVED", ">SKIPPED", ">FAILED", ">MADE", "BY", "WHERE")
    rows = [
        [
            f"{plan.number}", state_text(plan, void),
            f"undo {plan.undo_of}" if plan.undo_of else plan.action.replace("_", "-"),
            *(f"{number:,}" for number in (plan.selected, plan.moved, plan.skipped, plan.failed)),
            f"{since(moment(plan.created), now)} ago", safe(plan.actor, 30),
            UNKNOWN if plan.where is None else safe(mask.text(plan.where), 50) or "(all)",
        ]
        for plan, void in plans
    ]  # fmt: skip
    return table(heads, rows)


def result_table(results: list[tuple[int, str, Result]]) -> str:
    """What came of tasks, one a line."""
    rows = [
        [f"{number:,}", id, str(result.verdict), safe(result.why, 120) or UNKNOWN] for number, id, result in results
    ]
    return table((">NUMBER", "TASK", "OUTCOME", "BECAUSE"), rows)


def result_json(results: list[tuple[int, str, Result]]) -> list[dict[str, Any]]:
    """The same as JSON values; ``version`` is that after the move."""
    return [
        {
            "number": number, "id": id, "outcome": result.verdict.value, "why": result.why or None,
            "version": result.version or None,
        }
        for number, id, result in results
    ]  # fmt: skip
