"""queue-core plan: actions on many tasks, made first, then run, stopped, resumed and taken back."""

from collections.abc import Callable
from typing import Any

import click

from queue_core.cli.act import chosen, ids_argument
from queue_core.cli.base import STORE, Session, duration, json_option, pass_session, say, url_option
from queue_core.cli.control import acting, document, hint, reason_option, reasoned, role_option, where_option
from queue_core.cli.feed import parse
from queue_core.cli.many import (
    Way,
    agree_to,
    canary_option,
    common,
    made,
    rate_option,
    run,
    show_ready,
    success_option,
    tell,
    undo_question,
)
from queue_core.cli.plan_text import plan_json, plan_table, plan_text, result_json, result_table
from queue_core.cli.show import safe
from queue_core.plans import Plan, Verdict
from queue_core.queue import Queue, View, check_tag

SHOWN = 20  # tasks that a person is shown

number_argument = click.argument("number", type=click.IntRange(1), metavar="NUMBER")


@click.group("plan")
@url_option
@json_option
def plan() -> None:
    """Plans: what is done to many tasks at a time. Each is frozen before anything moves: its tasks, at the versions
    that they have then. Running it moves exactly those that are still as they were, and tells of the others why not.

    A plan can be stopped and resumed, by another process as well, and outlives a crash. For 7 days after its end it can
    be undone, for the tasks that have not moved on.

    \b
    Examples:
      queue-core plan make redrive --where "tag:acme error:timeout"
      queue-core plan list
      queue-core plan run 7
      queue-core plan show 7 --outcome skipped
      queue-core plan undo 7
    """


def _void(view: View, one: Plan) -> bool:
    """Whether the store was restored since it was made, so that ids and versions may mean other tasks."""
    return not one.over and one.epoch != view.reader.meta.epoch


def _no_plans(queue: Queue) -> None:
    """Raises Exit where the store keeps none."""
    if not queue.capabilities.plans:
        say(f"Error: {safe(queue.url)} keeps no plans: use an lmdb store, or act on tasks one by one.")
        raise click.exceptions.Exit(STORE)


@plan.command("list", short_help="The newest plans, and how far they have come.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=SHOWN, show_default=True, help="How many.")
@url_option
@json_option
@pass_session
def list_plans(session: Session, limit: int) -> None:
    """List plans, the newest first. A void one was made before the store was restored, and cannot be run.

    \b
    Examples:
      queue-core plan list
      queue-core plan list --json --limit 1000 | jq '.plans[] | select(.state == "stopped")'
    """
    from queue_core.redact import configured

    with session.open() as queue, queue.view() as view:
        _no_plans(queue)
        plans = [(one, _void(view, one)) for one in view.plans(limit + 1)]
    shown = plans[:limit]
    if session.as_json:
        document({"plans": [plan_json(one, configured(), void=void) for one, void in shown]})
    elif shown:
        click.echo(plan_table(shown))
    else:
        say("No plan was made yet: queue-core plan make --help tells how.")
    if len(plans) > limit:
        say(f"… and older ones; --limit {2 * limit} shows more.")


@plan.command("show", short_help="One plan in full.")
@number_argument
@click.option(
    "--outcome",
    type=click.Choice([*map(str, Verdict), "all"]),
    help="Its tasks, too: those that it moved, skipped or failed on.",
)
@click.option("--after", type=click.IntRange(0), default=0, metavar="NUMBER", help="Tasks behind this number.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=SHOWN, show_default=True, help="How many tasks.")
@url_option
@json_option
@pass_session
def show(session: Session, number: int, outcome: str | None, after: int, limit: int) -> None:
    """Show one plan in full: what was frozen, how far it has come, who runs it, what was not moved and why.

    \b
    Examples:
      queue-core plan show 7
      queue-core plan show 7 --outcome failed --limit 1000
      queue-core plan show 7 --outcome all --limit 1000000 --json | jq -r '.results[].id'
    """
    from queue_core.redact import configured

    with session.open() as queue, queue.view() as view:
        _no_plans(queue)
        one = view.plan(number)
        void = _void(view, one)
        verdict = None if outcome in (None, "all") else Verdict(outcome)
        found = view.outcome(number, verdict=verdict, after=after, limit=limit + 1) if outcome else []
    results = found[:limit]
    if session.as_json:
        told = {"results": result_json(results)} if outcome else {}
        document(plan_json(one, configured(), void=void) | told)
        return
    click.echo(plan_text(one, configured(), void=void))
    if results:
        click.echo("\n" + result_table(results))
    elif outcome:
        say("No such task." if one.kept or not one.over else "What came of each task was kept for 7 days.")
    if len(found) > limit:
        say(f"Go on with --after {results[-1][0]}")


# --- running ----------------------------------------------------------------------------------------


def _runner(name: str, help: str, short_help: str) -> click.Command:
    """run and resume are one: a plan goes on where it is."""

    @plan.command(name, help=help, short_help=short_help)
    @number_argument
    @rate_option
    @click.option("--skip-canary", is_flag=True, help="Go on whatever came of the first tasks.")
    @common
    def command(session: Session, number: int, rate: float | None, skip_canary: bool, yes: bool) -> None:
        with acting(session) as operator:
            one = operator.queue.plan(number)
            if one.left and not one.over:
                agree_to(session, one, yes)
            tell(session, operator, run(session, operator, number, rate, skip_canary=skip_canary))

    return command


run_plan = _runner(
    "run", short_help="Do what was planned.",
    help="""Run a plan: move each of its tasks that is still as it was frozen. One run at a time. Ctrl-C, or `queue-core
    plan stop` from anywhere, stops it; what was moved stays moved.

    Exit code 0: all that were selected moved. 1: not all; it says why.

    \b
    Examples:
      queue-core plan run 7
      queue-core plan run 7 --rate 50 --yes
    """,
)  # fmt: skip
resume_plan = _runner(
    "resume", short_help="Go on with a plan that was stopped.",
    help="""Go on with a plan that was stopped, or whose process has died, where it was. After a canary that failed,
    only with --skip-canary.

    \b
    Examples:
      queue-core plan resume 7
      queue-core plan resume 7 --skip-canary
    """,
)  # fmt: skip


@plan.command(short_help="Move no further task of a plan.")
@number_argument
@reason_option
@role_option
@url_option
@json_option
@pass_session
def stop(session: Session, number: int, reason: str | None) -> None:
    """Stop a plan, whoever runs it. What was moved stays moved; `queue-core plan resume` goes on.

    \b
    Example:
      queue-core plan stop 7 --reason "they come back with the same error"
    """
    with acting(session) as operator:
        stopped = operator.stop(number, reason or "")
    if session.as_json:
        document(plan_json(stopped, operator.redactor))
    say(f"Plan {number} is stopped: {stopped.outcome}. Go on: {hint(session, f'plan resume {number}')}")


@plan.command(short_help="Give back what a plan has moved.")
@number_argument
@rate_option
@reason_option
@common
def undo(session: Session, number: int, rate: float | None, yes: bool, reason: str | None) -> None:
    """Take back what a plan did: for each task that it moved, if that has not moved on since. What redrive moved is
    dead again, at its old place; what was purged or cancelled is where it was. Leases that were ended are not given
    back. A plan that was stopped ends with it.

    Taking back is a plan of its own, which can be stopped and resumed, not undone.

    \b
    Example:
      queue-core plan undo 7
    """
    with acting(session) as operator:
        source = operator.queue.plan(number)
        if source.moved:
            session.agree(undo_question(number, source.action, source.moved), yes)
        back = operator.undo(number, reason or "")
        tell(session, operator, run(session, operator, back.number, rate))


# --- making -----------------------------------------------------------------------------------------


def _action(value: Any) -> str:
    """An action as the operator knows it. Raises BadParameter."""
    from queue_core.control.planning import PLANNED

    if (action := str(value).replace("-", "_")) not in PLANNED:
        known = ", ".join(sorted(name.replace("_", "-") for name in PLANNED))
        raise click.BadParameter(f"{value!r:.100} is none of {known}.")
    return action


def json_text(value: Any) -> Any:
    """The JSON value that a text is, in a tuple, so that null is one, too. Raises BadParameter."""
    try:
        return (parse(str(value).encode("utf-8", "surrogatepass")),)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None


def _making(function: Callable[..., None]) -> Callable[..., None]:
    for option in (role_option, reason_option, success_option, canary_option, rate_option, where_option):
        function = option(function)
    return function


@plan.command(short_help="Freeze what an action would be done to.")
@click.argument("action", type=_action)
@ids_argument
@click.option("--all", "everything", is_flag=True, help="All that the action can be done to, instead of ids.")
@click.option("--tag", metavar="TAG", help="With --all: only this tag's.")
@_making
@click.option("--to", metavar="TAG", help="For move-tag: where the tasks go to.")
@click.option("--ttl", type=duration, metavar="SPAN", help="For extend: leases last so long from then on.")
@click.option("--payload", type=json_text, metavar="JSON", help="For edit: the payload that each task gets.")
@url_option
@json_option
@pass_session
def make(
    session: Session, /, action: str, ids: tuple[str, ...], everything: bool, tag: str | None, where: str | None,
    to: str | None, ttl: float | None, payload: Any, **given: Any,
) -> None:  # fmt: skip
    """Make a plan and move nothing: freeze the tasks and their versions, and show how many they are, of which tags, how
    old, and what is not eligible and why. ACTION is one of requeue, redrive, dead-letter, cancel, purge, restore,
    expunge, edit, extend, move-tag.

    \b
    Examples:
      queue-core plan make redrive --where "tag:acme error:timeout" --rate 50 --canary 10
      queue-core plan make extend --where "state:inflight owner:host-7*" --ttl 10m
      queue-core plan make move-tag --where "tag:acme payload.kind:mail" --to acme-mail
      queue-core plan make cancel --all --tag acme --reason "customer left"
    """
    where, _ = chosen(ids, where, everything, tag)
    details: dict[str, Any] = {"tag": to if to is None else check_tag(to), "ttl": ttl}
    if payload is not None:
        details["payload"] = payload[0]
    way = Way(**given)
    with acting(session) as operator:
        way = Way(reasoned(operator, action, way.reason), rate=way.rate, canary=way.canary, success=way.success)
        show_ready(
            session, operator,
            made(session, operator, action, way, where=where, ids=None if where is not None else ids, **details),
        )  # fmt: skip
