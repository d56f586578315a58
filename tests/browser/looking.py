"""What a person sees and does in a browser."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Locator, Page, expect

from queue_core import Queue

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"
DEADLINE = 60.0  # seconds for the server, on a busy machine
PATIENCE = 20_000  # milliseconds for a page
SETTLED = '[data-testid="stApp"][data-test-script-state="notRunning"]'
Theme = Literal["light", "dark"]
PAGES = ["", "fairness", "inflight", "dead"]


@dataclass(frozen=True)
class Server:
    """A running dashboard, and the queue it shows, held by the test's process too."""

    address: str
    queue: Queue
    process: subprocess.Popen[bytes]


@lru_cache(maxsize=1)
def _first() -> int:
    return _bound(0)


def _bound(port: int) -> int:
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as who listens next will do
        free.bind(("127.0.0.1", port))
        found: int = free.getsockname()[1]
        return found


def free_port() -> int:
    """A port where nobody listens; the same one again when it can be: the browser keeps scripts by their address."""
    try:
        return _bound(_first())
    except OSError:
        return _bound(0)


def wait_until_healthy(process: subprocess.Popen[bytes], address: str) -> None:
    """Return when the server answers."""
    end = time.monotonic() + DEADLINE
    while True:
        assert process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            assert time.monotonic() < end, "the server did not become healthy"
            time.sleep(0.1)


@contextmanager
def dashboard(queue: Queue, log: Path, **environment: str) -> Iterator[Server]:
    """While inside, a dashboard of this queue. Its log must have no error of this project in the end."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(MAIN), "--server.port", str(port)]
    variables = {**os.environ, "QUEUE_URL": queue.url, **environment}
    with log.open("w+") as told:
        process = subprocess.Popen(command, cwd=MAIN.parents[1], env=variables, stdout=told, stderr=subprocess.STDOUT)
        try:
            address = f"http://127.0.0.1:{port}"
            wait_until_healthy(process, address)
            yield Server(address, queue, process)
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(10)
        told.seek(0)
        assert raised(told.read()) == []


def raised(log: str) -> list[str]:
    """The lines of this project in tracebacks of a server's log. Streamlit has some of its own: of connections that end
    while it waits for them."""
    own = tuple(f'File "{MAIN.parents[1] / name}/' for name in ("app", "queue_core"))
    return [line for line in map(str.strip, log.splitlines()) if line.startswith(own)]


@contextmanager
def tab(browser: BrowserContext, width: int = 1280, theme: Theme = "light") -> Iterator[Page]:
    """A page of its own; it must have raised nothing, and written no error to its console."""
    page = browser.new_page()
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)
    page.set_default_timeout(PATIENCE)
    errors = listening(page)
    try:
        yield page
    finally:
        page.close()
    assert errors == []


def listening(page: Page) -> list[str]:
    """The errors of a page from now on: what was raised, written to the console as an error, or asked in a box."""
    errors: list[str] = []

    def written(said: ConsoleMessage) -> None:
        where = said.location["url"]
        searched = "/_stcore/" in where and "404" in said.text  # Streamlit looks for its server below the page first
        foreign = not re.match("http://(127.0.0.1|localhost)[:/]", where) or where.endswith("favicon.ico")  # of sign-in
        if said.type == "error" and not (searched or (where and foreign)):
            errors.append(f"{said.text} ({where})")

    def asked(dialog: Dialog) -> None:
        errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", written)
    page.on("dialog", asked)
    return errors


def visit(page: Page, server: Server, path: str) -> None:
    """Open a page and wait until it is drawn."""
    page.goto(f"{server.address}/{path}")
    expect(page.locator('[class*="st-key-sentence"]').first).to_be_visible()
    settle(page)


def settle(page: Page) -> None:
    page.wait_for_selector(SETTLED)
    expect(page.locator('[data-testid="stException"]')).to_have_count(0)


def sentence(page: Page) -> Locator:
    return page.locator('[class*="st-key-sentence"]').first


def charts(page: Page) -> Locator:
    return page.locator(".queue-core-chart .main-svg:first-child")


def table(page: Page, state: str) -> Locator:
    """The table that rows are selected in. It is a canvas with a hidden grid for who cannot see it."""
    return page.locator(f'[class*="st-key-{state}-"]').filter(has=page.locator("canvas")).first


def rows(page: Page, state: str) -> list[str]:
    """The tags in the table, from the top."""
    body = table(page, state).locator("table[role=grid] tbody tr")
    expect(body.first).to_be_attached()
    cells = body.locator('td[aria-colindex="1"]')
    return cells.all_text_contents()


def select(page: Page, state: str, tag: str) -> None:
    """Select the row of this tag, as with mouse and keyboard."""
    place = rows(page, state).index(tag)
    table(page, state).get_by_test_id("stDataFrame").click(position={"x": 90, "y": 52})
    for _ in range(place):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+Space")
    selected = table(page, state).locator(f'tr[aria-rowindex="{place + 2}"]')
    expect(selected).to_have_attribute("aria-selected", "true")


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=re.compile(rf"{re.escape(name)}$"))


STOPPING = """
import os, signal, sys, time
from queue_core import open_queue

def clock():  # it is read inside the write lock
    if armed:
        os.kill(os.getpid(), signal.SIGSTOP)
    return time.time_ns() // 1000

armed = False
queue = open_queue(sys.argv[1], clock=clock)
armed = True
queue.push("from the stopped writer", tag="stopped")
"""


@contextmanager
def stopped_writer(server: Server) -> Iterator[None]:
    """While inside, a process that holds the store's write lock is stopped."""
    child = subprocess.Popen([sys.executable, "-c", STOPPING, server.queue.url])
    try:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        yield
    finally:
        child.kill()
        child.send_signal(signal.SIGCONT)
        child.wait(30)
