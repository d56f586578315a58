"""Records as JSON that a person can read and edit, and back without loss.

Times are ISO 8601 in UTC to the microsecond, spans are whole microseconds, and what is unset is null. A task's payload
stands in its document as it is, and comes back as the very text that was stored.
"""

import json
from base64 import b64decode, b64encode
from datetime import datetime
from functools import cache
from typing import Any

import msgspec

from queue_core.errors import StoreCorrupt
from queue_core.ledger import Measured, Meta, Past, Tag, Totals, WorkerRecord
from queue_core.task import (
    LAST_MOMENT,
    LIVE,
    Attempt,
    Edit,
    Hold,
    Record,
    State,
    id_text,
    microseconds,
    moment,
    parse_id,
)

TIMES: dict[type, frozenset[str]] = {
    Meta: frozenset({"created", "last_commit", "open_at", "moment", "opened"}),
    Tag: frozenset({"first_seen", "head_ready", "timer", "eligible_at", "last_served"}),
    WorkerRecord: frozenset({"started", "seen", "stopped"}),
    Hold: frozenset({"leased", "beat", "expires"}),
    Attempt: frozenset({"started", "ended"}),
}
NO_TIMES: frozenset[str] = frozenset()
LATE: dict[str, type] = {"totals_": Totals, "measured_": Measured}  # fields of a tag that are decoded when asked for
SHOWN = 200  # characters of a tag's name in a task; all of it is in the tag's record


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_load = json.JSONDecoder(parse_constant=_no_constant)
_dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


# --- fields by name -------------------------------------------------------------------------------


def _time(at: int) -> str | int | None:
    """0 is unset; what no datetime can be stays a number."""
    if not 0 < at <= LAST_MOMENT:
        return at or None
    return moment(at).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _microseconds(value: Any) -> int:
    if isinstance(value, str):
        return microseconds(datetime.fromisoformat(value), "a time")
    return int(value or 0)


def _named(record: msgspec.Struct) -> dict[str, Any]:
    """The fields of a record, and of the records in it, by name."""
    times = TIMES.get(type(record), NO_TIMES)
    shown = [name.removesuffix("_") for name in record.__struct_fields__]
    return {
        name: _time(value) if name in times else _plain(value) for name in shown for value in (getattr(record, name),)
    }


def _plain(value: Any) -> Any:
    match value:
        case msgspec.Struct():
            return _named(value)
        case msgspec.Raw():
            return {str(key): count for key, count in sorted(msgspec.msgpack.decode(value).items())}
        case dict():
            return {str(key): count for key, count in sorted(value.items())}
        case bytes():
            return value.hex()
        case _:
            return value


def _record(kind: Any, found: Any) -> Any:
    """The record of fields by name; those that are missing have their defaults, others are passed over."""
    times = TIMES.get(kind, NO_TIMES)
    fields = {}
    for field, name, inner in _fields(kind):
        if name in found:
            value = _microseconds(found[name]) if name in times else _field(inner, found[name])
            fields[field] = msgspec.Raw(msgspec.msgpack.encode(value)) if field in LATE else value
    return kind(**fields)


@cache
def _fields(kind: Any) -> list[tuple[str, str, Any]]:
    """(field, its name in a document, its type)."""
    return [
        (field.name, field.name.removesuffix("_"), LATE.get(field.name, field.type))
        for field in msgspec.structs.fields(kind)
    ]


def _field(kind: Any, value: Any) -> Any:
    if kind is msgspec.Raw:
        return msgspec.Raw(msgspec.msgpack.encode({int(key): count for key, count in value.items()}))
    if kind is bytes:
        return bytes.fromhex(value)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _record(kind, value)
    return msgspec.convert(value, kind)


def dump(record: Meta | Past | Tag | WorkerRecord, **more: Any) -> bytes:
    """A record as a document, one field a line, after whatever else stands in it."""
    return _lines([(name, _dump(value)) for name, value in (more | _named(record)).items()])


def _lines(fields: list[tuple[str, str]]) -> bytes:
    lines = ",\n".join(f'  "{name}": {text}' for name, text in fields)
    return f"{{\n{lines}\n}}\n".encode()


def load(kind: type, data: bytes, path: str) -> Any:
    """(the record, the document) of a file. Raises StoreCorrupt."""
    try:
        document = _load.decode(data.decode())
        return _record(kind, document), document
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise StoreCorrupt(
            f"{path} cannot be read ({type(error).__name__}: {error}): repair it by hand, or restore a backup"
        ) from error


# --- tasks ----------------------------------------------------------------------------------------


def dump_task(record: Record, tag: str) -> bytes:
    """A task as a document; ``tag`` is the name of its tag."""
    return _lines(task_fields(record, tag if len(tag) <= SHOWN else f"{tag[:SHOWN]}…"))


def task_fields(record: Record, tag: str) -> list[tuple[str, str]]:
    """(name, JSON text) of all that a task is; the payload's text is that which is stored."""
    payload, plain = _as_json(record.payload)
    fields: dict[str, Any] = {
        "id": id_text(record.id), "tag": tag, "state": record.state, "payload": None,
        "attempts": record.attempts, "max_attempts": record.max_attempts, "error": record.error,
        "reason": record.reason, "created": _time(record.created), "pending_since": _time(record.ready),
        "due": _time(record.due), "lease": None, "history": [_named(attempt) for attempt in record.history],
        "dedupe_key": record.dedupe_key, "cycle": record.cycle, "leases": record.leases, "defers": record.defers,
        "tag_number": record.tag, "place": record.place, "version": record.version, "entry": record.entry,
        "entered": _time(record.entered), "retention_clock": record.aged, "origin": record.origin,
        "error_group": record.group.hex(), "edits": [_edit(edit) for edit in record.edits],
    }  # fmt: skip
    if record.hold is not None:
        fields["lease"] = _named(record.hold) | {"nonce": f"{record.hold.nonce:016x}"}
    if not plain:
        fields["payload_bytes"] = b64encode(record.payload).decode()
    texts = {name: _dump(value) for name, value in fields.items()}
    return list((texts | {"payload": payload}).items())


def _as_json(payload: bytes) -> tuple[str, bool]:
    """(text to stand in the document, whether the payload can be had from it again)."""
    try:
        text = payload.decode()
        _, end = _load.raw_decode(text)
    except (ValueError, RecursionError):
        return "null", False
    return (text, True) if end == len(text) else ("null", False)


def load_task(data: bytes) -> Record:
    """Raises StoreCorrupt when the document is cut off, or not that of a task."""
    try:
        fields, payload = _scan(data.decode())
        if "payload_bytes" in fields:
            payload = b64decode(fields["payload_bytes"], validate=True)
        lease = fields["lease"]
        if lease is not None:
            lease = _record(Hold, lease | {"nonce": int(lease["nonce"], 16)})
        if State(fields["state"]) in LIVE and (lease is not None) != (fields["state"] == State.INFLIGHT):
            raise ValueError(f"it is {fields['state']} and its lease is {lease}")
        return Record(
            parse_id(fields["id"]), _whole(fields["tag_number"]), _whole(fields["place"]), State(fields["state"]),
            _whole(fields["version"]), payload, _microseconds(fields["created"]),
            _microseconds(fields["pending_since"]), _microseconds(fields["due"]), _whole(fields["max_attempts"]),
            _text(fields["dedupe_key"]), _whole(fields["attempts"]), _whole(fields["cycle"]),
            _whole(fields["leases"]), _whole(fields["defers"]), lease,
            tuple(_record(Attempt, attempt) for attempt in fields["history"]), _text(fields["error"]),
            _text(fields["reason"]), _whole(fields["entry"]), _microseconds(fields["entered"]),
            _whole(fields["retention_clock"]), None if fields["origin"] is None else State(fields["origin"]),
            bytes.fromhex(fields.get("error_group", "")), tuple(map(_edited, fields.get("edits", ()))),
        )  # fmt: skip
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise StoreCorrupt(f"{type(error).__name__}: {error}"[:300]) from error


def _edit(edit: Edit) -> dict[str, Any]:
    _, plain = _as_json(edit.payload)
    kept = {"payload_text": edit.payload.decode()} if plain else {"payload_bytes": b64encode(edit.payload).decode()}
    return {"at": _time(edit.at), "version": edit.version} | kept


def _edited(found: Any) -> Edit:
    text = found.get("payload_text")
    payload = text.encode() if text is not None else b64decode(found["payload_bytes"], validate=True)
    return Edit(_microseconds(found["at"]), _whole(found["version"]), payload)


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r:.60} is not a whole number")
    return value


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{value!r:.60} is not text")
    return value


def _scan(text: str) -> tuple[dict[str, Any], bytes]:
    """(the fields of the outermost object, the text of the payload as it stands there)."""
    fields: dict[str, Any] = {}
    payload = b""
    at = _past_space(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError("it does not begin with {")
    mark = ","
    while mark == ",":
        name, end = _load.raw_decode(text, _past_space(text, at + 1))
        at = _past_space(text, end)
        if text[at : at + 1] != ":" or not isinstance(name, str):
            raise ValueError(f"no field at character {at}")
        start = _past_space(text, at + 1)
        fields[name], end = _load.raw_decode(text, start)
        if name == "payload":
            payload = text[start:end].encode()
        at = _past_space(text, end)
        mark = text[at : at + 1]
    if mark != "}" or text[at + 1 :].strip():
        raise ValueError(f"it does not end at character {at}")
    return fields, payload


def _past_space(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t", "\n", "\r"):
        at += 1
    return at
