"""Records and payloads as bytes.

A record is one version byte and MessagePack with fields by position, so a field may only ever be
added at the end, with a default. A payload is JSON text, checked to come back as the same value.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from queue_core.errors import InvalidPayload, StoreCorrupt, StoreVersion
from queue_core.groups import Group
from queue_core.history import Entry
from queue_core.ledger import Meta, Past, Tag, Totals, WorkerRecord
from queue_core.plans import AuditEntry, Plan, Progress, Result, come_to, progress
from queue_core.series import Bucket
from queue_core.task import Record

VERSION, LATER = b"\x01", b"\x20"
# What has got more fields is written with another: an older queue_core must not write it, as it would cut off what it
# does not know.
VERSIONS: dict[Any, bytes] = {Meta: b"\x03", Tag: b"\x02", Record: b"\x03"}

_encode = msgspec.msgpack.Encoder().encode
_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(kind)
    for kind in (
        Record, Tag, Meta, Past, Totals, Bucket, WorkerRecord, Group, Plan, Progress, AuditEntry, list[Entry],
        list[Result],
    )
}  # fmt: skip


Stored = Record | Tag | Meta | Past | Totals | Bucket | WorkerRecord | Group | Plan | AuditEntry
_dump_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_load_json = json.JSONDecoder().decode


def encode(record: Stored) -> bytes:
    return VERSIONS.get(type(record), VERSION) + _encode(record)


def _decode(data: bytes, kind: Any) -> Any:
    version, newest = data[:1], VERSIONS.get(kind, VERSION)
    if kind is Meta and newest < version <= LATER:
        raise StoreVersion("the store was written by a newer queue_core: upgrade queue_core")
    if not VERSION <= version <= newest:
        raise StoreCorrupt(f"a stored {kind} has version byte {version!r}; run queue-core check")
    try:
        return _decoders[kind].decode(memoryview(data)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreCorrupt(
            f"a stored {kind} of {len(data)} bytes does not decode: {error}; run queue-core check"
        ) from error


def decode_record(data: bytes) -> Record:
    record: Record = _decode(data, Record)
    return record


def decode_tag(data: bytes) -> Tag:
    tag: Tag = _decode(data, Tag)
    return tag


@lru_cache(maxsize=16_384)
def tag_to_read(data: bytes) -> Tag:
    """The same for who changes nothing: from one snapshot to the next most tags stay as they are.

    All of it is decoded at once, as what readers share must not change under them.
    """
    return decode_tag(data).whole()


def decode_meta(data: bytes) -> Meta:
    meta: Meta = _decode(data, Meta)
    return meta


def decode_past(data: bytes) -> Past:
    past: Past = _decode(data, Past)
    return past


def decode_totals(data: bytes) -> Totals:
    totals: Totals = _decode(data, Totals)
    return totals


def decode_bucket(data: bytes) -> Bucket:
    bucket: Bucket = _decode(data, Bucket)
    return bucket


def decode_worker(data: bytes) -> WorkerRecord:
    worker: WorkerRecord = _decode(data, WorkerRecord)
    return worker


def decode_group(data: bytes) -> Group:
    group: Group = _decode(data, Group)
    return group


def decode_plan(data: bytes) -> Plan:
    plan: Plan = _decode(data, Plan)
    return plan


def encode_progress(plan: Plan) -> bytes:
    return VERSION + _encode(progress(plan))


def with_progress(plan: Plan, data: bytes) -> Plan:
    return come_to(plan, _decode(data, Progress))


def decode_audit(data: bytes) -> AuditEntry:
    entry: AuditEntry = _decode(data, AuditEntry)
    return entry


def encode_results(results: Sequence[Result]) -> bytes:
    return VERSION + _encode(results)


def decode_results(data: bytes) -> list[Result]:
    results: list[Result] = _decode(data, list[Result])
    return results


def encode_entry(entry: Entry) -> bytes:
    """One journal entry, as a part of a block."""
    return _encode(entry)


def join_entries(parts: Sequence[bytes]) -> bytes:
    """A block of entries, which ``decode_entries`` reads back."""
    number = len(parts)
    head = bytes([0x90 | number]) if number < 16 else b"\xdc" + number.to_bytes(2)
    return VERSION + head + b"".join(parts)


def decode_entries(data: bytes) -> list[Entry]:
    entries: list[Entry] = _decode(data, list[Entry])
    return entries


# --- payloads -------------------------------------------------------------------------------------


def dump_payload(value: Any) -> bytes:
    """A JSON value as bytes. Raises InvalidPayload with the path to what would not survive."""
    try:
        text = _dump_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidPayload(_complaint(value) or f"payload is not a JSON value: {error}") from None
    try:
        data = text.encode()
    except UnicodeEncodeError:  # lone surrogates survive as \ud800 escapes
        data = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    if _load_json(text) != value:  # tuples and keys that are not strings pass dumps, changed
        raise InvalidPayload(_complaint(value) or "payload does not survive a round trip through JSON")
    return data


def load_payload(data: bytes) -> Any:
    """The value of stored JSON text. Raises ValueError when it is not JSON."""
    return _load_json(data.decode())


def _complaint(value: Any) -> str | None:
    """Where and why the value is not JSON; None when nothing is found."""
    trail: list[tuple[str, Any, tuple[int, ...]]] = [("payload", value, ())]
    while trail:
        path, item, parents = trail.pop()
        if id(item) in parents:
            return f"{path} contains itself: JSON has no references"
        match item:
            case dict():
                for key, inner in item.items():
                    if not isinstance(key, str):
                        return f"{path} has the key {key!r:.60} of type {type(key).__name__}: keys must be str"
                    trail.append((f"{path}[{key!r:.60}]", inner, (*parents, id(item))))
            case list():
                trail += [(f"{path}[{i}]", inner, (*parents, id(item))) for i, inner in enumerate(item)]
            case float() if item != item or item in (float("inf"), float("-inf")):
                return f"{path} is {item!r}: JSON has no such number; use None or text"
            case int() if item.bit_length() > 14_284:
                return f"{path} is an integer of more than 4,300 digits: use text"
            case None | bool() | int() | float() | str():
                pass
            case _:
                return (
                    f"{path} is {item!r:.60} of type {type(item).__name__}: JSON has only null, booleans, numbers, "
                    "strings, lists and objects; convert it first, or give open_queue a serializer"
                )
        if len(parents) > 900:
            return f"{path:.200}… is nested too deeply for JSON"
    return None
