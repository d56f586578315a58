"""Random histories: the naive model and every store, the durable ones under two processes, agree on every step.

Each rule sends one verb to all of them and compares what it returned or refused; after each step all that is
stored is compared. Tokens are mostly those of live leases and ids those of tasks in a fitting state, else nearly
every step would be refused. The coverage by verb and outcome is printed (pytest -s), and must hold every verb.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from agreement_plans import PLANNED, Planning
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test
from model_plans import UNDOABLE
from peer import PLANNING, VERBS, Peer
from side_by_side import COVERAGE, DURABLE, SECOND, coverage

from queue_core import Queue, State

SOAK = os.environ.get("SOAK", "") not in ("", "0")
ROUNDS = 50 if SOAK else 1  # of 100 histories each: a long search in one go keeps them all in memory

TAGS = st.sampled_from(["a", "a", "a", "b", "b", "c", "", "é/\n🙂", "a" * 520])
SPANS = st.sampled_from([0, 1, 500_000, SECOND, 10 * SECOND, 400 * SECOND])
AGES = st.sampled_from([0, 0, 0, SECOND, 400 * SECOND])
TTLS = st.sampled_from([1, SECOND, 30 * SECOND, 3600 * SECOND])
NUMBERS = st.integers(0, 1_000)  # chooses one of whatever there is
OWNERS = st.sampled_from(["w1", "w2"])
PAYLOADS = st.sampled_from([None, 0, 2**70, "text", {"n": [1, {"k": "v"}]}])
ERRORS = st.sampled_from(["", "boom", "read timeout\nline 2", "no row 7", "no row 12"])
KEYS = st.sampled_from([None, "k", "k", "k" * 520])
SEEN = st.integers(0, 9)  # 0: of any task; 9: an old version
MAYBE_STALE = st.integers(0, 9).map(lambda n: n == 0)
START = {
    "requeue": ("inflight", "scheduled"), "redrive": ("dead",), "dead_letter": ("pending", "scheduled", "inflight"),
    "cancel": ("pending", "scheduled"), "purge": ("dead",), "restore": ("trash",), "expunge": ("trash",),
    "extend": ("inflight",), "replace": tuple(State), "edit": tuple(State),
    "move_tag": ("pending", "scheduled", "dead"),
}  # fmt: skip
SETTINGS = ("paused", "weight", "max_inflight", "min_interval", "max_pending", "dead_retention")


def some(*states: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A rule that runs only while a task is in one of the states."""
    return precondition(lambda self: any(self.model.listing(state) for state in states))


held = some("inflight")


class Agreement(Planning):
    """The rules."""

    @initialize(tags=st.lists(TAGS, min_size=5, max_size=9), attempts=st.integers(1, 3), n=st.integers(0, 4), key=KEYS)
    def begin(self, tags: list[str], attempts: int, n: int, key: str | None) -> None:
        """Something in every state."""
        self.step(
            "push", items=[self.item(tag, None, 0, attempts, key if i < 2 else None) for i, tag in enumerate(tags)]
        )
        self.step("push", items=[self.item(tags[0], None, 10 * SECOND, attempts, None)])
        self.step("change", action="dead_letter", id=self.ids[0], version=None, reason="")
        self.step("change", action="cancel", id=self.ids[2], version=None)
        if n:
            self.step("lease", n=n, ttl=30 * SECOND, owner="w1", ack=[])

    # --- in

    @rule(tag=TAGS, payload=PAYLOADS, delay=st.just(0) | SPANS, attempts=st.integers(1, 3), key=KEYS)
    def push(self, tag: str, payload: Any, delay: int, attempts: int, key: str | None) -> None:
        self.step("push", items=[self.item(tag, payload, delay, attempts, key)])

    @precondition(lambda self: self.ids)
    @rule(number=NUMBERS, payload=PAYLOADS, delay=SPANS, attempts=st.integers(1, 3), key=KEYS, other=MAYBE_STALE)
    def push_again(self, number: int, payload: Any, delay: int, attempts: int, key: str | None, other: bool) -> None:
        id = self.id(number, tuple(State))
        job = self.model.jobs.get(id)
        tag = "another" if job is None or other else job.tag
        self.step("push", items=[{"id": id, "tag": tag, "payload": payload, "delay": delay, "max_attempts": attempts,
                                  "key": key}])  # fmt: skip

    @rule(tags=st.lists(TAGS, min_size=2, max_size=5), key=KEYS, number=NUMBERS, again=MAYBE_STALE)
    def push_many(self, tags: list[str], key: str | None, number: int, again: bool) -> None:
        items = [self.item(tag, i, 0, 2, key) for i, tag in enumerate(tags)]
        if again:
            items[-1]["id"] = self.id(number, tuple(State))
        self.step("push", items=items)

    # --- out

    @rule(ttl=TTLS, owner=OWNERS)
    def lease(self, ttl: int, owner: str) -> None:
        self.step("lease", n=1, ttl=ttl, owner=owner, ack=[])

    @rule(n=st.integers(1, 6), ttl=TTLS, owner=OWNERS)
    def lease_many(self, n: int, ttl: int, owner: str) -> None:
        self.step("lease", n=n, ttl=ttl, owner=owner, ack=[])

    @held
    @rule(numbers=st.lists(NUMBERS, min_size=1, max_size=3), stale=MAYBE_STALE, ttl=TTLS, owner=OWNERS)
    def lease_with_ack(self, numbers: list[int], stale: bool, ttl: int, owner: str) -> None:
        slots = [slot for number in numbers if (slot := self.slot(number, stale))]
        self.step("lease", n=1, ttl=ttl, owner=owner, ack=slots)

    @held
    @rule(number=NUMBERS, stale=MAYBE_STALE, ttl=st.none() | TTLS)
    def heartbeat(self, number: int, stale: bool, ttl: int | None) -> None:
        if slot := self.slot(number, stale):
            self.step("heartbeat", token=slot, ttl=ttl)

    @held
    @rule(numbers=st.lists(NUMBERS, min_size=1, max_size=3), stale=MAYBE_STALE)
    def ack(self, numbers: list[int], stale: bool) -> None:
        if slots := [slot for number in numbers if (slot := self.slot(number, stale))]:
            self.step("ack", tokens=slots)

    @held
    @rule(number=NUMBERS, stale=MAYBE_STALE, error=ERRORS, delay=st.none() | SPANS)
    def nack(self, number: int, stale: bool, error: str, delay: int | None) -> None:
        if slot := self.slot(number, stale):
            self.step("nack", token=slot, error=error, delay=delay)

    @held
    @rule(number=NUMBERS, stale=MAYBE_STALE)
    def release(self, number: int, stale: bool) -> None:
        if slot := self.slot(number, stale):
            self.step("release", token=slot)

    @held
    @rule(number=NUMBERS, stale=MAYBE_STALE, delay=SPANS)
    def defer(self, number: int, stale: bool, delay: int) -> None:
        if slot := self.slot(number, stale):
            self.step("defer", token=slot, delay=delay)

    @held
    @rule(number=NUMBERS, stale=MAYBE_STALE, reason=ERRORS)
    def dead_letter_held(self, number: int, stale: bool, reason: str) -> None:
        if slot := self.slot(number, stale):
            self.step("bury_held", token=slot, reason=reason)

    @held
    @rule(number=NUMBERS, stale=MAYBE_STALE, verb=st.sampled_from(["heartbeat", "nack", "release", "bury_held", "ack"]))
    def settle(self, number: int, stale: bool, verb: str) -> None:
        """Any of the above: the more often, the deeper the history."""
        if slot := self.slot(number, stale):
            options: dict[str, dict[str, Any]] = {"heartbeat": {"ttl": None}, "nack": {"error": "", "delay": None},
                                    "bury_held": {"reason": ""}}  # fmt: skip
            self.step(verb, **({"tokens": [slot]} if verb == "ack" else {"token": slot}), **options.get(verb, {}))

    # --- by id

    def by_id(self, action: str, number: int, seen: int, **details: Any) -> None:
        id = self.id(number, START[action], odd=seen == 0)
        self.step("change", action=action, id=id, version=self.version(id, seen), **details)

    @some(*START["dead_letter"])
    @rule(number=NUMBERS, seen=SEEN, reason=ERRORS)
    def dead_letter(self, number: int, seen: int, reason: str) -> None:
        self.by_id("dead_letter", number, seen, reason=reason)

    @some(*START["requeue"])
    @rule(number=NUMBERS, seen=SEEN)
    def requeue(self, number: int, seen: int) -> None:
        self.by_id("requeue", number, seen)

    @some(*START["redrive"])
    @rule(number=NUMBERS, seen=SEEN)
    def redrive(self, number: int, seen: int) -> None:
        self.by_id("redrive", number, seen)

    @some(*START["cancel"])
    @rule(number=NUMBERS, seen=SEEN)
    def cancel(self, number: int, seen: int) -> None:
        self.by_id("cancel", number, seen)

    @some(*START["purge"])
    @rule(number=NUMBERS, seen=SEEN)
    def purge(self, number: int, seen: int) -> None:
        self.by_id("purge", number, seen)

    @some(*START["restore"])
    @rule(number=NUMBERS, seen=SEEN)
    def restore(self, number: int, seen: int) -> None:
        self.by_id("restore", number, seen)

    @some(*START["expunge"])
    @rule(number=NUMBERS, seen=SEEN)
    def expunge(self, number: int, seen: int) -> None:
        self.by_id("expunge", number, seen)

    @some(*START["extend"])
    @rule(number=NUMBERS, seen=SEEN, ttl=TTLS)
    def extend(self, number: int, seen: int, ttl: int) -> None:
        self.by_id("extend", number, seen, ttl=ttl)

    @some(*START["replace"])
    @rule(number=NUMBERS, seen=SEEN, payload=PAYLOADS)
    def replace(self, number: int, seen: int, payload: Any) -> None:
        self.by_id("replace", number, seen, payload=payload)

    @rule(number=NUMBERS, seen=SEEN, payload=PAYLOADS)
    def edit(self, number: int, seen: int, payload: Any) -> None:
        self.by_id("edit", number, seen, payload=payload)

    @some(*START["move_tag"])
    @rule(number=NUMBERS, seen=SEEN, tag=TAGS)
    def move_tag(self, number: int, seen: int, tag: str) -> None:
        self.by_id("move_tag", number, seen, tag=tag)

    @rule(number=NUMBERS, which=NUMBERS)
    def operate(self, number: int, which: int) -> None:
        """Any of the above that the task allows."""
        id = self.id(number, tuple(State))
        job = self.model.jobs.get(id)
        fitting = [action for action, states in START.items() if job is None or job.state in states]
        action = fitting[which % len(fitting)]
        options: dict[str, dict[str, Any]] = {
            "dead_letter": {"reason": ""},
            "extend": {"ttl": SECOND},
            "replace": {"payload": 0},
            "edit": {"payload": 1},
            "move_tag": {"tag": "c"},
        }
        self.step("change", action=action, id=id, version=None, **options.get(action, {}))

    # --- recovery and settings

    @held
    @rule(ago=st.none() | AGES)
    def requeue_inflight(self, ago: int | None) -> None:
        self.step("requeue_inflight", older_than=None if ago is None else self.now - ago)

    @held
    @rule(ago=AGES, reason=ERRORS)
    def dead_letter_inflight(self, ago: int, reason: str) -> None:
        self.step("dead_letter_inflight", older_than=self.now - ago, reason=reason)

    @rule(tag=TAGS, paused=st.sampled_from([True, False, False]))
    def pause_tag(self, tag: str, paused: bool) -> None:
        self.step("configure", tag=tag, changes={"paused": paused})

    @rule(paused=st.sampled_from([True, False, False, False]))
    def pause_all(self, paused: bool) -> None:
        self.step("configure", tag=None, changes={"paused": paused})

    @rule(tag=TAGS, weight=st.integers(1, 3))
    def weight(self, tag: str, weight: int) -> None:
        self.step("configure", tag=tag, changes={"weight": weight})

    @rule(tag=TAGS | st.none(), limit=st.sampled_from([None, None, 1, 2]))
    def limit(self, tag: str | None, limit: int | None) -> None:
        self.step("configure", tag=tag, changes={"max_inflight": limit})

    @rule(tag=TAGS | st.none(), interval=st.sampled_from([0, 0, 1, 10 * SECOND]))
    def interval(self, tag: str | None, interval: int) -> None:
        self.step("configure", tag=tag, changes={"min_interval": interval})

    @rule(tag=TAGS | st.none(), most=st.sampled_from([None, None, 2, 5]))
    def max_pending(self, tag: str | None, most: int | None) -> None:
        self.step("configure", tag=tag, changes={"max_pending": most})

    @rule(retention=st.sampled_from([None, None, 0, 3600 * SECOND]))
    def dead_retention(self, retention: int | None) -> None:
        self.step("configure", tag=None, changes={"dead_retention": retention})

    # --- the world

    @rule(span=st.sampled_from([1, SECOND, 31 * SECOND, 400 * SECOND, 2 * 3600 * SECOND, 200 * 24 * 3600 * SECOND]))
    def clock_forward(self, span: int) -> None:
        self.now += span

    @rule(span=st.sampled_from([1, 10 * SECOND, 2 * 3600 * SECOND]))
    def clock_back(self, span: int) -> None:
        self.now -= span

    @some("scheduled", "inflight")
    @rule(offset=st.integers(-1, 1), ttl=TTLS)
    def lease_at_the_moment(self, offset: int, ttl: int) -> None:
        """Just before, when, or just after the next task falls due or the next lease runs out."""
        times = [job.due for job in self.model.listing("scheduled")]
        times += [job.hold["expires"] for job in self.model.listing("inflight") if job.hold]
        self.now = min(times) + offset
        self.step("lease", n=1, ttl=ttl, owner="w1", ack=[])

    @rule()
    def hand_over(self) -> None:
        """From now on the other processes run the verbs."""
        self.elsewhere = not self.elsewhere

    @rule()
    def reopen(self) -> None:
        for name in DURABLE:
            self.queues[name].close()
            self.open(name)

    @rule(tag=TAGS | st.none(), limit=st.integers(1, 4), reverse=st.booleans())
    def turn_pages(self, tag: str | None, limit: int, reverse: bool) -> None:
        for state in State:
            expected = [job.id for job in self.model.listing(state, tag)][:: -1 if reverse else 1]
            for queue in self.queues.values():
                assert list(paged(queue, state, tag, limit, reverse)) == expected


def paged(queue: Queue, state: State, tag: str | None, limit: int, reverse: bool) -> Iterator[str]:
    after = None
    while True:
        page = queue.tasks(state, tag=tag, after=after, limit=limit, reverse=reverse)
        yield from (task.id for task in page)
        if (after := page.next) is None:
            return


def alternately(machine: Agreement, number: int) -> None:
    """Run a plan that runs to its end, a task here, a task there."""
    while (plan := machine.model.plans[number])["state"] == "running":
        machine.hand_over()
        machine.plan_step("advance", number=number, run=plan["run"], limit=1)
        machine.all_agree()


def planned_in_turns(machine: Agreement, action: str) -> None:
    """A plan of four tasks, begun in one process, gone on with in the other after a silence, and taken back."""
    states, options = PLANNED[action]
    machine.step("push", items=[machine.item(tag, tag, 0, 3, None) for tag in "abcabc"])
    machine.step("push", items=[machine.item(tag, tag, 10_000 * SECOND, 3, None) for tag in "ab"])
    pending = machine.model.listing("pending")
    machine.step("change", action="dead_letter", id=pending[-1].id, version=None, reason="no row 7")
    machine.step("change", action="cancel", id=pending[-2].id, version=None)
    machine.step("lease", n=2, ttl=3600 * SECOND, owner="w1", ack=[])
    listed = [machine.model.listing(state)[-2:] for state in states]
    chosen = [[job.id, job.version] for jobs in listed for job in jobs][-4:]
    machine.plan_step("freeze", action=action, chosen=chosen, **options)
    number = max(machine.model.plans)
    machine.plan_step("claim", number=number, runner="r1")
    machine.plan_step("advance", number=number, run=1, limit=0)
    machine.hand_over()
    assert machine.plan_step("claim", number=number, runner="r2")[0] == "Conflict", "the first is not silent yet"
    machine.now += 16 * SECOND
    assert machine.plan_step("claim", number=number, runner="r2")[0] == "ok"
    machine.hand_over()
    assert machine.plan_step("advance", number=number, run=1, limit=9)[0] == "Conflict", "another runs it now"
    alternately(machine, number)
    undo = machine.plan_step("undo", number=number)
    assert (undo[0] == "ok") == (action in UNDOABLE)
    if undo[0] == "ok":
        machine.plan_step("claim", number=number + 1, runner="r1")
        alternately(machine, number + 1)


def test_plans_that_two_processes_run_in_turns() -> None:
    COVERAGE.clear()
    Agreement.peers = {name: Peer() for name in DURABLE}
    try:
        machine = Agreement()
        for action in PLANNED:
            planned_in_turns(machine, action)
        machine.teardown()
    finally:
        for peer in Agreement.peers.values():
            peer.stop()
    for name in (*PLANNED, *(f"undo of {action}" for action in UNDOABLE)):
        assert COVERAGE[f"{name} by a plan", "moved"], f"no plan has moved a task by {name}:\n{coverage()}"


@pytest.mark.soak
def test_the_model_and_every_store_under_two_processes_agree() -> None:
    COVERAGE.clear()
    Agreement.peers = {name: Peer() for name in DURABLE}
    try:
        for _ in range(ROUNDS):
            run_state_machine_as_test(
                Agreement,
                settings=settings(
                    max_examples=100, stateful_step_count=40, deadline=None, derandomize=not SOAK,
                    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
                ),
            )  # fmt: skip
    finally:
        for peer in Agreement.peers.values():
            peer.stop()
        print(coverage())
    for name in (*sorted(VERBS.keys() - {"change", "configure"}), *PLANNING, *START, *SETTINGS):
        assert COVERAGE[name, "ok"], f"{name} never succeeded:\n{coverage()}"
