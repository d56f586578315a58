"""A viewer changes nothing: asked of every public method that the class has, so that a new one cannot be forgotten."""

import inspect
from typing import Any

import pytest
from acting import dead

from queue_core import InvalidArgument, NotPermitted, Queue
from queue_core.control import Operator, Role

READING = {"may", "allows", "export_tasks"}  # what a viewer may call: it changes nothing in the queue
METHODS = [
    name for name, value in inspect.getmembers(Operator, callable) if not name.startswith("_")
]  # fmt: skip
MUTATING = [name for name in METHODS if name not in READING]
GIVEN: dict[str, Any] = {
    "id": "0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11", "reason": "why", "ttl": 60, "payload": None, "tag": "other",
    "older_than": None, "group": "00" * 8, "action": "redrive", "number": 1, "path": "tasks.ndjson",
}  # fmt: skip


def call(operator: Operator, name: str) -> Any:
    """The method with something for each argument that it cannot do without."""
    method = getattr(operator, name)
    needed = [
        parameter.name for parameter in inspect.signature(method).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]  # fmt: skip
    return method(**{argument: GIVEN[argument] for argument in needed})


def test_the_methods_are_those_that_are_known() -> None:
    assert len(MUTATING) >= 23
    assert set(METHODS) >= READING


@pytest.mark.parametrize("name", MUTATING)
def test_a_viewer_changes_nothing(queue: Queue, name: str) -> None:
    dead(queue)
    before = queue.counts(), queue.audit(), queue.plans(), len(queue.journal())
    viewer = Operator(queue, "eve", "viewer")
    assert not viewer.may(name)
    with pytest.raises(NotPermitted, match=r"eve has the role viewer, and .* needs the role (operator|admin)"):
        call(viewer, name)
    assert (queue.counts(), queue.audit(), queue.plans(), len(queue.journal())) == before


@pytest.mark.parametrize("name", ["expunge", "reveal"])
def test_what_is_for_admins_is_not_for_operators(operator: Operator, name: str) -> None:
    with pytest.raises(NotPermitted, match="needs the role admin"):
        call(operator, name)
    assert not operator.may(name)
    assert operator.may("redrive")


def test_a_plan_that_removes_for_good_is_made_and_run_by_an_admin(
    queue: Queue, operator: Operator, admin: Operator
) -> None:
    for id in dead(queue, 3):
        queue.purge(id)
    with pytest.raises(NotPermitted):
        operator.plan("expunge", "", reason="no use")
    plan = admin.plan("expunge", "", reason="no use")
    with pytest.raises(NotPermitted):
        operator.run(plan.number)
    assert admin.run(plan.number).moved == 3
    assert queue.counts().all == 0


def test_an_unmasked_export_is_for_admins(operator: Operator, tmp_path: Any) -> None:
    with pytest.raises(NotPermitted, match="masks nothing"):
        operator.export_tasks(tmp_path / "all.ndjson", masked=False)
    assert list(tmp_path.glob("*.ndjson")) == []


@pytest.mark.parametrize("role", ["boss", "", None])
def test_a_role_that_there_is_not_is_refused(queue: Queue, role: Any) -> None:
    with pytest.raises(InvalidArgument, match="one of viewer, operator, admin"):
        Operator(queue, "ann", role)


def test_nobody_is_no_actor(queue: Queue) -> None:
    with pytest.raises(InvalidArgument, match="say who acts"):
        Operator(queue, "", Role.ADMIN)
