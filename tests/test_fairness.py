"""The guarantee, checked on what was served."""

import pytest

from queue_core.fairness import Violation, violations
from queue_core.history import Entry, Kind


def leases(tags: str, *, since: dict[str, int] | None = None, weight: dict[str, int] | None = None) -> list[Entry]:
    """One entry for each letter; ``since`` is the serve since which its tag was eligible."""
    return [
        Entry(Kind.LEASE, i, ord(tag), serve=i, since=(since or {}).get(tag, 0), weight=(weight or {}).get(tag, 1))
        for i, tag in enumerate(tags, 1)
    ]


@pytest.mark.parametrize("tags", ["", "a", "aaaa", "abab", "abcabc", "aabb"[:2], "abcbc"])
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


def test_many_serves_are_checked_in_little_time() -> None:
    assert list(violations(leases("abcdefgh" * 5_000))) == []
