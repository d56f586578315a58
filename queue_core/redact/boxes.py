"""The dicts and lists of a JSON value, outer ones first: a payload may be nested deeper than calls can be. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

PARTS = 20  # names of a path that are told


class Box(NamedTuple):
    """A dict or a list: in the box at place ``parent``, under ``key``, which is shown as ``shown``. All that is in a
    ``hidden`` one is hidden."""

    items: Any
    parent: int
    key: Any
    shown: Any
    hidden: bool


class Change(NamedTuple):
    """What is under ``key`` from now on, and how the key is shown."""

    key: Any
    shown: Any
    item: Any


def rebuilt(boxes: Sequence[Box], changes: dict[int, list[Change]]) -> Any:
    """The one thing in the first box, with all changes made; a box without any is used as it is."""
    for place in range(len(boxes) - 1, 0, -1):
        if place in changes:
            box = boxes[place]
            new = _changed(box.items, changes[place])
            changes.setdefault(box.parent, []).append(Change(box.key, box.shown, new))
    return _changed(boxes[0].items, changes[0])[0]


def _changed(items: Any, changes: Sequence[Change]) -> Any:
    if isinstance(items, list):
        new = list(items)
        for key, _, item in changes:
            new[key] = item
        return new
    made = {key: (shown, item) for key, shown, item in changes}
    times: Counter[Any] = Counter()
    result: dict[Any, Any] = {}
    for key, old in items.items():
        shown, item = made.get(key, (key, old))
        if shown != key:  # two keys may be shown alike, and both stay
            times[shown] += 1
            name = shown if times[shown] == 1 else f"{shown} {times[shown]}"
            while name in items or name in result:
                times[shown] += 1
                name = f"{shown} {times[shown]}"
            shown = name
        result[shown] = item
    return result


def path(boxes: Sequence[Box], place: int, shown: Any) -> str:
    """Where something is: ``payload.user.token``, ``payload.urls[2]``; of a deep one, the end."""
    parts: list[str] = []
    while place > 0 and len(parts) < PARTS:
        parts.append(_part(boxes[place].items, shown))
        place, shown = boxes[place].parent, boxes[place].shown
    return ("payload" if place <= 0 else "payload…") + "".join(reversed(parts))


def _part(items: Any, shown: Any) -> str:
    return f"[{shown}]" if isinstance(items, list) else f".{shown:.60}" if isinstance(shown, str) else f".{shown!r:.60}"
