"""Whose turn it is, without any store."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from queue_core.rotation import Turn, advance, begin, next_tag, serves_before


class Ring:
    """Backlogs by tag number, served as the engine does."""

    def __init__(self, backlogs: dict[int, int], weights: dict[int, int], turn: Turn | None = None) -> None:
        self.backlogs = dict(backlogs)
        self.weights = weights
        self.turn = turn or Turn()
        self.asked = 0

    def ready(self, number: int) -> int | None:
        self.asked += 1
        return next((tag for tag in sorted(self.backlogs) if tag >= number and self.backlogs[tag]), None)

    def serve(self) -> int | None:
        tag = next_tag(self.turn, self.ready)
        if tag is not None:
            self.backlogs[tag] -= 1
            self.turn = advance(begin(self.turn, tag, self.weights[tag]), max(self.backlogs))
        return tag


def serve(ring: Ring, n: int) -> list[int | None]:
    return [ring.serve() for _ in range(n)]


def test_an_empty_ring_has_nobody() -> None:
    assert next_tag(Turn(), lambda number: None) is None


def test_the_ring_wraps() -> None:
    assert serve(Ring({1: 2, 2: 2, 3: 2}, {1: 1, 2: 1, 3: 1}), 7) == [1, 2, 3, 1, 2, 3, None]


def test_a_turn_uses_its_weight_and_the_cursor_moves_at_once() -> None:
    ring = Ring({1: 9, 2: 9}, {1: 2, 2: 1})
    assert [(ring.serve(), ring.turn) for _ in range(4)] == [
        (1, Turn(1, 1, 2)),
        (1, Turn(2, 0, 1)),
        (2, Turn(1, 0, 1)),
        (1, Turn(1, 1, 2)),
    ]


def test_a_new_weight_holds_from_the_next_turn() -> None:
    turn = begin(Turn(1, 2, 3), 1, weight=9)
    assert turn == Turn(1, 2, 3)
    assert begin(Turn(2), 2, weight=9) == Turn(2, 9, 9)


def test_a_turn_of_a_tag_that_is_passed_over_is_over() -> None:
    ring = Ring({1: 1, 2: 3}, {1: 5, 2: 1})
    assert serve(ring, 2) == [1, 2]
    ring.backlogs[1] = 6
    assert serve(ring, 7) == [1, 1, 1, 1, 1, 2, 1]


def test_a_cursor_past_a_tag_that_is_gone_goes_on_in_ring_order() -> None:
    ring = Ring({1: 1, 3: 1}, {1: 1, 3: 1}, Turn(2, 1, 1))
    assert serve(ring, 3) == [3, 1, None]


def test_choosing_asks_the_index_at_most_twice() -> None:
    ring = Ring(dict.fromkeys(range(1, 1000), 0) | {500: 3}, dict.fromkeys(range(1, 1_000), 1), Turn(700))
    assert serve(ring, 3) == [500] * 3
    assert ring.asked <= 6


BACKLOGS = st.dictionaries(st.integers(1, 6), st.integers(0, 12), min_size=1, max_size=6)


@given(BACKLOGS, st.data())
def test_between_two_serves_of_a_tag_no_other_is_served_more_than_its_weight(
    backlogs: dict[int, int], data: st.DataObject
) -> None:
    weights = {tag: data.draw(st.integers(1, 4)) for tag in backlogs}
    ring = Ring(backlogs, weights)
    order = []
    while (tag := ring.serve()) is not None:
        order.append(tag)
    assert sorted(order) == sorted(tag for tag, number in backlogs.items() for _ in range(number))
    for tag in backlogs:
        at = [-1, *(i for i, other in enumerate(order) if other == tag)]
        for start, end in pairwise(at):
            between = order[start + 1 : end]
            assert all(between.count(other) <= weights[other] for other in between)


@given(BACKLOGS, st.data())
def test_the_closed_form_is_what_playing_forward_gives(backlogs: dict[int, int], data: st.DataObject) -> None:
    weights = {tag: data.draw(st.integers(1, 4)) for tag in backlogs}
    tag = data.draw(st.sampled_from(sorted(backlogs)))
    ahead = data.draw(st.integers(0, 12))
    backlogs[tag] = ahead + 1
    cursor = data.draw(st.sampled_from(sorted(backlogs)))
    turn = Turn(cursor, data.draw(st.integers(0, weights[cursor])), weights[cursor])
    others = [(other, weights[other], number) for other, number in backlogs.items() if other != tag and number]
    turns, serves = serves_before(turn, tag, ahead, weights[tag], others)
    ring = Ring(backlogs, weights, turn)
    order = serve(ring, sum(backlogs.values()))
    position = [i for i, served in enumerate(order) if served == tag][ahead]
    assert serves == position
    assert turns >= 1
