"""Dead letters and trash, the newest first: found by a filter, a page at a time, with a bound on what is read."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd
from msgspec.structs import replace

from queue_core.errors import InvalidFilter
from queue_core.frames.text import plural
from queue_core.groups import Group
from queue_core.query import EVERYTHING, FIELDS, SYNTAX, Expression, Facts, both, parse, quote, suggest
from queue_core.query.expression import named
from queue_core.queue import View
from queue_core.redact import Redactor, masking
from queue_core.snapshot import Snapshot
from queue_core.stores.base import PIECE, Found
from queue_core.task import Record, State, Task, parse_id

MOST = 30_000  # tasks that one page may have to look at
NEWER, STEP = 500, 50  # newest tasks that are looked at for what came in, and so many at a time
GROUPS_LOOKED = 2_000  # error groups that are looked at for those of one tag


@dataclass(frozen=True, slots=True)
class Letters:
    """A page of what a filter finds.

    ``matched`` counts all that match; None: it is not known, as only the newest were looked at. ``looked`` of ``total``
    tasks were read for this page. ``next`` goes in as ``after`` for the page behind it; None: there is no more.
    """

    tasks: tuple[Task, ...]
    matched: int | None
    looked: int
    total: int
    next: str | None
    reads: str

    def extent(self, first: int) -> str:
        """Which of how many are shown, when the first is number ``first``, in words."""
        shown = f"{first:,}–{first + len(self.tasks) - 1:,}" if self.tasks else "0"
        if self.matched is not None:
            return f"{shown} of {self.matched:,}"
        return f"{shown} of those that match"

    def behind(self, first: int) -> tuple[str | None, int]:
        """Where the page behind this one begins, and the number of its first task."""
        return self.next, first + len(self.tasks)

    @property
    def effort(self) -> str:
        """What was read to find them, in words."""
        if self.matched is not None:
            return self.reads
        more = ": the older ones come with the next page" if self.next is not None else ""
        return f"{plural(self.looked, 'task')} of {self.total:,} were looked at for this page{more}"


def filter_of(state: State, where: str = "", *, tag: str | None = None) -> str:
    """One filter of a state, what a person wrote, and a tag. Raises InvalidFilter."""
    parts = [parse(f"state:{state}")]
    if tag is not None:
        parts.append(parse(f"tag:{quote(tag)}"))
    parts.append(parse(where))
    return str(both(parts))


def with_text(where: str, text: str) -> str:
    """A filter as a person writes it, and with it text that is anywhere in a row."""
    word = quote(text)
    anywhere = [f"{name}:{word}" for name in ("error", "reason", "payload")]
    anywhere += [f"{name}:*{word}*" for name in ("tag", "owner")]
    return " ".join([*([f"({where})"] if where else []), f"({' OR '.join(anywhere)})"])


def newest(
    view: View, state: State, where: str = "", *, after: str | None = None, limit: int = 200, most: int = MOST,
    mask: Redactor | None = None,
) -> Letters:  # fmt: skip
    """One page of the tasks of a state that match, the newest first. Raises InvalidFilter.

    At most about ``most`` tasks are read. Where a filter needs more, ``matched`` is not known, and a page may be
    short, or empty, with another behind it.
    """
    mask = masking(mask)
    search = view.search(where, states=[state], mask=mask)
    expression = search.expression
    if expression in (EVERYTHING, parse(f"state:{state}")) or _only_tag(expression, state):
        limits = named(expression, "tag")
        page = view.tasks(state, tag=next(iter(limits)) if limits else None, after=after, limit=limit, reverse=True)
        return Letters(page.items, page.total, len(page), page.total, page.next, search.explain())
    if search.total > most:
        return _scanned(view, state, expression, after, limit, most, mask)
    behind = _place(after) if after is not None else None
    shown: deque[Found] = deque(maxlen=limit + 1)
    for found in search:
        if behind is None or (found.record.order, found.record.place) < behind:
            shown.append(found)
    page_of = list(reversed(shown))
    following = _cursor(page_of[limit - 1].record) if len(page_of) > limit else None
    tasks = tuple(map(view.task, page_of[:limit]))
    return Letters(tasks, search.found, search.scanned, search.total, following, search.explain())


def _only_tag(expression: Expression, state: State) -> bool:
    tags = named(expression, "tag")
    if tags is None or len(tags) != 1:
        return False
    word = quote(next(iter(tags)))
    return expression in (parse(f"tag:{word}"), parse(f"state:{state} tag:{word}"))


def _scanned(
    view: View, state: State, expression: Expression, after: str | None, limit: int, most: int, mask: Redactor
) -> Letters:
    """From the newest backwards, until the page is full or enough was looked at."""
    reader, shown, looked = view.reader, list[Found](), 0
    tag = _tag_of(expression)
    while True:
        page, after, total = reader.page(state, tag, after, PIECE, True)
        for found in page:
            looked += 1
            if expression.matches(Facts(found, reader.now, mask)):
                shown.append(found)
            if len(shown) == limit:
                after = _cursor(found.record) if after is not None or found is not page[-1] else None
                break
        if after is None or len(shown) == limit or looked >= most:
            return Letters(tuple(map(view.task, shown)), None, looked, total, after, "")


def _tag_of(expression: Expression) -> str | None:
    """The one tag that all that matches is of."""
    tags = named(expression, "tag")
    return next(iter(tags)) if tags is not None and len(tags) == 1 else None


def _cursor(record: Record) -> str:
    """Where the page behind this task begins: what ``Page.next`` is."""
    return f"{record.order:x}-{record.place:x}"


def _place(cursor: str) -> tuple[int, int]:
    order, place = (int(part, 16) for part in cursor.split("-"))
    return order, place


# --- what has changed since ---------------------------------------------------------------------------


def newer(
    view: View, state: State, where: str, seen: int, *, most: int = NEWER, mask: Redactor | None = None
) -> tuple[int, bool]:
    """How many dead letters, or tasks in the trash, match a filter and came in after entry number ``seen``.

    At most the ``most`` newest are looked at; True: there are more, so that it is at least so many. Raises
    InvalidFilter.
    """
    expression, mask, reader = parse(where), masking(mask), view.reader
    tag, after, looked, count = _tag_of(expression), None, 0, 0
    while True:
        page, after, _ = reader.page(state, tag, after, STEP, True)
        for found in page:
            if found.record.entry <= seen:
                return count, False
            if looked == most:
                return count, True
            looked += 1
            count += expression.matches(Facts(found, reader.now, mask))
        if after is None:
            return count, False


def gone(view: View, state: State, shown: pd.DataFrame) -> int:
    """How many rows of a leases frame or a dead frame have left the state since; one that is leased anew has."""
    fences = shown["fence"].tolist() if "fence" in shown else [None] * len(shown)
    count = 0
    for id, fence in zip(shown["id"], fences, strict=True):
        found = view.reader.find(parse_id(id))
        hold = found.record.hold if found is not None else None
        there = found is not None and found.record.state is state
        count += not (there and (fence is None or (hold is not None and hold.fence == fence)))
    return count


# --- error groups of one tag --------------------------------------------------------------------------


def groups_of(
    view: View, snapshot: Snapshot, tag: str | None = None, most: int = GROUPS_LOOKED
) -> tuple[list[Group], bool]:
    """The error groups that have dead letters, the largest first; of a tag: those that hit it, ``count`` being of it
    alone.

    At most the ``most`` largest are looked at for a tag; True: others may hit it, too. ``snapshot`` is of the view.
    """
    groups = [group for group in view.groups() if group.count]
    if tag is None:
        return groups, False
    left = sum(stats.dead for stats in snapshot.tags if stats.name == tag)
    found = []
    for group in groups[:most]:
        if not left:  # all its dead letters are in groups that were found
            break
        if count := view.group_tags(group.fingerprint.hex()).get(tag, 0):
            found.append(replace(group, count=count))
            left -= count
    found.sort(key=lambda group: (-group.count, -group.last, group.fingerprint))
    return found, left > 0


# --- what can be written ------------------------------------------------------------------------------


def filter_help() -> str:
    """The filter grammar as lines of examples, each with what it means."""
    lines = [*SYNTAX, *((field.example, field.help) for field in FIELDS.values())]
    width = max(len(example) for example, _ in lines if len(example) < 34)
    return "\n".join(f"{example:<{width}}  {meaning}" for example, meaning in lines)


def may_stand(where: str, tags: Iterable[str] = (), most: int = 12) -> list[str]:
    """What may stand at the end of a filter, or where its mistake is."""
    try:
        parse(where)
        at = len(where)
    except InvalidFilter as mistake:
        at = mistake.position
    offers = suggest(where, at, tags=tags)
    return list(dict.fromkeys(offer.text for offer in offers))[:most]
