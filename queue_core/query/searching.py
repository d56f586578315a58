"""Finding what matches: from an index where there is one, else page by page."""

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice

import msgspec

from queue_core.query.expression import EVERYTHING, NOTHING, Expression, given, highest, named
from queue_core.query.facts import UNMASKED, Facts, Masking
from queue_core.query.fields import FIELDS
from queue_core.query.grammar import parse
from queue_core.query.words import quote
from queue_core.stores.base import PIECE, Found, Reader
from queue_core.task import State, parse_id

_SMALLEST = 10  # tasks in a page when many tags are read side by side
_CALLED = {
    State.PENDING: ("pending task", "pending tasks"),
    State.SCHEDULED: ("scheduled task", "scheduled tasks"),
    State.INFLIGHT: ("task in flight", "tasks in flight"),
    State.DEAD: ("dead letter", "dead letters"),
    State.TRASH: ("task in the trash", "tasks in the trash"),
}


class _Line(msgspec.Struct, frozen=True):
    """Tasks that are read in the order of their state: of a tag, of an error group, or all of the state."""

    total: int
    tag: str | None = None
    group: str | None = None


class _Part(msgspec.Struct, frozen=True):
    """The lines that hold what can match in one state, and what has to be asked of each task there.

    ``until`` ends a line: no task of a higher order matches.
    """

    state: State
    lines: tuple[_Line, ...]
    left: Expression
    until: int | None

    @property
    def total(self) -> int:
        return sum(line.total for line in self.lines)

    @property
    def words(self) -> str:
        verb = "reads" if self.left == EVERYTHING else "scans"
        where = ""
        if any(line.group is not None for line in self.lines):
            where = " of " + _some("error group", [line.group or "" for line in self.lines])
        elif any(line.tag is not None for line in self.lines):
            where = " of " + _some("tag", [quote(line.tag or "")[:60] for line in self.lines])
        at_most = "" if self.until is None else "at most "
        order = "" if self.until is None else f", in the order of {_ordered_by(self.state)}, up to the bound"
        return f"{verb} {at_most}{self.total:,} {_CALLED[self.state][self.total != 1]}{where}{order}"


def _some(what: str, names: list[str]) -> str:
    return f"{what} {names[0]}" if len(names) == 1 else f"{len(names):,} {what}s"


def _ordered_by(state: State) -> str | None:
    """The field that the pages of a state are in the order of.

    Not so the age of the dead: they are in the order of their deaths, and a clock that was set back between two deaths
    makes the later one the older. So ages narrow nothing.
    """
    return next((field.name for field in FIELDS.values() if field.ordered is state), None)


class Search:
    """The tasks that match, from one reader, so all of one commit.

    State by state, in each in the order of its pages: pending by place, scheduled by due time, in flight by expiry,
    dead and trash by entry; so a redrive of dead letters in this order keeps the order of their deaths. Tasks named by
    their ids come in the same order.

    ``states`` limits it to some. ``mask`` hides secrets from the filter; the tasks found are as stored. ``total`` says
    how many tasks are to be read at most; ``scanned`` and ``found`` how many have been read and matched so far.
    """

    def __init__(
        self, reader: Reader, expression: Expression, *, states: Iterable[State] | None = None,
        mask: Masking = UNMASKED,
    ) -> None:  # fmt: skip
        chosen = frozenset(State if states is None else states)
        self.expression = expression
        self.scanned = 0
        self.found = 0
        self.stopped = False
        self._reader = reader
        self._mask = mask
        self._states = [state for state in State if state in chosen]
        ids = named(expression, "id")
        self._ids = None if ids is None else sorted(map(parse_id, ids))
        self._parts = [] if ids is not None else [part for state in self._states if (part := self._part(state))]

    @property
    def total(self) -> int:
        """How many tasks are to be read, at most."""
        return sum(part.total for part in self._parts) if self._ids is None else len(self._ids)

    @property
    def indexed(self) -> bool:
        """Whether an index answers the whole filter, so that no task has to be matched."""
        return self._ids is None and all(part.left == EVERYTHING for part in self._parts)

    @property
    def uses(self) -> tuple[str, ...]:
        """What is read, in words: "reads" what an index gives as it is, "scans" what has to be matched."""
        if self._ids is not None:
            return (f"reads {len(self._ids):,} task{'' if len(self._ids) == 1 else 's'} by id",)
        return tuple(part.words for part in self._parts) or ("nothing can match",)

    def explain(self) -> str:
        """What is read, as one sentence."""
        text = "; ".join(self.uses)
        return text[0].upper() + text[1:]

    def stop(self) -> None:
        """Read no further page; from any thread."""
        self.stopped = True

    def __iter__(self) -> Iterator[Found]:
        for page in self.pages():
            yield from page

    def pages(self) -> Iterator[list[Found]]:
        """The matches of each page read, of about 1,000 tasks: perhaps none, so that a caller can show progress."""
        self.scanned = self.found = 0
        if self._ids is not None:
            yield from self._matched(self._by_id(self._ids), self.expression)
        for part in self._parts:
            yield from self._matched(self._read(part), part.left)

    def _matched(self, pages: Iterable[list[Found]], left: Expression) -> Iterator[list[Found]]:
        now, mask = self._reader.now, self._mask
        for page in pages:
            self.scanned += len(page)
            if left != EVERYTHING:
                page = [found for found in page if left.matches(Facts(found, now, mask))]
            self.found += len(page)
            yield page

    # --- what is read

    def _part(self, state: State) -> _Part | None:
        """What has to be read of a state; None: nothing there can match."""
        left = given(self.expression, {"state": state})
        if left == NOTHING:
            return None
        lines, name = self._lines(state, left)
        if name:
            asked = {line: given(left, {"state": state, name: getattr(line, name)}) for line in lines}
            lines = [line for line in lines if asked[line] != NOTHING]
            lefts = {asked[line] for line in lines}
            left = lefts.pop() if len(lefts) == 1 else left
        if not lines:
            return None
        order = _ordered_by(state)
        span = None if order is None else highest(left, order)
        until = None if span is None else self._reader.now + span
        return _Part(state, tuple(lines), left, until)

    def _lines(self, state: State, left: Expression) -> tuple[list[_Line], str]:
        """(the lines that hold all that can match, the name by which they were chosen): the fewest tasks."""
        choices = [([_Line(getattr(self._reader.meta.counts, state.value))], "")]
        tags = named(left, "tag")
        if tags is not None:
            counts = {tag: self._reader.page(state, tag, None, 1, False)[2] for tag in sorted(tags)}
            choices.append(([_Line(count, tag=tag) for tag, count in counts.items()], "tag"))
        groups = named(left, "group") if state is State.DEAD and self._reader.meta.groups else None
        if groups is not None:  # a store that keeps no groups would look through all dead letters for each page
            sizes = {mark: self._reader.group_tags(bytes.fromhex(mark)).values() for mark in sorted(groups)}
            choices.append(([_Line(sum(size), group=mark) for mark, size in sizes.items()], "group"))
        return min(reversed(choices), key=lambda choice: sum(line.total for line in choice[0]))

    # --- reading it

    def _by_id(self, ids: list[bytes]) -> Iterator[list[Found]]:
        found = [task for id in ids if (task := self._reader.find(id)) and task.record.state in self._states]
        found.sort(key=lambda task: (self._states.index(task.record.state), *_order(task)))
        yield found

    def _read(self, part: _Part) -> Iterator[list[Found]]:
        lines = [line for line in part.lines if line.total]
        if len(lines) == 1:
            yield from self._pages(part, lines[0], PIECE)
            return
        size = max(PIECE // max(len(lines), 1), _SMALLEST)
        side_by_side = merge(*(self._tasks(part, line, size) for line in lines), key=_order)
        while page := list(islice(side_by_side, PIECE)):
            yield page

    def _tasks(self, part: _Part, line: _Line, size: int) -> Iterator[Found]:
        for page in self._pages(part, line, size):
            yield from page

    def _pages(self, part: _Part, line: _Line, size: int) -> Iterator[list[Found]]:
        after: str | None = None
        while not self.stopped:
            if line.group is not None:
                page, after = self._reader.grouped(bytes.fromhex(line.group), after, size)
            else:
                page, after, _ = self._reader.page(part.state, line.tag, after, size, False)
            yield page
            if after is None or (part.until is not None and page and page[-1].record.order > part.until):
                return


def _order(found: Found) -> tuple[int, int]:
    return found.record.order, found.record.place


def search(
    reader: Reader, where: str | Expression, *, states: Iterable[State] | None = None, mask: Masking = UNMASKED
) -> Search:
    """A search for what a filter text or its tree says. Raises InvalidFilter."""
    return Search(reader, parse(where) if isinstance(where, str) else where, states=states, mask=mask)
