"""Freezing a selection: which tasks at which versions, and what a person has to know before saying yes."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from queue_core.plans import PART, pack
from queue_core.stores.base import Found, Reader
from queue_core.stores.engine.operate import ACTIONS
from queue_core.task import LIVE, Record, State, id_text, moment

SAMPLE = 5  # tasks that are named
TAGS, NAME = 100, 200  # tags that are counted by name, and characters of one


@dataclass
class Frozen:
    """A selection: its parts as they are stored, and what it says of itself."""

    parts: list[bytes] = field(default_factory=list)
    selected: int = 0
    ineligible: Counter[str] = field(default_factory=Counter)
    tags: Counter[str] = field(default_factory=Counter)
    oldest: int = 0
    newest: int = 0
    sample: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """JSON text: tags (at most 100, and how many there are in all), oldest, newest, the first ids."""
        tags: Counter[str] = Counter()
        for name, count in self.tags.most_common(TAGS):
            tags[name[:NAME]] += count
        return json.dumps(
            {
                "tags": tags,
                "tags_in_all": len(self.tags),
                "oldest": moment(self.oldest).isoformat() if self.selected else None,
                "newest": moment(self.newest).isoformat() if self.selected else None,
                "sample": self.sample,
            },
            ensure_ascii=False,
        )


def freeze(reader: Reader, found: Iterable[Found | str], action: str, tag: str | None) -> Frozen:
    """The tasks that the action can be done to, in the order in which they come.

    Text instead of a task is the reason for which one is not eligible. The time of a task is that of its death, or of
    its push.
    """
    frozen = Frozen()
    states, waiting = ACTIONS[action][0], []
    oldest, newest = 1 << 62, 0
    for one in found:
        if isinstance(one, str):
            frozen.ineligible[one] += 1
            continue
        record, name = one
        why = _hindrance(reader, record, name, action, states, tag)
        if why is not None:
            frozen.ineligible[why] += 1
            continue
        waiting.append((record.id, record.version))
        if len(waiting) == PART:
            frozen.parts.append(pack(waiting))
            waiting.clear()
        frozen.selected += 1
        frozen.tags[name] += 1
        at = record.entered or record.created
        oldest, newest = min(oldest, at), max(newest, at)
        if len(frozen.sample) < SAMPLE:
            frozen.sample.append(id_text(record.id))
    if waiting:
        frozen.parts.append(pack(waiting))
    frozen.oldest, frozen.newest = oldest, newest
    return frozen


def _hindrance(
    reader: Reader, record: Record, name: str, action: str, states: frozenset[State], tag: str | None
) -> str | None:
    if record.state not in states:
        return f"it is {record.state}"
    if not record.version:
        return "its record does not decode: run queue-core check"
    if action == "move_tag" and name == tag:
        return "it is in that tag already"
    if record.dedupe_key is not None and _will_hold(record, action):
        holder = reader.holder(tag if action == "move_tag" and tag is not None else name, record.dedupe_key)
        if holder is not None and holder != record.id:
            return "its dedupe key is held by another task"
    return None


def _will_hold(record: Record, action: str) -> bool:
    """Whether the action makes a task hold its dedupe key that does not hold it there now."""
    match action:
        case "redrive":
            return True
        case "restore":
            return record.origin in LIVE
        case "move_tag":
            return record.state in LIVE
        case _:
            return False


def by_id(reader: Reader, ids: Iterable[tuple[bytes, int | None]]) -> Iterator[Found | str]:
    """The tasks of these ids, each once, if they still have the version that was seen."""
    for id, version in dict(ids).items():
        found = reader.find(id)
        if found is None:
            yield "it is gone: acknowledged, or expunged"
        elif version is not None and found.record.version != version:
            yield f"it has changed: it is {found.record.state} now"
        else:
            yield found
