"""The views in JupyterLab, in a real Chromium: they are drawn, are updated in place, and can be stopped there."""

import os
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from lab import command, jupyterlab
from playwright.sync_api import Page, expect, sync_playwright

from queue_core import Queue, open_queue

pytestmark = [pytest.mark.notebook, pytest.mark.browser]

PATIENCE = 30_000  # milliseconds
SHOTS = os.environ.get("SCREENSHOTS")  # a directory, for who wants to look
CELLS = [
    "%load_ext queue_core.notebook\nfrom queue_core.notebook import opened\nqueue = opened()\nmonitor(queue, 0.5)",
    "queue",
    "triage(queue)",
]


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    with open_queue(f"lmdb://{tmp_path}/queue") as queue:
        yield queue
        assert queue.check() == []


@pytest.fixture
def page(queue: Queue, tmp_path: Path, chromium: str) -> Iterator[Page]:
    """A notebook of these cells, open in JupyterLab and not yet run."""
    home = tmp_path / "home"
    home.mkdir()
    cells = [nbformat.v4.new_code_cell(cell) for cell in CELLS]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), home / "views.ipynb")
    with jupyterlab(home, QUEUE_URL=queue.url) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 2_600})
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}/lab/tree/views.ipynb")
        expect(page.locator(".jp-Notebook .jp-CodeCell")).to_have_count(len(CELLS), timeout=PATIENCE)
        expect(page.get_by_text("| Idle")).to_be_visible(timeout=PATIENCE)  # before that, cells that are run are not
        yield page
        browser.close()


def look(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/{name}.png")


def fill(queue: Queue) -> None:
    for tag in ("acme", "$x^2$", "<img src=x onerror=alert(1)>", "bolt"):
        queue.push_many([({"n": n}, tag) for n in range(5)])
    for lease in queue.lease_many(6, ttl=600, owner="w"):
        queue.dead_letter(lease, "<b>broken</b> $y^2$")
    queue.lease_many(4, ttl=600, owner="w")


def test_the_views_are_drawn_updated_in_place_and_stopped_by_their_button(page: Page, queue: Queue) -> None:
    fill(queue)
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    command(page, "notebook:run-all-cells")
    first = page.locator(".jp-CodeCell").first
    head, drawn = first.locator(".queue-core-monitor"), first.locator(".js-plotly-plot .main-svg:first-child")
    expect(head).to_contain_text("Live, every 0.5 s", timeout=PATIENCE)
    expect(drawn).to_have_count(3, timeout=PATIENCE)
    expect(head).to_contain_text("<img src=x onerror=alert(1)>")
    outputs = first.locator(".jp-OutputArea-child")
    before = outputs.count()

    queue.push_many([({"n": n}, "fresh") for n in range(77)])
    expect(head.get_by_role("cell", name="77", exact=True).first).to_be_visible(timeout=PATIENCE)
    expect(drawn.first).to_contain_text("fresh", timeout=PATIENCE)  # the figure as well
    assert outputs.count() == before
    expect(page.locator(".jp-CodeCell").nth(2).get_by_role("button", name="Look what it would do")).to_be_visible()
    look(page, "light")
    command(page, "apputils:change-theme", "{theme: 'JupyterLab Dark'}")
    expect(page.locator("body")).to_have_attribute("data-jp-theme-light", "false")
    expect(page.locator("#jupyterlab-splash")).to_have_count(0)  # which lies over the page meanwhile
    look(page, "dark")

    first.get_by_role("button", name="Stop").click()
    expect(head).to_contain_text("Stopped at", timeout=PATIENCE)
    expect(first.get_by_role("button", name="Stopped")).to_be_disabled()
    assert asked == []
    assert page.locator(".queue-core mjx-container, .queue-core img").count() == 0  # neither formulas nor markup
