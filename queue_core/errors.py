"""The errors of queue_core: one tree, a leaf for each decision that a caller can take.

Every message says what was wrong, with which value, and what to do about it.
"""

from collections.abc import Sequence


class QueueError(Exception):
    """Any failure that queue_core itself reports; catch it to catch them all."""


class LeaseLost(QueueError):
    """The token is not the newest of a live lease: the task was settled, reclaimed, or is held by another.

    ``tokens`` names every stale token of the call; nothing of the call was done.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tuple(tokens)
        shown = ", ".join(repr(token[:100]) for token in self.tokens[:3])
        more = f" and {len(self.tokens) - 3} more" if len(self.tokens) > 3 else ""
        super().__init__(
            f"lease lost: {shown}{more}; nothing was changed: drop the work, its task is or was somebody else's"
        )


class TaskNotFound(QueueError):
    """No task has this id: it was acknowledged, expunged, or never pushed."""

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"no task {id!r}: it was acknowledged or expunged, or never pushed here")


class Conflict(QueueError):
    """The task is not in the state, at the version, or under the key that the call needs.

    ``state`` and ``version`` are those of the task now; nothing was changed. ``brief`` says why without naming the
    task, so that many can be counted.
    """

    def __init__(
        self, message: str, *, state: str | None = None, version: int | None = None, brief: str | None = None
    ) -> None:
        self.state = state
        self.version = version
        self.brief = brief or message
        super().__init__(message)


class InvalidArgument(QueueError, ValueError):
    """An argument has a value that cannot be meant."""


class InvalidPayload(InvalidArgument):
    """The payload is not a JSON value, or is too large; the message has the path to the bad value."""


class InvalidTag(InvalidArgument):
    """The tag is not text, or is longer than 65,535 bytes as UTF-8."""


class InvalidFilter(InvalidArgument):
    """The filter text does not parse; the message points at the character.

    ``position`` is that of the character in the text, from 0; the message has several lines.
    """

    def __init__(self, message: str, *, position: int = 0) -> None:
        self.position = position
        super().__init__(message)


class QueueFull(QueueError):
    """Refused at the door by ``max_pending``: push again when workers have caught up. Only push raises it."""


class StoreError(QueueError):
    """The store cannot do it now, whatever is asked."""


class StoreFull(StoreError):
    """No room on the disk or in the map. Nothing was changed; leasing and settling still work and make room, in small
    batches: a thousand tasks of a thousand tags may be too many at once for a full store of less than 128 MiB.

    ``done`` counts what a bulk verb had finished, in commits of its own, before this one.
    """

    def __init__(self, message: str, *, done: int = 0) -> None:
        self.done = done
        super().__init__(message)


class StoreBusy(StoreError):
    """The write lock was not free within ``busy_timeout``; the operation was withdrawn and did not happen."""


class StoreGone(StoreError):
    """The store's directory was removed or replaced, or the queue was closed: open it again."""


class StoreCorrupt(StoreError):
    """The store's files cannot be read as what they should be."""


class StoreVersion(StoreError):
    """The store was written by another version of queue_core; the message says how to go on."""


class OutcomeUnknown(StoreError):
    """The commit was sent and its answer was lost: look the task up before trying again."""


class NotPermitted(QueueError):
    """The role does not allow this action."""


class MissingDriver(QueueError, ImportError):
    """A package is missing; the message names the extra that brings it."""
