"""Whose turn is it: the rotation over the ring of known tags. Pure.

Tags are numbered in first-seen order, from 1; the ring is that order, wrapping. A turn serves up to
``weight`` tasks of one tag. Turn and cursor are one stored record, so a turn spans calls, processes
and restarts. This is deficit round robin (M. Shreedhar, G. Varghese, SIGCOMM 1995) with tasks of
equal size and no saved deficit: what a tag did not use of a turn is gone.
"""

from collections.abc import Callable, Iterable

import msgspec


class Turn(msgspec.Struct, frozen=True, array_like=True):
    """The cursor. ``left`` is 0 while the turn of ``tag`` has not begun; ``weight`` is that of the turn."""

    tag: int = 1
    left: int = 0
    weight: int = 1


def next_tag(turn: Turn, ready: Callable[[int], int | None]) -> int | None:
    """The tag to serve now, or None. ``ready(n)`` is the first eligible tag numbered n or more.

    A turn under way goes on while its tag is eligible; one whose tag is not is over.
    """
    found = ready(turn.tag)
    return found if found is not None else ready(1)


def begin(turn: Turn, tag: int, weight: int) -> Turn:
    """The turn that a serve of ``tag`` belongs to: the one under way, or a new one of the tag's present weight."""
    return turn if turn.tag == tag and turn.left else Turn(tag, weight, weight)


def advance(turn: Turn, last: int) -> Turn:
    """The cursor after a serve of ``turn``; ``last`` is the newest tag of the ring.

    When the weight is used the cursor moves on at once, so that a tag first seen later waits for the
    round's end.
    """
    if turn.left > 1:
        return Turn(turn.tag, turn.left - 1, turn.weight)
    return Turn(turn.tag + 1 if turn.tag < last else 1)


def serves_before(
    turn: Turn, tag: int, ahead: int, weight: int, others: Iterable[tuple[int, int, int]]
) -> tuple[int, int]:
    """(turns of its tag, serves of all) before a task with ``ahead`` tasks before it in ``tag`` is leased.

    ``others`` are the other eligible tags as (number, weight, backlog); nothing else is pushed, and no
    limit is met: the present load, played forward in closed form.
    """

    def capacity(number: int, weight: int, turns: int) -> int:
        first = turn.left if number == turn.tag and turn.left else weight
        return first + (turns - 1) * weight if turns else 0

    def distance(number: int) -> tuple[bool, int]:
        """Ring order seen from the cursor: those behind it come after the wrap."""
        return (number < turn.tag, number)

    over = ahead - capacity(tag, weight, 1)
    turns = 1 if over < 0 else 2 + over // weight
    serves = ahead
    for number, their_weight, backlog in others:
        theirs = turns if distance(number) < distance(tag) else turns - 1
        serves += min(backlog, capacity(number, their_weight, theirs))
    return turns, serves
