"""How the queue is, by the rules that a person can tune: said once, for the Overview and for the line on every page."""

from dataclasses import dataclass
from datetime import UTC, datetime

from app import data
from app.shared import Made
from queue_core import InvalidArgument, Snapshot, frames
from queue_core.frames import Level, Verdict, error_line

FINE = 7_200.0  # seconds: of a longer span the history shown is too coarse to tell what happened lately


@dataclass(frozen=True, slots=True)
class Health:
    """The verdict of one moment, and how it was come by; None when the rules cannot be read."""

    snapshot: Snapshot
    verdict: Verdict
    judgement: frames.rules.Judgement | None


_judged: Made[Health] = Made()


def lately() -> Health:
    """How the queue is now. Raises QueueError when it cannot be read."""
    return of(data.measured(data.RECENT))


def of(shown: data.Overview) -> Health:
    """How the queue is in the view that is shown. Raises QueueError when it cannot be read."""
    try:
        rules = frames.rules.configured()
    except InvalidArgument as error:
        told = Verdict(Level.UNKNOWN, "Not judged: the rules cannot be read", (error_line(error),))
        return Health(shown.snapshot, told, None)
    return _judged.get(shown, rules, lambda: _of(shown, rules))


def _of(shown: data.Overview, rules: frames.rules.Rules) -> Health:
    snapshot, recent = shown.snapshot, None
    if shown.history and snapshot.settings.history:
        told_of = rules.deaths_within <= shown.seconds <= FINE
        recent = (shown if told_of else data.measured(max(rules.deaths_within, data.RECENT))).totals
    room = data.with_queue(lambda queue: queue.storage())
    judged = frames.rules.judge(snapshot, rules, now=datetime.now(UTC), room=room, recent=recent)
    return Health(snapshot, judged.verdict, judged)
