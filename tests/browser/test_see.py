"""The pages as a browser draws them: with no data and with real data, as text, live, filtered, in both themes."""

import os
import re
from pathlib import Path

import pytest
from looking import PAGES, Server, Theme, button, charts, rows, select, sentence, settle, stopped_writer, tab, visit
from playwright.sync_api import BrowserContext, Page, expect

from queue_core import Item, Queue

pytestmark = [pytest.mark.browser, pytest.mark.slow]
MARKUP = "<img src=x onerror=\"document.title='run'\"><b>bold</b>"
CHARTS = {"": 4, "fairness": 6, "inflight": 2, "dead": 1}


@pytest.fixture
def filled(server: Server) -> Queue:
    """Standard library names as tags, real file names as payloads, in every state, and markup everywhere."""
    queue = server.queue
    if not queue.counts().all:
        names = sorted(os.listdir(os.path.dirname(os.__file__)))
        queue.push_many([Item({"path": name}, name[:1].lower(), max_attempts=1) for name in names])
        queue.push_many([Item({"text": MARKUP}, MARKUP, max_attempts=1) for _ in range(3)])
        leases = queue.lease_many(120, ttl=3600, owner=MARKUP)
        for n, lease in enumerate(sorted(leases, key=lambda lease: lease.tag)):
            if n % 3 == 1:
                queue.nack(lease, f"SyntaxError: {MARKUP}")
            elif n % 3 == 2:
                queue.ack(lease)
    return queue


@pytest.mark.parametrize("path", PAGES)
def test_1_a_page_without_data(page: Page, server: Server, path: str) -> None:
    visit(page, server, path)
    words = {
        "": "Nothing has been pushed into this queue yet",
        "fairness": "Nobody can be served now; nothing has been served yet",
        "inflight": "Nothing is in flight",
        "dead": "No dead letters",
    }
    expect(sentence(page)).to_have_text(words[path])
    expect(charts(page)).to_have_count(0)


@pytest.mark.parametrize("path", PAGES)
def test_2_a_page_with_data(page: Page, server: Server, filled: Queue, path: str) -> None:
    visit(page, server, path)
    expect(charts(page)).to_have_count(CHARTS[path])
    narrow_for_a_moment(page)
    expect(page.locator("canvas").first).to_be_visible()
    expect(page.get_by_text(re.compile(r"^as of \d\d:\d\d:\d\d UTC$"))).to_be_visible()
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 1280  # nothing runs off the side


def narrow_for_a_moment(page: Page) -> None:
    """Charts lose their room and get it again, as when a page is left: the browser must have nothing to complain of."""
    width = "width => document.querySelectorAll('.queue-core-chart').forEach(node => node.style.width = width)"
    for room in ("10px", ""):
        page.evaluate(width, room)
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    drawn = "() => [...document.querySelectorAll('.queue-core-chart')].every(node => node._fullLayout.width > 100)"
    page.wait_for_function(drawn)


@pytest.mark.parametrize("path", PAGES)
def test_3_text_with_markup_is_text(page: Page, server: Server, filled: Queue, path: str) -> None:
    visit(page, server, path)
    expect(charts(page)).to_have_count(CHARTS[path])
    for selector in ("img[src=x]", ".queue-core-chart [style*='font-weight: bold']", "b"):
        found = page.locator(f"[data-testid=stMain] {selector}").filter(has_text="bold")
        expect(found).to_have_count(0)
    assert page.locator("img[src=x]").count() == 0
    assert page.title() != "run"


def test_4_the_detail_shows_markup_as_text(page: Page, server: Server, filled: Queue) -> None:
    visit(page, server, "dead")
    select(page, "dead", rows(page, "dead")[0])
    expect(page.get_by_test_id("stCode").filter(has_text=f"SyntaxError: {MARKUP}")).to_be_visible()
    assert page.locator("img[src=x]").count() == 0
    assert page.title() != "run"


def test_5_numbers_move_by_themselves_until_paused(page: Page, server: Server, filled: Queue) -> None:
    visit(page, server, "")
    waiting = page.get_by_test_id("stMetricValue").first
    before = filled.counts().pending
    expect(waiting).to_have_text(f"{before:,}")
    filled.push_many([("x", "a")] * 3)
    expect(waiting).to_have_text(f"{before + 3:,}")
    page.get_by_text("Live", exact=True).click()
    expect(page).to_have_url(re.compile("live=false"))
    settle(page)
    time = page.get_by_text(re.compile("^as of")).text_content()
    filled.push_many([("x", "a")] * 3)
    page.wait_for_timeout(4_500)  # two refreshes that must not come: there is no condition to wait for
    assert page.get_by_text(re.compile("^as of")).text_content() == time
    expect(waiting).to_have_text(f"{before + 3:,}")


def test_6_a_chart_is_not_drawn_anew(page: Page, server: Server, filled: Queue) -> None:
    visit(page, server, "")
    expect(charts(page)).to_have_count(4)
    page.evaluate("document.querySelectorAll('.queue-core-chart')[2].dataset.mine = 'kept'")
    bars = page.locator(".queue-core-chart").nth(2)
    expect(bars).to_contain_text("s")
    filled.push_many([("x", "brand new tag")] * 500)
    expect(bars).to_contain_text("brand new tag")
    assert bars.get_attribute("data-mine") == "kept"


def test_7_filters_are_in_the_address_and_stay(page: Page, server: Server, filled: Queue) -> None:
    visit(page, server, "dead?tag=s")
    assert set(rows(page, "dead")) == {"s"}
    page.get_by_role("link", name=re.compile("In flight")).click()
    expect(page).to_have_url(re.compile(r"inflight\?.*tag=s"))
    settle(page)
    assert set(rows(page, "inflight")) == {"s"}
    page.get_by_role("link", name=re.compile("Dead letters")).click()
    expect(page).to_have_url(re.compile(r"dead\?.*tag=s"))
    settle(page)
    assert set(rows(page, "dead")) == {"s"}


def test_8_both_themes(browser: BrowserContext, server: Server, filled: Queue) -> None:
    colours: dict[Theme, str] = {"light": "rgb(27, 35, 51)", "dark": "rgb(230, 233, 242)"}
    for theme, colour in colours.items():
        with tab(browser, theme=theme) as page:
            visit(page, server, "")
            expect(charts(page)).to_have_count(4)
            expect(page.locator(".queue-core-chart .ytick text").first).to_have_css("fill", colour)


def test_9_a_page_needs_no_write_lock(page: Page, server: Server, filled: Queue) -> None:
    """Reads go on while the writer that holds the lock is stopped, and an action says that the store is busy."""
    visit(page, server, "")
    with stopped_writer(server):
        before = page.get_by_text(re.compile("^as of")).text_content()
        expect(page.get_by_text(re.compile("^as of"))).not_to_have_text(before or "")
        task = filled.tasks("dead").items[0]
        for path in (f"tag?tag={task.tag}", f"task?task={task.id}", "operations", *PAGES):
            visit(page, server, path)
            expect(sentence(page)).not_to_have_text(re.compile("busy|cannot be read|No tag|No task"))
            if path in CHARTS:
                expect(charts(page)).to_have_count(CHARTS[path])
        dead = filled.counts().dead
        select(page, "dead", rows(page, "dead")[0])
        button(page, "Redrive 1 task").click()
        page.get_by_role("dialog").get_by_role("button", name=re.compile("Redrive 1 task$")).click()
        expect(page.get_by_text("0 of 1 task redriven; 1 failed")).to_be_visible()
    assert filled.counts().dead == dead


def test_a_store_that_comes_back_is_shown_by_itself(page: Page, server: Server, filled: Queue) -> None:
    visit(page, server, "dead")
    here = Path(server.queue.url.removeprefix("lmdb://"))
    here.rename(here.with_name("away"))
    try:
        button(page, "Refresh").click()
        expect(sentence(page)).to_have_text("There is no queue here yet")
    finally:
        here.with_name("away").rename(here)
    expect(sentence(page)).to_have_text(re.compile(r"dead letters"))
