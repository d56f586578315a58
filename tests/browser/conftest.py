"""A real server on a real LMDB store, and a real Chromium. Everything waits for conditions, with a deadline."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from looking import PATIENCE, Server, dashboard, tab
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from queue_core import open_queue

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, chromium: str) -> Iterator[Server]:
    """The dashboard over a store of this module's own."""
    home = tmp_path_factory.mktemp("dashboard")
    with open_queue(f"lmdb://{home / 'queue'}") as queue:
        with dashboard(queue, home / "log") as server:
            yield server
        assert queue.check() == []


@pytest.fixture(scope="session")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the browser keeps the scripts it has compiled: that is most of the work of opening a page."""
    return tmp_path_factory.mktemp("profile")


@pytest.fixture(scope="module")
def browser(chromium: str, profile: Path) -> Iterator[BrowserContext]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture
def page(browser: BrowserContext) -> Iterator[Page]:
    """A fresh page, 1,280 pixels wide, of who is not signed in; it must not have raised errors."""
    browser.clear_cookies()
    with tab(browser) as page:
        yield page
