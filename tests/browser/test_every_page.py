"""All pages, with real data, with none, and without a store: drawn, quiet, inside the window, with names for all boxes.

The screenshots of every page in both themes are in ``build/screenshots``.
"""

from pathlib import Path
from uuid import uuid4

import pytest
from looking import MAIN, Server, Theme, charts, sentence, tab, visit
from playwright.sync_api import BrowserContext, Page, expect
from scenes import lived_in
from waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SCREENSHOTS = MAIN.parents[1] / "build" / "screenshots"
EMPTY = {
    "": "Nothing has been pushed into this queue yet",
    "fairness": "Nobody can be served now; nothing has been served yet",
    "inflight": "Nothing is in flight",
    "dead": "No dead letters",
    "tag": "No tag is chosen",
    "task": "No task is chosen",
    "operations": "No plan is running; no worker is at work",
}
NAMELESS = """() => [...document.querySelectorAll(
    'a[href], button, input, textarea, select, summary, [tabindex="0"], [contenteditable="true"]'
)].filter(node => {
    const hidden = !node.checkVisibility({visibilityProperty: true}) || node.closest('[aria-hidden="true"]');
    const labels = [...(node.labels || [])].map(label => label.textContent);
    const by = (node.getAttribute('aria-labelledby') || '').split(/\\s+/).map(id => document.getElementById(id));
    const names = [
        node.getAttribute('aria-label'), node.title, node.placeholder, node.textContent, ...labels,
        ...by.map(other => other && other.textContent), ...[...node.querySelectorAll('img')].map(image => image.alt),
    ];
    return !hidden && !node.disabled && node.tabIndex >= 0 && !names.some(name => name && name.trim());
}).map(node => node.outerHTML.slice(0, 300))"""


def pictured(page: Page, file: Path) -> None:
    """A screenshot of all of a page, which scrolls inside the window unless that is tall enough."""
    file.unlink(missing_ok=True)
    height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": 1280, "height": height + 20})
    page.screenshot(path=file, animations="disabled")
    assert 30_000 < file.stat().st_size < 3_000_000
    page.set_viewport_size({"width": 1280, "height": 900})


def named(page: Page) -> None:
    """Whatever the key Tab comes to has a name, so that who hears the page knows what it is."""
    until(lambda: page.evaluate(NAMELESS) == [])  # tables get theirs a moment after they are drawn


def inside(page: Page) -> None:
    """Nothing runs off the side of a screen, or of a phone."""
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")


def test_1_with_an_empty_store(browser: BrowserContext, server: Server) -> None:
    with tab(browser) as page:
        for path, words in EMPTY.items():
            visit(page, server, path)
            expect(sentence(page)).to_have_text(words)
            expect(charts(page)).to_have_count(0)
            named(page)
            inside(page)


def test_2_without_a_store(browser: BrowserContext, server: Server) -> None:
    here = Path(server.queue.url.removeprefix("lmdb://"))
    away = here.rename(here.with_name("away"))
    try:
        with tab(browser) as page:
            for path in EMPTY:
                visit(page, server, path if path != "task" else f"task?task={uuid4()}")
                expect(sentence(page)).to_have_text("There is no queue here yet")
                inside(page)
    finally:
        away.rename(here)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_3_with_real_data(browser: BrowserContext, server: Server, theme: Theme) -> None:
    queue = server.queue
    if not queue.counts().all:
        lived_in(queue)
    task = next(task for task in queue.tasks("dead") if task.tag == "encodings")
    paths = {
        "overview": ("", "waited", 4),
        "fairness": ("fairness", "next", 6),
        "inflight": ("inflight", "2 of them past their time", 2),
        "dead": ("dead", "dead letters", 1),
        "tag": ("tag?tag=encodings", "encodings is", 4),
        "task": (f"task?task={task.id}", "A task of encodings, dead", 1),
        "operations": ("operations?plan=1", "plan", 0),
    }
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with tab(browser, theme=theme) as page:
        for name, (path, words, drawn) in paths.items():
            visit(page, server, path)
            expect(sentence(page)).to_contain_text(words)
            expect(charts(page)).to_have_count(drawn)
            expect(page.locator("canvas").first).to_be_visible()
            pictured(page, SCREENSHOTS / f"{name}-{theme}.png")
            named(page)
            inside(page)
