"""Two quick clicks, two tabs, a filter whose tag is gone: what was meant is done once, and nothing else."""

import re
import time
from collections.abc import Callable, Iterator

import pytest
from injected import Clock
from looking import Server, button, rows, select, settle, tab, visit
from playwright.sync_api import Locator, Page, expect
from waiting import until

from queue_core import Queue, State, open_queue
from queue_core.control import Operator
from queue_core.plans import Plan, PlanState

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FOREVER = 30 * 86_400  # seconds


@pytest.fixture
def other(page: Page) -> Iterator[Page]:
    """Another tab of the same browser."""
    with tab(page.context) as other:
        yield other


def kill(queue: Queue, tag: str, n: int = 1) -> list[str]:
    ids = [task.id for task in queue.push_many([("x", tag)] * n)]
    for id in ids:
        queue.dead_letter(id, f"{tag} is down")
    return ids


def states(queue: Queue, ids: list[str]) -> list[State]:
    return [queue.get(id).state for id in ids]


def audited(queue: Queue) -> list[tuple[str, int, str]]:
    """What the audit says of what was done: the action, to how many, from where."""
    return [(entry.action, entry.count, entry.origin) for entry in queue.audit()]


def selected(page: Page, server: Server, tag: str, n: int) -> None:
    """The first rows of a tag's dead letters are selected."""
    page.bring_to_front()
    visit(page, server, f"dead?tag={tag}")
    until(lambda: rows(page, "dead") == [tag] * n)
    settle(page)
    select(page, "dead", tag)
    for _ in range(n - 1):
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Shift+Space")


def confirming(page: Page, words: str) -> Locator:
    """The button that does it, in the dialog that it opens."""
    button(page, words).click()
    return page.get_by_role("dialog").get_by_role("button", name=re.compile(f"{words}$"))


def twice(found: Locator) -> None:
    """Two clicks, quicker than any answer."""
    expect(found).to_be_enabled()
    found.evaluate("node => { node.click(); node.click() }")


def test_two_quick_clicks_on_one_task(page: Page, server: Server) -> None:
    """They do what one does, and leave behind what one does."""
    queue = server.queue
    once: Callable[[Locator], None] = Locator.click
    told = []
    for tag, click in (("one", once), ("two", twice)):
        (id,) = kill(queue, tag)
        before = len(audited(queue))
        selected(page, server, tag, 1)
        click(confirming(page, "Redrive 1 task"))
        expect(page.get_by_text("1 task redriven")).to_be_visible()
        settle(page)
        assert queue.get(id).state is State.PENDING
        told.append((queue.get(id).cycle, audited(queue)[before:]))
        expect(page.get_by_text("1 task redriven")).to_be_visible()
    assert told[0] == told[1]


def test_two_quick_clicks_on_several_and_on_undo(page: Page, server: Server) -> None:
    queue = server.queue
    ids, before = kill(queue, "several", 3), len(list(queue.plans()))
    selected(page, server, "several", 3)
    twice(confirming(page, "Redrive 3 tasks"))
    expect(page.get_by_text("3 tasks redriven")).to_be_visible()
    settle(page)
    assert set(states(queue, ids)) == {State.PENDING}
    twice(button(page, "Undo"))
    expect(page.get_by_text("Undone: 3 of 3 moved")).to_be_visible()
    settle(page)
    expect(page.get_by_text("Undone: 3 of 3 moved")).to_be_visible()
    assert set(states(queue, ids)) == {State.DEAD}
    undo, redrive = list(queue.plans())[: len(list(queue.plans())) - before]
    assert (redrive.moved, undo.moved, undo.undo_of) == (3, 3, redrive.number)


def test_two_quick_clicks_on_a_setting(page: Page, server: Server) -> None:
    queue = server.queue
    queue.push("x", tag="set")
    visit(page, server, "tag?tag=set")
    before = len(audited(queue))
    button(page, "Pause").click()
    twice(page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True))
    expect(page.get_by_text("Settings changed")).to_be_visible()
    settle(page)
    expect(page.get_by_text("Settings changed")).to_be_visible()
    assert len(audited(queue)) == before + 1
    assert [tag.settings.paused for tag in queue.snapshot().tags if tag.name == "set"] == [True]


def test_two_tabs_that_have_selected_the_same_task(page: Page, other: Page, server: Server) -> None:
    queue = server.queue
    (id,) = kill(queue, "shared")
    for one in (page, other):
        selected(one, server, "shared", 1)
    first, second = (confirming(one, "Redrive 1 task") for one in (page, other))
    first.click()
    expect(page.get_by_text("1 task redriven")).to_be_visible()
    version = queue.get(id).version
    second.click()
    expect(other.get_by_text("0 of 1 task redriven; 1 skipped")).to_be_visible()
    assert queue.get(id).version == version


def finished(queue: Queue, number: int) -> Plan:
    def plan() -> Plan:
        return queue.plan(number)

    until(lambda: plan().state is PlanState.FINISHED)
    return plan()


def test_two_tabs_that_run_and_undo_the_same_plan(page: Page, other: Page, server: Server) -> None:
    queue = server.queue
    ids = kill(queue, "planned", 4)
    number = Operator(queue, "ann", origin="library").plan("redrive", "tag:planned state:dead").number
    for one in (page, other):
        visit(one, server, f"operations?plan={number}")
        button(one, "Run").click()
    runs = audited(queue).count(("run", 4, "dashboard"))
    both = [button(one, f"Run plan {number}: 4 tasks") for one in (page, other)]
    for found in both:
        expect(found).to_be_enabled()
    for found in both:
        found.evaluate("node => node.click()")
    assert finished(queue, number).moved == 4
    assert set(states(queue, ids)) == {State.PENDING}
    versions = [queue.get(id).version for id in ids]
    for one in (page, other):
        settle(one)
        expect(one.get_by_text(f"Plan {number}, redrive: finished, 4 of 4 moved")).to_be_visible()
        button(one, "Undo").click()
    assert audited(queue).count(("run", 4, "dashboard")) == runs + 1
    assert [queue.get(id).version for id in ids] == versions
    both = [button(one, f"Undo plan {number}: 4 tasks") for one in (page, other)]
    for found in both:
        expect(found).to_be_enabled()
    for found in both:
        found.evaluate("node => node.click()")
    until(lambda: states(queue, ids) == [State.DEAD] * 4)
    for one in (page, other):
        settle(one)
    assert [plan.moved for plan in queue.plans() if plan.undo_of == number] == [4]


def test_a_filter_whose_tag_is_forgotten(page: Page, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays, nothing of other tags is shown under it, and all that match it are none."""
    queue = server.queue
    kept, (id,) = kill(queue, "kept", 2), kill(queue, "gone")
    visit(page, server, "dead?tag=gone")
    until(lambda: rows(page, "dead") == ["gone"])
    forget(queue, id, "gone", monkeypatch)
    before = [(tag.name, tag.dead, tag.trash, tag.pending) for tag in queue.snapshot().tags]
    button(page, "All that match").click()
    button(page, "Purge all that match …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("of no use")
    dialog.get_by_role("button", name="Look what it would do").click()
    expect(dialog.get_by_role("button", name=re.compile("Purge 0 tasks$"))).to_be_disabled()
    dialog.get_by_role("button", name="Cancel").click()
    button(page, "Refresh").click()
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    expect(page.get_by_role("combobox", name="Tag")).to_have_value("gone")
    expect(page).to_have_url(re.compile("tag=gone"))
    expect(button(page, "All that match")).to_be_disabled()
    for path in ("", "inflight", "tag"):
        visit(page, server, f"{path}?tag=gone")
        expect(page.get_by_role("combobox", name="Tag")).to_have_value("gone")
        expect(page.locator("table[role=grid] td").get_by_text("kept", exact=True)).to_have_count(0)
    assert [(tag.name, tag.dead, tag.trash, tag.pending) for tag in queue.snapshot().tags] == before
    assert set(states(queue, kept)) == {State.DEAD}


def forget(queue: Queue, id: str, tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the one task of a tag go, and time pass until the tag is forgotten."""
    queue.expunge(queue.purge(id).id)
    monkeypatch.setattr("queue_core.stores.engine.measure.JOURNAL_KEPT", 0)  # the journal still names the tag
    queue.configure(tag_retention=0)
    clock = Clock(time.time_ns() // 1_000)
    with open_queue(queue.url, clock=clock) as later:
        while tag in names(queue):
            clock.advance(60)
            later.configure()
    queue.configure(tag_retention=FOREVER)


def names(queue: Queue) -> list[str]:
    return [tag.name for tag in queue.snapshot().tags]
