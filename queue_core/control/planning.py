"""Plans: frozen, run, stopped, undone."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from queue_core.control.acting import Id
from queue_core.control.audit import control_of
from queue_core.control.frozen import by_id, freeze
from queue_core.control.person import Person, reasoned
from queue_core.control.roles import Role, needs, permit
from queue_core.control.runner import Progress, Run, runner_name
from queue_core.errors import InvalidArgument
from queue_core.plans import Canary, Options, Plan
from queue_core.query import Search, parse
from queue_core.query.expression import named
from queue_core.queue import check_tag
from queue_core.queue.arguments import as_span, as_whole
from queue_core.stores.base import Done, Found, Store
from queue_core.stores.engine.operate import ACTIONS
from queue_core.task import Task, clean_text, parse_id

Seen = Id | tuple[Id, int | None] | Task  # a task, with the version that was seen

FOR_GOOD = frozenset({"expunge"})
RELEASING = frozenset({"redrive", "requeue"})  # tasks that workers then take: a canary can tell
PLANNED = frozenset(ACTIONS) - {"replace"}
FILL = 1_000  # parts of a selection in one commit


class Planning(Person):
    """The verbs that act on many tasks."""

    @needs(Role.OPERATOR)
    def plan(
        self, action: str, where: str | None = None, *, ids: Iterable[Seen] | None = None, reason: str = "",
        ttl: float | None = None, payload: Any = ..., tag: str | None = None, rate: float | None = None,
        canary: int | None = None, success: float = 0.9, progress: Callable[[int, int], bool | None] | None = None,
    ) -> Plan:  # fmt: skip
        """Freeze what an action would be done to: the tasks that a filter finds, or ``ids``, each with its version.

        ``action``: requeue, redrive, dead_letter, cancel, purge, restore, expunge (admin), edit (``payload``), extend
        (``ttl`` seconds), move_tag (``tag``). ``ids`` are ids, (id, version that was seen) or tasks. ``rate``: tasks a
        second. ``canary``: release so many first, wait for their ends, and go on when the share ``success`` of them was
        acknowledged. ``progress`` gets how many tasks have been looked at, and how many there are to look at; with
        False it ends the search, and no plan is made. Nothing is moved before ``run``. Raises InvalidArgument,
        InvalidFilter, InvalidPayload.
        """
        if action not in PLANNED:
            raise InvalidArgument(f"action is {action!r:.100}: it is one of {', '.join(sorted(PLANNED))}")
        if action in FOR_GOOD:
            permit(self, Role.ADMIN, action)
        if (where is None) == (ids is None):
            raise InvalidArgument('give a filter or ids, and not both; where="" is everything')
        options = self._options(action, reason, ttl, payload, tag)
        plan = Plan(
            0, action, options, self.actor, self.role, self.origin, 0, 0, where, options.reason or clean_text(reason),
            rate=_rate(rate), canary=_canary(action, canary, success),
        )  # fmt: skip
        expression = parse(where) if where is not None else None
        with self.queue.view() as view:
            found: Iterable[Found | str]
            if expression is not None:
                states = ACTIONS[action][0] if named(expression, "state") is named(expression, "id") is None else None
                found = _watched(Search(view.reader, expression, states=states, mask=self.redactor), progress)
            else:
                found = by_id(view.reader, map(_seen, ids or ()))
            frozen = freeze(view.reader, found, action, tag)
        draft = self.queue.perform(lambda store: control_of(store).draft(plan))
        for first in range(0, len(frozen.parts), FILL):
            parts = frozen.parts[first : first + FILL]
            self.queue.perform(partial(_fill, number=draft.number, first=first, parts=parts))
        draft.selected, draft.ineligible, draft.summary = frozen.selected, dict(frozen.ineligible), frozen.summary()
        entry = self._entry(
            "plan", where, plan.reason, count=frozen.selected,
            intent=action if where is not None else f"{action} of tasks chosen by id",
            outcome=f"{frozen.selected:,} selected",
        )  # fmt: skip
        return self.queue.perform(lambda store: control_of(store).freeze(draft, entry))

    def _options(self, action: str, reason: str, ttl: float | None, payload: Any, tag: str | None) -> Options:
        wanted = {"extend": "ttl", "edit": "payload", "move_tag": "tag"}.get(action)
        given = {"ttl": ttl is not None, "payload": payload is not ..., "tag": tag is not None}
        for name, there in given.items():
            if there != (name == wanted):
                raise InvalidArgument(f"{action} {'needs' if name == wanted else 'takes no'} {name}")
        return Options(
            reasoned(action, reason), as_span(ttl, "ttl", 1) if ttl is not None else 0,
            self.queue.dump(payload) if payload is not ... else None, check_tag(tag) if tag is not None else None,
        )  # fmt: skip

    @needs(Role.OPERATOR)
    def run(
        self, number: int, *, rate: float | None = None, skip_canary: bool = False, progress: Progress | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Plan:  # fmt: skip
        """Move the tasks of a plan that are still as they were frozen; also to resume it. Returns it as it is then.

        ``skip_canary``: all others follow, whatever comes of the first ones, as after a canary that failed.
        ``progress`` is called with the plan after each piece, ``stopped`` is asked before each. One run at a time: a
        Conflict while another goes on. An interrupt stops the plan; what was moved stays moved, and is known.
        """
        plan = self.queue.plan(number)
        if plan.action in FOR_GOOD:
            permit(self, Role.ADMIN, plan.action)
        runner, pace = f"{self.actor} at {runner_name()}", _rate(rate)
        entry = self._entry("run", plan.where, plan.reason, intent=plan.action)
        claimed = self.queue.perform(
            lambda store: control_of(store).claim(number, runner, entry, rate=pace, skip_canary=skip_canary)
        )
        return Run(self.queue, claimed, entry, progress, stopped).to_the_end()

    @needs(Role.OPERATOR)
    def stop(self, number: int, reason: str = "") -> Plan:
        """Move no further task of a plan, whoever runs it; ``run`` goes on later. Conflict."""
        text = clean_text(reason)
        entry = self._entry("stop", None, text)
        why = f"stopped by {self.actor}" + (f": {text}" if text else "")
        return self.queue.perform(lambda store: control_of(store).stop(number, None, why, entry))

    @needs(Role.OPERATOR)
    def undo(self, number: int, reason: str = "") -> Plan:
        """A plan that gives back what another has moved, for the tasks that have not moved on; to be run. Conflict."""
        source = self.queue.plan(number)
        text = clean_text(reason)
        plan = Plan(
            0, source.action, source.options, self.actor, self.role, self.origin, 0, 0, source.where, text,
            undo_of=number, summary=source.summary,
        )  # fmt: skip
        entry = self._entry(
            "undo", source.where, text, count=source.moved, intent=f"plan {number} ({source.action})",
            outcome=f"{source.moved:,} to be given back",
        )  # fmt: skip
        return self.queue.perform(lambda store: control_of(store).undo(plan, entry))


def _fill(store: Store, number: int, first: int, parts: Sequence[bytes]) -> Done[None]:
    return control_of(store).fill(number, first, parts)


def _rate(rate: float | None) -> float | None:
    if rate is not None and not 0 < rate < float("inf"):
        raise InvalidArgument(f"rate is {rate!r:.100}: it is a number of tasks a second, above 0")
    return rate


def _canary(action: str, size: int | None, success: float) -> Canary | None:
    if size is None:
        return None
    if action not in RELEASING:
        raise InvalidArgument(f"{action} gives workers nothing to do, so that a canary would tell nothing")
    if not 0 <= success <= 1:
        raise InvalidArgument(f"success is {success!r:.100}: it is a share from 0 to 1")
    return Canary(as_whole(size, "canary", 1, 1_000_000), success)


def _watched(search: Search, progress: Callable[[int, int], bool | None] | None) -> Iterator[Found]:
    """What a search finds, told after each page of how many tasks it has looked at."""
    for page in search.pages():
        if progress is not None and progress(search.scanned, search.total) is False:
            raise InvalidArgument(f"the search was ended after {search.scanned:,} tasks: no plan was made")
        yield from page


def _seen(one: Seen) -> tuple[bytes, int | None]:
    match one:
        case Task():
            return parse_id(one.id), one.version
        case tuple((id, version)):
            return parse_id(id), version
        case _:
            return parse_id(one), None
