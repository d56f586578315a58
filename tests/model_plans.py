"""What the naive model knows of control: edits, other tags, tasks from elsewhere, plans task by task."""

from collections import Counter
from typing import Any

from model import LIVE, SECOND, Job, Model, Refused

SILENCE = 15 * SECOND
BEFORE = ("state", "tag", "place", "due", "attempts", "reason", "entry", "entered", "aged", "hold")
UNDOABLE = ("redrive", "dead_letter", "requeue", "cancel", "purge", "restore", "edit", "move_tag")


class PlanningModel(Model):
    """A plan is a list of (id, version), and how far it has come in it."""

    def __init__(self) -> None:
        super().__init__()
        self.plans: dict[int, dict[str, Any]] = {}

    # --- one task

    def do_edit(self, job: Job, payload: Any) -> Job:
        job.edits.append([self.now, job.version, job.payload])
        if len(job.edits) > 5:
            del job.edits[1]
        return self.do_replace(job, payload)

    def do_move_tag(self, job: Job, tag: str) -> Job:
        if job.tag == tag:
            raise Refused("Conflict", job.state, job.version)
        self.to_tag(job, tag)
        self.place += 1
        job.place = self.place
        return job

    def to_tag(self, job: Job, tag: str) -> None:
        if job.state != "dead":
            self.key_is_free(job, job.key, tag)
        self.know(tag)
        self.version += 1
        self.totals += Counter(moved_in=1, moved_out=1)
        job.tag, job.version = tag, self.version

    # --- from elsewhere

    def adopt(self, items: list[dict[str, Any]]) -> list[bool]:
        """Whether each was taken in."""
        return [self.adopt_one(item) for item in items]

    def adopt_one(self, item: dict[str, Any]) -> bool:
        state, tag = item["state"], item["tag"]
        if item["id"] in self.jobs or (state in LIVE and self.holder(tag, item["key"]) is not None):
            return False
        self.know(tag)
        self.place += 1
        self.totals["moved_in"] += 1
        names = ("id", "tag", "payload", "created", "max_attempts", "key", "due", "attempts", "leases", "error")
        job = Job(place=self.place, **{name: item[name] for name in names})
        job.history = [list(attempt) for attempt in item["history"]]
        self.jobs[job.id] = job
        hold = None
        if item["hold"]:
            times = dict(zip(("fence", "owner", "leased", "beat", "expires", "ttl"), item["hold"], strict=True))
            hold = {"token": ("elsewhere", 0)} | times
        if state == "inflight":
            assert hold is not None
            ended = max(self.now, hold["leased"])
            job.history.append([job.leases, 1, hold["owner"], hold["leased"], ended, "requeued", None])
            self.move(job, "pending", ready=self.now)
        elif state in LIVE:
            self.move(job, state, ready=item["ready"])
        else:
            self.move(job, state, hold=hold, reason=item["reason"], origin=item["origin"], entered=item["entered"])
            if state == "dead":
                self.note_death(job, now=False)
        return True

    # --- groups

    def resolve(self, text: str, by: str | None) -> None:
        if text not in self.groups:
            raise Refused("Conflict", None, None)
        self.groups[text] |= {"resolved": self.now, "by": by} if by is not None else {"resolved": 0, "by": ""}

    # --- plans

    def freeze(self, action: str, chosen: list[list[Any]], **options: Any) -> dict[str, Any]:
        return self.new_plan(action, [(id, version, None) for id, version in chosen], options)

    def new_plan(self, action: str, chosen: list[Any], options: Any, undo_of: int | None = None) -> dict[str, Any]:
        number = len(self.plans) + 1
        self.plans[number] = {
            "number": number, "action": action, "chosen": chosen, "options": options, "undo_of": undo_of,
            "undone": False, "results": [], "state": "ready", "run": 0, "beat": 0,
        }  # fmt: skip
        return self.shown(number)

    def plan(self, number: int) -> dict[str, Any]:
        if number not in self.plans:
            raise Refused("Conflict", None, None)
        return self.plans[number]

    def shown(self, number: int, since: int = 0) -> dict[str, Any]:
        """A plan with what came of each task that was dealt with ``since``."""
        plan = self.plans[number]
        verdicts = Counter(row["verdict"] for row in plan["results"])
        return {
            "number": number, "state": plan["state"], "run": plan["run"], "selected": len(plan["chosen"]),
            "moved": verdicts["moved"], "skipped": verdicts["skipped"], "failed": 0,
            "rows": [[row["id"], row["verdict"], row["version"]] for row in plan["results"][since:]],
        }  # fmt: skip

    def claim(self, number: int, runner: str) -> dict[str, Any]:
        plan = self.plan(number)
        alone = plan["state"] != "running" or self.now - plan["beat"] > SILENCE
        if plan["state"] == "finished" or not alone:
            raise Refused("Conflict", plan["state"], None)
        plan |= {"state": "running", "run": plan["run"] + 1, "beat": self.now}
        return self.shown(number, len(plan["results"]))

    def check_run(self, plan: dict[str, Any], run: int) -> None:
        if (plan["state"], plan["run"]) != ("running", run):
            raise Refused("Conflict", plan["state"], None)

    def stop(self, number: int, run: int | None) -> dict[str, Any]:
        plan = self.plan(number)
        if run is not None:
            self.check_run(plan, run)
        if plan["state"] not in ("ready", "running"):
            raise Refused("Conflict", plan["state"], None)
        plan |= {"state": "stopped", "beat": self.now}
        return self.shown(number, len(plan["results"]))

    def piece(self, number: int, limit: int) -> list[Any]:
        """The next tasks of a plan: (id, version, what they were before a plan that is undone)."""
        plan = self.plans.get(number, {"chosen": [], "results": []})
        done = len(plan["results"])
        return plan["chosen"][done : done + limit]  # type: ignore[no-any-return]

    def advance(self, number: int, run: int, limit: int) -> dict[str, Any]:
        plan = self.plan(number)
        self.check_run(plan, run)
        done = len(plan["results"])
        for id, version, before in self.piece(number, limit):
            plan["results"].append(self.deal(plan, id, version, before))
        plan["beat"] = max(plan["beat"], self.now)
        if len(plan["results"]) == len(plan["chosen"]):
            plan["state"] = "finished"
        return self.shown(number, done)

    def deal(self, plan: dict[str, Any], id: str, version: int, before: Any) -> dict[str, Any]:
        """One task: moved if it is as it was frozen."""
        job = self.jobs.get(id)
        was = {name: getattr(job, name) for name in BEFORE} if job else None
        try:
            if plan["undo_of"]:
                if job is None or job.version != version:
                    raise Refused("it has moved on")
                getattr(self, f"undo_{plan['action']}")(job, before)
            else:
                job = self.change(plan["action"], id, version, **plan["options"])
        except Refused:
            return {"id": id, "verdict": "skipped", "version": 0, "before": None}
        return {"id": id, "verdict": "moved", "version": job.version, "before": was}

    def undo(self, number: int) -> dict[str, Any]:
        plan = self.plan(number)
        if plan["state"] not in ("finished", "stopped"):
            raise Refused("Conflict", plan["state"], None)
        if plan["action"] not in UNDOABLE or plan["undo_of"] or plan["undone"]:
            raise Refused("Conflict", None, None)
        plan |= {"undone": True, "state": "finished"}
        moved = [(row["id"], row["version"], row["before"]) for row in plan["results"] if row["verdict"] == "moved"]
        return self.new_plan(plan["action"], moved, {}, number)

    # --- what is taken back, to what it was before

    def undo_redrive(self, job: Job, before: dict[str, Any]) -> None:
        job.place, job.attempts, job.cycle = before["place"], before["attempts"], job.cycle - 1
        self.totals["dead_lettered"] += 1
        self.dead_again(job, before)

    def dead_again(self, job: Job, before: dict[str, Any]) -> None:
        """Where it was among the dead."""
        self.move(job, "dead", origin=None, **{name: before[name] for name in BEFORE[5:]})
        self.note_death(job, now=False)

    def undo_dead_letter(self, job: Job, before: dict[str, Any]) -> None:
        self.key_is_free(job, job.key)
        self.totals["restored"] += 1
        self.live_again(job, before)

    def live_again(self, job: Job, before: dict[str, Any]) -> None:
        if before["state"] == "scheduled":
            self.move(job, "scheduled", due=before["due"])
        else:
            self.move(job, "pending", ready=self.now)

    def undo_requeue(self, job: Job, before: dict[str, Any]) -> None:
        if before["state"] != "scheduled":
            raise Refused("its lease is over")
        self.totals["deferred"] += 1
        self.live_again(job, before)

    def undo_cancel(self, job: Job, before: dict[str, Any]) -> None:
        self.do_restore(job)

    def undo_purge(self, job: Job, before: dict[str, Any]) -> None:
        self.totals["restored"] += 1
        self.dead_again(job, before)

    def undo_restore(self, job: Job, before: dict[str, Any]) -> None:
        self.do_purge(job) if job.state == "dead" else self.do_cancel(job)
        job.entry, job.entered, job.aged = before["entry"], before["entered"], before["aged"]

    def undo_edit(self, job: Job, before: dict[str, Any]) -> None:
        self.do_replace(job, job.edits.pop()[2])

    def undo_move_tag(self, job: Job, before: dict[str, Any]) -> None:
        self.to_tag(job, before["tag"])
        job.place = before["place"]
