"""A real server on a real LMDB store, and a real Chromium. Everything waits for conditions, with a deadline."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from looking import MAIN, Server, raised, wait_until_healthy
from playwright.sync_api import Browser, Page, expect, sync_playwright

from queue_core import open_queue

PATIENCE = 20_000  # milliseconds for a page
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, chromium: str) -> Iterator[Server]:
    """The dashboard over a store of this module's own."""
    home = tmp_path_factory.mktemp("dashboard")
    url = f"lmdb://{home / 'queue'}"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(MAIN), "--server.port", str(port)]
    with open_queue(url) as queue, (home / "log").open("w+") as log:
        process = subprocess.Popen(
            command, cwd=MAIN.parents[1], env={**os.environ, "QUEUE_URL": url}, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            address = f"http://127.0.0.1:{port}"
            wait_until_healthy(process, address)
            yield Server(address, queue, process)
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(10)
        log.seek(0)
        assert raised(log.read()) == []
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
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: (errors.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    yield page
    context.close()
    assert errors == []
