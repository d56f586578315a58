"""The queue: the verbs, with arguments checked and payloads turned into bytes outside any transaction."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from uuid_utils import uuid7

from queue_core import codec
from queue_core.errors import InvalidArgument, LeaseLost, StoreError
from queue_core.history import Event
from queue_core.ledger import WorkerRecord
from queue_core.plans import AuditEntry
from queue_core.queue.arguments import (
    BATCH_LIMIT,
    SETTINGS,
    as_span,
    as_text,
    as_token,
    as_tokens,
    as_whole,
    check_tag,
)
from queue_core.queue.payloads import Item, Plain, Serializer, Undecodable
from queue_core.queue.reading import Reading
from queue_core.queue.view import View
from queue_core.snapshot import Settings, Storage
from queue_core.stores.base import Capabilities, Change, Clock, Done, Ending, Found, Logged, NewTask, Store
from queue_core.task import (
    SECOND,
    Lease,
    Outcome,
    Task,
    Token,
    clean_text,
    is_token,
    microseconds,
    parse_id,
)

T = TypeVar("T")
log = logging.getLogger("queue_core")

BATCH_BYTES = 64 << 20
RECHECK = 1.0  # seconds: a blocked lease looks again, so that a clock that jumps is seen


Held = Lease | str
_UNSET: Any = object()


def default_owner() -> str:
    """Who holds a lease when nobody says: host, process and thread."""
    return f"{socket.gethostname()}:{os.getpid()}:{threading.get_native_id()}"


class Queue(Reading):
    """A fair, durable task queue. Made by ``open_queue``; safe for any number of threads."""

    def __init__(
        self, store: Store, clock: Clock, *, on_event: Callable[[Event], None] | None = None,
        serializer: Serializer | None = None, tag_of: Callable[[Any], str] | None = None,
    ) -> None:  # fmt: skip
        self._store = store
        self._clock = clock
        self._on_event = on_event
        self._serializer = serializer or Plain()
        self._tag_of = tag_of
        self._viewing = threading.local()

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def clock(self) -> Clock:
        """The clock it was opened with: microseconds since the epoch."""
        return self._clock

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do."""
        return self._store.capabilities

    @property
    def plain(self) -> bool:
        """Whether payloads are JSON values, given and taken without a serializer."""
        return isinstance(self._serializer, Plain)

    # --- in

    def push(
        self, payload: Any, *, tag: str | None = None, id: str | UUID | None = None, delay: float | timedelta = 0,
        max_attempts: int = 5, dedupe_key: str | None = None,
    ) -> Task:  # fmt: skip
        """Store a task; as durable as the store declares when this returns.

        ``tag`` is "" or what ``tag_of`` derives; ``delay`` in seconds. An ``id`` that exists: its payload and
        options are replaced and it is pending once at its old place (dead or in trash: a redrive); in another
        tag it is a Conflict. A ``dedupe_key`` that is held in the tag: the holder comes back, nothing changes.
        Raises InvalidPayload, InvalidTag, InvalidArgument, Conflict, QueueFull, StoreFull.
        """
        return self.push_many([Item(payload, tag, id, delay, max_attempts, dedupe_key)])[0]

    def push_many(self, items: Iterable[Any]) -> list[Task]:
        """Store ``Item``, ``(payload, tag)`` or payloads in one commit, all or none; at most 10,000 and 64 MiB."""
        new = [self._new_task(item) for item in items]
        size = sum(len(item.payload) for item in new)
        if len(new) > BATCH_LIMIT or size > BATCH_BYTES:
            raise InvalidArgument(
                f"push_many of {len(new):,} items and {size:,} bytes: at most {BATCH_LIMIT:,} items and "
                f"{BATCH_BYTES:,} bytes in one call; push in batches"
            )
        if not new:
            return []
        found = self._do(lambda: self._store.push(new))
        return list(map(self._task, found))

    def _new_task(self, given: Any) -> NewTask:
        match given:
            case Item():
                item = given
            case tuple((payload, tag)):  # a list of two is a payload
                item = Item(payload, tag)
            case _:
                item = Item(given)
        tag = item.tag
        if tag is None:
            tag = self._tag_of(item.payload) if self._tag_of is not None else ""
        return NewTask(
            uuid7().bytes if item.id is None else parse_id(item.id),
            item.id is not None,
            check_tag(tag),
            self.dump(item.payload),
            as_span(item.delay, "delay"),
            as_whole(item.max_attempts, "max_attempts", 1, 1_000_000),
            None if item.dedupe_key is None else as_text(item.dedupe_key, "dedupe_key"),
        )

    # --- out

    def lease(
        self, *, ttl: float = 30.0, owner: str | None = None, wait: float = 0.0, ack: Held | Sequence[Held] = ()
    ) -> Lease | None:
        """The right to work on the next task of the rotation for ``ttl`` seconds; None when nothing is eligible.

        ``wait`` blocks up to so many seconds, without burning a core. ``ack`` settles finished leases first, in the
        same commit: a stale one raises LeaseLost and nothing is leased.
        """
        leases = self.lease_many(1, ttl=ttl, owner=owner, wait=wait, ack=ack)
        return leases[0] if leases else None

    def lease_many(
        self, n: int, *, ttl: float = 30.0, owner: str | None = None, wait: float = 0.0,
        ack: Held | Sequence[Held] = (),
    ) -> list[Lease]:  # fmt: skip
        """``n`` serves of the rotation at one instant; fewer when fewer are eligible, at least one with ``wait``."""
        n = as_whole(n, "n", 1, BATCH_LIMIT)
        span = as_span(ttl, "ttl", 1)
        name = default_owner() if owner is None else as_text(owner, "owner")
        until = time.monotonic() + as_span(wait, "wait") / SECOND
        settle: Sequence[Token] = as_tokens([ack] if isinstance(ack, Lease | str) else ack)
        while True:
            mark = self.mark()
            tokens, settle = settle, ()
            found = self._do(partial(self._store.lease, n, span, name, tokens))
            leases = [lease for lease in map(self._lease, found) if lease is not None]
            left = until - time.monotonic()
            if leases or (left <= 0 and not found):
                return leases
            if not found:
                self.wait_for_change(mark, left)

    def mark(self) -> int:
        """A number that differs after every commit of any process: take it before a poll that may find nothing."""
        return self._store.mark()

    def wait_for_change(self, mark: int, timeout: float) -> None:
        """After an empty poll: return when another may find something, at the latest after ``timeout`` seconds.

        It may return early; ``mark`` is that from before the poll.
        """
        moment = self._store.next_moment()
        soon = RECHECK if moment is None else max((moment - self._clock()) / SECOND, 0.001)
        self._store.wait(mark, min(timeout, RECHECK, soon))

    def _lease(self, found: Found) -> Lease | None:
        """The lease, or None for a payload that does not decode: that one is dead-lettered, its bytes unchanged."""
        lease = Lease(self._task(found))
        if not isinstance(lease.payload, Undecodable):
            return lease
        ending = Ending(Outcome.DEAD_LETTERED, reason=f"payload does not decode: {lease.payload.error}")
        try:
            self._do(lambda: self._store.settle([as_token(lease)], ending))
        except (LeaseLost, StoreError) as error:  # of this one only: the others of the call are the caller's
            log.warning("task %s, whose payload does not decode, could not be dead-lettered: %s", lease.id, error)
        return None

    def heartbeat(self, lease: Held, *, ttl: float | None = None) -> Lease:
        """The same lease with a new token, good for ``ttl`` seconds (as leased) from now, never less than before.

        Raises LeaseLost when the token is not the newest.
        """
        span = None if ttl is None else as_span(ttl, "ttl", 1)
        return Lease(self._task(self._do(lambda: self._store.heartbeat(as_token(lease), span))))

    def ack(self, lease: Held) -> None:
        """The task is done and gone for good. Raises LeaseLost."""
        self.ack_many([lease])

    def ack_many(self, leases: Iterable[Held]) -> None:
        """All are done, or none: ``LeaseLost.tokens`` names the stale ones."""
        tokens = as_tokens(leases)
        if tokens:
            self._do(lambda: self._store.settle(tokens, Ending(Outcome.ACKED)))

    def nack(self, lease: Held, error: object, *, retry_in: float | timedelta | None = None) -> Task:
        """The attempt failed: scheduled again after a backoff (or ``retry_in`` seconds), dead when none is left."""
        delay = None if retry_in is None else as_span(retry_in, "retry_in")
        return self._settle(lease, Ending(Outcome.NACKED, clean_text(error), delay))

    def release(self, lease: Held) -> Task:
        """Give it back to its place, now; the attempt is not counted."""
        return self._settle(lease, Ending(Outcome.RELEASED))

    def defer(self, lease: Held, delay: float | timedelta) -> Task:
        """Give it back for ``delay`` seconds from now; the attempt is not counted."""
        return self._settle(lease, Ending(Outcome.DEFERRED, delay=as_span(delay, "delay")))

    def _settle(self, lease: Held, ending: Ending) -> Task:
        return self._task(self._do(lambda: self._store.settle([as_token(lease)], ending))[0])

    # --- by id

    def dead_letter(self, lease_or_id: Held | UUID, reason: object, *, version: int | None = None) -> Task:
        """Into the dead-letter queue, with reason, lease and attempts. A lease or token must be the newest."""
        text = clean_text(reason)
        if isinstance(lease_or_id, Lease) or (isinstance(lease_or_id, str) and is_token(lease_or_id)):
            return self._settle(lease_or_id, Ending(Outcome.DEAD_LETTERED, reason=text))
        return self._change("dead_letter", lease_or_id, version, reason=text)

    def requeue(self, id: str | UUID, *, version: int | None = None) -> Task:
        """In flight or scheduled → pending, at its place; a holder loses its lease. Conflict, TaskNotFound."""
        return self._change("requeue", id, version)

    def redrive(self, id: str | UUID, *, version: int | None = None) -> Task:
        """Dead → pending at the tail of its tag, in a new cycle. Conflict, TaskNotFound."""
        return self._change("redrive", id, version)

    def cancel(self, id: str | UUID, *, version: int | None = None) -> Task:
        """Pending or scheduled → trash. Conflict, TaskNotFound."""
        return self._change("cancel", id, version)

    def purge(self, id: str | UUID, *, version: int | None = None) -> Task:
        """Dead → trash. Conflict, TaskNotFound."""
        return self._change("purge", id, version)

    def restore(self, id: str | UUID, *, version: int | None = None) -> Task:
        """Trash → where it came from. Conflict, TaskNotFound."""
        return self._change("restore", id, version)

    def expunge(self, id: str | UUID, *, version: int | None = None) -> Task:
        """Trash → gone, for good. Conflict, TaskNotFound."""
        return self._change("expunge", id, version)

    def extend(self, id: str | UUID, ttl: float, *, version: int | None = None) -> Task:
        """Let an in-flight task's lease last ``ttl`` seconds from now, if that is longer; its token stays."""
        return self._change("extend", id, version, ttl=as_span(ttl, "ttl", 1))

    def replace(self, task: Task, *, payload: Any = _UNSET, version: int | None = None) -> Task:
        """Store a new payload: that given, or the task's own. Tag, state, place, attempts and token stay."""
        value = task.payload if payload is _UNSET else payload
        data = self.dump(value)
        return self._change("replace", task.id, version, payload=data, tag=task.tag)

    def _change(self, action: str, id: str | UUID, version: int | None, **details: Any) -> Task:
        if version is not None:
            version = as_whole(version, "version", 0, 1 << 62)
        change = Change(action, version, **details)
        return self._task(self._do(lambda: self._store.change(parse_id(id), change)))

    # --- recovery and settings

    def requeue_inflight(self, *, older_than: datetime | None = None) -> int:
        """End leases silent since ``older_than`` (inclusive; all when None) as expired; how many.

        Their attempts count: with none left the task is dead, else it is back at its place.
        """
        cutoff = None if older_than is None else microseconds(older_than, "older_than")
        return self._do(lambda: self._store.reclaim(cutoff, None))

    def dead_letter_inflight(self, *, older_than: datetime, reason: object) -> int:
        """Dead-letter leases silent since ``older_than`` (inclusive); how many."""
        cutoff = microseconds(older_than, "older_than")
        return self._do(lambda: self._store.reclaim(cutoff, clean_text(reason)))

    def configure(
        self, tag: str | None = None, *, weight: int = _UNSET, paused: bool = _UNSET,
        max_inflight: int | None = _UNSET, min_interval: float = _UNSET, max_pending: int | None = _UNSET,
        dead_retention: float | None = _UNSET, max_payload: int = _UNSET, tag_retention: float = _UNSET,
        history: bool = _UNSET, entry: AuditEntry | None = None,
    ) -> Settings:  # fmt: skip
        """Change settings of one tag, or of the whole queue; what is not given stays. Returns them all.

        ``weight``: tasks per turn (tags only). ``max_inflight``: leases at a time. ``min_interval``: seconds between
        two serves. ``max_pending``: waiting tasks (pending and scheduled) above which push is QueueFull. The queue's
        hold beside those of each tag. The queue's only: ``dead_retention`` (seconds, None for ever), ``max_payload``
        (bytes), ``tag_retention`` (seconds after which a tag with no task and no setting is forgotten, once the journal
        no longer names it), ``history`` (whether series and journal are written). ``entry`` is for ``control``: it goes
        to the audit.
        """
        given: dict[str, Any] = {
            "weight": weight, "paused": paused, "max_inflight": max_inflight, "min_interval": min_interval,
            "max_pending": max_pending, "dead_retention": dead_retention, "max_payload": max_payload,
            "tag_retention": tag_retention, "history": history,
        }  # fmt: skip
        given = {name: value for name, value in given.items() if value is not _UNSET}
        only = {"dead_retention", "max_payload", "tag_retention", "history"} if tag is not None else {"weight"}
        for name in only & set(given):
            raise InvalidArgument(f"{name} is a setting of {'the whole queue' if tag is not None else 'one tag'}")
        changes = {name: SETTINGS[name](value, name) for name, value in given.items()}
        which = None if tag is None else check_tag(tag)
        return self._do(lambda: self._store.configure(which, changes, entry))

    def report(self, worker: WorkerRecord) -> None:
        """Write a worker's record."""
        self._do(lambda: self._store.report(worker))

    # --- reading

    @contextmanager
    def view(self) -> Iterator[View]:
        """A context in which all reads come from one read transaction. Close it before anything is drawn."""
        with self._store.view() as reader:
            views = self._viewing.__dict__.setdefault("views", [])  # of this thread; another may end a generator
            views.append(reader)
            try:
                yield View(reader, self._task)
            finally:
                views.remove(reader)

    def storage(self) -> Storage:
        """How much room the store takes, and how much it may take, in bytes."""
        return self._store.storage()

    def close(self) -> None:
        """Give the store's handle back; blocked leases end with StoreGone."""
        self._store.close()

    def __enter__(self) -> "Queue":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Queue({self.url!r})"

    # --- between the verbs and the store

    def perform(self, verb: Callable[[Store], Done[T]]) -> T:
        """Run a verb of the store as the queue's own are: for ``control``, which checks who may."""
        return self._do(lambda: verb(self._store))

    def dump(self, payload: Any) -> bytes:
        """A payload as it is stored. Raises InvalidPayload."""
        return codec.dump_payload(self._serializer.dump(payload))

    def _do(self, verb: Callable[[], Done[T]]) -> T:
        if getattr(self._viewing, "views", ()):
            raise InvalidArgument("a verb that writes was called inside view(): leave the view first")
        done = verb()
        if self._on_event is not None:
            self._emit(done.logged)
        return done.result

    def _emit(self, happened: Iterable[Logged]) -> None:
        assert self._on_event is not None
        for number, tag, entry in happened:
            try:
                self._on_event(Event(number, tag, entry))
            except Exception:
                log.exception("on_event raised for %s; the verb stands", entry.kind)

    def _task(self, found: Found) -> Task:
        return Task(found.record, found.tag, self._load)

    def _load(self, data: bytes) -> Any:
        try:
            return self._serializer.load(codec.load_payload(data))
        except Exception as error:  # noqa: BLE001 - a stranger's serializer may raise anything; the line goes on
            return Undecodable(data, clean_text(error))
