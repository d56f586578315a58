"""Notebooks and views in JupyterLab, in a real Chromium: drawn, in both themes, updated in place, stopped, clicked.

The screenshots of all in both themes are in ``build/screenshots``.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from lab import command, in_theme, jupyterlab, launched, notebook, pictured
from playwright.sync_api import Locator, Page, expect, sync_playwright
from waiting import until

from queue_core import Queue, open_queue
from queue_core.figures import luminance
from queue_core.ledger import Counts
from queue_core.notebook.report import articles

pytestmark = [pytest.mark.notebook, pytest.mark.browser, pytest.mark.timeout(300)]

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
PATIENCE = 60_000  # milliseconds, on a busy machine
expect.set_options(timeout=PATIENCE)

FIGURES = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
    .flatMap(cell => cell.type === 'code' ? cell.outputs.toJSON() : [])
    .filter(output => output.data?.['application/vnd.plotly.v1+json']).length"""
UNDRAWN = """panel => [...panel.querySelectorAll('.jp-RenderedPlotly')].filter(node => {
    const marks = node.querySelectorAll('.cartesianlayer .mlayer :is(path, image, text)').length;
    const words = node.layout?.annotations?.[0]?.text ?? '';  // in place of data
    return !(node.clientWidth > 600 && (node.data?.length ? marks >= node.data.length : words.startsWith('no data')));
}).map(node => JSON.stringify(node.data ?? node.outerHTML).slice(0, 500))"""
CUT = """panel => [...panel.querySelectorAll('.jp-InputArea .cm-scroller')].filter(
    node => node.scrollWidth > node.clientWidth
).map(node => node.textContent)"""
COLOURS = """panel => {  // of the page, and of the text of its figures that does not lie on a mark
    const colour = (node, name) => getComputedStyle(node)[name];
    const texts = [...panel.querySelectorAll('.js-plotly-plot text')];
    return [colour(panel.querySelector('.jp-Notebook'), 'backgroundColor'),
        ...new Set(texts.filter(node => node.style.fill !== 'rgb(255, 255, 255)').map(node => colour(node, 'fill')))];
}"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where JupyterLab finds its notebooks."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def page(home: Path, chromium: str) -> Iterator[Page]:
    """JupyterLab, for all tests. Its pages must have raised nothing, and asked nothing in a box."""
    with jupyterlab(home) as address, sync_playwright() as playwright:
        browser = launched(playwright, chromium)
        page = browser.new_page(viewport={"width": 1280, "height": 1_000})
        page.set_default_timeout(PATIENCE)
        told: list[str] = []
        page.on("dialog", lambda dialog: (told.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.goto(f"{address}/lab")
        page.wait_for_function("window.jupyterapp?.restored")
        yield page
        browser.close()
    assert told == []


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    with open_queue(f"lmdb://{tmp_path}/queue") as queue:
        yield queue
        assert queue.check() == []


def written(home: Path, name: str, queue: Queue, *cells: str) -> str:
    """A notebook of these cells, the first of which opens the queue; its path in JupyterLab."""
    first = f"%load_ext queue_core.notebook\nfrom queue_core.notebook import opened\nqueue = opened({queue.url!r})"
    codes = [nbformat.v4.new_code_cell(cell) for cell in (first, *cells)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=codes, metadata=kernel), home / f"{name}.ipynb")
    return f"{name}.ipynb"


def contrast(ground: str, text: str) -> float:
    """Of a text over a ground that lets nothing through; colours as CSS computes them."""
    under, over = ([float(part) for part in re.findall(r"[\d.]+", colour)] for colour in (ground, text))
    alpha = over[3] if len(over) == 4 else 1.0
    mixed = [alpha * part + (1 - alpha) * below for part, below in zip(over[:3], under[:3], strict=True)]
    low, high = sorted(luminance("#" + bytes(map(round, colour[:3])).hex()) for colour in (under, mixed))
    return (high + 0.05) / (low + 0.05)


# --- the views --------------------------------------------------------------------------------------


def filled(queue: Queue) -> None:
    """Text that is no markup, no formula; six dead letters of two errors; leases."""
    for tag in ("acme", "$x^2$", "<img src=x onerror=alert(1)>", "bolt"):
        queue.push_many([({"n": n}, tag) for n in range(5)])
    for place, lease in enumerate(queue.lease_many(6, ttl=600, owner="w")):
        queue.dead_letter(lease, ("<b>broken</b> $y^2$", "timeout")[place % 2])
    queue.lease_many(4, ttl=600, owner="w")


def plain(panel: Locator) -> None:
    """What tasks say is neither formula nor markup."""
    assert panel.locator(".queue-core mjx-container, .queue-core img").count() == 0


def test_the_live_view_is_updated_in_place_and_stopped_by_interrupt_button_and_end_of_its_cell(
    page: Page, home: Path, queue: Queue
) -> None:
    filled(queue)
    panel = notebook(page, written(home, "live", queue, "view = monitor(queue, 0.5)", "print(view)", "print('on')"))
    cell = panel.locator(".jp-CodeCell").nth(1)
    head, drawn = cell.locator(".queue-core-monitor"), cell.locator(".js-plotly-plot .main-svg:first-child")
    in_theme(page, "Light")
    command(page, "notebook:run-all-cells")
    expect(head).to_contain_text("Live, every 0.5 s")
    expect(drawn).to_have_count(3)
    expect(head).to_contain_text("<img src=x onerror=alert(1)>")
    outputs = cell.locator(".jp-OutputArea-child")
    before = outputs.count()

    queue.push_many([({"n": n}, "fresh") for n in range(77)])
    expect(head.get_by_role("cell", name="77", exact=True).first).to_be_visible()
    expect(drawn.first).to_contain_text("fresh")  # the figure as well
    assert outputs.count() == before
    pictured(page, panel, SCREENSHOTS / "notebook-monitor-light.png")
    in_theme(page, "Dark")
    pictured(page, panel, SCREENSHOTS / "notebook-monitor-dark.png")
    plain(panel)

    panel.locator("[data-jp-item-name=interrupt]").click()
    expect(head).to_contain_text("Interrupted at")
    run(panel, 1)
    expect(head).to_contain_text("Live, every 0.5 s")
    cell.get_by_role("button", name="Stop").click()
    expect(head).to_contain_text("Stopped at")
    expect(cell.get_by_role("button", name="Stopped")).to_be_disabled()
    run(panel, 1)
    expect(head).to_contain_text("Live, every 0.5 s")
    command(page, "notebook:delete-cell")
    run(panel, 1)
    expect(panel.locator(".jp-CodeCell").nth(1)).to_contain_text("stopped, as its cell was deleted")


def run(panel: Locator, place: int) -> None:
    """Run one code cell, as by clicking into it."""
    panel.locator(".jp-CodeCell").nth(place).locator(".jp-InputArea-prompt").click()
    command(panel.page, "notebook:run-cell")


def test_triage_is_only_looked_at_until_it_is_armed_then_clicked_through(page: Page, home: Path, queue: Queue) -> None:
    filled(queue)
    cells = ["triage(queue, 'ann@example.org')", "triage(queue, 'ann@example.org', armed=True)"]
    panel = notebook(page, written(home, "desk", queue, *cells))
    in_theme(page, "Light")
    command(page, "notebook:run-all-cells")
    looked, armed = panel.locator(".jp-CodeCell").nth(1), panel.locator(".jp-CodeCell").nth(2)
    before = everything(queue)

    button(looked, "Look what it would do").click()
    expect(looked).to_contain_text("6 tasks of 4 tags")
    expect(button(looked, "Redrive 6 tasks")).to_be_disabled()
    expect(button(looked, "Undo")).to_be_disabled()
    assert everything(queue) == before

    armed.get_by_label("Group").select_option(index=1)
    expect(armed).to_contain_text("3 tasks dead by this filter")
    tasks = armed.get_by_label("Tasks")
    tasks.select_option(index=0)
    expect(armed).to_contain_text("Story")
    tasks.select_option(index=[0, 2])
    button(armed, "Look what it would do").click()
    expect(armed).to_contain_text("2 tasks of 1 tag")
    assert queue.counts().dead == 6
    for theme in ("Light", "Dark"):
        in_theme(page, theme)
        pictured(page, panel, SCREENSHOTS / f"notebook-triage-armed-{theme.lower()}.png")

    button(armed, "Redrive 2 tasks").click()
    expect(armed).to_contain_text("2 of 2 moved")
    expect(armed).to_contain_text("1 task dead by this filter")
    assert queue.counts().dead == 4
    button(armed, "Undo").click()
    expect(armed).to_contain_text("3 tasks dead by this filter")
    assert queue.counts().dead == 6
    expect(button(armed, "Undo")).to_be_disabled()
    told = [(entry.actor, entry.origin, entry.action) for entry in queue.audit()]
    assert told == [("ann@example.org", "notebook", action) for action in ("plan", "run", "run", "undo", "run", "run")]
    plain(panel)


def button(cell: Locator, name: str) -> Locator:
    return cell.get_by_role("button", name=name, exact=True)


def everything(queue: Queue) -> tuple[int, Counts, int, int]:
    """What any change would change."""
    return queue.mark(), queue.counts(), len(queue.audit()), len(queue.plans())


# --- the articles -----------------------------------------------------------------------------------


def test_every_article_is_drawn_and_can_be_read_in_both_themes(page: Page, home: Path) -> None:
    for theme in ("Light", "Dark"):
        in_theme(page, theme)
        for name, path in articles().items():
            first = not (home / path.name).exists()
            if first:
                (home / path.name).write_bytes(path.read_bytes())
            panel = notebook(page, path.name)
            if first:
                command(page, "notebook:run-all-cells")
                all_ran(panel, name)
            ground, *texts = panel.evaluate(COLOURS)
            assert texts, name
            assert [text for text in texts if contrast(ground, text) < 4.5] == [], (name, theme, ground)
            pictured(page, panel, SCREENSHOTS / f"notebook-{name}-{theme.lower()}.png")


def all_ran(panel: Locator, name: str) -> None:
    """Every cell is shown whole and has run without an error or a warning, every figure is drawn in full width."""
    for prompt in panel.locator(".jp-CodeCell .jp-InputArea-prompt").all():
        expect(prompt).to_have_text(re.compile(r"\[\d+\]:"))
    expect(panel.locator("[data-mime-type*='error'], [data-mime-type*='stderr']")).to_have_count(0)
    assert panel.evaluate(CUT) == [], name  # lines of code that have to be scrolled
    figures = panel.page.evaluate(FIGURES)
    assert figures >= 3, name
    expect(panel.locator(".jp-RenderedPlotly")).to_have_count(figures)
    until(lambda: panel.evaluate(UNDRAWN) == [])
