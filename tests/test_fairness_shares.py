"""Spells, shares, Jain's index and gaps, against slow and plain computations."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from served import journals, leases

from queue_core import fairness
from queue_core.fairness import Spell, Waiting, jain
from queue_core.history import Entry


def eligible(entries: list[Entry], waiting: dict[int, Waiting], tag: int) -> list[bool]:
    """At each serve of the journal: is the tag known to have been eligible?"""
    known = []
    for entry in entries:
        later = [other for other in entries if other.tag == tag and other.serve >= entry.serve]
        earlier = [other.serve for other in entries if other.tag == tag and other.serve < entry.serve]
        since = later[0].since if later else waiting[tag].since if tag in waiting else None
        # one that became eligible at its own last serve did not miss any: it was eligible throughout
        known.append(since is not None and (since < entry.serve or (bool(earlier) and since <= earlier[-1])))
    return known


@given(journals())
@settings(max_examples=200, deadline=None)
def test_spells_are_when_tags_were_eligible(journal: tuple[list[Entry], dict[int, Waiting]]) -> None:
    entries, waiting = journal
    found = fairness.spells(entries, waiting)
    assert found == sorted(found, key=lambda spell: (spell.begin, spell.end, spell.tag))
    for tag in {spell.tag for spell in found}:
        mine = [spell for spell in found if spell.tag == tag]
        assert all(before.end <= after.begin and not before.open for before, after in pairwise(mine))
        covered = [any(spell.begin <= place < spell.end for spell in mine) for place in range(len(entries))]
        assert covered == eligible(entries, waiting, tag)
        assert mine[-1].open == (tag in waiting)
        for spell in mine:
            inside = [entry for entry in entries[spell.begin : spell.end] if entry.tag == tag]
            assert spell.served == len(inside)
            for entry in inside:  # its weight was that of its next turn
                place = entries.index(entry)
                assert [weight for begin, weight in spell.weights if begin <= place][-1] == entry.weight
            assert not spell.open or spell.weight == waiting[tag].weight


def slowly(found: list[Spell], serves: int) -> dict[int, Fraction]:
    """Weighted max-min sharing of each serve, exactly, by filling up level by level."""
    weight: dict[int, int] = {}
    left: dict[int, Fraction | None] = {}  # None: all it can get
    given: dict[int, Fraction] = {}
    for place in range(serves):
        for spell in found:
            for at, new in spell.weights:
                if at == place:
                    weight[spell.tag] = new
            if spell.begin == place:
                before = left.get(spell.tag, Fraction(0))
                left[spell.tag] = None if spell.open or before is None else before + spell.served
        amount = Fraction(1)
        while amount and (active := [tag for tag in left if left[tag] != 0]):
            levels = [rest / weight[tag] for tag in active if (rest := left[tag]) is not None]
            level = min([amount / sum(weight[tag] for tag in active), *levels])
            for tag in active:
                given[tag] = given.get(tag, Fraction(0)) + level * weight[tag]
                rest = left[tag]
                left[tag] = None if rest is None else rest - level * weight[tag]
                amount -= level * weight[tag]
    return given


@given(journals())
@settings(max_examples=200, deadline=None)
def test_what_is_due_is_the_max_min_share_and_sums_to_what_was_served(
    journal: tuple[list[Entry], dict[int, Waiting]],
) -> None:
    entries, waiting = journal
    found = fairness.spells(entries, waiting)
    due = fairness.entitled(found, len(entries))
    exact = slowly(found, len(entries))
    assert due == pytest.approx({tag: float(exact.get(tag, 0)) for tag in due})
    assert sum(due.values()) == pytest.approx(len(entries))
    assert set(due) >= {entry.tag for entry in entries}


def test_a_weight_that_was_changed_holds_from_the_next_turn_on() -> None:
    entries = leases("abab") + [replace(entry, serve=entry.serve + 4, weight=3) for entry in leases("aaab")]
    entries[-1] = replace(entries[-1], weight=1)
    found = fairness.spells(entries, {ord("a"): Waiting(0, 3), ord("b"): Waiting(0, 1)})
    assert [spell.weights for spell in found] == [[(0, 1), (3, 3)], [(0, 1)]]
    assert fairness.entitled(found, 8) == pytest.approx({ord("a"): 1.5 + 5 * 0.75, ord("b"): 1.5 + 5 * 0.25})
    assert fairness.index(entries, found) == 1.0


def due(tags: str, weight: dict[str, int] | None = None, **waiting: int) -> dict[str, float]:
    """What was due to each, for serves given as letters; ``waiting`` tags are eligible since that serve still."""
    entries = leases(tags, weight=weight)
    standing = {ord(tag): Waiting(since, (weight or {}).get(tag, 1)) for tag, since in waiting.items()}
    found = fairness.spells(entries, standing)
    return {chr(tag): share for tag, share in fairness.entitled(found, len(entries)).items()}


def test_what_is_due() -> None:
    assert due("aaab", a=0, b=0) == {"a": 2.0, "b": 2.0}
    assert due("aaab", {"a": 3}, a=0, b=0) == {"a": 3.0, "b": 1.0}
    assert due("aaaa", a=0, b=2) == {"a": 3.0, "b": 1.0}  # it came late
    assert due("bcab" * 5, a=0, c=0) == pytest.approx({"a": 20 / 3, "b": 20 / 3, "c": 20 / 3})
    assert due("aaaaaaaaab" + "b" * 5, b=0) == pytest.approx({"a": 7.5, "b": 7.5})  # a ran dry, but took too much first
    assert due("abbbb", b=0) == {"a": 1.0, "b": 4.0}  # a wanted no more
    assert due("") == {}


POSITIVE = st.floats(1e-300, 1e300)


@given(st.lists(st.one_of(st.just(0.0), POSITIVE), min_size=1, max_size=8).filter(any))
def test_the_index_is_between_one_over_n_and_one(shares: list[float]) -> None:
    value = jain(shares)
    assert value is not None
    assert 1 / len(shares) * (1 - 1e-9) <= value <= 1
    assert jain(reversed(shares)) == pytest.approx(value)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=8).filter(any), st.integers(1, 1_000))
def test_the_index_is_jains_whatever_the_scale(served: list[int], scale: int) -> None:
    exact = Fraction(sum(served) ** 2, len(served) * sum(value * value for value in served))
    assert jain(served) == pytest.approx(float(exact))
    assert jain(value * scale for value in served) == pytest.approx(float(exact))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 50), st.data())
def test_the_index_is_one_only_when_all_got_as_their_weights(
    weights: list[int], times: int, data: st.DataObject
) -> None:
    assert jain(times * weight / weight for weight in weights) == 1.0
    if len(weights) > 1:
        favoured = data.draw(st.integers(0, len(weights) - 1))
        served = [times * weight + (place == favoured) for place, weight in enumerate(weights)]
        value = jain(got / weight for got, weight in zip(served, weights, strict=True))
        assert value is not None
        assert value < 1.0


def test_the_index_of_nothing_is_none_and_of_one_tag_is_one() -> None:
    assert jain([]) is None
    assert jain([0, 0.0]) is None
    assert jain([7]) == 1.0
    assert jain([1, 0, 0, 0]) == 0.25


def index(
    tags: str, begin: int = 0, end: int | None = None, weight: dict[str, int] | None = None, **waiting: int
) -> float | None:
    entries = leases(tags, weight=weight)
    standing = {ord(tag): Waiting(since, (weight or {}).get(tag, 1)) for tag, since in waiting.items()}
    return fairness.index(entries, fairness.spells(entries, standing), begin, end)


def test_the_index_is_over_tags_that_stayed_eligible() -> None:
    assert index("") is None
    assert index("ab", a=0, b=0) == 1.0
    assert index("aaab", a=0, b=0) == pytest.approx(0.8)
    assert index("aaab" * 2, weight={"a": 3}, a=0, b=0) == 1.0
    assert index("aaaca", a=0, b=0) == 0.5  # b was never served; c did not stay
    assert index("aaaaa", a=0, b=1) == 1.0  # b came later
    assert index("abbb", b=0, a=2) == 1.0  # a was not eligible all the time
    assert index("abc") == 1.0  # only of c is it known that it stayed
    late = leases("ab", since={"b": 1})
    assert fairness.index(late, fairness.spells(late, {})) is None  # a left when b came
    assert index("a", a=0, b=0) is None  # not yet a round
    assert index("aaaaab", 1, 5, b=0, a=0) == 0.5
    assert index("ababaaaa", 0, 4, a=0, b=0) == 1.0
    assert index("ababaaaa", 4, 8, a=0, b=0) == 0.5


def load(entries: list[Entry], waiting: dict[int, Waiting], place: int) -> int:
    """The weights of all tags that were eligible at a serve: each that of its next turn."""
    total = 0
    for tag in {entry.tag for entry in entries} | set(waiting):
        if eligible(entries, waiting, tag)[place]:
            later = [entry.weight for entry in entries[place:] if entry.tag == tag]
            total += later[0] if later else waiting[tag].weight
    return total


def gaps_slowly(entries: list[Entry], waiting: dict[int, Waiting], tag: int) -> tuple[list[int], float, int]:
    """(gaps, what was due in them, the most turns before a serve), by the definition."""
    known = eligible(entries, waiting, tag)
    apart, due, most = [], Fraction(0), 0
    own = [place for place, entry in enumerate(entries) if entry.tag == tag]
    for before, place in zip([-1, *own], own, strict=False):
        first = next(at for at in range(before + 1, place + 1) if all(known[at : place + 1]))
        others = [entry.tag for entry in entries[first:place]]
        most = max(most, sum(one != previous for previous, one in zip([None, *others], others, strict=False)))
        if before >= 0 and first == before + 1:
            apart.append(place - before)
            due += sum(Fraction(entries[place].weight, load(entries, waiting, at)) for at in range(first, place + 1))
    return apart, float(due), most


@given(journals())
@settings(max_examples=150, deadline=None)
def test_gaps(journal: tuple[list[Entry], dict[int, Waiting]]) -> None:
    entries, waiting = journal
    found = fairness.gaps(entries, fairness.spells(entries, waiting))
    assert set(found) == {entry.tag for entry in entries}
    for tag, mine in found.items():
        apart, due, turns = gaps_slowly(entries, waiting, tag)
        assert mine.turns == turns
        if not apart:
            assert (mine.mean, mine.ideal, mine.longest) == (None, None, None)
        else:
            assert mine.longest == max(apart)
            assert mine.mean == pytest.approx(sum(apart) / len(apart))
            assert mine.ideal == pytest.approx(sum(apart) / due)
