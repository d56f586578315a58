"""The rules of control for random histories: tasks from elsewhere, groups resolved, plans frozen, run, stopped, undone.

A plan is advanced in pieces, between which anything may happen to its tasks. Numbers choose one of whatever there is.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from model_plans import UNDOABLE
from side_by_side import SECOND, SideBySide

from queue_core import State

NUMBERS = st.integers(0, 1_000)
RARELY = st.integers(0, 9).map(lambda n: n == 0)
PLANNED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {  # where it starts from, and what it needs
    "requeue": (("inflight", "scheduled"), {}),
    "redrive": (("dead",), {}),
    "dead_letter": (("pending", "scheduled", "inflight"), {"reason": "given up after 3"}),
    "cancel": (("pending", "scheduled"), {}),
    "purge": (("dead",), {}),
    "restore": (("trash",), {}),
    "expunge": (("trash",), {}),
    "extend": (("inflight",), {"ttl": 90 * SECOND}),
    "edit": (tuple(State), {"payload": {"edited": [2**70, "é\ud800"]}}),
    "move_tag": (("pending", "scheduled", "dead"), {"tag": "c"}),
}
ACTIONS = st.sampled_from(sorted(PLANNED))


def some_plan(*states: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A rule that runs only while a plan is in one of the states."""
    return precondition(lambda self: any(plan["state"] in states for plan in self.model.plans.values()))


class Planning(SideBySide):
    """The rules."""

    def chosen_plan(self, number: int, *states: str) -> dict[str, Any]:
        """A plan in one of the states, or any that there is; its run has the number that it had."""
        fitting = [plan for plan in self.model.plans.values() if plan["state"] in states]
        plans = fitting or list(self.model.plans.values()) or [{"number": 1, "run": 0}]
        return plans[number % len(plans)]

    def piecewise(self, number: int, piece: int) -> None:
        """Run a plan that runs to its end."""
        while (plan := self.model.plans[number])["state"] == "running":
            self.plan_step("advance", number=number, run=plan["run"], limit=piece)

    @rule(
        action=ACTIONS, numbers=st.lists(NUMBERS, min_size=1, max_size=6), odd=RARELY, depth=st.integers(0, 9),
        piece=st.integers(1, 3),
    )  # fmt: skip
    def plan(self, action: str, numbers: list[int], odd: bool, depth: int, piece: int) -> None:
        """Freeze some tasks; most often begin to run it, deal with the first ones, stop, or go on, or take all back."""
        fitting = [name for name, (states, _) in PLANNED.items() if any(map(self.model.listing, states))]
        if action not in fitting:
            action = fitting[numbers[0] % len(fitting)] if fitting else action
        states, options = PLANNED[action]
        ids = dict.fromkeys(self.id(number, states) for number in numbers)
        chosen = [[id, self.model.jobs[id].version - odd] for id in ids if id in self.model.jobs]
        self.plan_step("freeze", action=action, chosen=chosen, **options)
        made = max(self.model.plans)
        if depth:
            self.plan_step("claim", number=made, runner="r1")
        if depth > 2:
            self.plan_step("advance", number=made, run=1, limit=piece)
        if depth in (2, 5):
            self.plan_step("stop", number=made, run=1)
        if depth > 5:
            self.piecewise(made, piece)
        if depth > 7:
            self.undo(made, piece)

    @rule(action=ACTIONS, numbers=st.lists(NUMBERS, min_size=1, max_size=4), piece=st.integers(1, 3))
    def there_and_back(self, action: str, numbers: list[int], piece: int) -> None:
        """A plan and its undo at once."""
        self.plan(action, numbers, odd=False, depth=9, piece=piece)

    @some_plan("ready", "running", "stopped", "finished")
    @rule(number=NUMBERS, which=NUMBERS, limit=st.integers(1, 3))
    def carry_on(self, number: int, which: int, limit: int) -> None:
        """Whatever a plan allows: the more often, the deeper the history."""
        plan = list(self.model.plans.values())[number % len(self.model.plans)]
        steps = {"ready": ["claim", "stop"], "running": ["advance", "advance", "stop"], "stopped": ["claim", "undo"]}
        verbs = steps.get(plan["state"], ["undo"])
        verb = verbs[which % len(verbs)]
        more = {"claim": {"runner": "r3"}, "advance": {"run": plan["run"], "limit": limit}, "stop": {"run": None}}
        self.plan_step(verb, number=plan["number"], **more.get(verb, {}))

    def undo(self, number: int, piece: int) -> None:
        """And run the plan that undoes it to its end."""
        if self.plan_step("undo", number=number)[0] == "ok":
            made = max(self.model.plans)
            self.plan_step("claim", number=made, runner="r2")
            self.piecewise(made, piece)

    @some_plan("ready", "stopped", "running", "finished")
    @rule(number=NUMBERS, odd=RARELY, runner=st.sampled_from(["r1", "r2"]))
    def claim(self, number: int, odd: bool, runner: str) -> None:
        states = ("running", "finished") if odd else ("ready", "stopped")
        self.plan_step("claim", number=self.chosen_plan(number, *states)["number"], runner=runner)

    @some_plan("running")
    @rule(number=NUMBERS, limit=st.integers(0, 3), stale=RARELY)
    def advance(self, number: int, limit: int, stale: bool) -> None:
        plan = self.chosen_plan(number, "running")
        self.plan_step("advance", number=plan["number"], run=plan["run"] - stale, limit=limit)

    @some_plan("running")
    @rule(number=NUMBERS, piece=st.integers(1, 3))
    def run_to_the_end(self, number: int, piece: int) -> None:
        self.piecewise(self.chosen_plan(number, "running")["number"], piece)

    @some_plan("ready", "running")
    @rule(number=NUMBERS, mine=st.booleans(), stale=RARELY)
    def stop(self, number: int, mine: bool, stale: bool) -> None:
        plan = self.chosen_plan(number, "finished" if stale else "running")
        self.plan_step("stop", number=plan["number"], run=plan["run"] - stale if mine else None)

    @some_plan("finished", "stopped")
    @rule(number=NUMBERS, odd=RARELY, piece=st.integers(1, 3))
    def undo_any(self, number: int, odd: bool, piece: int) -> None:
        """One that can be undone, most often."""
        over = [plan for plan in self.model.plans.values() if plan["state"] in ("finished", "stopped")]
        able = [plan for plan in over if plan["action"] in UNDOABLE and not plan["undone"] and not plan["undo_of"]]
        chosen = able[number % len(able)] if able and not odd else self.chosen_plan(number)
        self.undo(chosen["number"], piece)

    # --- groups, and tasks from elsewhere

    @precondition(lambda self: self.model.groups)
    @rule(number=NUMBERS, by=st.sampled_from(["ann", "ann", None]), odd=RARELY, again=st.booleans())
    def resolve(self, number: int, by: str | None, odd: bool, again: bool) -> None:
        """And ``again`` another dies of it."""
        texts = sorted(self.model.groups)
        text = texts[number % len(texts)]
        self.plan_step("resolve", text="unheard of" if odd else text, by=by)
        live = [job for job in self.model.jobs.values() if job.state in ("pending", "scheduled", "inflight")]
        if again and live:
            id, reason = live[number % len(live)].id, self.model.groups[text]["error"]
            self.step("change", action="dead_letter", id=id, version=None, reason=reason)

    @rule(
        states=st.lists(st.sampled_from(State), min_size=1, max_size=3), tag=st.sampled_from(["a", "b", "c", "new"]),
        key=st.sampled_from([None, None, "k"]), attempts=st.integers(0, 2), number=NUMBERS, again=RARELY,
        error=st.sampled_from([None, "boom", "no row 5"]), origin=st.sampled_from(["pending", "scheduled", "dead"]),
    )  # fmt: skip
    def adopt(
        self, states: list[State], tag: str, key: str | None, attempts: int, number: int, again: bool,
        error: str | None, origin: str,
    ) -> None:  # fmt: skip
        items = []
        for state in states:
            item = self.item(tag, ["from elsewhere", attempts], 0, attempts + 1, key)
            dead = state == "dead" or (state == "trash" and origin == "dead")
            inflight = state == "inflight"
            at = self.now - 60 * SECOND
            history = [[n, 1, "w0", at, at + n, "nacked", error] for n in range(1, attempts + 1)]
            items.append({
                **{name: item[name] for name in ("id", "tag", "payload", "max_attempts", "key")}, "state": state,
                "created": at, "ready": at, "due": self.now + 5 * SECOND, "attempts": attempts + inflight,
                "leases": attempts + inflight, "history": history, "error": error if attempts else None,
                "hold": [9, "w0", at, at, self.now + SECOND, 61 * SECOND] if inflight or (dead and attempts) else None,
                "reason": ("failed with no attempts left" if error and attempts else "no row 3") if dead else None,
                "entered": at if state in ("dead", "trash") else 0, "origin": origin if state == "trash" else None,
            })  # fmt: skip
        if again:
            items[-1]["id"] = self.id(number, tuple(State))
        self.step("adopt", items=items)
