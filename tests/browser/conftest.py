"""A real server on a real LMDB store, and a real Chromium. Everything waits for conditions, with a deadline."""

from collections.abc import Iterator

import pytest
from looking import Server, dashboard, listening
from playwright.sync_api import Browser, Page, expect, sync_playwright

from queue_core import open_queue

PATIENCE = 20_000  # milliseconds for a page
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, chromium: str) -> Iterator[Server]:
    """The dashboard over a store of this module's own."""
    home = tmp_path_factory.mktemp("dashboard")
    with open_queue(f"lmdb://{home / 'queue'}") as queue:
        with dashboard(queue, home / "log") as server:
            yield server
        assert queue.check() == []


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page, 1,280 pixels wide; it must not have raised errors."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    errors = listening(page)
    yield page
    context.close()
    assert errors == []
