"""Buckets: packing is exact, what is composed and merged adds up, and the rows that matter are kept."""

from hypothesis import given
from hypothesis import strategies as st

from queue_core.ledger import Counts, Totals
from queue_core.series import (
    COUNTERS,
    FIELDS,
    FINE,
    GAUGES,
    KEPT,
    LONGEST,
    MINUTE,
    UNKNOWN,
    Bucket,
    compose,
    merge,
    pack,
    row_of,
    unpack,
    without_forgotten,
)

NUMBERS = st.integers(0, 3) | st.integers(0, 1 << 40)


@st.composite
def rows(draw: st.DrawFn, most: int = 3) -> dict[int, list[int]]:
    tags = draw(st.lists(st.integers(1, 400), unique=True, max_size=most))
    return {tag: draw(st.lists(NUMBERS, min_size=len(FIELDS), max_size=len(FIELDS))) for tag in tags}


def whole_of(rows: dict[int, list[int]], more: int = 0) -> list[int]:
    """What the rows sum to, and ``more`` that no row tells of."""
    return [sum(column) + more for column in zip(*rows.values(), strict=True)] if rows else [more] * len(FIELDS)


def bucket(rows: dict[int, list[int]], start: int = 0, more: int = 0) -> Bucket:
    return compose(start, FINE, start, rows, whole_of(rows, more))


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1))
def test_numbers_survive_packing_in_no_more_room_than_they_need(numbers: list[int]) -> None:
    assert list(unpack(pack(numbers))) == numbers
    widest = max(max(number, -number - 1).bit_length() for number in numbers)
    assert len(pack(numbers)) == 1 + len(numbers) * next(n for n in (1, 2, 4, 8) if widest < 8 * n)


@given(rows(), st.integers(0, 9))
def test_a_bucket_adds_up_to_the_whole(rows: dict[int, list[int]], more: int) -> None:
    made = bucket(rows, more=more)
    assert made.rows() == rows
    for field in (*COUNTERS, *Counts.__struct_fields__):
        assert made.whole(field) == whole_of(rows, more)[FIELDS.index(field)]
    for field in ("oldest", LONGEST):
        assert made.whole(field) == max((row[FIELDS.index(field)] for row in rows.values()), default=0)
    assert made.totals() == Totals(*whole_of(rows, more)[: len(COUNTERS)])


@given(rows(), rows(), st.integers(0, 9))
def test_merging_adds_counters_and_takes_the_later_gauges(
    before: dict[int, list[int]], after: dict[int, list[int]], more: int
) -> None:
    one, two = bucket(before, more=more), bucket(after, FINE)
    both = merge(one, two, MINUTE)
    assert (both.start, both.width) == (0, MINUTE)
    for field in COUNTERS:
        assert both.whole(field) == one.whole(field) + two.whole(field)
    for field in GAUGES:
        assert both.whole(field) == two.whole(field)
    assert both.whole(LONGEST) == max(one.whole(LONGEST), two.whole(LONGEST))
    for tag in before.keys() - after.keys():
        assert {both.rows()[tag][FIELDS.index(field)] for field in GAUGES} == {UNKNOWN}


def test_half_the_room_is_for_the_busiest_and_half_for_those_that_waited_longest() -> None:
    busy, slow = FIELDS.index("leased"), FIELDS.index("oldest")
    many = {tag: [0] * len(FIELDS) for tag in range(1, 1_001)}
    for tag in range(1, 201):
        many[tag][busy] = tag
    for tag in range(801, 1_001):
        many[tag][slow] = tag
    made = bucket(many)
    assert made.tags == [*range(151, 201), *range(951, 1_001)]
    assert made.whole("leased") == sum(range(201))
    assert made.column("oldest")[-1] == 950
    assert len(made.tags) == KEPT


def test_the_rest_of_a_merge_remembers_the_longest_waits_that_it_has_seen() -> None:
    slow = FIELDS.index(LONGEST)
    many = {tag: row_of(Totals(leased=1000 - tag), Counts(), 0, tag) for tag in range(1, 301)}
    one, two = (
        bucket(many),
        bucket({tag: row_of(Totals(leased=10_000), Counts(), 0, 0) for tag in range(501, 601)}, FINE),
    )
    both = merge(one, two, MINUTE)
    assert both.whole(LONGEST) == 300
    assert both.whole("leased") == one.whole("leased") + two.whole("leased")
    assert all(row[slow] <= 300 for row in both.rows().values())


@given(rows(), st.integers(0, 9))
def test_a_forgotten_tag_counts_with_the_others(rows: dict[int, list[int]], more: int) -> None:
    made = bucket(rows, more=more)
    gone = set(list(rows)[:1])
    left = without_forgotten(made, gone)
    assert set(left.tags) == rows.keys() - gone
    for field in (*COUNTERS, *GAUGES, LONGEST):
        assert left.whole(field) == made.whole(field)
