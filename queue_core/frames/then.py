"""The rotation, and one tag, as they were at an earlier moment: as much as journal and history tell of it."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pandas as pd

from queue_core import fairness
from queue_core.fairness import Standing
from queue_core.fairness.past import Later, turn_after
from queue_core.frames.series import series_frame
from queue_core.frames.tables import Schema, rows, serves_frame, span
from queue_core.frames.tag import SERVES, tag_series_frame
from queue_core.frames.text import plural, tag_label
from queue_core.frames.turns import RING, names_of, shares_of
from queue_core.history import Entry, Event, Kind
from queue_core.queue import View
from queue_core.snapshot import Snapshot, TagStats
from queue_core.spans import fitting
from queue_core.stores.base import Logged
from queue_core.task import microseconds

WINDOW = 500  # serves before the moment that are looked at
COMING = 60  # serves behind it that are shown
PIECE = 50_000  # journal entries that are read at once behind it
NEAR, FAR = 3_000, 45_000  # journal entries that are read before it: at first, and at most
POINTS = 180  # spans into which a tag's history is cut, at most
NOT_SEEN = "not seen to be eligible"
NOT_TOLD = "eligible about then"

RING_THEN: Schema = {**RING, "backlog": "Int64"}


@dataclass(frozen=True, slots=True)
class TurnsThen:
    """What the journal tells of the rotation at a moment.

    ``before`` are events up to it: from 500 serves before it on, as far as they are among the 45,000 nearest, without a
    gap; ``coming`` are the first serves behind it. ``last`` is the number of the newest serve by then, 0 when there was
    none. ``standings`` are the tags that are known now, or were served since, as they were at the moment; ``unsure``
    those that became eligible after that serve, before the moment or behind it. ``snapshot`` is the queue as it is now.
    """

    at: datetime
    snapshot: Snapshot
    before: list[Event]
    coming: list[Event]
    later: Later
    last: int
    standings: dict[int, Standing]
    unsure: frozenset[int]

    @property
    def events(self) -> list[Event]:
        """What ``around_frame`` takes."""
        return [*self.before, *self.coming]

    @property
    def unseen(self) -> int:
        """How many serves about the moment are in no journal, as none was written."""
        return _serves(self.snapshot, self.later) - self.last


# --- reading --------------------------------------------------------------------------------------


def turns_then(view: View, at: datetime, last: int = WINDOW) -> TurnsThen | None:
    """What the journal tells of the rotation at a moment (aware), with the ``last`` serves before it.

    None where it does not reach back to then. Reads all that came behind the moment: at most what the journal keeps.
    """
    place = _place(view, at)
    if place is None:
        return None
    before = _back(view, place, lambda found: _served(found) > last)
    later, coming, after = Later(), list[Event](), place
    while piece := view.reader.journal(after, PIECE, None):
        after = piece[-1][0]
        later.feed(entry for _, _, entry in piece)
        if len(coming) < COMING:
            leases = [Event(*logged) for logged in piece if logged[2].kind is Kind.LEASE]
            coming += leases[: COMING - len(coming)]
    snapshot = view.snapshot()
    newest = max((entry.serve for _, _, entry in before), default=0) or _serves(snapshot, later)
    now = {tag: Standing(tag, lease.weight) for tag, lease in later.following.items()}
    now |= {tag.number: fairness.standing(tag) for tag in snapshot.tags}
    timed = {tag.number for tag in snapshot.tags if tag.settings.min_interval}
    stood = {tag: later.standing(one, newest, tag in timed) for tag, one in sorted(now.items())}
    unsure = frozenset(tag for tag, one in now.items() if stood[tag].since is None and later.since(one) == newest)
    return TurnsThen(at, snapshot, [Event(*logged) for logged in before], coming, later, newest, stood, unsure)


def _serves(snapshot: Snapshot, later: Later) -> int:
    """How many serves there had been before those that came later."""
    return snapshot.ring.serves if later.next is None else later.next.serve - 1


def journal_span(view: View) -> tuple[datetime, datetime] | None:
    """When the oldest and the newest entry of the journal were written; None where there is none."""
    newest = view.journal(limit=1)
    return (view.journal(after=0, limit=1)[0].at, newest[0].at) if newest else None


def _place(view: View, at: datetime) -> int | None:
    """The number of the newest entry up to then; None where the journal does not reach back so far."""
    newest = view.journal(limit=1)
    if not newest:
        return None
    numbers = range(view.journal(after=0, limit=1)[0].number, newest[0].number + 1)
    place = bisect_right(numbers, at, key=lambda number: view.journal(after=number - 1, limit=1)[0].at)
    return numbers[place - 1] if place else None


def _back(view: View, place: int, enough: Callable[[Sequence[Logged]], bool]) -> list[Logged]:
    """The entries up to number ``place``, oldest first, as many as are enough, or as there are."""
    found: list[Logged] = []
    step, begin = NEAR, place
    while begin > 0 and place - begin < FAR and not enough(found):
        end, begin = begin, max(begin - step, 0)
        piece = view.reader.journal(begin, end - begin, None)
        found = [logged for logged in piece if logged[0] <= end] + found
        if not piece or piece[0][0] > begin + 1:  # the journal begins here
            break
        step *= 2
    return found


def _served(found: Sequence[Logged]) -> int:
    return sum(entry.kind is Kind.LEASE for _, _, entry in found)


# --- what was -------------------------------------------------------------------------------------


def shares_then_frame(then: TurnsThen, last: int = WINDOW) -> pd.DataFrame:
    """What each tag had got of the ``last`` serves by then, against what it was due: as ``shares_frame`` was then."""
    entries = [event.entry for event in then.before]
    return shares_of(
        entries, then.standings.values(), microseconds(then.at, "at"), names_of(then.snapshot, then.before), last
    )


def ring_then_frame(then: TurnsThen) -> pd.DataFrame:
    """The rotation at a moment, as the ring frame has it; what the journal does not tell is missing.

    Exact: ``cursor``, ``left`` and ``last``, unless serves about then are in no journal, or ``left`` would need serves
    from before it. ``next`` was served next in fact. ``weight`` is that of the tag's next turn. ``why_not`` is missing
    for a tag that is known to have been eligible, and says of the others what is known. How many tasks were waiting is
    never told. Tags that were forgotten since are not in it. Where the cursor is not known ``ahead`` counts from the
    tag that was served last.
    """
    tags, known = _known(then), then.unseen == 0
    served = {event.entry.tag: event for event in then.before if event.kind is Kind.LEASE} if known else {}
    last = next((tag for tag, event in served.items() if event.serve == then.last), 0)
    last = last or next((tag.number for tag in tags if known and tag.last_serve == then.last), 0)
    cursor, left = _cursor(then, [tag.number for tag in tags]) if known else (None, 0)
    following = then.later.next.tag if known and then.later.next is not None else 0
    start = next((place for place, tag in enumerate(tags) if tag.number == (cursor or last)), 0)
    found = []
    for place, tag in enumerate(tags):
        number, serve = tag.number, served.get(tag.number)
        last_serve, last_at = (None, None) if serve is None else (serve.serve, serve.at)
        if serve is None and number not in then.later.following and (tag.last_serve or 0) <= then.last:
            last_serve, last_at = tag.last_serve, tag.last_served_at
        found.append((
            number, tag.name, tag_label(tag.name), (place - start) % len(tags), number == cursor, number == following,
            number == last, left if number == cursor and left else None, then.standings[number].weight, None,
            _why_not(then, number), last_serve, span(then.at, last_at), last_at,
        ))  # fmt: skip
    return rows(RING_THEN, found)


def _why_not(then: TurnsThen, number: int) -> str | None:
    if then.standings[number].since is not None:
        return None
    return NOT_TOLD if number in then.unsure else NOT_SEEN


def _known(then: TurnsThen) -> list[TagStats]:
    """The tags of now that were known at the moment."""
    seen = {event.entry.tag for event in then.before}  # whatever the clock said
    return [tag for tag in then.snapshot.tags if tag.number in seen or tag.first_seen_at <= then.at]


def _cursor(then: TurnsThen, numbers: Sequence[int]) -> tuple[int | None, int]:
    """The tag of the cursor among those known at the moment, and what was left of its turn; None: not known."""
    if not numbers:
        return None, 0
    if not then.last:
        return numbers[0], 0
    leases = _run([event.entry for event in then.before])
    if not leases:
        return None, 0
    fresh = _fresh(then)
    turn = turn_after(leases, max(number for number in [*numbers, leases[-1].tag] if number not in fresh))
    if turn is None:
        return None, 0
    cursor = next((number for number in numbers if number >= turn.tag), numbers[0])
    return cursor, turn.left if cursor == turn.tag else 0


def _run(entries: Sequence[Entry]) -> list[Entry]:
    """The last leases whose serves are without a gap."""
    leases = [entry for entry in entries if entry.kind is Kind.LEASE]
    begin = len(leases) - 1
    while begin > 0 and leases[begin - 1].serve == leases[begin].serve - 1:
        begin -= 1
    return leases[max(begin, 0) :]


def _fresh(then: TurnsThen) -> set[int]:
    """The tags that were first seen between the last serve and the moment: the cursor wrapped without them."""
    entries = [event.entry for event in then.before]
    place = max((place for place, entry in enumerate(entries) if entry.kind is Kind.LEASE), default=-1)
    born = {tag.number: microseconds(tag.first_seen_at, "at") for tag in then.snapshot.tags}
    old = {entry.tag for entry in entries[: place + 1]}
    return {entry.tag for entry in entries[place + 1 :] if entry.tag not in old and born.get(entry.tag) == entry.at}


def ring_then_sentence(then: TurnsThen, ring: pd.DataFrame) -> str:
    """What of a ring frame of a moment is known, and what is not."""
    said = [
        "Filled are the tags that the journal knows to have been eligible. One that stopped being so without a serve, "
        "as it was paused, say, is not seen to have been. How many tasks were waiting, and whether the whole queue was "
        "paused or at a limit, the journal does not tell."
    ]
    unsure = int((ring["why_not"] == NOT_TOLD).sum())
    if unsure:
        said.append(f"Of {plural(unsure, 'tag')} it is not known whether it was eligible just then or just after.")
    if then.unseen:
        said.append(
            f"{plural(then.unseen, 'serve')} about then are in no journal, as none was written: who was served last, "
            "where the cursor was and who was next is not known."
        )
    elif len(ring) and not ring["cursor"].any():
        said.append("Where the cursor was is not known: the serves that tell are older than what was read.")
    return " ".join(said)


# --- one tag --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TagThen:
    """One tag up to a moment: ``series`` and ``serves`` as in a ``TagStory``, of the time before it.

    ``reached`` tells whether the journal reaches back to the moment.
    """

    name: str
    at: datetime
    series: pd.DataFrame
    serves: pd.DataFrame
    reached: bool

    @property
    def known(self) -> pd.DataFrame:
        """The spans of the series in which its numbers are known."""
        return self.series[self.series["known"]]

    @property
    def sentence(self) -> str:
        """What was waiting in it at the moment."""
        if self.series.empty:
            return "Nothing is known of it then: history did not reach that far."
        newest = self.series.iloc[-1]
        if not newest["known"]:
            return f"{tag_label(self.name)} was not among the 100 tags that are kept by name then."
        ended = newest["start"] + pd.Timedelta(seconds=newest["seconds"])
        return f"{tag_label(self.name)} had {plural(int(newest['pending']), 'task')} pending at {ended:%H:%M:%S} UTC"


def tag_then(view: View, name: str, at: datetime, seconds: float = 900.0) -> TagThen:
    """What the tag of exactly this name did in so many seconds up to a moment (aware), and its last 50 serves by then,
    as far as they are among the 45,000 nearest events before it."""
    tag = next((tag for tag in view.snapshot().tags if tag.name == name), None)
    series = view.series(since=at - timedelta(seconds=seconds), until=at)
    fields = ["pending", "pushed", "leased", "acked", "nacked", "expired"]
    did = tag_series_frame(series_frame(series, step=fitting(seconds, POINTS), fields=fields), name, tag)
    place = _place(view, at)

    def mine(found: Sequence[Logged]) -> list[Logged]:
        return [logged for logged in found if logged[1] == name and logged[2].kind is Kind.LEASE]

    found = [] if place is None else _back(view, place, lambda logged: len(mine(logged)) >= SERVES)
    serves = serves_frame([Event(*logged) for logged in mine(found)], SERVES)
    return TagThen(name, at, did, serves.iloc[::-1].reset_index(drop=True), place is not None)
