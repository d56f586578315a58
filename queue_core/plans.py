"""Plans and the audit, as they are stored: what was frozen, how far it has come, what came of each task. Pure."""

from enum import StrEnum
from struct import Struct
from typing import Any

import msgspec

from queue_core.errors import Conflict
from queue_core.task import SECOND, Hold, State

PLAN_RETENTION = 7 * 24 * 3600 * SECOND  # on the retention clock: what an undo needs is kept so long after the end
UNUSED_RETENTION = 30 * 24 * 3600 * SECOND  # the selection of a plan that was not run, or not to its end
DRAFT_RETENTION = 3600 * SECOND  # a plan that was never frozen to its end is forgotten
SILENCE = 15 * SECOND  # a runner that has not been heard of for so long may be replaced
PART = 64  # tasks in one part of a frozen selection

_entry = Struct(">16sQ")


class PlanState(StrEnum):
    """Where a plan is."""

    DRAFT = "draft"  # being frozen
    READY = "ready"
    RUNNING = "running"
    STOPPED = "stopped"  # by a person, or since its canary failed; it can be resumed
    FINISHED = "finished"


class Verdict(StrEnum):
    """What came of one task of a plan."""

    MOVED = "moved"
    SKIPPED = "skipped"  # it was no longer as it was frozen
    FAILED = "failed"  # it was, and could not be moved


class Before(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What an undo needs to know of a task as it was."""

    state: State
    tag: int
    place: int
    due: int
    attempts: int
    reason: str | None
    entry: int = 0
    entered: int = 0
    aged: int = 0
    hold: Hold | None = None


class Selected(msgspec.Struct, frozen=True, gc=False):
    """One task of a plan: ``next`` is where the walk goes on after it, ``before`` what an undo gives back."""

    next: int
    id: bytes
    version: int
    before: Before | None = None


class Result(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What came of one task. ``version`` is that after the move, ``why`` tells why it was not moved."""

    verdict: Verdict
    version: int = 0
    why: str = ""
    before: Before | None = None


class Options(msgspec.Struct, frozen=True, array_like=True):
    """What an action needs beside its tasks. ``ttl`` in microseconds."""

    reason: str = ""
    ttl: int = 0
    payload: bytes | None = None
    tag: str | None = None


class Canary(msgspec.Struct, frozen=True, array_like=True):
    """Release ``size`` tasks, wait for their ends, go on when the share of ``success`` is reached."""

    size: int
    success: float


class Plan(msgspec.Struct, array_like=True):
    """A plan as it is stored; times in microseconds, 0 is never.

    ``selected`` tasks were frozen; ``next`` is where in the selection to go on: in its own, or for an undo in that of
    the plan ``undo_of``. ``why`` counts the reasons of
    those that were skipped or failed, ``ineligible`` those that were found and not selected. ``summary`` is JSON text
    for a person: tags, oldest, newest, a sample.
    """

    number: int
    action: str
    options: Options
    actor: str
    role: str
    origin: str
    created: int
    epoch: int
    where: str | None = None
    reason: str = ""
    state: PlanState = PlanState.DRAFT
    selected: int = 0
    ineligible: dict[str, int] = {}
    summary: str = "{}"
    rate: float | None = None
    canary: Canary | None = None
    canary_passed: bool = False
    next: int = 0
    moved: int = 0
    skipped: int = 0
    failed: int = 0
    why: dict[str, int] = {}
    run: int = 0  # the number of its run: only the newest may move tasks
    runner: str = ""
    beat: int = 0  # when the runner was heard of last
    started: int = 0
    ended: int = 0
    aged: int = 0  # the retention clock when it was frozen, stopped or finished last
    note: str = ""  # why it was stopped
    undo_of: int = 0
    undone_by: int = 0
    kept: bool = True  # whether the selection is still there
    moved_before: int = 0  # by earlier runs

    @property
    def done(self) -> int:
        return self.moved + self.skipped + self.failed

    @property
    def left(self) -> int:
        return self.selected - self.done

    @property
    def outcome(self) -> str:
        """What has come of it, in words; it never sounds better than it is."""
        words = [f"{self.moved:,} of {self.selected:,} moved"]
        words += [f"{count:,} {name}" for name, count in (("skipped", self.skipped), ("failed", self.failed)) if count]
        words += [f"{self.left:,} not reached"] if self.left else []
        return ", ".join(words)

    @property
    def over(self) -> bool:
        return self.state is PlanState.FINISHED

    @property
    def kept_until(self) -> int:
        """On the retention clock: when its selection goes."""
        return self.aged + (PLAN_RETENTION if self.over else UNUSED_RETENTION) + 1

    def alone(self, now: int) -> bool:
        """Whether nobody runs it: its runner has ended, or fallen silent. A clock set back does not end a run."""
        return self.state is not PlanState.RUNNING or now - self.beat > SILENCE

    def check_run(self, run: int) -> None:
        """Raises Conflict for any run but the newest, and when it was stopped."""
        if self.state is not PlanState.RUNNING or self.run != run:
            who = f": {self.runner} runs it now" if self.state is PlanState.RUNNING else ""
            raise Conflict(f"plan {self.number} is {self.state}{who}; this run of it ends here", state=self.state)


def _usual(field: Any) -> Any:
    """What a field is by default: a plan that was written before there was the field has that."""
    return {} if field.default is msgspec.NODEFAULT else field.default


# What a run changes is stored by itself: a plan may hold a payload of a megabyte, and its pieces are many.
_CHANGES = (
    "state", "rate", "canary_passed", "next", "moved", "skipped", "failed", "why", "run", "runner", "beat", "started",
    "ended", "aged", "note", "undone_by", "kept", "moved_before",
)  # fmt: skip
_fields = {field.name: field for field in msgspec.structs.fields(Plan)}
Progress: Any = msgspec.defstruct(
    "Progress", [(name, _fields[name].type, _usual(_fields[name])) for name in _CHANGES], array_like=True
)


def progress(plan: Plan) -> Any:
    """What of a plan a run changes."""
    return Progress(*(getattr(plan, name) for name in _CHANGES))


def come_to(plan: Plan, progress: Any) -> Plan:
    """The plan as far as it has come."""
    for name in _CHANGES:
        setattr(plan, name, getattr(progress, name))
    return plan


class AuditEntry(msgspec.Struct, frozen=True, array_like=True):
    """One action of a person, as it is stored. ``intent`` and ``outcome`` are words; ``count`` tasks were changed."""

    number: int
    at: int
    actor: str
    role: str
    origin: str
    action: str
    where: str | None = None
    reason: str = ""
    count: int = 0
    intent: str = ""
    outcome: str = ""
    plan: int = 0


def pack(entries: list[tuple[bytes, int]]) -> bytes:
    """(id, version) of each task as one part of a selection."""
    return b"".join(_entry.pack(id, version) for id, version in entries)


def unpack(data: bytes) -> list[tuple[bytes, int]]:
    return list(_entry.iter_unpack(data))
