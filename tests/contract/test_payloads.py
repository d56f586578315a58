"""A payload comes back exactly as it was given, or is refused by name. Never changed in silence."""

import json
from typing import Any

import pytest

from queue_core import InvalidPayload, Item, Queue

EXACT: list[Any] = [
    None, True, False, 0, -1, 2**53 + 1, 2**70, -(2**70), 10**4_299, 0.1, -0.0, 1e308,
    "", "text", "\0", "é🙂\n", "\ud800", "\u2028", "a" * 100_000,
    [], {}, [[]], {"": ""}, {"1": "c"}, [1, [2, [3, {"a": [None]}]]], {"\ud800": "\0"}, [1.0, 1],
]  # fmt: skip


@pytest.mark.parametrize("payload", EXACT, ids=lambda value: repr(value)[:20])
def test_payloads_come_back_exactly(queue: Queue, payload: Any) -> None:
    task = queue.push(payload)
    lease = queue.lease()
    assert lease is not None
    for found in (task.payload, queue.get(task.id).payload, lease.payload):
        assert (found, type(found), repr(found)) == (payload, type(payload), repr(payload))


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
DEEP: list[Any] = []
for _ in range(2_000):
    DEEP = [DEEP]

REFUSED = [
    ({1: "a", "1": "c"}, r"payload has the key 1 of type int: keys must be str"),
    ({"a": {None: 1}}, r"payload\['a'\] has the key None of type NoneType"),
    ((1, 2), r"payload is \(1, 2\) of type tuple"),
    ({"a": [(1,)]}, r"payload\['a'\]\[0\] is \(1,\) of type tuple"),
    ([0, float("nan")], r"payload\[1\] is nan: JSON has no such number"),
    (float("inf"), r"payload is inf"),
    (b"\x00\xff", r"payload is b'\\x00\\xff' of type bytes"),
    ({"deep": [1, {"x": {3}}]}, r"payload\['deep'\]\[1\]\['x'\] is \{3\} of type set: JSON has only"),
    (object, r"payload is <class 'object'> of type type"),
    (CIRCLE, r"payload\[0\] contains itself"),
    (10**4_300, r"payload is an integer of more than 4,300 digits: use text"),
    (DEEP, r"nested too deeply"),
]


@pytest.mark.parametrize(("payload", "message"), REFUSED, ids=lambda value: str(type(value).__name__))
def test_what_would_change_is_refused_with_its_path(queue: Queue, payload: Any, message: str) -> None:
    kept = queue.push("kept")
    for verb in (
        lambda: queue.push(payload),
        lambda: queue.push_many(["x", Item(payload)]),
        lambda: queue.replace(kept, payload=payload),
    ):
        with pytest.raises(InvalidPayload, match=message):
            verb()
    assert queue.counts().all == 1
    assert queue.get(kept.id) == kept


def test_a_50_mb_payload_is_refused_with_its_size_and_the_limit(queue: Queue) -> None:
    task = queue.push("small")
    payload = "x" * 50_000_000
    shown = (
        r"payload is 50,000,002 bytes as JSON; the limit is 1,048,576: store the data elsewhere and push a reference"
    )
    with pytest.raises(InvalidPayload, match=shown):
        queue.push(payload)
    with pytest.raises(InvalidPayload, match=shown):
        queue.replace(task, payload=payload)
    assert queue.counts().all == 1


def test_the_limit_can_be_set_and_is_inclusive(queue: Queue) -> None:
    queue.configure(max_payload=10)
    assert queue.push("12345678").payload == "12345678"
    with pytest.raises(InvalidPayload, match="payload is 11 bytes as JSON; the limit is 10"):
        queue.push("123456789")
    queue.configure(max_payload=5 << 20)
    assert len(queue.push("x" * (4 << 20)).payload) == 4 << 20


def test_a_payload_is_stored_when_pushed_not_when_read(queue: Queue) -> None:
    payload = {"list": [1]}
    task = queue.push(payload)
    payload["list"].append(2)
    assert queue.get(task.id).payload == {"list": [1]}
    assert json.loads(task.record.payload) == {"list": [1]}
