"""Every key of the LMDB store, once.

One tree. Numbers are big-endian and of fixed width, so that byte order is number order. Spaces that
change together are neighbours: the journal grows at its end, right before ``meta``, so that both are
written in one page.

| space     | key after the prefix byte                      | value                                       |
|-----------|------------------------------------------------|---------------------------------------------|
| task      | ``0x10`` tag u32, state u8, order              | record                                      |
| id        | ``0x20`` id 16                                 | tag u32, place u64, state u8, order         |
| dedupe    | ``0x30`` tag u32, blake2b(key) 16              | id of the holder                            |
| worker    | ``0x38`` worker id                             | worker record                               |
| journal   | ``0x40`` number of the block's first entry u64 | list of entries                             |
| meta      | ``0x41``                                       | meta record                                 |
| eligible  | ``0x42`` tag u32                               | empty: the tags that may be served          |
| timer     | ``0x43`` time u64, tag u32                     | empty: tags in their minimum interval       |
| expiry    | ``0x44`` expires u64, place u64                | tag u32: in flight, by expiry               |
| due       | ``0x45`` due u64, place u64                    | tag u32: scheduled, by due time             |
| dead      | ``0x46`` entry u64                             | tag u32: dead, by entry                     |
| trash     | ``0x47`` entry u64                             | tag u32: trash, by entry                    |
| past      | ``0x48``                                       | what is no longer kept one by one           |
| touched   | ``0x49`` index of the block's first u32        | tags changed in the open bucket, u32 each   |
| tag       | ``0x50`` tag u32                               | tag record                                  |
| name      | ``0x58`` blake2b(name) 16                      | tag u32                                     |
| bucket    | ``0x60`` tier u8, number u64, part u8          | a part of a bucket of the series            |
| group     | ``0x68`` fingerprint 8                         | error group                                 |
| grouped   | ``0x69`` fingerprint 8, entry u64              | tag u32: dead letters of an error group     |
| group tag | ``0x6A`` fingerprint 8, tag u32                | how many of them the tag has, u64           |
| plan      | ``0x70`` plan u64                              | plan record                                 |
| progress  | ``0x73`` plan u64                              | what of a plan a run changes                |
| selection | ``0x71`` plan u64, part u32                    | (id 16, version u64) of 64 tasks            |
| results   | ``0x72`` plan u64, index of the first u32      | what came of some tasks of the selection    |
| audit     | ``0x78`` entry u64                             | audit entry                                 |

The order of a task inside its state: pending and in flight: place u64; scheduled: due u64, place u64;
dead and trash: entry u64. The value of ``id`` says the state exactly only for scheduled, dead and
trash; pending stands for "pending or in flight", so that leasing and settling leave it alone.
"""

from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct, pack, unpack

from queue_core.task import Record, State

TASK, ID, DEDUPE, WORKER, JOURNAL, META = b"\x10", b"\x20", b"\x30", b"\x38", b"\x40", b"\x41"
ELIGIBLE, TIMER, EXPIRY, DUE, DEAD, TRASH = b"\x42", b"\x43", b"\x44", b"\x45", b"\x46", b"\x47"
PAST, TOUCHED = b"\x48", b"\x49"
TAG, NAME, BUCKET = b"\x50", b"\x58", b"\x60"
GROUP, GROUPED, GROUP_TAG = b"\x68", b"\x69", b"\x6a"
PLAN, SELECTION, RESULTS, PROGRESS, AUDIT = b"\x70", b"\x71", b"\x72", b"\x73", b"\x78"

STATE_BYTE = {State.DEAD: 0, State.TRASH: 1, State.SCHEDULED: 2, State.INFLIGHT: 3, State.PENDING: 4}
STATE_OF = {number: state for state, number in STATE_BYTE.items()}
INDEX = {State.INFLIGHT: EXPIRY, State.SCHEDULED: DUE, State.DEAD: DEAD, State.TRASH: TRASH}

_u32 = Struct(">I")
_u64 = Struct(">Q")
_task = Struct(">cIBQ")
_task_due = Struct(">cIBQQ")
_state = Struct(">cIB")
_pair = Struct(">cQQ")
_single = Struct(">cQ")
_timer = Struct(">cQI")
_tag = Struct(">cI")
_location = Struct(">IQBQ")
_grouped = Struct(">c8sQ")
_part = Struct(">cQI")


def pack_tag(number: int) -> bytes:
    return _u32.pack(number)


def unpack_tag(data: bytes) -> int:
    number: int = _u32.unpack(data)[0]
    return number


def digest(text: str) -> bytes:
    """16 bytes for a name of any length: keys end at 511 bytes, tags and dedupe keys do not."""
    return blake2b(text.encode(), digest_size=16).digest()


def task(tag: int, state: State, order: int, place: int = 0) -> bytes:
    if state is State.SCHEDULED:
        return _task_due.pack(TASK, tag, 2, order, place)
    return _task.pack(TASK, tag, STATE_BYTE[state], order)


def task_of(record: Record) -> bytes:
    """Where a record belongs."""
    state = record.state
    if state is State.PENDING:
        return _task.pack(TASK, record.tag, 4, record.place)
    if state is State.INFLIGHT:
        return _task.pack(TASK, record.tag, 3, record.place)
    if state is State.SCHEDULED:
        return _task_due.pack(TASK, record.tag, 2, record.due, record.place)
    return _task.pack(TASK, record.tag, STATE_BYTE[state], record.entry)


def tasks(tag: int, state: State) -> bytes:
    """The prefix of all tasks of one tag in one state."""
    return _state.pack(TASK, tag, STATE_BYTE[state])


def index_of(record: Record) -> bytes | None:
    """The key in the index of its state; pending has none, its order is that of the tasks themselves."""
    state = record.state
    if state is State.PENDING:
        return None
    if state is State.DEAD or state is State.TRASH:
        return _single.pack(INDEX[state], record.entry)
    return _pair.pack(INDEX[state], record.order, record.place)


def index_end(state: State, upto: int) -> bytes:
    """The first key of an index that is past ``upto``."""
    return _single.pack(INDEX[state], upto + 1)


def indexed_task(state: State, key: bytes, tag: int) -> bytes:
    """The task key that an index entry stands for."""
    if state is State.INFLIGHT:
        return _task.pack(TASK, tag, 3, _u64.unpack_from(key, 9)[0])
    if state is State.SCHEDULED:
        return _task_due.pack(TASK, tag, 2, *_pair.unpack(key)[1:])
    return _task.pack(TASK, tag, STATE_BYTE[state], _single.unpack(key)[1])


def index_parts(key: bytes) -> tuple[int, int]:
    """(order, place) of an expiry or due entry."""
    _, order, place = _pair.unpack(key)
    return order, place


def id(id: bytes) -> bytes:
    return ID + id


def location(record: Record) -> bytes:
    """The value of the id space."""
    state = State.PENDING if record.state is State.INFLIGHT else record.state
    return _location.pack(record.tag, record.place, STATE_BYTE[state], 0 if state is State.PENDING else record.order)


def located(data: bytes) -> tuple[int, int, State, int]:
    """(tag, place, state, order) of an id; pending means pending or in flight."""
    tag, place, state, order = _location.unpack(data)
    return tag, place, STATE_OF[state], order


def dedupe(tag: int, key: str) -> bytes:
    return _tag.pack(DEDUPE, tag) + digest(key)


def worker(id: str) -> bytes:
    return WORKER + id.encode()


def journal(number: int) -> bytes:
    return _single.pack(JOURNAL, number)


def number(key: bytes) -> int:
    """The number in a key of one u64: journal, dead, trash."""
    value: int = _single.unpack(key)[1]
    return value


def eligible(tag: int) -> bytes:
    return _tag.pack(ELIGIBLE, tag)


def timer(at: int, tag: int) -> bytes:
    return _timer.pack(TIMER, at, tag)


def timer_parts(key: bytes) -> tuple[int, int]:
    """(time, tag)."""
    _, at, tag = _timer.unpack(key)
    return at, tag


def tag(number: int) -> bytes:
    return _tag.pack(TAG, number)


def tag_number(key: bytes) -> int:
    """The tag in a key that ends with it: tag, eligible."""
    value: int = _u32.unpack_from(key, len(key) - 4)[0]
    return value


def touched(index: int) -> bytes:
    return _tag.pack(TOUCHED, index)


def pack_tags(numbers: Sequence[int]) -> bytes:
    return pack(f">{len(numbers)}I", *numbers)


def unpack_tags(data: bytes) -> tuple[int, ...]:
    return unpack(f">{len(data) // 4}I", data)


def buckets(tier: int) -> bytes:
    """The prefix of all buckets of a tier."""
    return BUCKET + bytes([tier])


def bucket(tier: int, number: int) -> bytes:
    """The prefix of all parts of a bucket."""
    return buckets(tier) + _u64.pack(number)


def bucket_part(tier: int, number: int, part: int) -> bytes:
    return bucket(tier, number) + bytes([part])


def bucket_number(key: bytes) -> int:
    value: int = _u64.unpack_from(key, 2)[0]
    return value


def name(text: str) -> bytes:
    return NAME + digest(text)


def first_number(key: bytes) -> int:
    """The first u64 of a key: when, in the timer, expiry and due spaces."""
    value: int = _u64.unpack_from(key, 1)[0]
    return value


def index_at(state: State, order: int, place: int, *, past: bool) -> bytes:
    """The index key at (order, place), or right behind it."""
    if state in (State.DEAD, State.TRASH):
        return _single.pack(INDEX[state], order + past)
    return _pair.pack(INDEX[state], order, place + past)


def dedupe_tag(key: bytes) -> int:
    """The tag in a dedupe key."""
    value: int = _u32.unpack_from(key, 1)[0]
    return value


def task_tag(key: bytes) -> int:
    """The tag in a task key."""
    value: int = _u32.unpack_from(key, 1)[0]
    return value


def task_state(key: bytes) -> State:
    """The state in a task key."""
    return STATE_OF[key[5]]


def task_order(key: bytes) -> int:
    """The order in a task key."""
    value: int = _u64.unpack_from(key, 6)[0]
    return value


def task_place(key: bytes) -> int:
    """The place in the key of a live task, which ends with it."""
    value: int = _u64.unpack_from(key, len(key) - 8)[0]
    return value


def group(fingerprint: bytes) -> bytes:
    return GROUP + fingerprint


def grouped(fingerprint: bytes, entry: int) -> bytes:
    return _grouped.pack(GROUPED, fingerprint, entry)


def grouped_entry(key: bytes) -> int:
    value: int = _u64.unpack_from(key, 9)[0]
    return value


def grouped_mark(key: bytes) -> bytes:
    """The fingerprint in the key of a dead letter of an error group."""
    return key[1:9]


def group_tags(fingerprint: bytes) -> bytes:
    """The prefix of the counts of an error group by tag."""
    return GROUP_TAG + fingerprint


def group_tag(fingerprint: bytes, tag: int) -> bytes:
    return group_tags(fingerprint) + _u32.pack(tag)


def pack_count(count: int) -> bytes:
    return _u64.pack(count)


def unpack_count(data: bytes) -> int:
    value: int = _u64.unpack(data)[0]
    return value


def plan(number: int) -> bytes:
    return _single.pack(PLAN, number)


def progress(plan: int) -> bytes:
    return _single.pack(PROGRESS, plan)


def selection(plan: int, part: int) -> bytes:
    return _part.pack(SELECTION, plan, part)


def results(plan: int, first: int) -> bytes:
    return _part.pack(RESULTS, plan, first)


def part_number(key: bytes) -> int:
    """The number in the key of a part of a selection, or of results."""
    value: int = _u32.unpack_from(key, 9)[0]
    return value


def audit(number: int) -> bytes:
    return _single.pack(AUDIT, number)
