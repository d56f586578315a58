"""The overview over time, as a browser draws it, on a queue with a day of history."""

import re
import time

import pytest
from looking import Server, Theme, charts, settle, tab, visit
from playwright.sync_api import BrowserContext, Locator, Page, expect

from queue_core import Queue, open_queue
from queue_core.task import SECOND

pytestmark = [pytest.mark.browser, pytest.mark.slow]
MARKUP = "<img src=x onerror=\"document.title='run'\"><b>bold</b>"
DAY = 86_400


@pytest.fixture(scope="module")
def day(server: Server) -> Queue:
    """Tasks of three tags come and go every ten minutes for a day, but for its sixth hour."""
    now = [time.time_ns() // 1_000 - DAY * SECOND]
    with open_queue(server.queue.url, clock=lambda: now[0]) as queue:
        for turn in range(144):
            if turn // 6 != 5:
                queue.push_many([("x", tag) for tag in ("acme", "acme", "bolt", MARKUP)])
                queue.ack_many(queue.lease_many(2))
            now[0] += 600 * SECOND
    return server.queue


def bands(page: Page) -> Locator:
    return page.locator(".queue-core-chart").nth(0)


def throughput(page: Page) -> Locator:
    return page.locator(".queue-core-chart").nth(1)


def drawn_spans(page: Page) -> int:
    """How many moments the topmost line of the bands has."""
    return int(bands(page).evaluate("node => node.data.at(-1).x.length"))


def test_bands_are_named_and_add_up(page: Page, server: Server, day: Queue) -> None:
    visit(page, server, "?span=24+h")
    expect(charts(page)).to_have_count(4)
    expect(bands(page)).to_contain_text("acme")
    expect(bands(page)).to_contain_text(MARKUP[:8])
    expect(throughput(page)).to_contain_text("acked")
    assert page.locator("img[src=x]").count() == 0
    assert page.title() != "run"
    assert drawn_spans(page) == 145
    assert bands(page).evaluate("node => node.data.at(-1).y.at(-1)") == day.counts().pending


def test_a_span_is_chosen_and_stays_in_the_address(page: Page, server: Server, day: Queue) -> None:
    visit(page, server, "")
    expect(charts(page)).to_have_count(4)
    assert drawn_spans(page) <= 91
    page.get_by_role("radio", name="2 h").click()
    expect(page).to_have_url(re.compile(r"\?.*span=2(\+|%20)h"))
    settle(page)
    page.wait_for_function("document.querySelector('.queue-core-chart').data.at(-1).x.length > 100")
    assert drawn_spans(page) == 121
    page.get_by_role("link", name=re.compile("In flight")).click()
    expect(page).to_have_url(re.compile("inflight"))
    settle(page)
    expect(page.get_by_role("radio", name="2 h")).to_have_count(0)
    page.get_by_role("link", name=re.compile("Overview")).click()
    expect(charts(page)).to_have_count(4)
    settle(page)
    assert drawn_spans(page) == 121


def test_a_refresh_leaves_the_hover_text_open(page: Page, server: Server, day: Queue) -> None:
    visit(page, server, "?span=24+h")
    expect(charts(page)).to_have_count(4)
    box = bands(page).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 100)
    hover = bands(page).locator(".hoverlayer .hovertext")
    expect(hover).to_contain_text("tasks pending")
    shown = page.get_by_text(re.compile("^as of")).text_content()
    day.push("x", tag="acme")
    expect(page.get_by_text(re.compile("^as of"))).not_to_have_text(shown or "")
    last = "document.querySelector('.queue-core-chart').data.at(-1).y.at(-1)"
    page.wait_for_function(f"{last} == {day.counts().pending}")
    expect(hover).to_contain_text("tasks pending")


@pytest.mark.parametrize(("theme", "colour"), [("light", "rgb(27, 35, 51)"), ("dark", "rgb(230, 233, 242)")])
def test_words_have_the_colour_of_the_theme(
    browser: BrowserContext, server: Server, day: Queue, theme: Theme, colour: str
) -> None:
    with tab(browser, theme=theme) as page:
        visit(page, server, "?span=24+h")
        expect(charts(page)).to_have_count(4)
        expect(bands(page).locator(".annotation text").first).to_have_css("fill", colour)
