"""What a person can do to one task, to settings, to leases that have fallen silent, and to error groups."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from queue_core.control.audit import control_of, note
from queue_core.control.person import Person, reasoned, worded
from queue_core.control.roles import Role, needs, permit
from queue_core.errors import Conflict, QueueError, TaskNotFound
from queue_core.groups import Group
from queue_core.query import quote
from queue_core.queue import check_tag
from queue_core.queue.arguments import as_group, as_span, as_whole
from queue_core.snapshot import Settings
from queue_core.stores.base import Change
from queue_core.task import Task, clean_text, parse_id

Id = str | UUID


class Acting(Person):
    """The verbs that act at once."""

    # --- one task

    @needs(Role.OPERATOR)
    def requeue(self, id: Id, *, version: int | None = None, reason: str = "") -> Task:
        """In flight or scheduled → pending, at its place. Conflict, TaskNotFound."""
        return self._change("requeue", id, version, reason)

    @needs(Role.OPERATOR)
    def dead_letter(self, id: Id, reason: str, *, version: int | None = None) -> Task:
        """Live → dead. A handler may still be running: it finds its lease lost. Conflict, TaskNotFound."""
        return self._change("dead_letter", id, version, reason)

    @needs(Role.OPERATOR)
    def redrive(self, id: Id, *, version: int | None = None, reason: str = "") -> Task:
        """Dead → pending at the tail of its tag, in a new cycle. Conflict, TaskNotFound."""
        return self._change("redrive", id, version, reason)

    @needs(Role.OPERATOR)
    def cancel(self, id: Id, reason: str, *, version: int | None = None) -> Task:
        """Pending or scheduled → trash. Conflict, TaskNotFound."""
        return self._change("cancel", id, version, reason)

    @needs(Role.OPERATOR)
    def purge(self, id: Id, reason: str, *, version: int | None = None) -> Task:
        """Dead → trash. Conflict, TaskNotFound."""
        return self._change("purge", id, version, reason)

    @needs(Role.OPERATOR)
    def restore(self, id: Id, *, version: int | None = None, reason: str = "") -> Task:
        """Trash → where it came from. Conflict, TaskNotFound."""
        return self._change("restore", id, version, reason)

    @needs(Role.ADMIN)
    def expunge(self, id: Id, reason: str, *, version: int | None = None) -> Task:
        """Trash → gone for good. Conflict, TaskNotFound."""
        return self._change("expunge", id, version, reason)

    @needs(Role.OPERATOR)
    def extend(self, id: Id, ttl: float, *, version: int | None = None, reason: str = "") -> Task:
        """Let a lease last ``ttl`` seconds from now, if that is longer. Conflict, TaskNotFound."""
        return self._change("extend", id, version, reason, ttl=as_span(ttl, "ttl", 1))

    @needs(Role.OPERATOR)
    def edit(self, id: Id, payload: Any, *, version: int | None = None, reason: str = "") -> Task:
        """A new payload; those of before are kept with the task. Conflict, TaskNotFound, InvalidPayload."""
        return self._change("edit", id, version, reason, payload=self.queue.dump(payload))

    @needs(Role.OPERATOR)
    def move_tag(self, id: Id, tag: str, *, version: int | None = None, reason: str = "") -> Task:
        """Pending, scheduled or dead: to the tail of another tag. Conflict, TaskNotFound, InvalidTag."""
        return self._change("move_tag", id, version, reason, tag=check_tag(tag))

    @needs(Role.ADMIN)
    def reveal(self, id: Id, reason: str = "") -> Task:
        """The task as it is, nothing masked. TaskNotFound."""
        task = self.queue.get(id)
        note(self.queue, self._entry("reveal", f"id:{task.id}", reason, count=1, outcome="shown unmasked"))
        return task

    def _change(self, action: str, id: Id, version: int | None, reason: str, **details: Any) -> Task:
        raw = parse_id(id)
        reason = reasoned(action, reason)
        if version is not None:
            version = as_whole(version, "version", 0, 1 << 62)
        change = Change(action, version, reason=reason, **details)
        entry = self._entry(action, f"id:{UUID(bytes=raw)}", reason, intent=_intent(details, version))
        try:
            found = self.queue.perform(lambda store: store.change(raw, change, entry))
        except (Conflict, TaskNotFound) as error:
            note(self.queue, worded(entry, f"refused: {error}"))
            raise
        self._tell(worded(entry, f"{found.record.state} now", count=1))
        with self.queue.view() as view:
            return view.task(found)

    # --- settings and recovery

    @needs(Role.OPERATOR)
    def configure(self, tag: str | None = None, *, reason: str = "", **settings: Any) -> Settings:
        """Change settings of a tag, or (None) of the queue: see ``Queue.configure``.

        A ``dead_retention`` removes dead letters for good: it needs the role admin, and a reason.
        """
        if tag is None and settings.get("dead_retention") is not None:
            permit(self, Role.ADMIN, "a retention of dead letters")
            reason = reasoned("expunge", reason)
        entry = self._entry(
            "configure", None if tag is None else f"tag:{quote(tag)}", reason,
            intent=" ".join(f"{name}={value}" for name, value in settings.items()), outcome="set",
        )  # fmt: skip
        done = self.queue.configure(tag, entry=entry, **settings)
        self._tell(entry)
        return done

    @needs(Role.OPERATOR)
    def pause(self, tag: str | None = None, *, reason: str = "") -> Settings:
        """No task of the tag, or of any, is leased until it is resumed."""
        return self.configure(tag, reason=reason, paused=True)

    @needs(Role.OPERATOR)
    def resume(self, tag: str | None = None, *, reason: str = "") -> Settings:
        """The end of a pause."""
        return self.configure(tag, reason=reason, paused=False)

    @needs(Role.OPERATOR)
    def requeue_inflight(self, *, older_than: datetime | None = None, reason: str = "") -> int:
        """End leases silent since then (None: all) as expired; how many."""
        return self._reclaim(
            "requeue_inflight", older_than, reason, lambda: self.queue.requeue_inflight(older_than=older_than)
        )

    @needs(Role.OPERATOR)
    def dead_letter_inflight(self, *, older_than: datetime, reason: str) -> int:
        """Dead-letter leases silent since then; how many."""
        text = reasoned("dead_letter", reason)
        return self._reclaim(
            "dead_letter_inflight", older_than, text,
            lambda: self.queue.dead_letter_inflight(older_than=older_than, reason=text),
        )  # fmt: skip

    def _reclaim(self, action: str, older_than: datetime | None, reason: str, act: Callable[[], int]) -> int:
        entry = self._entry(
            action, None, clean_text(reason), intent=f"silent since {older_than.isoformat()}" if older_than else "all"
        )
        note(self.queue, worded(entry, "begun"))
        try:
            done = act()
        except QueueError as error:
            so_far = getattr(error, "done", 0)
            note(self.queue, worded(entry, f"stopped after {so_far:,}: {error}", count=so_far))
            raise
        note(self.queue, worded(entry, f"{done:,} done", count=done))
        return done

    # --- error groups

    @needs(Role.OPERATOR)
    def resolve(self, group: str, *, reason: str = "") -> Group:
        """The cause of an error group (16 hex digits) is mended; a new death reopens it. Conflict."""
        return self._resolve("resolve", group, self.actor, reason)

    @needs(Role.OPERATOR)
    def reopen(self, group: str, *, reason: str = "") -> Group:
        """It is not resolved after all. Conflict."""
        return self._resolve("reopen", group, None, reason)

    def _resolve(self, action: str, group: str, by: str | None, reason: str) -> Group:
        mark = as_group(group)
        entry = self._entry(action, f"group:{group}", reason, outcome="open" if by is None else "resolved")
        return self.queue.perform(lambda store: control_of(store).resolve(mark, by, entry))


def _intent(details: dict[str, Any], version: int | None) -> str:
    seen = [f"at version {version}"] if version is not None else []
    return ", ".join(
        seen + [f"{name} of {len(value):,} bytes" if name == "payload" else f"{name} {value!r:.200}"
                for name, value in details.items()]
    )  # fmt: skip
