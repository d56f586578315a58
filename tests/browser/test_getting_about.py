"""Getting about as a browser does it: addresses, the box that finds things, a dialog that stays while numbers move."""

import re

import pytest
from looking import Server, button, charts, sentence, settle, tab, visit
from playwright.sync_api import BrowserContext, Page, expect

from queue_core import Item, Queue
from queue_core.control import Operator

pytestmark = [pytest.mark.browser, pytest.mark.slow]
MARKUP = "<img src=x onerror=\"document.title='run'\"><b>bold</b>"


@pytest.fixture(scope="module")
def filled(server: Server) -> Queue:
    queue = server.queue
    queue.push_many([Item({"n": n, "text": MARKUP}, tag) for n in range(30) for tag in ("acme", "bolt", MARKUP)])
    for lease in queue.lease_many(30, owner=MARKUP):
        queue.dead_letter(lease, f"Error: {MARKUP}")
    return queue


def find(page: Page, text: str) -> None:
    box = page.get_by_placeholder("Find a task, a tag, dead letters")
    box.fill(text)
    box.press("Enter")


def test_the_old_address_is_taken_on_with_its_filters(page: Page, server: Server, filled: Queue) -> None:
    visit(page, server, "overview?tag=acme&live=false")
    expect(page).to_have_url(re.compile(r"/\?(?=.*tag=acme)(?=.*live=false)"))
    expect(page.get_by_text("Page not found")).to_have_count(0)
    expect(page.get_by_role("combobox").first).to_have_value("acme")


def test_what_is_found_opens_at_an_address_that_others_can_open(page: Page, server: Server, filled: Queue) -> None:
    task = filled.tasks("dead").items[0]
    visit(page, server, "fairness?span=24+h")
    find(page, task.id)
    expect(page).to_have_url(re.compile(rf"/task\?.*task={task.id}"))
    expect(sentence(page)).to_contain_text("dead")
    find(page, "bolt")
    expect(page).to_have_url(re.compile(r"/tag\?(?=.*tag=bolt)"))
    expect(sentence(page)).to_contain_text("bolt is")
    expect(charts(page)).to_have_count(4)
    find(page, "tag:acme error:zzz")
    expect(page).to_have_url(re.compile(r"/dead\?.*where=tag(:|%3A)acme\+error(:|%3A)zzz"))
    settle(page)
    with tab(page.context) as colleague:
        colleague.goto(page.url)
        expect(colleague.get_by_role("textbox", name="Filter")).to_have_value("tag:acme error:zzz")


def test_filters_stay_from_page_to_page(page: Page, server: Server, filled: Queue) -> None:
    visit(page, server, "tag?tag=bolt&span=24+h")
    for name, path in (("In flight", "inflight"), ("Overview", ""), ("Tag", "tag")):
        expect(page.get_by_role("combobox").first).to_have_value("bolt")  # the page has taken it over
        page.get_by_role("link", name=re.compile(name)).first.click()
        expect(page).to_have_url(re.compile(rf"/{path}\?(?=.*tag=bolt)"))
        settle(page)
    expect(page.get_by_role("radio", name="24 h")).to_have_attribute("aria-checked", "true")


def test_a_dialog_stays_open_while_the_numbers_move(page: Page, server: Server, filled: Queue) -> None:
    visit(page, server, "tag?tag=bolt")
    button(page, "Change settings").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Weight: tasks in one turn").fill("4")
    waiting = page.get_by_test_id("stMetricValue").first
    before = filled.snapshot().tags[1].backlog
    filled.push_many([("x", "bolt")] * 3)
    expect(waiting).to_have_text(f"{before + 3:,}")
    expect(dialog).to_be_visible()
    expect(dialog.get_by_label("Weight: tasks in one turn")).to_have_value("4")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_text("bolt: weight 1 is weight 4 now")).to_be_visible()
    expect(dialog).to_have_count(0)
    assert [tag.weight for tag in filled.snapshot().tags] == [1, 4, 1]
    button(page, "Undo").click()
    expect(page.get_by_text("bolt: weight 4 is weight 1 now")).to_be_visible()


def test_a_plan_is_run_watched_and_undone(page: Page, server: Server, filled: Queue) -> None:
    dead = filled.counts().dead
    number = Operator(filled, "ann", origin="cli").plan("redrive", "state:dead", reason=MARKUP).number
    visit(page, server, f"operations?plan={number}")
    expect(page.get_by_text(f"Plan {number}, redrive: ready")).to_be_visible()
    assert page.locator("img[src=x]").count() == 0
    button(page, "Run").click()
    button(page, f"Run plan {number}: {dead} tasks").click()
    expect(page.get_by_text(f"Plan {number}, redrive: finished, {dead} of {dead} moved")).to_be_visible()
    button(page, "Undo").click()
    page.wait_for_timeout(4_500)  # two refreshes that must not take the question away
    button(page, f"Undo plan {number}: {dead} tasks").click()
    expect(page.get_by_text(f"Plan {number + 1}, undo of {number}: finished")).to_be_visible()
    expect(page).to_have_url(re.compile(rf"plan={number + 1}"))
    assert filled.counts().dead == dead


@pytest.mark.parametrize("path", ["tag?tag=bolt", "operations", "operations?show=Audit", "operations?show=Store"])
def test_nothing_runs_off_the_side_of_a_phone(
    browser: BrowserContext, server: Server, filled: Queue, path: str
) -> None:
    with tab(browser, width=390) as page:
        visit(page, server, path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.title() != "run"
