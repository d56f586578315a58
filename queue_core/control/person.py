"""Who acts, and how entries of the audit are made in that name."""

from msgspec.structs import replace

from queue_core.control.audit import tell
from queue_core.control.roles import RANK, Role, as_role
from queue_core.errors import InvalidArgument
from queue_core.plans import AuditEntry
from queue_core.queue import Queue
from queue_core.queue.arguments import as_text
from queue_core.redact import Redactor, configured
from queue_core.task import clean_text

REASONED = frozenset({"dead_letter", "cancel", "purge", "expunge"})  # data is dropped, or work is given up
OUTCOME_KEPT = 2_000  # characters of an outcome


class Person:
    """One person at one place, in a role."""

    def __init__(
        self, queue: Queue, actor: str, role: Role | str = Role.OPERATOR, *, origin: str = "library",
        redactor: Redactor | None = None,
    ) -> None:  # fmt: skip
        if not actor:
            raise InvalidArgument("actor is empty: say who acts, such as an e-mail address")
        self.queue = queue
        self.actor = as_text(actor, "actor")[:200]
        self.role = as_role(role)
        self.origin = as_text(origin, "origin")[:200]
        self.redactor = redactor if redactor is not None else configured()

    @classmethod
    def allows(cls, role: Role, action: str) -> bool:
        """Whether a role allows a method, by its name."""
        return RANK[role] >= RANK[getattr(getattr(cls, action), "needs", Role.VIEWER)]

    def may(self, action: str) -> bool:
        """Whether the role of this person allows a method, by its name."""
        return self.allows(self.role, action)

    def _entry(
        self, action: str, where: str | None, reason: str, *, count: int = 0, intent: str = "", outcome: str = ""
    ) -> AuditEntry:
        return AuditEntry(
            0, 0, self.actor, self.role, self.origin, action, where, clean_text(reason), count, intent, outcome
        )

    def _tell(self, entry: AuditEntry) -> None:
        """Where the store has written no entry."""
        if not self.queue.capabilities.plans:
            tell(entry)


def worded(entry: AuditEntry, outcome: str, count: int = 0) -> AuditEntry:
    """The entry with what came of it."""
    return replace(entry, outcome=outcome[:OUTCOME_KEPT], count=count)


def reasoned(action: str, reason: str) -> str:
    """The reason as it is kept. Raises InvalidArgument when the action needs one and there is none."""
    text = clean_text(reason).strip()
    if action in REASONED and not text:
        raise InvalidArgument(f"{action} needs a reason: it goes to the audit, for those who look for the task later")
    return text
