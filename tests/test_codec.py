"""Records and payloads as bytes and back."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_core import codec
from queue_core.errors import InvalidPayload, StoreCorrupt
from queue_core.history import Entry, Kind
from queue_core.ledger import Counts, Meta, Tag, Totals, WorkerRecord
from queue_core.plans import Options, Plan
from queue_core.task import Attempt, Hold, Outcome, Record, State

RECORD = Record(
    bytes(range(16)), 3, 7, State.DEAD, 9, b'{"a":1}', 1, 2, 3, 4, "key", 5, 6, 7, 8,
    Hold(1, 2**64 - 1, "owner", 3, 4, 5, 6), (Attempt(1, 1, "o", 1, 2, Outcome.NACKED, "e\n"),), "error", "why", 9, 10,
    11, State.PENDING,
)  # fmt: skip
TAG = Tag(1, "é\0" * 100, 2, Counts(1, 2, 3, 4, 5), msgspec.Raw(b"\x91\x06"), weight=3, paused=True, max_inflight=0)
META = Meta(Counts(), Totals(pushed=7), last_tag=3, dead_retention=0)
WORKER = WorkerRecord("id", "host", 1, 2, 3)
ENTRIES = [Entry(Kind.LEASE, 1, 2, b"\x00" * 16, "owner", 3, 4, 5, "detail", 6), Entry(Kind.CONFIGURE, 1, 0)]


@pytest.mark.parametrize(
    ("value", "decode"),
    [
        (RECORD, codec.decode_record),
        (TAG, codec.decode_tag),
        (META, codec.decode_meta),
        (WORKER, codec.decode_worker),
        (ENTRIES, codec.decode_entries),
    ],
)
def test_what_is_stored_comes_back(value: Any, decode: Any) -> None:
    data = codec.join_entries(list(map(codec.encode_entry, value))) if value is ENTRIES else codec.encode(value)
    assert data[:1] == codec.VERSIONS.get(type(value), codec.VERSION)
    assert decode(data) == value
    for bad in (b"", b"\x7f" + data[1:], data[:-1], codec.VERSION + b"\xff"):
        with pytest.raises(StoreCorrupt, match="run queue-core check"):
            decode(bad)


def test_a_field_added_at_the_end_reads_older_bytes() -> None:
    """What a later version relies on: missing fields at the end get their defaults."""
    fields = msgspec.structs.astuple(RECORD)
    short = codec.VERSION + msgspec.msgpack.encode(fields[:9])
    assert codec.decode_record(short).max_attempts == 5


def test_progress_that_was_written_before_a_field_was_added_is_read() -> None:
    plan = Plan(1, "redrive", Options(), "ann", "operator", "test", 0, 0, moved=7)
    stored = msgspec.msgpack.decode(codec.encode_progress(plan)[1:])
    short = codec.VERSION + msgspec.msgpack.encode(stored[:6])
    assert codec.with_progress(plan, short).moved == 7
    assert codec.with_progress(plan, codec.encode_progress(plan)) == plan


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_every_json_value_survives(value: Any) -> None:
    loaded = codec.load_payload(codec.dump_payload(value))
    assert repr(loaded) == repr(value)


@given(st.text(st.characters(categories=["Cs", "L"])))
def test_lone_surrogates_survive(value: str) -> None:
    assert codec.load_payload(codec.dump_payload({"k": [value]})) == {"k": [value]}


ANYTHING = st.recursive(
    st.none() | st.integers() | st.text() | st.binary() | st.floats() | st.tuples(st.integers()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.none(), inner),
    max_leaves=10,
)


@given(ANYTHING)
def test_anything_else_is_refused_by_path(value: Any) -> None:
    if is_json(value):
        assert repr(codec.load_payload(codec.dump_payload(value))) == repr(value)
    else:
        with pytest.raises(InvalidPayload, match=r"^payload"):
            codec.dump_payload(value)


def is_json(value: Any) -> bool:
    """Written without looking at the codec."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_json(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(map(is_json, value))
    return value is None or isinstance(value, int | str) or (isinstance(value, float) and math.isfinite(value))


def test_text_is_stored_as_readable_json() -> None:
    assert codec.dump_payload({"ä": ["é", 1]}) == '{"ä":["é",1]}'.encode()
