"""Acting on many tasks: a plan is frozen, shown, agreed to and run, and what came of it is told."""

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from queue_core.cli.base import (
    MISSING,
    PARTLY,
    Interrupted,
    Meter,
    Session,
    at_terminal,
    count,
    json_option,
    pass_session,
    say,
    url_option,
    yes_option,
)
from queue_core.cli.control import Stop, document, hint, reason_option, role_option
from queue_core.cli.plan_text import plan_json, plan_text, reasons, selection_text
from queue_core.cli.show import safe, tag_text
from queue_core.errors import InvalidArgument, QueueError
from queue_core.plans import Plan, Verdict

if TYPE_CHECKING:
    from queue_core.control import Operator

PAGE = 100_000  # results read at a time
TO_TRASH = "They stay in the trash for 7 days."


class Verb(msgspec.Struct, frozen=True):
    """How an action is spoken of: of tasks of which ``kind``, what is ``done`` to them, and what has to be known."""

    done: str
    kind: str = ""
    warning: str = ""


VERBS = {
    "requeue": Verb("requeued"),
    "redrive": Verb("redriven", "dead"),
    "dead_letter": Verb("dead-lettered"),
    "cancel": Verb("cancelled", "waiting", TO_TRASH),
    "purge": Verb("purged", "dead", TO_TRASH),
    "restore": Verb("restored", "trashed"),
    "expunge": Verb("expunged", "trashed", "Nothing brings them back."),
    "edit": Verb("edited"),
    "extend": Verb("extended"),
    "move_tag": Verb("moved"),
}


class Way(msgspec.Struct, frozen=True):
    """How the tasks are dealt with: the options of ``many_options``."""

    reason: str | None = None
    yes: bool = False
    dry_run: bool = False
    rate: float | None = None
    canary: int | None = None
    success: float = 0.9

    @property
    def planned(self) -> bool:
        """Whether only a plan can do it so."""
        return self.dry_run or self.rate is not None or self.canary is not None


rate_option = click.option(
    "--rate", type=click.FloatRange(0, min_open=True), metavar="N", help="At most so many tasks a second."
)
dry_option = click.option(
    "--dry-run", is_flag=True, help="Move nothing: show what would be, and keep it as a plan that can be run."
)
canary_option = click.option(
    "--canary", type=click.IntRange(1), metavar="K",
    help="Release K tasks, wait for workers to end them, and go on only when enough succeeded.",
)  # fmt: skip
success_option = click.option(
    "--success", type=click.FloatRange(0, 1), default=0.9, show_default=True, help="With --canary: the share."
)


def common(function: Callable[..., None]) -> Callable[..., None]:
    """What every command that acts on many takes."""
    return yes_option(role_option(url_option(json_option(pass_session(function)))))


def many_options(*, releasing: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options of ``Way``. ``releasing``: workers get the tasks, so that a canary can tell."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        function = reason_option(common(function))
        if releasing:
            function = canary_option(success_option(function))
        return dry_option(rate_option(function))

    return add


def made(
    session: Session, operator: "Operator", action: str, way: Way, *, where: str | None = None,
    ids: Iterable[str] | None = None, **details: Any,
) -> Plan:  # fmt: skip
    """Freeze a plan, and show how far the search has come. Ctrl-C ends it, and there is no plan."""
    meter, stop = Meter(None), Stop()

    def looked(scanned: int, total: int) -> bool:
        meter.show(scanned, f"{scanned:,} of {total:,} tasks looked at")
        return not stop()

    try:
        with stop.heard():
            plan = operator.plan(
                action, where, ids=ids, reason=way.reason or "", rate=way.rate, canary=way.canary,
                success=way.success, progress=looked, **details,
            )  # fmt: skip
        if not stop():
            return plan
        operator.stop(plan.number, "interrupted before it began")
    except InvalidArgument:
        if not stop():
            raise
    finally:
        meter.clear()
    session.so_far = "nothing was changed"
    raise Interrupted(stop.number)


def carry_out(session: Session, operator: "Operator", plan: Plan, way: Way, which: str = "") -> None:
    """Ask, run and tell; or, for a dry run, only show. ``which`` says in the question which tasks they are."""
    if way.dry_run:
        show_ready(session, operator, plan)
        say("Nothing was moved.")
        return
    if plan.selected:
        try:
            agree_to(session, plan, way.yes, which)
        except (click.ClickException, click.Abort, click.exceptions.Exit, Interrupted):
            operator.stop(plan.number, "it was not agreed to")  # so that nobody takes it for one that is wanted
            raise
    tell(session, operator, run(session, operator, plan.number), all_asked=True)


def show_ready(session: Session, operator: "Operator", plan: Plan) -> None:
    """A plan that was only made, and how to run it."""
    if session.as_json:
        document(plan_json(plan, operator.redactor))
    else:
        click.echo(plan_text(plan, operator.redactor))
    if plan.selected:
        say(f"Plan {plan.number} is ready; this does exactly that: {hint(session, f'plan run {plan.number}')}")


def agree_to(session: Session, plan: Plan, yes: bool, which: str = "") -> None:
    """Go on only when a person agrees, who sees what was frozen."""
    if not yes and at_terminal(sys.stderr):
        say(selection_text(plan))
    if plan.undo_of:
        session.agree(undo_question(plan.undo_of, plan.action, plan.left), yes)
    else:
        session.agree(question(plan.action, plan.left, which, plan.options.tag), yes)


def question(action: str, number: int, which: str = "", tag: str | None = None) -> str:
    """Whether to do it, to how many tasks, and what has to be known."""
    verb = VERBS[action]
    name = "Move" if action == "move_tag" else action.replace("_", "-").capitalize()
    to = "" if tag is None else f" to tag {tag_text(tag)}"
    return f"{name} {count(number, f'{verb.kind} task'.strip())}{which}{to}? {verb.warning}".rstrip()


def undo_question(number: int, action: str, moved: int) -> str:
    """Whether to take back what plan ``number`` did."""
    return f"Take back what plan {number} ({action.replace('_', '-')}) did to {count(moved)}?"


def run(
    session: Session, operator: "Operator", number: int, rate: float | None = None, *, skip_canary: bool = False
) -> Plan:
    """Run a plan with a progress bar. Ctrl-C stops it after the piece it is at, and says how to go on."""
    meter, stop = Meter(operator.queue.plan(number).selected), Stop()
    latest: list[Plan] = []

    def seen(plan: Plan) -> None:
        waiting = plan.canary is not None and not plan.canary_passed and plan.moved >= plan.canary.size
        session.so_far = f"{plan.moved:,} of {count(plan.selected)} were {done_to(plan)}"
        meter.show(plan.done, session.so_far + (", waiting for the canary" if waiting else ""))
        latest[:] = [plan]

    try:
        with stop.heard():
            plan = operator.run(number, rate=rate, skip_canary=skip_canary, progress=seen, stopped=stop)
        if stop():
            raise Interrupted(stop.number)
        return plan
    except (QueueError, Interrupted):
        meter.clear()
        for plan in latest:
            _say_ways(session, plan)
        raise
    finally:
        meter.clear()


def tell(session: Session, operator: "Operator", plan: Plan, *, all_asked: bool = False) -> None:
    """What came of a plan: selected, moved, skipped, failed, and why. Raises Exit unless all of them moved.

    ``all_asked``: what was not eligible when it was made was asked for, too.
    """
    ineligible = plan.ineligible if all_asked else {}
    if session.as_json:
        moved, refused = _results(operator, plan)
        document({"plan": plan_json(plan, operator.redactor), "moved": moved, "refused": refused})
    left = f", {plan.left:,} not reached" if plan.left else ""
    say(
        f"{count(plan.moved)} {done_to(plan)}: {plan.selected:,} selected, {plan.moved:,} moved, {plan.skipped:,} "
        f"skipped, {plan.failed:,} failed{left} (plan {plan.number})."
    )
    for line in reasons(plan.why) + [f"not eligible: {line}" for line in reasons(ineligible)]:
        say(f"  {line}")
    if plan.note:
        say(f"{safe(operator.redactor.text(plan.note))}.")
    _say_ways(session, plan)
    if plan.moved < plan.selected or ineligible:
        raise click.exceptions.Exit(PARTLY if plan.moved or plan.left else MISSING)


def done_to(plan: Plan) -> str:
    """What was done to the tasks that have moved."""
    return "given back" if plan.undo_of else VERBS[plan.action].done


def _say_ways(session: Session, plan: Plan) -> None:
    """How to go on with a plan, and how to take it back."""
    from queue_core.stores.engine.undo import UNDO

    if plan.left:
        say(f"Go on: {hint(session, f'plan resume {plan.number}')}")
    if plan.moved and plan.action in UNDO and not plan.undo_of:
        say(f"Take it back: {hint(session, f'plan undo {plan.number}')}")


def _results(operator: "Operator", plan: Plan) -> tuple[list[str], list[dict[str, str]]]:
    """(ids that moved, what was refused and why), as JSON values."""
    moved: list[str] = []
    refused: list[dict[str, str]] = []
    after = 0
    with operator.queue.view() as view:
        while results := view.outcome(plan.number, after=after, limit=PAGE):
            for _, id, result in results:
                if result.verdict is Verdict.MOVED:
                    moved.append(id)
                else:
                    refused.append({"id": id, "error": result.verdict.value, "message": result.why})
            after = results[-1][0]
    return moved, refused
