"""A naive model of the queue: dicts, sorted() and scans, written from the words of the documentation alone.

It shares no code with the engine and knows no index, so that a mistake would have to be made twice.
Times and spans are whole microseconds.
"""

import pickle
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

SECOND = 1_000_000
HOUR, DAY = 3600 * SECOND, 24 * 3600 * SECOND
LIVE = ("pending", "scheduled", "inflight")
ORDER = {
    "pending": lambda job: job.place,
    "scheduled": lambda job: (job.due, job.place),
    "inflight": lambda job: (job.hold["expires"], job.place),
    "dead": lambda job: job.entry,
    "trash": lambda job: job.entry,
}

UNHEARD = {"deaths": 0, "first": 0, "last": 0, "sample": "", "error": "", "resolved": 0, "by": "", "reopened": 0}


class Refused(Exception):
    """The name of the error that a store must raise, and its details."""

    def __init__(self, name: str, *details: Any) -> None:
        super().__init__(name, *details)
        self.answer = [name, *details]


@dataclass
class Job:
    """A task."""

    id: str
    tag: str
    payload: Any
    place: int
    created: int
    max_attempts: int
    key: str | None
    state: str = "new"
    version: int = 0
    ready: int = 0
    due: int = 0
    attempts: int = 0
    cycle: int = 1
    leases: int = 0
    defers: int = 0
    hold: dict[str, Any] | None = None
    history: list[list[Any]] = field(default_factory=list)
    error: str | None = None
    reason: str | None = None
    origin: str | None = None
    entry: int = 0
    entered: int = 0
    aged: int = 0
    edits: list[list[Any]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What it died of, in words that are the same for others of its kind."""
        failed = self.reason == "failed with no attempts left" and self.error
        return re.sub(r"[0-9]+", "<n>", str(failed or self.reason or self.error or "").split("\n")[0])


class Model:
    """The verbs, each on everything there is; a refused one changes nothing."""

    def __init__(self) -> None:
        self.now = 0
        self.jobs: dict[str, Job] = {}
        self.ring: list[str] = []
        self.settings: dict[str | None, dict[str, Any]] = {None: {}}
        self.timers: dict[str | None, int] = {}  # no serve of the tag (None: of any) before
        self.at = self.left = 0  # the cursor's position in the ring, what is left of its turn
        self.version = self.place = self.fence = self.serves = self.aged = self.last = 0
        self.totals: Counter[str] = Counter()
        self.groups: dict[str, dict[str, Any]] = {}  # by the text of what died

    def call(self, verb: str, now: int, args: dict[str, Any]) -> Any:
        """Run a verb at an instant; all of it or nothing."""
        kept = pickle.dumps(self.__dict__)
        self.now = now
        try:
            if verb != "lease" or args["ack"] or self.may_move() or self.next_tag() is not None:
                self.commit()  # an empty poll commits nothing
            return getattr(self, verb)(**args)
        except Refused:
            self.__dict__ = pickle.loads(kept)
            raise

    def commit(self) -> None:
        """Retention counts at most an hour between two commits: 7 days of trash, the dead when it is set."""
        self.aged += min(max(self.now - self.last, 0), HOUR) if self.last else 0
        if not self.last - 24 * HOUR <= self.now <= self.last:
            self.last = self.now
        for state, retention in (("trash", 7 * DAY), ("dead", self.setting(None, "dead_retention"))):
            for job in self.listing(state):
                if retention is not None and self.aged - job.aged > retention:
                    del self.jobs[job.id]
                    self.totals["expunged"] += 1
                    self.totals["retired"] += 1

    # --- what is there

    def listing(self, state: str, tag: str | None = None) -> list[Job]:
        found = [job for job in self.jobs.values() if job.state == state and tag in (None, job.tag)]
        return sorted(found, key=ORDER[state])

    def setting(self, tag: str | None, name: str, default: Any = None) -> Any:
        return self.settings[tag].get(name, default)

    def job(self, id: str) -> Job:
        if id not in self.jobs:
            raise Refused("TaskNotFound")
        return self.jobs[id]

    def held(self, tokens: list[tuple[str, int]]) -> list[Job]:
        tokens = list(dict.fromkeys(tokens))
        stale = [t for t in tokens if (job := self.jobs.get(t[0])) is None or not job.hold or job.state != "inflight"
                 or job.hold["token"] != t]  # fmt: skip
        if stale:
            raise Refused("LeaseLost", stale)
        return [self.jobs[id] for id, _ in tokens]

    def grouped(self) -> dict[str, Counter[str]]:
        """How many dead letters of each kind each tag has."""
        found: dict[str, Counter[str]] = {}
        for job in self.listing("dead"):
            found.setdefault(job.text, Counter())[job.tag] += 1
        return found

    def holder(self, tag: str, key: str | None) -> Job | None:
        found = [job for job in self.jobs.values() if (job.tag, job.key) == (tag, key) and job.state in LIVE]
        return found[0] if found and key is not None else None

    def key_is_free(self, job: Job, key: str | None, tag: str | None = None) -> None:
        if (holder := self.holder(job.tag if tag is None else tag, key)) is not None and holder.id != job.id:
            raise Refused("Conflict", job.state, job.version)

    # --- how a task changes

    def move(self, job: Job, state: str, **changes: Any) -> Job:
        self.version += 1
        live = {"hold": None, "reason": None, "origin": None, "entered": 0}
        into = {"entry": self.version, "entered": self.now, "aged": self.aged}
        changes = (live if state in LIVE else into) | {"version": self.version, "state": state} | changes
        for name, value in changes.items():
            setattr(job, name, value)
        return job

    def die(self, job: Job, reason: str, hold: dict[str, Any] | None, *, now: bool = True) -> Job:
        """Dead by what happens ``now``, or there again; what is known of its kind is of deaths, if there were any."""
        self.move(job, "dead", reason=reason, hold=hold)
        self.note_death(job, now)
        return job

    def note_death(self, job: Job, now: bool) -> None:
        group = self.groups.setdefault(job.text, dict(UNHEARD))
        if now or not group["sample"]:
            failed = job.reason == "failed with no attempts left" and job.error
            group["error"], group["sample"] = failed or job.reason or job.error or "", job.id
            group["first"], group["last"] = group["first"] or job.entered, max(group["last"], job.entered)
        group["deaths"] += now
        if now and group["resolved"]:
            group |= {"resolved": 0, "by": "", "reopened": self.now}

    def back(self, job: Job, delay: int = 0, since: int | None = None) -> Job:
        """Pending at its place, or later."""
        if delay:
            return self.move(job, "scheduled", due=self.now + delay)
        return self.move(job, "pending", ready=self.now if since is None else since)

    def close(self, job: Job, outcome: str, error: str | None = None) -> dict[str, Any] | None:
        """End the open attempt, if there is one; the lease it had."""
        hold = job.hold if job.state == "inflight" else None
        if hold is not None:
            ended = max(self.now, hold["leased"])
            job.history.append([job.leases, job.cycle, hold["owner"], hold["leased"], ended, outcome, error])
            self.totals["service"] += ended - hold["leased"]
            job.error = error if outcome == "nacked" else job.error
            job.attempts -= outcome in ("released", "deferred")
        return hold

    def failed(self, job: Job, outcome: str, error: str | None, reason: str, delay: int) -> Job:
        """An attempt that counts has ended without success: dead when none is left."""
        hold = self.close(job, outcome, error)
        self.totals[outcome] += 1
        if job.attempts < job.max_attempts:
            return self.back(job, delay)
        self.totals[f"died_{outcome}"] += 1
        return self.die(job, reason, hold)

    def expire(self, job: Job) -> Job:
        return self.failed(job, "expired", None, "lease expired with no attempts left", 0)

    def bury(self, job: Job, reason: str) -> Job:
        hold = self.close(job, "dead_lettered", reason)
        self.totals["dead_lettered"] += 1
        return self.die(job, reason, hold)

    def revive(self, job: Job, delay: int = 0) -> Job:
        """Out of the dead or the trash: a new cycle at the tail."""
        self.place += 1
        self.totals["redriven"] += 1
        job.place, job.cycle, job.attempts = self.place, job.cycle + 1, 0
        return self.back(job, delay)

    # --- in

    def push(self, items: list[dict[str, Any]]) -> list[Job]:
        return [pickle.loads(pickle.dumps(self.push_one(**item))) for item in items]

    def push_one(self, id: str, tag: str, payload: Any, delay: int, max_attempts: int, key: str | None) -> Job:
        if id in self.jobs:
            return self.push_again(self.jobs[id], tag, payload, delay, max_attempts, key)
        if (holder := self.holder(tag, key)) is not None:
            return holder
        for which in (None, tag):
            waiting = [job for job in self.jobs.values() if job.state in LIVE[:2] and which in (None, job.tag)]
            most = self.settings.get(which, {}).get("max_pending")
            if most is not None and len(waiting) >= most:
                raise Refused("QueueFull")
        self.know(tag)
        self.place += 1
        self.totals["pushed"] += 1
        self.jobs[id] = Job(id, tag, payload, self.place, self.now, max_attempts, key)
        return self.back(self.jobs[id], delay)

    def push_again(self, job: Job, tag: str, payload: Any, delay: int, max_attempts: int, key: str | None) -> Job:
        if job.tag != tag:
            raise Refused("Conflict", job.state, job.version)
        self.key_is_free(job, key)
        was = job.state
        self.close(job, "repushed")
        job.payload, job.max_attempts, job.key = payload, max_attempts, key
        if was not in LIVE:
            return self.revive(job, delay)
        return self.back(job, delay, job.ready if was == "pending" else None)

    def know(self, tag: str) -> None:
        if tag not in self.ring:
            self.ring.append(tag)
            self.settings[tag] = {}

    # --- out

    def may_move(self) -> bool:
        """Whether anything is due or expired, or an interval is over."""
        timers = [at for tag, at in self.timers.items() if tag is not None]
        times = [job.due for job in self.listing("scheduled")]
        times += [job.hold["expires"] for job in self.listing("inflight") if job.hold]
        return any(at <= self.now for at in times + timers)

    def move_due(self) -> None:
        for job in self.listing("scheduled"):
            if job.due <= self.now:
                self.totals["promoted"] += 1
                self.move(job, "pending", ready=job.due)
        for job in self.listing("inflight"):
            if job.hold and job.hold["expires"] <= self.now:
                self.expire(job)
        self.timers = {tag: at for tag, at in self.timers.items() if at > self.now or tag is None}

    def next_tag(self) -> str | None:
        """The first eligible tag from the cursor on, wrapping."""
        for tag in self.ring[self.at :] + self.ring[: self.at]:
            limits = [(None, len(self.listing("inflight"))), (tag, len(self.listing("inflight", tag)))]
            held_back = [
                self.setting(which, "paused", False)
                or ((most := self.setting(which, "max_inflight")) is not None and running >= most)
                for which, running in limits
            ]  # fmt: skip
            interval = self.timers.get(None, 0) > self.now or tag in self.timers
            if self.listing("pending", tag) and not any(held_back) and not interval:
                return tag
        return None

    def lease(self, n: int, ttl: int, owner: str, ack: list[tuple[str, int]]) -> list[Job]:
        self.ack(ack)
        self.move_due()
        served: list[Job] = []
        while len(served) < n and (tag := self.next_tag()) is not None:
            if self.left == 0 or self.ring[self.at] != tag:
                self.at, self.left = self.ring.index(tag), self.setting(tag, "weight", 1)
            self.left -= 1
            if self.left == 0:
                self.at = (self.at + 1) % len(self.ring)
            for which in (None, tag):
                if interval := self.setting(which, "min_interval", 0):
                    self.timers[which] = self.now + interval
            served.append(self.serve(self.listing("pending", tag)[0], ttl, owner))
        return served

    def serve(self, job: Job, ttl: int, owner: str) -> Job:
        self.fence += 1
        self.serves += 1
        self.totals["leased"] += 1
        self.totals["wait"] += max(self.now - job.ready, 0)
        job.attempts, job.leases = job.attempts + 1, job.leases + 1
        times = {"leased": self.now, "beat": self.now, "expires": self.now + ttl, "ttl": ttl}
        return self.move(job, "inflight", hold={"token": (job.id, self.fence * 1_000_000), "owner": owner,
                                                "fence": self.fence} | times)  # fmt: skip

    def heartbeat(self, token: tuple[str, int], ttl: int | None) -> list[Job]:
        (job,) = self.held([token])
        assert job.hold is not None
        ttl = job.hold["ttl"] if ttl is None else ttl
        job.hold |= {"token": (job.id, token[1] + 1), "beat": max(job.hold["beat"], self.now), "ttl": ttl}
        job.hold["expires"] = max(job.hold["expires"], self.now + ttl)
        return [job]

    def ack(self, tokens: list[tuple[str, int]]) -> None:
        for job in self.held(tokens):
            self.close(job, "acked")
            self.totals["acked"] += 1
            del self.jobs[job.id]

    def nack(self, token: tuple[str, int], error: str, delay: int) -> Job:
        return self.failed(self.held([token])[0], "nacked", error, "failed with no attempts left", delay)

    def release(self, token: tuple[str, int]) -> Job:
        return self.given_back(token, "released", 0)

    def defer(self, token: tuple[str, int], delay: int) -> Job:
        return self.given_back(token, "deferred", delay)

    def given_back(self, token: tuple[str, int], outcome: str, delay: int) -> Job:
        (job,) = self.held([token])
        self.close(job, outcome)
        self.totals[outcome] += 1
        job.defers += outcome == "deferred"
        return self.back(job, delay)

    def bury_held(self, token: tuple[str, int], reason: str) -> Job:
        return self.bury(self.held([token])[0], reason)

    # --- by id

    def change(self, action: str, id: str, version: int | None, **details: Any) -> Job:
        job = self.job(id)
        start = {
            "requeue": LIVE[1:], "redrive": ["dead"], "dead_letter": LIVE, "cancel": LIVE[:2], "purge": ["dead"],
            "restore": ["trash"], "expunge": ["trash"], "extend": ["inflight"], "replace": [job.state],
            "edit": [job.state], "move_tag": [*LIVE[:2], "dead"],
        }[action]  # fmt: skip
        if job.state not in start or version not in (None, job.version):
            raise Refused("Conflict", job.state, job.version)
        return getattr(self, f"do_{action}")(job, **details)  # type: ignore[no-any-return]

    def do_requeue(self, job: Job) -> Job:
        self.close(job, "requeued")
        self.totals["requeued"] += 1
        return self.back(job)

    def do_redrive(self, job: Job) -> Job:
        self.key_is_free(job, job.key)
        return self.revive(job)

    def do_dead_letter(self, job: Job, reason: str) -> Job:
        return self.bury(job, reason)

    def do_cancel(self, job: Job) -> Job:
        self.totals["cancelled"] += 1
        return self.move(job, "trash", origin=job.state)

    def do_purge(self, job: Job) -> Job:
        self.totals["purged"] += 1
        return self.move(job, "trash", origin="dead")

    def do_restore(self, job: Job) -> Job:
        if job.origin != "dead":
            self.key_is_free(job, job.key)
        self.totals["restored"] += 1
        if job.origin == "dead":
            job.origin = None
            return self.die(job, str(job.reason or ""), job.hold, now=False)
        return self.move(job, str(job.origin), **({"ready": self.now} if job.origin == "pending" else {}))

    def do_expunge(self, job: Job) -> Job:
        self.totals["expunged"] += 1
        return self.jobs.pop(job.id)

    def do_extend(self, job: Job, ttl: int) -> Job:
        assert job.hold is not None
        job.hold["expires"] = max(job.hold["expires"], self.now + ttl)
        self.version += 1
        job.version = self.version
        return job

    def do_replace(self, job: Job, payload: Any) -> Job:
        self.version += 1
        job.payload, job.version = payload, self.version
        return job

    # --- recovery and settings

    def requeue_inflight(self, older_than: int | None) -> int:
        return len([self.expire(job) for job in self.silent(older_than)])

    def dead_letter_inflight(self, older_than: int, reason: str) -> int:
        return len([self.bury(job, reason) for job in self.silent(older_than)])

    def silent(self, since: int | None) -> list[Job]:
        return [job for job in self.listing("inflight") if job.hold and (since is None or job.hold["beat"] <= since)]

    def configure(self, tag: str | None, changes: dict[str, Any]) -> None:
        if tag is not None:
            self.know(tag)
        self.settings[tag] |= changes
        if changes.get("min_interval") == 0:
            self.timers.pop(tag, None)
