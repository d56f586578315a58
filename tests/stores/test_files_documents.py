"""Names and documents of the files store: what is written comes back exactly, and sorts as it should."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_core.codec import dump_payload
from queue_core.errors import StoreCorrupt
from queue_core.ledger import Counts, Meta, Past, Tag, Totals, WorkerRecord, samples
from queue_core.rotation import Turn
from queue_core.stores.files import documents, names, redo
from queue_core.task import LAST_MOMENT, LIVE, Attempt, Hold, Outcome, Record, State

TIMES = st.integers(0, LAST_MOMENT) | st.sampled_from([0, 1, LAST_MOMENT, LAST_MOMENT + 1])
NUMBERS = st.integers(0, 10**12 - 1)
U64 = st.integers(0, 2**64 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
HOLDS = st.builds(Hold, NUMBERS, U64, TEXTS, TIMES, TIMES, TIMES, NUMBERS)
ATTEMPTS = st.builds(
    Attempt, NUMBERS, NUMBERS, TEXTS, TIMES, TIMES, st.sampled_from(Outcome), st.none() | TEXTS
)  # fmt: skip


@st.composite
def records(draw: st.DrawFn) -> Record:
    state = draw(st.sampled_from(State))
    hold = draw(HOLDS) if state is State.INFLIGHT else None if state in LIVE else draw(st.none() | HOLDS)
    payload = draw(VALUES.map(dump_payload) | st.binary(max_size=20))
    return Record(
        draw(st.binary(min_size=16, max_size=16)), draw(st.integers(1, 10**9 - 1)), draw(NUMBERS), state, draw(NUMBERS),
        payload, draw(TIMES), draw(TIMES), draw(TIMES), draw(NUMBERS), draw(st.none() | TEXTS), draw(NUMBERS),
        draw(NUMBERS), draw(NUMBERS), draw(NUMBERS), hold, tuple(draw(st.lists(ATTEMPTS, max_size=3))),
        draw(st.none() | TEXTS), draw(st.none() | TEXTS), draw(NUMBERS), draw(TIMES), draw(NUMBERS),
        draw(st.none() | st.sampled_from(State)),
    )  # fmt: skip


@given(records(), TEXTS)
def test_a_task_comes_back_exactly(record: Record, tag: str) -> None:
    data = documents.dump_task(record, tag)
    assert documents.load_task(data) == record
    assert json.loads(data)["id"] in names.id(record.id)


@given(records(), st.integers(0, 10_000))
def test_no_part_of_a_document_is_taken_for_the_whole(record: Record, at: int) -> None:
    data = documents.dump_task(record, "a").rstrip()
    with pytest.raises(StoreCorrupt):
        documents.load_task(data[: at % len(data)])


@pytest.mark.parametrize(
    "payload",
    [b"null", b"1.0", b"1e5", b"9" * 4_300, b'"\\ud800"', b'{"a":1,"a":2}', b" 1", b"1 ", b"NaN", b"", b"1,2", b"\xff",
     b'"\xc3\xa9"', b'{"payload":1}', b'"}"', b"[" * 100_000],
)  # fmt: skip
def test_a_payload_comes_back_byte_for_byte(payload: bytes) -> None:
    record = Record(bytes(16), 1, 1, State.PENDING, 1, payload, 1, 1, 0)
    assert documents.load_task(documents.dump_task(record, "a")) == record


def test_a_document_may_be_laid_out_otherwise() -> None:
    record = Record(bytes(16), 1, 1, State.PENDING, 1, b'{"a": [1, 2.50]}', 1, 1, 0)
    text = documents.dump_task(record, "a").decode().replace("\n", "\r\n\t").replace('": ', '"  :\n')
    assert documents.load_task(text.encode()).payload.replace(b"\n", b"").replace(b"  :", b": ") == record.payload


CHANGES: list[tuple[str, Any]] = [
    ("id", "no"), ("id", 3), ("state", "asleep"), ("place", -1), ("place", "1"), ("version", 1.5), ("attempts", True),
    ("history", None), ("history", [{}]), ("lease", {"fence": 1}), ("created", "yesterday"), ("error", 3),
    ("created", "2025-06-15T15:06:40"), ("origin", "nowhere"), ("payload_bytes", "!"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), CHANGES)
def test_a_field_that_cannot_be_meant_is_corrupt(name: str, value: Any) -> None:
    record = Record(bytes(16), 1, 1, State.PENDING, 1, b"null", 1, 1, 0)
    document = json.loads(documents.dump_task(record, "a")) | {name: value}
    with pytest.raises(StoreCorrupt):
        documents.load_task(json.dumps(document).encode())


def test_the_other_records_come_back_exactly() -> None:
    totals = Totals(*range(1, 1 + len(Totals.__struct_fields__)))
    meta = Meta(Counts(1, 2, 3), totals, created=5, turn=Turn(3, 2, 4), moment=LAST_MOMENT, history=False)
    tag = Tag(7, "a\n🙂", 9, Counts(4), timer=LAST_MOMENT, max_inflight=3, eligible=True)
    tag.totals.acked = 3
    tag.measured.waits = {3: 1, -1: 7}  # type: ignore[assignment]
    worker = WorkerRecord("w\0", "host", 3, 1, 2)
    for kind, record in ((Meta, meta), (WorkerRecord, worker), (Past, Past(totals, Totals(), totals, swept=3))):
        found, document = documents.load(kind, documents.dump(record, commit=9), "here")
        assert (found, document["commit"]) == (record, 9)
    found, _ = documents.load(Tag, documents.dump(tag), "here")
    assert samples(found.measured.waits) == {3: 1, -1: 7}
    assert (found.totals, found.counts, found.name, found.timer) == (tag.totals, tag.counts, tag.name, tag.timer)


def test_fields_that_are_missing_have_their_defaults_and_others_are_passed_over() -> None:
    found, _ = documents.load(Tag, b'{"number": 1, "name": "a", "first_seen": null, "counts": {}, "new": 3}', "here")
    assert found == Tag(1, "a", 0, Counts())
    with pytest.raises(StoreCorrupt, match="here cannot be read"):
        documents.load(Tag, b'{"number": 1}', "here")


# --- names ------------------------------------------------------------------------------------------


def order_of(record: Record) -> tuple[int, ...]:
    return (record.place,) if record.state is State.INFLIGHT else (record.order, record.place)


@given(records(), TEXTS)
def test_a_path_tells_what_the_task_is(record: Record, tag: str) -> None:
    directory = names.tag_directory(record.tag, tag)
    found = names.task_at(names.task(record, directory))
    assert found is not None
    assert (found.state, found.tag, found.id) == (record.state, directory, record.id)
    assert names.tag_number(found.tag) == record.tag
    assert found.order == (record.place if record.state is State.INFLIGHT else record.order)
    if record.state in LIVE:
        assert found.place == record.place
    link = names.location(record.state, record.tag, record.order, record.place)
    state, number, order, place = names.located(link) or (None, 0, 0, 0)
    assert names.task_in(state or State.PENDING, directory, order, place, record.id) == names.task(record, directory)
    assert (state, number) == (record.state, record.tag)
    assert len(link) < 60
    assert len(names.to_id(record.id)) < 60


@given(records(), records())
def test_paths_sort_as_tasks_do(one: Record, two: Record) -> None:
    two = replace(two, state=one.state, hold=two.hold or one.hold if one.state is State.INFLIGHT else two.hold)
    paths = [names.task(record, "000000001-a") for record in (one, two)]
    orders = [order_of(record) for record in (one, two)]
    if orders[0][:1] != orders[1][:1]:
        assert (paths[0] < paths[1]) == (orders[0] < orders[1])
    links = [names.in_order(record) for record in (one, two)]
    if one.state is not State.PENDING and one.order != two.order:
        assert links[0] is not None
        assert links[1] is not None
        assert (links[0] < links[1]) == (one.order < two.order)
        assert names.order_parts(links[0])[0::2] == (one.order, one.tag)


@pytest.mark.parametrize("path", [
    "", "/etc/passwd", "../x", "pending", "pending/000000001-a/x.json", "queue.json",
    "pending/../000000/000/000000000001-00000000-0000-0000-0000-000000000001.json",
    "pending/000000001-a/000000/000/1-00000000-0000-0000-0000-000000000001.json",
    "pending/000000001-a/000000/001/000000000001-00000000-0000-0000-0000-000000000001.json",
    "pending/000000001-a/000000/000/000000000001-00000000-0000-0000-0000-00000000000A.json",
    "pending/000000001-a/000000/000/000000000001-00000000-0000-0000-0000-000000000001.json~",
    "pending/000000001-a/000000/000/000000000001-00000000-0000-0000-0000-000000000001.json\n",
    "gone/000000001-a/000000/000/000000000001-00000000-0000-0000-0000-000000000001.json",
])  # fmt: skip
def test_any_other_path_is_no_task(path: str) -> None:
    assert names.task_at(path) is None


@pytest.mark.parametrize("text", [
    "", "/etc/passwd", "../../x", "pending/1/1", "pending/000000001/000000000001.json", "pending/000000001/00000000001",
    "pending/000000001/0000000000001", "scheduled/000000001/000000000001", "gone/000000001/000000000001",
    "pending/000000001/000000000001-000000000001", "pending/000000001/000000000001\n",
])  # fmt: skip
def test_any_other_text_is_no_place(text: str) -> None:
    assert names.located(text) is None


@given(st.integers(1, 10**9 - 1), st.text(st.characters(codec="utf-8"), max_size=100))
def test_a_tags_directory_is_safe_and_unique_by_its_number(number: int, name: str) -> None:
    directory = names.tag_directory(number, name)
    assert names.TAG_DIRECTORY.fullmatch(directory)
    assert len(directory) <= 34
    assert len(names.to_tag(directory)) < 60
    assert names.tag_number(directory) == number
    assert names.tag_of_file(names.tag_file(directory)) == directory
    assert names.timer_parts(names.timer(LAST_MOMENT, directory)) == (LAST_MOMENT, number)


@given(TEXTS)
def test_a_workers_file_is_safe(id: str) -> None:
    name = names.worker(id).removeprefix(f"{names.WORKERS}/")
    assert names.JSON.fullmatch(name)
    assert len(name) < 100


# --- the redo record --------------------------------------------------------------------------------

STEPS = [redo.Step("a/b", source="new/1-0"), redo.Step("c", target="a/b"), redo.Step("e", target=""), redo.Step("d/é")]


def unfinished(data: bytes) -> list[redo.Step] | None:
    return redo.unfinished(lambda size, offset: data[offset : offset + size])


def test_a_redo_record_comes_back_and_no_part_of_it_does() -> None:
    data = redo.encode(12, STEPS)
    assert unfinished(data + b"what was there before") == STEPS
    assert redo.commit_of(data) == 12
    for size in range(len(data)):
        assert unfinished(data[:size]) is None
        assert unfinished(data[:size] + b"\0" * 100) is None
    for at in range(len(data.rstrip())):
        other = bytes([data[at] ^ 1])
        if not (other + data[at : at + 1]).isspace():
            assert unfinished(data[:at] + other + data[at + 1 :]) is None, at


def test_a_record_that_is_done_or_of_nothing_is_none() -> None:
    assert unfinished(b"D" + redo.encode(12, STEPS)[1:]) is None
    assert unfinished(b"") is None
    assert unfinished(b" " * 1000) is None
    assert redo.commit_of(b"") == redo.commit_of(b" " * 64) == 0
