"""Keys: byte order is number order, no key is another's prefix by accident, and each can be read back."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_core import keys
from queue_core.task import Hold, Record, State

NUMBERS = [1, 2, 10, 255, 256, 257, 2**32 - 1, 2**32, 2**64 - 1]
U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)


def record(state: State, *, tag: int = 1, place: int = 1, order: int = 1) -> Record:
    hold = Hold(1, 1, "", 0, 0, order, 1) if state is State.INFLIGHT else None
    return Record(bytes(16), tag, place, state, 1, b"null", 0, 0, order, hold=hold, entry=order)


def test_numbers_sort_as_numbers() -> None:
    journal = [keys.journal(number) for number in NUMBERS]
    tasks = [keys.task(1, State.PENDING, number) for number in NUMBERS]
    for made in (journal, tasks, [keys.timer(number, 1) for number in NUMBERS]):
        assert made == sorted(made)
        assert len({len(each) for each in made}) == 1


@given(st.sampled_from(State), st.tuples(U32, U64, U64), st.tuples(U32, U64, U64))
def test_tasks_of_a_state_sort_by_tag_then_order(
    state: State, one: tuple[int, int, int], two: tuple[int, int, int]
) -> None:
    records = [record(state, tag=tag, order=order, place=place) for tag, order, place in (one, two)]
    numbers = [(r.tag, r.place if state in (State.PENDING, State.INFLIGHT) else r.order, r.place) for r in records]
    if numbers[0][:2] != numbers[1][:2] or state is State.SCHEDULED:
        assert (keys.task_of(records[0]) < keys.task_of(records[1])) == (numbers[0] < numbers[1])
    for each in records:
        assert keys.task_of(each).startswith(keys.tasks(each.tag, state))


@given(st.sampled_from(State), U32, U64, U64)
def test_an_index_entry_leads_to_its_task(state: State, tag: int, order: int, place: int) -> None:
    made = record(state, tag=tag, order=order, place=place)
    index = keys.index_of(made)
    if state is State.PENDING:
        assert index is None
    else:
        assert index is not None
        assert index.startswith(keys.INDEX[state])
        assert keys.indexed_task(state, index, tag) == keys.task_of(made)
        if state in (State.INFLIGHT, State.SCHEDULED):
            assert keys.index_parts(index) == (order, place)
            if order < 2**64 - 1:
                assert index < keys.index_end(state, order) < keys.index_of(replace_order(made, order + 1))  # type: ignore[operator]


def replace_order(old: Record, order: int) -> Record:
    return record(old.state, tag=old.tag, place=old.place, order=order)


@given(st.sampled_from(State), U32, U64, U64)
def test_an_id_says_where_its_task_is(state: State, tag: int, order: int, place: int) -> None:
    made = record(state, tag=tag, order=order, place=place)
    stays = state in (State.PENDING, State.INFLIGHT)
    shown = (tag, place, State.PENDING, 0) if stays else (tag, place, state, made.order)
    assert keys.located(keys.location(made)) == shown
    leased = replace(made, state=State.INFLIGHT)
    assert (keys.location(made) == keys.location(leased)) == stays, "leasing leaves the id alone"


@given(st.text(max_size=300), st.text(max_size=300))
def test_names_and_dedupe_keys_of_any_length_have_short_keys_of_their_own(one: str, two: str) -> None:
    assert (keys.name(one) == keys.name(two)) == (one == two)
    assert (keys.dedupe(1, one) == keys.dedupe(1, two)) == (one == two)
    assert keys.dedupe(1, one) != keys.dedupe(2, one)
    assert keys.dedupe_tag(keys.dedupe(7, one)) == 7
    assert len(keys.name("x" * 65_535)) == len(keys.name("")) < 511


def test_numbers_are_read_back() -> None:
    for number in (1, 256, 2**32 - 1):
        assert keys.unpack_tag(keys.pack_tag(number)) == number
        assert keys.tag_number(keys.tag(number)) == keys.tag_number(keys.eligible(number)) == number
        assert keys.timer_parts(keys.timer(2**63, number)) == (2**63, number)
        assert keys.number(keys.journal(number)) == number


def test_no_space_is_the_beginning_of_another() -> None:
    spaces = [value for name, value in vars(keys).items() if name.isupper() and isinstance(value, bytes)]
    assert len(spaces) == len(set(spaces)) == 25
    assert {len(space) for space in spaces} == {1}
