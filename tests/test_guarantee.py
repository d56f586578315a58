"""The rotation's guarantee, judged on serves that were made up: every breach is found, and no other."""

import pytest
from hypothesis import given, settings
from served import journals, leases

from queue_core.fairness import Guarantee, Violation, Waiting, violations
from queue_core.history import Entry


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
    for tag, one in waiting.items():
        gaps.append((tag, max([one.since, *(entry.serve for entry in entries if entry.tag == tag)]), None))
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
    found = list(violations(entries, {tag: one.since for tag, one in waiting.items()}))
    assert [(violation.tag, violation.until) for violation in found] == list(expected)
    assert all(violation in expected[violation.tag, violation.until] for violation in found)


def test_many_serves_are_checked_in_little_time() -> None:
    assert list(violations(leases("abcdefgh" * 5_000))) == []
    assert len(list(violations(leases("a" + "b" * 20_000 + "acdefgh" * 2_000)))) > 1
