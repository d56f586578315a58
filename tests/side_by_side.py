"""The naive model and every store, the durable ones under two processes: one step for all, then compared."""

import dataclasses
import os
import pickle
import tempfile
from collections import Counter
from typing import Any, ClassVar
from uuid import UUID

import msgspec
from hypothesis import currently_in_test_context, event
from hypothesis.stateful import RuleBasedStateMachine, invariant
from model import Job, Refused
from model_plans import PlanningModel
from msgspec.structs import replace
from peer import Answer, Peer, call, seen

from queue_core import Snapshot, State, open_queue
from queue_core.groups import Group
from queue_core.ledger import samples
from queue_core.plans import Result
from queue_core.task import id_text

SECOND = 1_000_000
NOT_FLUSHED: dict[str, Any] = {"durability": "none"}
DURABLE = ("lmdb", "files")
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
COVERAGE: Counter[tuple[str, str]] = Counter()


def modelled(value: Any) -> Any:
    """An answer of the model in the form of ``peer.seen``."""
    if isinstance(value, list):
        return [modelled(one) for one in value]
    if not isinstance(value, Job):
        return value
    job, hold = value, value.hold
    return {
        "id": job.id, "tag": job.tag, "payload": job.payload, "state": job.state, "version": job.version,
        "place": job.place, "created": job.created, "attempts": job.attempts, "cycle": job.cycle,
        "max_attempts": job.max_attempts, "leases": job.leases, "defers": job.defers, "key": job.key,
        "ready": job.ready if job.state == "pending" else None, "due": job.due if job.state == "scheduled" else None,
        "hold": holding(hold),
        "history": job.history, "error": job.error, "reason": job.reason, "entered": job.entered,
        "origin": job.origin, "edits": job.edits,
    }  # fmt: skip


def holding(hold: dict[str, Any] | None) -> list[Any] | None:
    """A lease in the form of ``peer.seen``."""
    return [hold[name] for name in ("fence", "owner", "leased", "beat", "expires", "ttl")] if hold else None


def without_token(result: Result) -> Result:
    """What came of a task, without the random part of the lease that it was under."""
    before = result.before
    if before is None or before.hold is None:
        return result
    return replace(result, before=replace(before, hold=replace(before.hold, nonce=0)))


def unmeasured(snapshot: Snapshot) -> Snapshot:
    """Without what only a store with history knows."""
    tags = []
    for stats in snapshot.tags:
        known = stats._tag.measured
        waits, services = samples(known.waits), samples(known.services)
        measured = replace(known, mark=b"", event=0, waits=waits, services=services)
        tags.append(replace(stats, _tag=replace(stats._tag, totals_=stats.totals, measured_=measured)))
    return dataclasses.replace(
        snapshot, tags=tuple(tags), settings=dataclasses.replace(snapshot.settings, history=None)
    )


def translated(args: dict[str, Any], system: str) -> dict[str, Any]:
    """The arguments with the tokens that the system knows."""
    one = {name: args[name][system] for name in ("token",) if name in args}
    many = {name: [slot[system] for slot in args[name]] for name in ("tokens", "ack") if name in args}
    return args | one | many


def counted(group: Group) -> tuple[bytes, str, int, int]:
    """What any store knows of a group."""
    return group.fingerprint, group.text, group.count, group.tags


class SideBySide(RuleBasedStateMachine):
    """What the rules of a history act on. ``slots`` are the tokens ever given out, ``ids`` those of all tasks."""

    peers: ClassVar[dict[str, Peer]]  # a second process for each durable store

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_750_000_000 * SECOND
        self.directory = tempfile.TemporaryDirectory(dir=IN_MEMORY)
        self.urls = {name: f"{name}://{self.directory.name}/{name}" for name in DURABLE}
        self.model = PlanningModel()
        self.queues = {"memory": open_queue("memory://", clock=lambda: self.now)}
        for name, url in self.urls.items():
            self.open(name)
            self.peers[name].ask("open", url, NOT_FLUSHED)
        self.elsewhere = False  # whether the second processes run the verbs
        self.slots: list[dict[str, Any]] = []  # every token ever given out, as each system has it
        self.ids: list[str] = []
        self.grouped: dict[str, Any] = {}  # as the model had it after the last step

    def open(self, name: str) -> None:
        """In this process."""
        self.queues[name] = open_queue(self.urls[name], clock=lambda: self.now, **NOT_FLUSHED)

    def teardown(self) -> None:
        for peer in self.peers.values():
            peer.ask("close")
        for queue in self.queues.values():
            assert queue.check() == []
            if queue.capabilities.journal:
                journals = [[(e.number, e.tag, e.entry) for e in q.journal()] for q in (self.queues["memory"], queue)]
                assert journals[0] == journals[1]
            if queue.capabilities.history:
                assert queue.series() == self.queues["memory"].series()
        for queue in self.queues.values():
            queue.close()
        self.directory.cleanup()

    # --- one step

    def step(self, verb: str, **args: Any) -> None:
        """Send a verb to all and compare; ``token`` and ``tokens`` are slots."""
        answers = {}
        for name, queue in self.queues.items():
            mine = translated(args, name)
            if self.elsewhere and name in self.peers:
                answers[name] = self.peers[name].ask(verb, self.now, mine)
            else:
                answers[name] = call(queue, verb, mine)
        memory = answers["memory"]
        if verb == "nack" and args["delay"] is None:
            args["delay"] = self.backoff(args["token"]["id"], memory)
        model = answers["model"] = self.ask_model(verb, translated(args, "model"))
        expected = self.comparable(model, "model")
        for name, answer in answers.items():
            assert self.comparable(answer, name) == expected, (name, verb, args)
        if memory[0] == "ok":
            for tokens in zip(*(answer[2] for answer in answers.values()), strict=True):
                given = dict(zip(answers, tokens, strict=True))
                self.slots.append({"id": given["model"][0], **given})
        name = args["action"] if verb == "change" else next(iter(args["changes"])) if verb == "configure" else verb
        COVERAGE[name, memory[0] if memory[0] != "ok" or memory[1] not in ([], 0) else "nothing to do"] += 1
        if currently_in_test_context():
            event(f"{name}: {memory[0]}")

    def plan_step(self, verb: str, **args: Any) -> Answer:
        """Send a verb of control to all that keep plans; the others do to their tasks what a plan has done."""
        number, limit = args.get("number", 0), args.get("limit", 0)
        piece = self.model.piece(number, limit)
        expected = self.ask_model(verb, args)
        for name, queue in self.queues.items():
            ask, given = verb, args
            if not queue.capabilities.plans and expected[0] != "ok":
                continue
            if not queue.capabilities.plans:
                ask, given = "commit", {}
                if verb == "advance":
                    ask, given = "by_hand", self.handed(number, piece)
            here = not (self.elsewhere and name in self.peers)
            answer = call(queue, ask, given) if here else self.peers[name].ask(ask, self.now, given)
            if ask == verb:
                assert answer == expected, (name, verb, args)
            elif ask == "by_hand":
                assert answer[1] == expected[1]["rows"], (name, verb, args)
        result = "ok" if expected[0] == "ok" else expected[0]
        COVERAGE[verb, result] += 1
        for _, verdict, _ in expected[1]["rows"] if verb == "advance" and result == "ok" else ():
            plan = self.model.plans[number]
            COVERAGE[f"{'undo of ' * bool(plan['undo_of'])}{plan['action']} by a plan", verdict] += 1
        self.compare_control()
        return expected

    def handed(self, number: int, piece: list[Any]) -> dict[str, Any]:
        """What to do by hand to a piece of a plan."""
        plan = self.model.plans[number]
        undoing = plan["undo_of"] is not None
        return {
            "action": plan["action"], "chosen": [[id, version] for id, version, _ in piece],
            "befores": [before | {"hold": holding(before["hold"])} for _, _, before in piece] if undoing else [],
            **plan["options"],
        }  # fmt: skip

    def compare_control(self) -> None:
        """All that is kept of plans, in those that keep them."""
        kept = []
        for queue in self.queues.values():
            if queue.capabilities.plans:
                with queue.view() as view:
                    plans = view.plans()
                    dealt = [(plan.number, *row) for plan in plans for row in view.outcome(plan.number)]
                    rows = [(number, at, id, without_token(result)) for number, at, id, result in dealt]
                    kept.append((plans, view.audit(), rows))
        assert all(one == kept[0] for one in kept)

    def ask_model(self, verb: str, args: dict[str, Any]) -> Answer:
        try:
            value = self.model.call(verb, self.now, args)
        except Refused as refused:
            return refused.answer
        tokens = [job.hold["token"] for job in value] if verb in ("lease", "heartbeat") else []
        return ["ok", modelled(value), tokens]

    def comparable(self, answer: Answer, system: str) -> Answer:
        """The answer with tokens replaced by what they stand for."""
        if answer[0] == "ok":
            return answer[:2]
        if answer[0] == "LeaseLost":
            return ["LeaseLost", [[i for i, slot in enumerate(self.slots) if slot[system] == t] for t in answer[1]]]
        return answer

    def backoff(self, id: str, answer: Answer) -> int:
        """The delay that the store chose, of which the model knows the bounds only."""
        if answer[0] != "ok" or answer[1]["state"] == "dead":
            return 0
        delay: int = answer[1]["due"] - self.now
        full = min(SECOND * 2 ** (answer[1]["attempts"] - 1), 300 * SECOND)
        assert full // 2 <= delay <= full
        return delay

    def slot(self, number: int, stale: bool) -> dict[str, Any] | None:
        """One of the live tokens, or one that another has followed, or of all that ever were."""
        held = {job.hold["token"]: job.id for job in self.model.listing("inflight") if job.hold}
        chosen = [slot for slot in self.slots if slot["model"] in held]
        if stale:
            followed = [slot for slot in self.slots if slot["id"] in held.values() and slot not in chosen]
            chosen = followed or self.slots
        return chosen[number % len(chosen)] if chosen else None

    def id(self, number: int, states: tuple[str, ...], odd: bool = False) -> str:
        """The id of a task in one of the states, or of any that ever was."""
        fitting = [] if odd else [job.id for job in self.model.jobs.values() if job.state in states]
        chosen = fitting or self.ids or [str(UUID(int=1 << 100))]
        return chosen[number % len(chosen)]

    def version(self, id: str, seen: int) -> int | None:
        """None, the present one, or one that has passed."""
        job = self.model.jobs.get(id)
        return None if seen < 4 or job is None else max(job.version - (seen == 9), 0)

    def item(self, tag: str, payload: Any, delay: int, attempts: int, key: str | None) -> dict[str, Any]:
        self.ids.append(str(UUID(int=len(self.ids) + 1)))
        return {"id": self.ids[-1], "tag": tag, "payload": payload, "delay": delay, "max_attempts": attempts,
                "key": key}  # fmt: skip

    # --- what must hold after each step

    @invariant()
    def all_agree(self) -> None:
        expected = {state: [modelled(job) for job in self.model.listing(state)] for state in State}
        grouped = self.model.grouped()
        snapshots, groups = {}, {}
        for name, queue in self.queues.items():
            with queue.view() as view:
                for state in State:
                    page = view.tasks(state, limit=1_000)
                    assert [seen(task) for task in page] == expected[state], name
                    assert page.total == len(expected[state])
                snapshots[name] = view.snapshot()
                if queue.capabilities.plans or grouped != self.grouped:  # else they are counted from what was compared
                    groups[name] = view.groups()
                    tags = {one.text: view.group_tags(one.fingerprint.hex()) for one in groups[name] if one.count}
                    assert tags == grouped, name
        self.grouped = grouped
        for name, snapshot in snapshots.items():
            if self.queues[name].capabilities.history:
                assert snapshot == snapshots["memory"], name
            else:
                assert unmeasured(snapshot) == unmeasured(snapshots["memory"]), name
        self.compare(snapshots["memory"])
        self.compare_groups(groups)

    def compare_groups(self, groups: dict[str, list[Group]]) -> None:
        """Those of the stores with each other, and with what the model knows of each kind of death."""
        kept = groups["memory"]
        for name, found in groups.items():
            if self.queues[name].capabilities.plans:
                assert found == kept, name
            else:
                assert sorted(map(counted, found)) == sorted(counted(one) for one in kept if one.count), name
        assert self.model.groups == {
            group.text: {
                "deaths": group.deaths, "first": group.first, "last": group.last, "sample": id_text(group.sample),
                "error": group.error, "resolved": group.resolved, "by": group.resolved_by, "reopened": group.reopened,
            }
            for group in kept
        }  # fmt: skip

    def compare(self, snapshot: Snapshot) -> None:
        """The numbers of a snapshot with the model's."""
        model = self.model
        model.now = self.now
        due = [job for job in model.listing("scheduled") if job.due <= self.now]
        expired = [job for job in model.listing("inflight") if job.hold and job.hold["expires"] <= self.now]
        assert (snapshot.due, snapshot.expired) == (len(due), len(expired))
        totals = msgspec.structs.asdict(snapshot.totals)
        del totals["eligible"]  # compared between the stores
        assert {name: number for name, number in totals.items() if number} == dict(+model.totals)
        ring = snapshot.ring
        cursor = model.ring[model.at] if model.ring else None
        assert (list(ring.tags), ring.cursor, ring.left, ring.serves) == (model.ring, cursor, model.left, model.serves)
        oldest = {tag.name: tag.oldest_wait for tag in snapshot.tags}
        for tag in model.ring:
            waiting = [(job.place, job.ready) for job in model.listing("pending", tag)]
            waiting += [(job.place, job.due) for job in due if job.tag == tag]
            assert oldest[tag] == (max(self.now - min(waiting)[1], 0) / SECOND if waiting else None)
        if all(job.attempts < job.max_attempts for job in expired):
            ahead = pickle.loads(pickle.dumps(model))
            ahead.move_due()
            assert ring.next == ahead.next_tag()


def coverage() -> str:
    """How often each verb had each outcome."""
    return "\n".join(f"{count:8,}  {name}: {outcome}" for (name, outcome), count in sorted(COVERAGE.items()))
