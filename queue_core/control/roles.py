"""Who may do what. The check is on the method, so that no page or command can forget it.

Outside the dashboard, roles prevent accidents, not malice: who can write the store's directory can do anything.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from queue_core.errors import InvalidArgument, NotPermitted

F = TypeVar("F", bound=Callable[..., Any])


class Role(StrEnum):
    """Each may do what the ones before it may."""

    VIEWER = "viewer"  # looks
    OPERATOR = "operator"  # moves tasks, changes settings; nothing that is lost for good
    ADMIN = "admin"  # removes for good, sees what is masked


RANK = {role: rank for rank, role in enumerate(Role)}


class Actor(Protocol):
    """Somebody in a role."""

    actor: str
    role: Role


def as_role(value: Any) -> Role:
    """Raises InvalidArgument."""
    try:
        return Role(value)
    except ValueError:
        raise InvalidArgument(f"role is {value!r:.100}: it is one of {', '.join(Role)}") from None


def permit(actor: Actor, needed: Role, what: str) -> None:
    """Raises NotPermitted."""
    if RANK[actor.role] < RANK[needed]:
        raise NotPermitted(
            f"{actor.actor} has the role {actor.role}, and {what} needs the role {needed}: nothing was changed; "
            f"ask somebody who has it"
        )


def needs(role: Role) -> Callable[[F], F]:
    """The method may only be called by who has at least this role. It looks before it does anything else."""

    def guarded(method: F) -> F:
        @wraps(method)
        def checked(self: Actor, *args: Any, **kwargs: Any) -> Any:
            permit(self, role, method.__name__.replace("_", " "))
            return method(self, *args, **kwargs)

        checked.needs = role  # type: ignore[attr-defined]
        return cast(F, checked)

    return guarded
