"""What is offered while a filter is typed."""

import pytest
from filters import WORDS, expressions
from hypothesis import given
from hypothesis import strategies as st

from queue_core.errors import InvalidFilter
from queue_core.query import FIELDS, Expression, parse, suggest
from queue_core.task import State

TAGS = ["acme", "acme 2", "my-acme", "zeta", '"', "OR", "*"]


def offered(text: str, position: int | None = None) -> list[str]:
    """The texts that would result, the cursor's place included."""
    return [text[: s.start] + s.text + text[s.end :] for s in suggest(text, position, tags=TAGS)]


@pytest.mark.parametrize(
    ("text", "results"),
    [
        ("st", ["state:"]),
        ("state:dead -ow", ["state:dead -owner:"]),
        ("(ta", ["(tag:"]),
        ("age", ["age>=", "age<=", "age>", "age<", "age="]),
        ("max", ["max_attempts:"]),
        ("payload", ["payload:", "payload=", "payload>=", "payload<=", "payload>", "payload<", "payload."]),
        ("state:d", ["state:dead"]),
        ("x state:", [f"x state:{state}" for state in State]),
        ("tag:ac", ["tag:acme", 'tag:"acme 2"', "tag:my-acme"]),
        ('tag:"acme ', ['tag:"acme 2"']),
        ("tag:*", ['tag:"*"']),
        ("age>", ["age>2h"]),
        ("size<=", ["size<=64KiB"]),
        ("age>2", []),
        ("payload.user:", []),
        ("tga:", []),
        ("nosuch", []),
        ('"state:', []),
    ],
)
def test_what_can_follow_is_offered(text: str, results: list[str]) -> None:
    assert offered(text) == results


def test_a_new_term_may_be_any_field() -> None:
    for text in ("", "state:dead ", "(", "-"):
        offers = suggest(text)
        assert [offer.text.rstrip(":=<>") for offer in offers] == list(FIELDS)
        assert all(offer.help for offer in offers)
        assert {offer.start for offer in offers} == {len(text)}


def test_what_stands_behind_the_cursor_stays() -> None:
    assert offered("st tag:x", 2) == ["state: tag:x"]
    assert offered("state:de tag:x", 8) == ["state:dead tag:x"]
    assert offered("tag:x", -5) == offered("tag:x", 0)
    assert offered("tag:ac", 99) == offered("tag:ac")


def test_many_tags_are_cut_the_best_first() -> None:
    tags = [f"x-{i:03}" for i in range(100)] + [f"{i:03}-x" for i in range(100)]
    assert [offer.text for offer in suggest("tag:x", tags=tags)] == [f"x-{i:03}" for i in range(20)]


@given(expressions, st.integers(0, 60))
def test_an_offer_for_a_prefix_of_a_filter_replaces_its_end(expression: Expression, position: int) -> None:
    text = str(expression)[:position]
    for offer in suggest(text, tags=TAGS):
        assert 0 <= offer.start <= offer.end == len(text)


@given(st.text(max_size=30) | WORDS, st.integers(-3, 40))
def test_no_text_is_too_odd_to_complete(text: str, position: int) -> None:
    for offer in suggest(text, position, tags=TAGS):
        assert 0 <= offer.start <= offer.end <= len(text)


def test_every_offered_tag_and_state_parses() -> None:
    for text in ("tag:", "state:", "age>", "size>", "attempts>="):
        for result in offered(text):
            assert str(parse(result)) == result
    with pytest.raises(InvalidFilter):
        parse("tag:")
