"""What was served, judged: the guarantee, shares, gaps and worker time, against slow and plain computations."""

import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_core import LeaseLost, Queue, fairness, open_queue
from queue_core.fairness import Gaps, Guarantee, Spell, Violation, Waiting, jain, noisy, violations
from queue_core.history import Entry, Kind
from queue_core.task import SECOND, microseconds


def leases(tags: str, *, since: dict[str, int] | None = None, weight: dict[str, int] | None = None) -> list[Entry]:
    """One entry for each letter; ``since`` is the serve since which its tag was eligible."""
    return [
        Entry(Kind.LEASE, i, ord(tag), serve=i, since=(since or {}).get(tag, 0), weight=(weight or {}).get(tag, 1))
        for i, tag in enumerate(tags, 1)
    ]


@st.composite
def journals(draw: st.DrawFn) -> tuple[list[Entry], dict[int, Waiting]]:
    """Leases as no rotation would give them, from any serve on, and what waits after them."""
    first = draw(st.integers(1, 50))
    last = first - 1 + draw(st.integers(0, 30))
    steady = draw(st.booleans())
    weights = {tag: draw(st.integers(1, 3)) for tag in range(1, 5)}
    entries = []
    for serve in range(first, last + 1):
        tag = draw(st.integers(1, 4))
        weight = weights[tag] if steady else draw(st.integers(1, 3))
        since = draw(st.one_of(st.just(0), st.integers(max(serve - 8, 0), serve - 1)))
        entries.append(Entry(Kind.LEASE, serve, tag, serve=serve, since=since, weight=weight))
    waiting = draw(
        st.dictionaries(st.integers(1, 5), st.builds(Waiting, st.integers(0, last), st.integers(1, 3)), max_size=3)
    )
    if steady:
        waiting = {tag: Waiting(since, weights.get(tag, 1)) for tag, (since, _) in waiting.items()}
    return entries, waiting


# --- the guarantee --------------------------------------------------------------------------------


@pytest.mark.parametrize("tags", ["", "a", "aaaa", "abab", "abcabc", "abcbc"])
def test_rotations_are_fair(tags: str) -> None:
    assert list(violations(leases(tags, since={"a": 0, "b": 1, "c": 2}))) == []


def test_two_serves_of_one_tag_between_two_of_another_are_a_breach() -> None:
    (found,) = violations(leases("abba"))
    assert found == Violation(ord("a"), 1, 4, ord("b"), 2, 1)
    assert found.text == (
        "tag number 97, eligible throughout, waited from serve 1 to serve 4 while tag number 98 of weight 1 was "
        "served 2 times"
    )


def test_a_first_serve_that_comes_too_late_is_a_breach() -> None:
    assert [found.tag for found in violations(leases("aab"))] == [ord("b")]


def test_a_tag_that_waits_still_is_judged_too() -> None:
    entries = leases("abb")
    assert list(violations(entries)) == []
    assert list(violations(entries, {ord("a"): 2, ord("c"): 2})) == []
    (found,) = violations(entries, {ord("a"): 0})
    assert found == Violation(ord("a"), 1, None, ord("b"), 2, 1)
    assert "has waited since serve 1 while" in found.text
    assert Guarantee().waiting(1, 0) is None


def test_a_tag_that_was_not_eligible_in_between_has_no_claim() -> None:
    entries = leases("abba")
    entries[-1] = leases("abba", since={"a": 3})[-1]
    assert list(violations(entries)) == []


def test_a_weight_allows_as_many() -> None:
    assert list(violations(leases("abba", weight={"b": 2}))) == []
    assert len(list(violations(leases("abbba", weight={"b": 2})))) == 1


def test_the_largest_weight_of_the_gap_counts() -> None:
    entries = leases("abba")
    entries[1] = leases("abba", weight={"b": 2})[1]
    assert list(violations(entries)) == []


def test_what_happened_before_the_journal_begins_is_not_judged() -> None:
    entries = [entry for entry in leases("bbbba") if entry.serve >= 4]
    assert list(violations(entries)) == []


def test_a_hole_in_the_serves_is_a_new_beginning() -> None:
    entries = leases("abbabba")
    del entries[1]
    guarantee = Guarantee()
    found = [guarantee.feed(entry) for entry in entries]
    assert [violation and violation.until for violation in found] == [None, None, None, None, None, 7]
    assert (guarantee.first, guarantee.last) == (3, 7)


def breaches(entries: list[Entry], waiting: dict[int, Waiting]) -> dict[tuple[int, int | None], set[Violation]]:
    """Every breach there is, by tag and end of its gap: the definition, word by word."""
    gaps: list[tuple[int, int, int | None]] = []
    for entry in entries:
        own = [other.serve for other in entries if other.tag == entry.tag and other.serve < entry.serve]
        gaps.append((entry.tag, max([entry.since, *own]), entry.serve))
    for tag, (since, _) in waiting.items():
        gaps.append((tag, max([since, *(entry.serve for entry in entries if entry.tag == tag)]), None))
    found: dict[tuple[int, int | None], set[Violation]] = {}
    for tag, begin, end in gaps:
        if not entries or begin < entries[0].serve - 1:
            continue
        inside = [entry for entry in entries if entry.serve > begin and (end is None or entry.serve < end)]
        for other in {entry.tag for entry in inside}:
            weights = [entry.weight for entry in inside if entry.tag == other]
            if len(weights) > max(weights):
                breach = Violation(tag, begin, end, other, len(weights), max(weights))
                found.setdefault((tag, end), set()).add(breach)
    return found


@given(journals())
@settings(max_examples=300, deadline=None)
def test_every_gap_that_is_broken_is_found_and_no_other(journal: tuple[list[Entry], dict[int, Waiting]]) -> None:
    entries, waiting = journal
    expected = breaches(entries, waiting)
    found = list(violations(entries, {tag: since for tag, (since, _) in waiting.items()}))
    assert [(violation.tag, violation.until) for violation in found] == list(expected)
    assert all(violation in expected[violation.tag, violation.until] for violation in found)


def test_many_serves_are_checked_in_little_time() -> None:
    assert list(violations(leases("abcdefgh" * 5_000))) == []
    assert len(list(violations(leases("a" + "b" * 20_000 + "acdefgh" * 2_000)))) > 1


# --- spells, shares, gaps -------------------------------------------------------------------------


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
    assert found == sorted(found)
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


# --- worker time ----------------------------------------------------------------------------------


def entry(kind: Kind, at: int, id: bytes, tag: int = 1, owner: str = "w") -> Entry:
    return Entry(kind, at, tag, id, owner)


def test_worker_time_of_leases_from_their_begin_to_their_end() -> None:
    journal = [
        entry(Kind.LEASE, 10, b"a"), entry(Kind.LEASE, 12, b"b", 2), entry(Kind.EXTEND, 13, b"a"),
        entry(Kind.ACK, 15, b"a"), entry(Kind.LEASE, 16, b"c"), entry(Kind.NACK, 14, b"c"),
    ]  # fmt: skip
    assert fairness.worker_time(journal, 10, 20) == {1: 5, 2: 8}  # the clock was set back in c; b is open
    assert fairness.worker_time(journal, 11, 13) == {1: 2, 2: 1}
    assert fairness.worker_time(journal, 20, 10) == {1: 0, 2: 0}
    assert fairness.worker_time([], 0, 10) == {}
    assert fairness.worker_time([], 0, 10, {3: 2}) == {3: 20}  # leases older than the journal


@pytest.mark.parametrize("kind", ["ack", "nack", "expire", "release", "defer", "requeue", "dead_letter", "repush"])
def test_every_ending_ends_it(kind: str) -> None:
    journal = [entry(Kind.LEASE, 10, b"a"), entry(Kind(kind), 15, b"a", owner=""), entry(Kind.PROMOTE, 17, b"a")]
    assert fairness.worker_time(journal, 0, 20) == {1: 5}


def test_an_end_without_its_lease_counts_from_the_begin_when_there_was_one() -> None:
    for kind in (Kind.ACK, Kind.REQUEUE, Kind.DEAD_LETTER):
        assert fairness.worker_time([entry(kind, 15, b"a")], 10, 20) == {1: 5}
    for kind in (Kind.REQUEUE, Kind.DEAD_LETTER, Kind.REPUSH):  # of a task that was not leased
        assert fairness.worker_time([entry(kind, 15, b"a", owner="")], 10, 20) == {}


ENDINGS: dict[str, Callable[[Queue, str], object]] = {
    "ack": lambda queue, token: queue.ack(token),
    "nack": lambda queue, token: queue.nack(token, "no", retry_in=1),
    "release": lambda queue, token: queue.release(token),
    "defer": lambda queue, token: queue.defer(token, 2),
    "bury": lambda queue, token: queue.dead_letter(token, "no"),
}
STEPS = st.lists(
    st.tuples(st.sampled_from(["push", "lease", "repush", "requeue", *ENDINGS]), st.sampled_from("abc"),
              st.integers(0, 3)),
    max_size=40,
)  # fmt: skip


def step(queue: Queue, held: list[str], verb: str, tag: str, number: int) -> None:
    """Leases begin, and end in every way: by their holder, by an operator, by running out of time."""
    if verb == "push":
        queue.push_many([(number, tag)] * (number + 1))
    elif verb == "lease":
        held += [lease.token for lease in queue.lease_many(number + 1, ttl=5)]
    elif verb in ("repush", "requeue"):
        for task in queue.tasks("inflight", limit=1):
            queue.requeue(task.id) if verb == "requeue" else queue.push(number, tag=task.tag, id=task.id)
    elif held:
        with suppress(LeaseLost):
            ENDINGS[verb](queue, held.pop(0))


@given(STEPS, STEPS)
@settings(max_examples=150, deadline=None)
def test_worker_time_is_what_was_in_flight_summed_over_time(
    before: list[tuple[str, str, int]], after: list[tuple[str, str, int]]
) -> None:
    now = [1_750_000_000 * SECOND]
    with open_queue("memory://", clock=lambda: now[0]) as queue:
        held: list[str] = []
        for verb, tag, number in before:
            now[0] += number * SECOND
            step(queue, held, verb, tag, number)
        begin, seen, summed = now[0], len(queue.journal(limit=10_000)), Counter[int]()
        for verb, tag, number in after:
            if verb == "repush" and before:
                continue  # the journal does not say whether it ended a lease, so that has to be in the journal
            for stats in queue.snapshot().tags:
                summed[stats.number] += stats.inflight * number * SECOND
            now[0] += number * SECOND
            step(queue, held, verb, tag, number)
        journal = [event.entry for event in queue.journal(after=seen, limit=10_000)]  # it begins in the middle
        inflight = {stats.number: stats.inflight for stats in queue.snapshot().tags}
        assert +Counter(fairness.worker_time(journal, begin, now[0], inflight)) == +summed
        assert queue.check() == []


def test_noisy_tags() -> None:
    assert noisy({}, {}) == {}
    assert noisy({1: 1_000}, {1: 10}) == {}  # it disturbs nobody
    assert noisy({1: 29, 2: 1}, {}) == {}
    assert noisy({1: 30, 2: 1}, {}) == {1: ("in flight",)}
    assert noisy({1: 30, 2: 270}, {}) == {2: ("in flight",)}  # a tenth is not more than a tenth
    assert noisy({1: 31, 2: 269}, {1: 1, 2: 9}) == {1: ("in flight",), 2: ("in flight", "worker time")}
    assert noisy({}, dict.fromkeys(range(10), 5)) == {}
    assert noisy({}, {1: 6, **dict.fromkeys(range(2, 11), 5)}) == {1: ("worker time",)}
    assert noisy({1: 0, 2: 0}, {1: 0, 2: 0}) == {}


# --- all of it ------------------------------------------------------------------------------------


def assess(queue: Queue, last: int = 10_000) -> fairness.Fairness:
    with queue.view() as view:
        snapshot = view.snapshot()
        journal = [event.entry for event in view.journal(limit=100_000)]
    standings = [fairness.standing(tag) for tag in snapshot.tags]
    return fairness.assess(fairness.latest(journal, last), standings, microseconds(snapshot.at, "at"))


def test_of_a_queue_that_served_nothing(queue: Queue) -> None:
    for pushed in (0, 1):
        queue.push_many([(n, "a") for n in range(pushed)])
        found = assess(queue)
        assert found == fairness.Fairness(0, None, None, None, None, (), ())
    assert fairness.latest([], 5) == ()


def test_of_a_rotation_by_weight(queue: Queue, clock: Any) -> None:
    queue.configure("heavy", weight=3)
    queue.push_many([(n, tag) for n in range(100) for tag in ("light", "heavy", "other")])
    for _ in range(60):
        held = queue.lease_many(1, ttl=1_000)
        clock.advance(2 if held[0].tag == "light" else 1)
        queue.ack_many(held)
    found = assess(queue)
    assert (found.serves, found.first, found.last, found.span, found.index) == (60, 1, 60, 72.0, 1.0)
    heavy, light, _ = found.tags
    assert (heavy.weight, heavy.served, heavy.entitled, heavy.served_share) == (3, 36, pytest.approx(36.0), 0.6)
    assert (light.worker_time, light.worker_share, light.stayed) == (24.0, 24 / 72, True)
    assert heavy.gaps == Gaps(pytest.approx(57 / 35), pytest.approx(5 / 3), 3, 2)
    assert light.gaps == Gaps(5.0, pytest.approx(5.0), 5, 2)
    assert found.violations == ()
    assert json.loads(json.dumps(asdict(found), allow_nan=False))["tags"][0]["entitled"] == pytest.approx(36.0)
    latest = assess(queue, 10)
    assert (latest.serves, latest.first, latest.span) == (10, 51, 12.0)
    assert [tag.served for tag in latest.tags] == [6, 2, 2]


def test_a_tag_that_has_waited_and_one_that_only_holds_are_told(queue: Queue, clock: Any) -> None:
    queue.push_many([(0, "holding")])
    lease = queue.lease(ttl=1_000)
    queue.push_many([(n, "a") for n in range(9)])
    queue.ack_many(queue.lease_many(8))
    queue.push("late", tag="b")
    clock.advance(3)
    found = assess(queue, 4)
    assert [(tag.tag, tag.served, tag.entitled) for tag in found.tags] == [
        (2, 4, 4.0),
        (1, 0, 0.0),
    ]  # b was due none yet
    assert [tag.worker_time for tag in found.tags] == [0.0, 3.0]
    assert found.index == 1.0  # one tag stayed eligible
    assert lease is not None
    queue.ack(lease)
    assert [tag.worker_share for tag in assess(queue, 4).tags] == [0.0, 1.0]


@pytest.mark.parametrize("seed", range(3))
def test_the_rotation_stays_within_a_turn_of_what_is_due(queue: Queue, clock: Any, seed: int) -> None:
    draw = random.Random(seed)
    tags = [f"tag-{number}" for number in range(12)]
    for number, tag in enumerate(tags):
        queue.configure(tag, weight=draw.choice([1, 2, 3, 7]))
        queue.push_many([(0, tag)] * (1_500 if number < 4 else 1))
    for _ in range(700):
        clock.advance(1)
        if draw.random() < 0.5:  # eight tags run empty and come back
            queue.push_many([(0, draw.choice(tags))] * draw.choice([1, 1, 5, 20]))
        queue.ack_many(queue.lease_many(draw.choice([1, 2, 5])))
    for last in (200, 500, 5_000):
        found = assess(queue, last)
        assert max(abs(tag.served - tag.entitled) - tag.weight for tag in found.tags) <= 1
        assert found.index is not None
        assert found.index > 0.99


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_of_any_history(steps: list[tuple[str, str, int]]) -> None:
    now = [1_750_000_000 * SECOND]
    with open_queue("memory://", clock=lambda: now[0]) as queue:
        held: list[str] = []
        for number, tag in enumerate("abc", 1):
            queue.configure(tag, weight=number)
        for verb, tag, number in steps:
            now[0] += number * SECOND
            step(queue, held, verb, tag, number)
        found = assess(queue)
        assert found.serves == queue.snapshot().ring.serves
        assert found.violations == ()
        for tags in [found.tags] if found.serves else []:
            assert sum(tag.served_share for tag in tags) == pytest.approx(1.0)
            assert sum(tag.entitled_share for tag in tags) == pytest.approx(1.0)
            shares = [tag.worker_share for tag in tags if tag.worker_share is not None]
            assert not shares or sum(shares) == pytest.approx(1.0)
            others = len(tags) - 1
            assert all(tag.gaps is None or tag.gaps.turns <= others for tag in tags)
        json.dumps(asdict(found), allow_nan=False)
        assert queue.check() == []


def test_a_time_without_a_journal_is_nobodys_worker_time() -> None:
    journal = [
        entry(Kind.LEASE, 10, b"a"), entry(Kind.LEASE, 12, b"b", 2), entry(Kind.ACK, 15, b"b", 2),
        Entry(Kind.CONFIGURE, 900, 0, detail="history=True"),  # a ended meanwhile, and b was leased again
        entry(Kind.ACK, 903, b"b", 2),
    ]  # fmt: skip
    assert fairness.worker_time(journal, 0, 1_000) == {1: 5, 2: 6}
    assert fairness.worker_time(journal, 0, 1_000, {3: 1})[3] == 100
