"""A double click, and two clicks 30 ms apart, on whatever does something: it is done once.

The mouse is a real one: the second click hits what is there by then. Pages do not renew themselves, to be quick.
"""

import json
import re
from collections.abc import Callable, Iterator

import pytest
from looking import Server, button, rows, select, settle, tab, table, visit
from playwright.sync_api import BrowserContext, Locator, Page
from waiting import until

from queue_core import Queue, State
from queue_core.control import Operator
from queue_core.plans import PlanState

pytestmark = [pytest.mark.browser, pytest.mark.slow]

Click = Callable[[Locator], None]


@pytest.fixture(scope="module")
def page(browser: BrowserContext, server: Server) -> Iterator[Page]:
    """One page for all tests: what it has loaded once, it need not load again."""
    with tab(browser) as page:
        yield page


def double(found: Locator) -> None:
    found.dblclick()


def at(found: Locator) -> tuple[float, float]:
    """The middle of what can be clicked, when it is in view and has stopped moving."""
    found.click(trial=True)
    box = found.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def apart(found: Locator) -> None:
    """Two clicks at one place, 30 ms apart."""
    place, page = at(found), found.page
    page.mouse.click(*place)
    page.wait_for_timeout(30)
    page.mouse.click(*place)


def late(page: Page, place: tuple[float, float]) -> None:
    """One more click, when the page has answered: what was clicked is no more, or is something else."""
    page.mouse.click(*place)
    settle(page)


WAYS: tuple[Click, Click] = (double, apart)


def kill(queue: Queue, tag: str, n: int = 1) -> list[str]:
    ids = [task.id for task in queue.push_many([({"n": k}, tag) for k in range(n)])]
    for id in ids:
        queue.dead_letter(id, f"{tag} is down")
    return ids


def states(queue: Queue, ids: list[str]) -> set[State]:
    return {queue.get(id).state for id in ids}


def entries(queue: Queue, since: int = 0) -> list[tuple[str, int]]:
    """What the audit says was done after so many entries, in its order: the action, to how many. A run has two: that it
    began, and its end."""
    return [(entry.action, entry.count) for entry in queue.audit()][since:]


def stays(page: Page, words: str | re.Pattern[str]) -> None:
    """A page tells this, and still does when it has come to rest."""
    page.get_by_text(words).wait_for()
    settle(page)
    page.get_by_text(words).wait_for()


def dismissed(page: Page) -> None:
    """What was told is out of the way."""
    button(page, "Dismiss").click()
    button(page, "Dismiss").wait_for(state="detached")
    settle(page)


def test_more_time_for_a_lease(page: Page, server: Server) -> None:
    queue = server.queue
    task = queue.push("x", tag="held")
    lease = queue.lease(ttl=60)
    assert lease is not None
    before = len(entries(queue))
    visit(page, server, "inflight?tag=held&live=false")
    for twice in WAYS:
        table(page, "inflight").hover()
        select(page, "inflight", "held")
        button(page, "Extend 1 lease").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Seconds from now").fill("600" if twice is double else "900")
        twice(dialog.get_by_role("button", name="Extend 1 lease"))
        stays(page, "1 task extended")
        dismissed(page)
    assert entries(queue, before) == [("extend", 1)] * 2
    assert queue.get(task.id).version == task.version + 3  # leased, and extended twice
    queue.ack(lease)


def test_an_edit(page: Page, server: Server) -> None:
    queue = server.queue
    (id,) = kill(queue, "edited")
    visit(page, server, "dead?tag=edited&live=false")
    back = "Undone: it has the payload of before again, and is a dead letter"
    for cycle, twice in enumerate(WAYS, 2):
        table(page, "dead").hover()
        select(page, "dead", "edited")
        twice(button(page, "Edit payload"))
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Payload, as JSON").fill(json.dumps({"n": cycle}))
        twice(dialog.get_by_role("button", name="Show what changes"))
        dialog.get_by_text("What changes", exact=True).wait_for()
        before = len(entries(queue))
        twice(dialog.get_by_role("button", name="Save this payload"))
        stays(page, "it was redriven")
        assert entries(queue, before) == [("edit", 1), ("plan", 1), ("run", 0), ("run", 1)]
        task = queue.get(id)
        assert (task.state, task.payload) == (State.PENDING, {"n": cycle})
        place = at(button(page, "Undo the edit"))
        twice(button(page, "Undo the edit"))
        stays(page, back)
        late(page, place)
        assert entries(queue, before + 4) == [("undo", 1), ("run", 0), ("run", 1), ("edit", 1)]
        assert (queue.get(id).state, queue.get(id).payload) == (State.DEAD, {"n": 0})
        dismissed(page)


def test_an_error_group(page: Page, server: Server) -> None:
    queue = server.queue
    kill(queue, "grouped", 2)
    visit(page, server, "dead?tag=grouped&live=false")
    before = len(entries(queue))
    select(page, "groups", "grouped is down")
    for twice in WAYS:
        for verb in ("Resolve", "Reopen"):
            twice(button(page, f"{verb} 1 group"))
            stays(page, f"1 error group {'resolved' if verb == 'Resolve' else 'reopened'}")
    assert entries(queue, before) == [("resolve", 2), ("reopen", 2)] * 2


def test_all_that_match(page: Page, server: Server) -> None:
    """Planned, run and undone: each once."""
    queue = server.queue
    ids = kill(queue, "planned", 3)
    visit(page, server, "dead?tag=planned&live=false")
    until(lambda: rows(page, "dead") == ["planned"] * 3)
    before = len(entries(queue))
    for twice in WAYS:
        button(page, "All that match").click()
        twice(button(page, "Redrive all that match …"))
        dialog = page.get_by_role("dialog")
        twice(dialog.get_by_role("button", name="Look what it would do"))
        dialog.get_by_text("3 tasks of 1 tag").wait_for()
        assert states(queue, ids) == {State.DEAD}
        twice(dialog.get_by_role("button", name=re.compile("Redrive 3 tasks$")))
        stays(page, "3 of 3 moved")
        undo = page.locator('[class*="st-key-plan-undo"] button')
        place = at(undo)
        twice(undo)
        stays(page, re.compile("Undo of plan .* 3 of 3 moved"))
        late(page, place)
        assert states(queue, ids) == {State.DEAD}
        dismissed(page)
        button(page, "Refresh").click()
        until(lambda: rows(page, "dead") == ["planned"] * 3)
    assert entries(queue, before) == [("plan", 3), ("run", 0), ("run", 3), ("undo", 3), ("run", 0), ("run", 3)] * 2


def test_a_plan_on_operations(page: Page, server: Server) -> None:
    """Run, stopped, gone on with, stopped again, and undone: each once."""
    queue = server.queue
    ids = kill(queue, "slow", 60)
    number = Operator(queue, "ann", origin="cli").plan("redrive", "tag:slow state:dead", rate=2).number
    before, done = len(entries(queue)), 0
    visit(page, server, f"operations?plan={number}&live=false")
    for twice, label in zip(WAYS, ("Run", "Resume"), strict=True):
        twice(button(page, label))
        twice(button(page, f"Run plan {number}: {60 - done} tasks"))
        until(lambda moved=done: queue.plan(number).moved > moved)
        twice(button(page, "Stop"))
        until(lambda: queue.plan(number).state is PlanState.STOPPED)
        done = queue.plan(number).moved
    told = entries(queue, before)
    assert [action for action, _ in told] == ["run", "stop"] * 2
    assert sum(count for _, count in told) == done < 60
    double(button(page, "Undo"))
    apart(button(page, f"Undo plan {number}: {done} tasks"))
    until(lambda: states(queue, ids) == {State.DEAD})
    settle(page)
    assert [plan.moved for plan in queue.plans() if plan.undo_of == number] == [done]
    assert entries(queue, before + 4) == [("undo", done), ("run", 0), ("run", done)]


def test_settings(page: Page, server: Server) -> None:
    queue = server.queue
    queue.push("x", tag="set")
    visit(page, server, "tag?tag=set&live=false")
    before = len(entries(queue))
    steps = (
        (double, "Pause", "Pause", "not paused is paused now"),
        (apart, "Resume", "Resume", "paused is not paused now"),
        (double, "Change settings", "Save", "weight 1 is weight 3 now"),
    )
    for twice, press, confirm, told in steps:
        twice(button(page, press))
        dialog = page.get_by_role("dialog")
        if confirm == "Save":
            dialog.get_by_label("Weight: tasks in one turn").fill("3")
        twice(dialog.get_by_role("button", name=confirm, exact=True))
        dialog.wait_for(state="detached")
        stays(page, f"set: {told}")
    place = at(button(page, "Undo"))
    apart(button(page, "Undo"))
    stays(page, "set: weight 3 is weight 1 now")
    late(page, place)
    page.get_by_text("set: weight 3 is weight 1 now").wait_for()
    assert entries(queue, before) == [("configure", 0)] * 4
    (settings,) = [tag.settings for tag in queue.snapshot().tags if tag.name == "set"]
    assert (settings.paused, settings.weight) == (False, 1)
