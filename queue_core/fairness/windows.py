"""Jain's index over time. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from queue_core.fairness.shares import Waiting, jain, spells
from queue_core.history import Entry


@dataclass(frozen=True, slots=True)
class Window:
    """Some serves in a row, ``first`` to ``last``, from ``begun`` to ``ended`` in microseconds. ``stayed`` tags were
    eligible at each of them; ``index`` is Jain's over these, None where it has no value."""

    first: int
    last: int
    begun: int
    ended: int
    serves: int
    stayed: int
    index: float | None


def over_time(leases: Sequence[Entry], waiting: Mapping[int, Waiting], size: int) -> list[Window]:
    """Jain's index in one window of ``size`` serves after the other, the last of them ending with the last serve.

    In each window it is (Σ x)² / (n Σ x²) over the n tags that stayed eligible in it, x = served / weight (R. Jain,
    D. Chiu, W. Hawe, DEC TR-301, 1984). It has no value in a window of fewer serves than one round of these tags. In
    windows that hold no whole number of rounds, some tags are one turn ahead: with r rounds the index of a perfect
    rotation may be as low as 1 - 1 / (2 r + 1)².
    """
    begins = list(range(len(leases) % size, len(leases), size))
    found = spells(leases, waiting)
    stayed: list[dict[int, int]] = [{} for _ in begins]
    offset = len(leases) % size
    for spell in found:
        first = max(-(-(spell.begin - offset) // size), 0)
        for place in range(first, (spell.end - offset) // size):
            stayed[place][spell.tag] = spell.weight
    return [_window(leases[begin : begin + size], tags) for begin, tags in zip(begins, stayed, strict=True)]


def _window(leases: Sequence[Entry], stayed: Mapping[int, int]) -> Window:
    value = None
    if len(leases) >= sum(stayed.values()):
        got = dict.fromkeys(stayed, 0.0)
        for (tag, weight), served in Counter((lease.tag, lease.weight) for lease in leases).items():
            if tag in got:
                got[tag] += served / weight
        value = jain(got.values())
    first, last = leases[0], leases[-1]
    return Window(first.serve, last.serve, first.at, last.at, len(leases), len(stayed), value)
