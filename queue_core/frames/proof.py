"""The rotation's guarantee, checked on every serve that the journal keeps."""

from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from queue_core.fairness import Guarantee, Violation
from queue_core.frames.tables import rows, serves_frame
from queue_core.frames.text import plural, tag_label
from queue_core.frames.turns import VIOLATIONS, proof_frame
from queue_core.history import Event, Kind
from queue_core.queue import View
from queue_core.snapshot import Snapshot
from queue_core.stores.base import Logged

PIECE = 20_000  # journal entries that are read in one view
LISTED = 100  # violations that get a row


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of a check. ``serves`` were judged, the first at ``begun_at`` and the last at ``ended_at`` (None of
    none), with ``holes`` behind which it began anew, as serves are missing; ``broken`` times the guarantee was broken.

    ``violations`` has a row for each of the first 100, as the violations frame, ``proof`` the serves that show the
    first one, as the serves frame.
    """

    at: datetime
    serves: int
    begun_at: datetime | None
    ended_at: datetime | None
    holes: int
    broken: int
    violations: pd.DataFrame
    proof: pd.DataFrame

    @property
    def sentence(self) -> str:
        """What was found, and in which serves."""
        if self.begun_at is None or self.ended_at is None:
            return "Nothing to check: no serve is in the journal"
        how = f"was broken {plural(self.broken, 'time')} in" if self.broken else "was kept over"
        again = plural(self.holes, "place")
        missing = f"; serves are missing in {again}, behind which it began anew" if self.holes else ""
        return (
            f"The guarantee {how} {plural(self.serves, 'serve')}, all that the journal keeps, from "
            f"{self.begun_at:%Y-%m-%d %H:%M:%S} to {self.ended_at:%Y-%m-%d %H:%M:%S} UTC{missing}"
        )


class JournalCheck:
    """Checks the whole journal in pieces, so that no view is held for long: each goes on where the one before ended."""

    def __init__(self) -> None:
        self._guarantee = Guarantee()
        self._after = 0
        self._leases: list[Logged] = []
        self._found: list[Violation] = []
        self._holes = 0

    def feed(self, view: View) -> Checked | None:
        """Check the next piece. What came of it all, when that was the last; None: there is more."""
        piece = view.reader.journal(self._after, PIECE, None)
        for logged in piece:
            lease = logged[2]
            if lease.kind is Kind.LEASE:
                self._holes += bool(self._leases) and lease.serve != self._guarantee.last + 1
                found = self._guarantee.feed(lease)
                self._leases.append(logged)
                if found is not None:
                    self._found.append(found)
        if len(piece) == PIECE:
            self._after = piece[-1][0]
            return None
        return self._end(view.snapshot())

    def _end(self, snapshot: Snapshot) -> Checked:
        for tag in snapshot.tags:
            if tag.eligible_since_serve is not None:
                found = self._guarantee.waiting(tag.number, tag.eligible_since_serve)
                if found is not None:
                    self._found.append(found)
        names = {entry.tag: name or "" for _, name, entry in self._leases}
        names |= {tag.number: tag.name for tag in snapshot.tags}
        violations = rows(
            VIOLATIONS,
            (
                (
                    one.tag, names[one.tag], tag_label(names[one.tag]), one.since, one.until, one.other,
                    names[one.other], tag_label(names[one.other]), one.served, one.weight,
                )
                for one in self._found[:LISTED]
            ),
        )  # fmt: skip
        begun, ended = (Event(*self._leases[place]).at if self._leases else None for place in (0, -1))
        return Checked(
            snapshot.at, len(self._leases), begun, ended, self._holes, len(self._found), violations,
            proof_frame(violations, serves_frame(self._telling())),
        )  # fmt: skip

    def _telling(self) -> list[Event]:
        """The serves of the first violation: where the wait began and ended, and those of the other tag."""
        if not self._found:
            return []
        first = self._found[0]
        return [
            Event(*logged) for logged in self._leases
            if logged[2].tag == first.other or logged[2].serve in (first.since, first.until)
        ]  # fmt: skip
