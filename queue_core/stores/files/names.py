"""Every name in the directory of a files store, once.

Numbers are decimal and of fixed width, so that the order of names is the order of numbers. ``TAG`` stands for
``000000001-acme``: the tag's number and a readable part of its name. Directories of tasks are split by order, so that
none holds more than a thousand names or a second's worth.

A mark is an empty file, whose name says all. A link is a symbolic link, kept below 60 characters: a longer one takes a
block on the disk (ext4).

| path                                   | what it is                                                             |
|----------------------------------------|------------------------------------------------------------------------|
| ``queue.json``                         | the queue's numbers: counts, totals, cursor, settings                  |
| ``past.json``                          | the totals of tags that are no longer known                            |
| ``tags/N/TAG.json``                    | a tag's numbers and settings; N: thousands of tags                     |
| ``pending/TAG/N/N/PLACE-ID.json``      | a task; N/N: millions and thousands of places                          |
| ``scheduled/TAG/N/N/DUE-PLACE-ID.json``| a task; N/N: 1,000 seconds and seconds of its due time                 |
| ``inflight/TAG/PLACE-ID.json``         | a task that is leased                                                  |
| ``dead/TAG/N/N/ENTRY-ID.json``         | a task; N/N: millions and thousands of entries. ``trash/`` likewise    |
| ``order/scheduled/N/N/DUE-PLACE-NO-ID``| mark: a state in its order over all tags; NO: the number of the tag    |
| ``order/inflight/EXPIRES-PLACE-NO-ID`` | likewise                                                               |
| ``order/dead/N/N/ENTRY-NO-ID``         | likewise; ``order/trash/`` too                                         |
| ``ids/HH/ID``                          | link that says where the task is; HH: the last byte of the id          |
| ``names/HH/DIGEST``                    | link to the tag's record, by blake2b of the name                       |
| ``keys/TAG/DIGEST``                    | link to the id that holds a dedupe key, by blake2b of the key          |
| ``eligible/N/TAG``                     | mark: the tag may be served                                            |
| ``timers/N/N/TIME-TAG``                | mark: the tag's minimum interval runs until then                       |
| ``workers/NAME.json``                  | what a worker has reported                                             |
| ``lock``, ``lock.turn``                | locked while the store is used; who waits for the first has the second |
| ``redo``, ``new/COMMIT-NUMBER``        | a commit that is not finished, and what it will put in place           |
| ``reserve``                            | room on the disk, given up when there is none to drain the queue with  |
| ``README.txt``                         | all this for who looks around                                          |

Whatever has another name is not ours: it is left alone.
"""

import re
from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

from queue_core.task import Record, State, id_text

QUEUE, PAST, README = "queue.json", "past.json", "README.txt"
LOCK, TURN, REDO, NEW, RESERVE = "lock", "lock.turn", "redo", "new", "reserve"
TAGS, IDS, NAMES, KEYS, ORDER, ELIGIBLE, TIMERS, WORKERS = (
    "tags", "ids", "names", "keys", "order", "eligible", "timers", "workers",
)  # fmt: skip
OURS = frozenset({LOCK, TURN, REDO, NEW, RESERVE})  # what a directory may hold before it is a queue
LISTED = (State.SCHEDULED, State.INFLIGHT, State.DEAD, State.TRASH)  # the states with an order over all tags
DEPTH = {State.PENDING: 2, State.SCHEDULED: 2, State.INFLIGHT: 0, State.DEAD: 2, State.TRASH: 2}  # levels of N
READABLE = 24  # characters of a tag's name in a file name

_TAG = r"\d{9}(?:-[A-Za-z0-9._-]{1,24})?"
_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NUMBERED = rf"\d{{12}}-{_ID}\.json"
_TIMED = rf"\d{{18}}-\d{{12}}-{_ID}\.json"
SHARD = re.compile(r"\d{3}|\d{6}|\d{9}|[0-9a-f]{2}")
TAG_DIRECTORY = re.compile(_TAG)
TAG_FILE = re.compile(_TAG + r"\.json")
TIMER = re.compile(rf"\d{{18}}-{_TAG}")
ID = re.compile(_ID)
DIGEST = re.compile(r"[0-9a-f]{32}")
ORDERED = re.compile(rf"(?:\d{{12}}|\d{{18}}-\d{{12}})-\d{{9}}-{_ID}")
STAGED = re.compile(r"\d+-\d+")
JSON = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*\.json")
_LOCATION = re.compile(rf"({'|'.join(State)})/(\d{{9}})/(\d{{12,18}})(?:-(\d{{12}}))?")
TASK = {state: re.compile(_TIMED if state is State.SCHEDULED else _NUMBERED) for state in State}


class TaskPath(NamedTuple):
    """What the path of a task tells. ``order`` is the place for pending and in flight; ``place`` 0 where it is not."""

    state: State
    tag: str
    order: int
    place: int
    id: bytes


def digest(text: str) -> str:
    """32 hexadecimal digits for a text of any length."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


def readable(text: str) -> str:
    """The part of a text that is safe in a file name, for a person to recognise it."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text[:READABLE])


def tag_directory(number: int, name: str) -> str:
    """``TAG``: unique by its number, and safe whatever the name is."""
    part = readable(name)
    return f"{number:09d}-{part}" if part else f"{number:09d}"


def tag_number(directory: str) -> int:
    return int(directory[:9])


def tag_shard(number: int) -> str:
    return f"{number // 1000:06d}"


def tag_file(directory: str) -> str:
    return f"{TAGS}/{tag_shard(tag_number(directory))}/{directory}.json"


def tag_of_file(path: str) -> str:
    """The directory name of a tag whose record is at ``path``."""
    return path.rsplit("/", 1)[1].removesuffix(".json")


def number_shard(number: int) -> str:
    return f"{number // 10**6:06d}/{number // 1000 % 1000:03d}"


def time_shard(at: int) -> str:
    return f"{at // 10**9:09d}/{at // 10**6 % 1000:03d}"


def place_in(state: State, order: int, place: int) -> str:
    """Where in the directories of one tag and state a task stands: the path without its id."""
    match state:
        case State.SCHEDULED:
            return f"{time_shard(order)}/{order:018d}-{place:012d}"
        case State.INFLIGHT:
            return f"{place:012d}"
        case _:
            return f"{number_shard(order)}/{order:012d}"


def place_in_order(state: State, order: int, place: int) -> str:
    """Where in the order of a state over all tags a task stands: the path without tag and id."""
    match state:
        case State.SCHEDULED:
            return f"{time_shard(order)}/{order:018d}-{place:012d}"
        case State.INFLIGHT:
            return f"{order:018d}-{place:012d}"
        case _:
            return f"{number_shard(order)}/{order:012d}"


def task_in(state: State, tag: str, order: int, place: int, id: bytes) -> str:
    """Where a task of a tag's directory stands."""
    return f"{state}/{tag}/{place_in(state, order, place)}-{id_text(id)}.json"


def task(record: Record, tag: str) -> str:
    """Where a task belongs."""
    return task_in(record.state, tag, record.order, record.place, record.id)


def task_at(path: str) -> TaskPath | None:
    """The parts of a task's path; None for any other path."""
    parts = path.split("/")
    state = next((state for state in State if state == parts[0]), None)
    if state is None or len(parts) != 3 + DEPTH[state] or not TASK[state].fullmatch(parts[-1]):
        return None
    id = UUID(parts[-1][-41:-5]).bytes
    numbers = parts[-1][:-42].split("-")
    order = int(numbers[0])
    place = int(numbers[-1]) if state in (State.PENDING, State.SCHEDULED, State.INFLIGHT) else 0
    found = TaskPath(state, parts[1], order, place, id)
    known = TAG_DIRECTORY.fullmatch(found.tag) and path == task_in(state, found.tag, order, place, id)
    return found if known else None


def location(state: State, tag: int, order: int, place: int) -> str:
    """What the link of an id holds."""
    if state is State.SCHEDULED:
        return f"{state}/{tag:09d}/{order:018d}-{place:012d}"
    return f"{state}/{tag:09d}/{place if state is State.INFLIGHT else order:012d}"


def located(text: str) -> tuple[State, int, int, int] | None:
    """(state, tag number, order, place) of such a link; None for any other text. In flight, order is the place."""
    match = _LOCATION.fullmatch(text)
    if match is None:
        return None
    state, tag, order = State(match[1]), int(match[2]), int(match[3])
    place = int(match[4]) if match[4] else order
    return (state, tag, order, place) if location(state, tag, order, place) == text else None


def in_order(record: Record) -> str | None:
    """The mark of a task in the order of its state; pending has none."""
    if record.state is State.PENDING:
        return None
    at = place_in_order(record.state, record.order, record.place)
    return f"{ORDER}/{record.state}/{at}-{record.tag:09d}-{id_text(record.id)}"


def order_parts(path: str) -> tuple[int, int, int]:
    """(order, place, tag number) of such a mark; the place is 0 where it is not in it: dead and trash."""
    order, *place, tag = path.rsplit("/", 1)[1][:-37].split("-")
    return int(order), int(place[0]) if place else 0, int(tag)


def order_id(path: str) -> bytes:
    """The id that such a mark ends with."""
    return UUID(path[-36:]).bytes


def id(id: bytes) -> str:
    text = id_text(id)
    return f"{IDS}/{text[-2:]}/{text}"


def id_of(path: str) -> bytes:
    """The id that a path of ``ids`` ends with."""
    return UUID(path.rsplit("/", 1)[1]).bytes


def name(text: str) -> str:
    found = digest(text)
    return f"{NAMES}/{found[:2]}/{found}"


def to_tag(tag: str) -> str:
    """What the link of a name holds."""
    return f"../../{tag_file(tag)}"


def to_id(task: bytes) -> str:
    """What the link of a dedupe key holds."""
    return f"../../{id(task)}"


def key(tag: str, text: str) -> str:
    return f"{KEYS}/{tag}/{digest(text)}"


def eligible(tag: str) -> str:
    return f"{ELIGIBLE}/{tag_shard(tag_number(tag))}/{tag}"


def timer(at: int, tag: str) -> str:
    return f"{TIMERS}/{time_shard(at)}/{at:018d}-{tag}"


def timer_parts(path: str) -> tuple[int, int]:
    """(time, tag number)."""
    at, tag = path.rsplit("/", 1)[1].split("-", 1)
    return int(at), tag_number(tag)


def worker(id: str) -> str:
    return f"{WORKERS}/{(readable(id) or '_').lstrip('.')}-{digest(id)}.json"


def new(commit: int, number: int) -> str:
    return f"{NEW}/{commit}-{number}"
