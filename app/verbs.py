"""What can be done with selected tasks, and what came of it, in types and in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from queue_core.frames import plural


class Verb(StrEnum):
    """What can be done with selected tasks."""

    REQUEUE = "requeue"
    DEAD_LETTER = "dead_letter"
    REDRIVE = "redrive"
    PURGE = "purge"
    RESTORE = "restore"
    EXTEND = "extend"
    CANCEL = "cancel"
    MOVE = "move_tag"


PAST = {
    Verb.REQUEUE: "requeued", Verb.DEAD_LETTER: "dead-lettered", Verb.REDRIVE: "redriven", Verb.PURGE: "purged",
    Verb.RESTORE: "restored", Verb.EXTEND: "extended", Verb.CANCEL: "cancelled",
    Verb.MOVE: "moved",
}  # fmt: skip
NEEDS_REASON = (Verb.DEAD_LETTER, Verb.PURGE, Verb.CANCEL)


@dataclass(frozen=True, slots=True)
class Target:
    """A task as it was when a person chose it, with the exact name of its tag."""

    id: str
    version: int
    tag: str


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one target: ``done``, ``skipped`` (it is no longer as it was chosen) or ``failed``."""

    target: Target
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo did: ``words`` hold no text of tasks, ``why`` may; ``whole``: all was given back."""

    words: str
    whole: bool
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an action did. ``plan`` is the number of the plan that it was, where that can be undone."""

    results: list[Result]
    plan: int | None = None


def summary(verb: Verb, results: Sequence[Result]) -> str:
    """What was done, in a sentence that holds no text of tasks."""
    done = sum(result.outcome == "done" for result in results)
    skipped = sum(result.outcome == "skipped" for result in results)
    failed = len(results) - done - skipped
    total = plural(len(results), "task")
    text = f"{total} {PAST[verb]}" if done == len(results) else f"{done:,} of {total} {PAST[verb]}"
    if skipped:
        whys = [result.detail for result in results if result.outcome == "skipped"]
        changed = "it has changed" if skipped == 1 else "they have changed"
        text += f"; {skipped:,} skipped"
        text += f", because {changed} since the selection" if all(map(_tells_of_a_change, whys)) else ""
    return text + (f"; {failed:,} failed" if failed else "")


def _tells_of_a_change(why: str) -> bool:
    return why.startswith(("now ", "gone: "))
