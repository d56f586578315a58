"""Triage in a notebook: a box to click in where there is ipywidgets, and the methods of ``Handling`` everywhere."""

from typing import Any

from queue_core.control import Role
from queue_core.notebook.handling import Handling
from queue_core.queue import Queue


def triage(queue: Queue, actor: str | None = None, *, armed: bool = False, role: Role | str | None = None) -> "Triage":
    """Dead letters and trash of a queue, to be looked at; ``armed``, to be acted on, in the name of ``actor``.

    ``actor`` is by default what ``QUEUE_ACTOR`` says, else user@host; ``role`` what ``QUEUE_ROLE`` says, else operator.
    Raises InvalidArgument.
    """
    return Triage(queue, actor, armed=armed, role=role)


class Triage(Handling):
    """What ``triage`` gives."""

    _box: Any = None

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        try:
            from queue_core.notebook.controls import Box
        except ModuleNotFoundError:  # without ipywidgets, there are the methods
            return {"text/plain": repr(self)}
        if self._box is None:
            self._box = Box(self)
        bundle: dict[str, Any] = self._box.view._repr_mimebundle_(**options) or {}
        return bundle | {"text/plain": repr(self)}
