"""Who may only look: sees no action work, and cannot act by what a session could be made to send either.

Every request is sent in both roles; an operator's has its effect, so that the viewer's could have had it.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from looking import Server, dashboard, select, visit
from playwright.sync_api import Page, expect
from waiting import until
from wire import Session

from queue_core import Queue, State, open_queue
from queue_core.control import Operator
from queue_core.plans import PlanState

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    """Dead letters, leases and two plans: one has run, one can be run."""
    with open_queue(f"lmdb://{tmp_path_factory.mktemp('crafted') / 'queue'}") as queue:
        operator = Operator(queue, "ann", origin="library")
        for tag in ("acme", "acme", "acme", "acme", "bolt", "core"):
            queue.dead_letter(queue.push("x", tag=tag).id, f"{tag} is down")
        queue.push_many([("x", "acme")] * 3)
        queue.lease_many(2, ttl=3_600, owner="worker")
        operator.run(operator.plan("redrive", "tag:core state:dead").number)
        operator.plan("redrive", "tag:bolt state:dead")
        yield queue
        assert queue.check() == []


@pytest.fixture(scope="module")
def viewer(queue: Queue, tmp_path_factory: pytest.TempPathFactory, chromium: str) -> Iterator[Server]:
    with dashboard(queue, tmp_path_factory.mktemp("viewer") / "log", QUEUE_ROLE="viewer") as server:
        yield server


@pytest.fixture(scope="module")
def operator(queue: Queue, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with dashboard(queue, tmp_path_factory.mktemp("operator") / "log", QUEUE_ROLE="operator") as server:
        yield server


def state(queue: Queue) -> Any:
    """All that somebody could have changed."""
    with queue.view() as view:
        tasks = [(task.id, task.version) for state in State for task in view.tasks(state).items]
        settings = [tag.settings for tag in view.snapshot().tags]
        return tasks, settings, view.snapshot().settings, view.groups(), list(view.plans()), list(view.audit())


# --- in a browser ---------------------------------------------------------------------------------


BUTTONS = {
    "dead": ["Redrive 1 task", "Move 1 task", "Purge 1 task", "Edit payload"],
    "inflight": ["Requeue 1 task", "Dead-letter 1 task", "Extend 1 lease"],
    "tag?tag=acme": ["Pause", "Change settings"],
    "operations?plan=2": ["Run", "Stop"],
    "operations?plan=1": ["Undo"],
}


def test_a_viewer_sees_no_action_that_works(page: Page, viewer: Server, queue: Queue) -> None:
    before = state(queue)
    for path, names in BUTTONS.items():
        visit(page, viewer, path)
        if path in ("dead", "inflight"):
            select(page, path, "acme")
        for name in names:
            found = page.get_by_role("button", name=name)
            expect(found).to_be_disabled()
            found.click(force=True)
        expect(page.get_by_role("dialog")).to_have_count(0)
    assert state(queue) == before


# --- by hand --------------------------------------------------------------------------------------


def redrive(made: Session) -> None:
    made.press("dead-redrive", made.rows("dead-1", 0))
    made.press("confirm-do")


def purge(made: Session) -> None:
    made.press("dead-purge", made.rows("dead-1", 0, 1))
    made.press("confirm-do", made.text("reason", "because"))


def all_that_match(made: Session) -> None:
    made.press("all-redrive")
    made.press("plan-look")
    made.press("plan-run")


def resolve(made: Session) -> None:
    made.load([made.rows("groups-0", 0)])
    made.press("groups-resolve", made.rows("groups-0", 0))


def edit(made: Session) -> None:
    made.press("edit")
    written = made.text("payload", '"y"')
    made.press("edit-look", written)
    made.press("edit-save", written)


def extend(made: Session) -> None:
    made.press("inflight-extend", made.rows("inflight-1", 0))
    made.press("extend-do", made.text("extend-reason", ""), made.number("extend-ttl", 7_200))


def requeue(made: Session) -> None:
    made.press("inflight-requeue", made.rows("inflight-1", 0))
    made.press("confirm-do")


def pause(made: Session) -> None:
    made.press("pause")
    made.press("settings-do")


def run(made: Session) -> None:
    made.press("plan-run")
    made.press("plan-do-run")


def stop(made: Session) -> None:
    made.press("plan-stop")


def undo(made: Session) -> None:
    made.press("plan-undo")
    made.press("plan-do-undo")


@pytest.mark.parametrize(
    ("act", "page", "query"),
    [
        (extend, "inflight", {}),
        (requeue, "inflight", {}),
        (pause, "tag", {"tag": "acme"}),
        (resolve, "dead", {}),
        (edit, "task", {"task": ""}),
        (undo, "operations", {"plan": "1"}),
        (stop, "operations", {"plan": "2"}),
        (run, "operations", {"plan": "2"}),
        (redrive, "dead", {}),
        (purge, "dead", {}),
        (all_that_match, "dead", {"where": "tag:acme"}),
    ],
)
def test_what_an_operator_can_do_a_viewer_cannot(
    viewer: Server, operator: Server, queue: Queue, act: Any, page: str, query: dict[str, str]
) -> None:
    if "task" in query:
        query = {"task": queue.tasks("dead").items[0].id}
    before = state(queue)
    with Session(viewer.address, page, **query) as made:
        act(made)
    assert state(queue) == before
    with Session(operator.address, page, **query) as made:
        act(made)
    until(lambda: state(queue)[:5] != before[:5])
    until(lambda: all(plan.state is not PlanState.RUNNING for plan in queue.plans()))
    new = state(queue)[5][len(before[5]) :]
    assert {(entry.role, entry.origin) for entry in new} == {("operator", "dashboard")}
