"""The notebook that a page offers has what the page shows: its figures, its tables, its sentences, its numbers."""

import json
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import plotly.graph_objects as go
import pytest
from driving import MAIN, words
from injected import Clock
from IPython.core.interactiveshell import InteractiveShell
from streamlit.testing.v1 import AppTest
from traitlets.config import Config

from app import chart, code, data, detail, leases, parts, past
from queue_core import Queue, State, open_queue
from queue_core.control import Operator
from queue_core.frames import Verdict, duration, tag_label
from queue_core.notebook import report
from queue_core.task import SECOND

pytestmark = pytest.mark.notebook

ODD = 'it\'s "odd"\n\u202e<b>\\'
SECRET = "hunter2"
RECENTLY = int(datetime.now(UTC).timestamp()) // 10 * 10
RULES = "stale = 86400\n"  # data from before the tests began is judged as well
MADE = code.notebook
DRAWN_BY_PAGES = {"tried", "task_page"}  # columns that are made where they are shown


@pytest.fixture
def clock() -> Clock:
    return Clock((RECENTLY - 600) * SECOND)


@pytest.fixture
def still(queue: Queue, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """Ten minutes of work of every kind, ended just now. Page and notebook have the same clock, which stands still."""
    same = open_queue(queue.url, clock=clock)
    monkeypatch.setattr(data.handle(queue.url), "_queue", same)
    monkeypatch.setitem(sys.modules["queue_core.notebook.sample"].__dict__["_opened"], queue.url, same)
    for cache in (past._overview, past._rotation, past._journal_reach, past._tag):
        cache.clear()
    data.forget()
    (tmp_path / "rules.toml").write_text(RULES)
    monkeypatch.setenv("QUEUE_RULES", str(tmp_path / "rules.toml"))
    work(same, clock)
    return same


def work(queue: Queue, clock: Clock) -> None:
    queue.configure("acme", weight=2)
    for number in range(55):
        queue.push_many([({"colour": f"red-{number}", "password": SECRET}, tag) for tag in ("acme", "bolt", ODD)])
        lease = queue.lease(owner=f"worker-{number % 2}", ttl=3_600)
        assert lease is not None
        if number % 5 == 1:
            queue.dead_letter(lease, f"timeout of {number % 3}, password={SECRET}")
        elif number < 50:
            queue.ack(lease)
        clock.advance(10)
    queue.purge(queue.tasks(State.DEAD, limit=1).items[0].id)
    queue.push("x", tag="bolt", delay=3_600)
    operator = Operator(queue, "ann", "admin", origin="test")
    operator.pause("bolt", reason=f"password={SECRET}")
    plan = operator.plan("redrive", where="state:dead tag:acme", reason="it is mended")
    operator.run(plan.number)
    clock.now = RECENTLY * SECOND


# --- the page, and the notebook --------------------------------------------------------------------


class Page:
    """A page with its box of code open: what it draws, and the notebook that it offers."""

    def __init__(self, name: str, chosen: dict[str, Any], at: datetime | None, patch: pytest.MonkeyPatch) -> None:
        self.figures: dict[str, str] = {}  # as JSON, by their places
        self.notebook = ""

        def notebook(*of: Any) -> str:
            self.notebook = MADE(*of)
            return self.notebook

        def draw(figure: go.Figure | chart.Drawn, key: str, alt: str) -> None:
            self.figures[key] = figure.json if isinstance(figure, chart.Drawn) else figure.to_json()

        for module in (chart, detail, leases):
            patch.setattr(module, "chart", draw)
        patch.setattr(code, "notebook", notebook)
        self.app = AppTest.from_file(str(MAIN), default_timeout=60)
        if at is not None:
            self.app.query_params["at"] = at.isoformat()
        self.app.run()
        if name != "overview":
            self.app.switch_page(f"views/{name}.py")
            if at is not None:
                self.app.query_params["at"] = at.isoformat()
        for key, value in (chosen | {"code": True}).items():
            self.app.session_state[key] = value
        self.figures.clear()
        self.app.run()
        assert not self.app.exception
        assert self.notebook, words(self.app)

    def press(self, key: str) -> None:
        self.figures.clear()
        self.app.button(key=key).click().run()
        assert not self.app.exception

    @property
    def text(self) -> str:
        return words(self.app) + "".join(markdown.value for markdown in self.app.markdown)

    def tells(self, oldest: float | None, **counts: int) -> None:
        """Whether these are its metrics."""
        told = {name.replace("_", " "): f"{count:,}" for name, count in counts.items()}
        shown = {metric.label: metric.value for metric in self.app.metric}
        assert shown.items() >= (told | {"Oldest wait": duration(oldest)}).items()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    quiet = Config()
    quiet.HistoryManager.enabled = False
    shell = InteractiveShell(config=quiet)
    monkeypatch.setattr(
        shell.display_formatter, "format", lambda *_, **__: ({}, {})
    )  # results are looked at, not shown
    yield shell
    InteractiveShell.clear_instance()


def executed(shell: InteractiveShell, notebook: str) -> list[Any]:
    """What each cell shows, from top to bottom."""
    held = nbformat.reads(notebook, as_version=4)
    nbformat.validate(held)
    shown = []
    for cell in held.cells:
        if cell.cell_type == "code":
            done = shell.run_cell(cell.source)
            done.raise_error()
            shown.append(done.result)
    return shown


def values(column: pd.Series) -> list[Any]:
    """A page shows empty text where it is missing."""
    return ["" if missing else value for value, missing in zip(column, column.isna(), strict=True)]


def is_of(shown: pd.DataFrame, made: Any) -> bool:
    """Whether a table of a page is this frame of the notebook, as far as the table has columns."""
    names = [name for name in shown.columns if name not in DRAWN_BY_PAGES]
    if not isinstance(made, pd.DataFrame) or not set(names) <= set(made.columns):
        return False
    return all(values(shown[name]) == values(made[name]) for name in names)


def same(page: Page, made: list[Any]) -> None:
    """Every figure and table of the page is in the notebook, every sentence of the notebook on the page."""
    drawn = {figure.to_json() for figure in made if isinstance(figure, go.Figure)}
    assert [key for key, figure in page.figures.items() if figure not in drawn] == []
    for table in page.app.dataframe:
        assert any(is_of(table.value, frame) for frame in made), (table.key, table.value)
    said = [one for one in made if isinstance(one, str)]
    said += [line for one in made if isinstance(one, Verdict) for line in (one.text, *one.reasons)]
    assert said
    assert [line for line in said if line not in page.text] == []


NOW: list[tuple[str, dict[str, Any]]] = [
    ("overview", {}),
    ("overview", {"tag": tag_label(ODD), "span": "2 h"}),
    ("overview", {"text": "BOL", "span": "24 h"}),
    ("fairness", {}),
    ("fairness", {"tag": "acme", "text": "a"}),
    ("inflight", {}),
    ("inflight", {"tag": tag_label(ODD), "text": "worker-1", "owner": "worker-1"}),
    ("inflight", {"owner": "worker-0"}),
    ("dead", {}),
    ("dead", {"tag": tag_label(ODD), "where": 'error:timeout error:"of <n>" OR error:"of 1"'}),
    ("dead", {"trash": True}),
    ("tag", {"tag": "acme", "span": "2 h"}),
    ("tag", {"tag": tag_label(ODD)}),
    ("operations", {"show": "Audit", "action": "plan", "actor": "AN", "entry": "MENDED"}),
    ("operations", {"show": "Workers"}),
]


@pytest.mark.parametrize(("name", "chosen"), NOW, ids=[f"{name}-{'-'.join(chosen)}" for name, chosen in NOW])
def test_the_notebook_of_a_page_shows_what_the_page_shows(
    still: Queue, shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, name: str, chosen: dict[str, Any]
) -> None:
    page = Page(name, chosen, None, monkeypatch)
    made = executed(shell, page.notebook)
    same(page, made)
    assert SECRET not in "".join(repr(one) for one in made)
    if name == "overview":
        snapshot = shell.user_ns["snapshot"]
        page.tells(
            snapshot.oldest_wait, Waiting=snapshot.backlog, Dead_letters=snapshot.dead, Done=snapshot.totals.acked
        )
    elif name == "tag":
        row = next(frame.iloc[0] for frame in made if isinstance(frame, pd.DataFrame) and "acked" in frame)
        page.tells(row["oldest_wait"], Waiting=row["backlog"], Dead_letters=row["dead"], Done=row["acked"])


THEN = [
    ("overview", {}),
    ("overview", {"tag": "acme", "text": "ac"}),
    ("fairness", {"tag": tag_label(ODD)}),
    ("fairness", {}),
    ("tag", {"tag": tag_label(ODD), "span": "2 h"}),
]


@pytest.mark.parametrize(("name", "chosen"), THEN, ids=[f"{name}-{'-'.join(chosen)}" for name, chosen in THEN])
def test_the_notebook_of_a_past_page_shows_what_was_then(
    still: Queue, shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, name: str, chosen: dict[str, Any]
) -> None:
    at = datetime.fromtimestamp(RECENTLY - 400, UTC)
    page = Page(name, chosen, at, monkeypatch)
    made = executed(shell, page.notebook)
    assert "As it was at" in page.text
    same(page, made)
    if name == "overview":
        (totals,) = shell.user_ns["totals"].itertuples()
        page.tells(totals.oldest, Pending=totals.pending, In_flight=totals.inflight, Dead_letters=totals.dead)


def test_the_notebook_of_a_task_tells_its_story(
    still: Queue, shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = still.tasks(State.DEAD, limit=1).items[0].id
    page = Page("task", {"task": id}, None, monkeypatch)
    made = executed(shell, page.notebook)
    same(page, made)
    assert shell.user_ns["story"].task.payload["password"].startswith("••••")
    assert SECRET not in "".join(repr(one) for one in made)


def test_a_later_page_of_a_long_list_is_that_page(
    still: Queue, shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.letters.PAGE", 2)
    monkeypatch.setattr("app.audit.PIECE", 2)
    for name, older, row in (("dead", "page-on", "id"), ("operations", "audit-older", "number")):
        page = Page(name, {"show": "Audit"}, None, monkeypatch)
        first = page.app.dataframe[-1].value
        page.press(older)
        assert not {*page.app.dataframe[-1].value[row]} & {*first[row]}
        same(page, executed(shell, page.notebook))


# --- what is in the code ---------------------------------------------------------------------------


def test_what_was_named_is_quoted(still: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is written into a filter is one literal of the code, and the notebook is JSON in UTF-8."""
    hostile = "\ud800'''\"\"\"\\\n{x}$y$</script>"
    monkeypatch.setattr(parts.st, "session_state", {"owner": hostile, "text": hostile, "task": hostile})
    for page in ("In flight", "Task", "Overview"):
        cells = code.cells_of(page)
        for cell in cells:
            compile(cell, page, "exec")
        held = json.loads(code.notebook(page, cells).encode("utf-8"))
        assert [cell["source"] for cell in held["cells"][2:]] == list(cells)
        assert any(repr(hostile)[1:-1] in cell or repr(hostile.casefold())[1:-1] in cell for cell in cells)


@pytest.mark.parametrize("page", ["Tag", "Task"])
def test_a_page_of_nothing_has_no_code(still: Queue, monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    monkeypatch.setattr(parts.st, "session_state", {})
    assert code.cells_of(page) == []


def test_the_notebook_goes_by_the_rules_of_the_page(
    still: Queue, shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be opened where neither variable is set, nor a relative path leads anywhere."""
    (tmp_path / "mask.toml").write_text('add_keys = ["colour"]\n')
    (tmp_path / "rules.toml").write_text(f"{RULES}[oldest_wait]\nattention = false\ntrouble = 450\n")
    monkeypatch.setenv("QUEUE_REDACT", os.path.relpath(tmp_path / "mask.toml"))
    monkeypatch.setenv("QUEUE_RULES", os.path.relpath(tmp_path / "rules.toml"))
    pages = [Page("dead", {}, None, monkeypatch), Page("overview", {}, None, monkeypatch)]
    for name in ("QUEUE_REDACT", "QUEUE_RULES"):
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    for page in pages:
        same(page, executed(shell, page.notebook))
    assert "red-" not in pages[0].app.dataframe[-1].value["payload"].iloc[0]
    assert "trouble from 7 min 30 s" in pages[1].text


def test_it_runs_in_a_kernel_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"lmdb://{tmp_path}/queue"
    monkeypatch.setenv("QUEUE_URL", url)
    with open_queue(url) as queue:
        queue.push_many([("x", tag) for tag in ("acme", "acme", ODD)])
        data.forget()
        page = Page("overview", {"tag": tag_label(ODD)}, None, monkeypatch)
        file = tmp_path / "page.ipynb"
        file.write_text(page.notebook)
        monkeypatch.delenv("QUEUE_URL")
        cells = report.executed(file, f"{url}-another").cells  # the notebook knows which is meant
        shown = ["".join(str(output["data"].get("text/plain")) for output in cell.get("outputs", ())) for cell in cells]
        assert "Pending  Scheduled" in "".join(shown)  # a snapshot shows itself
        assert page.app.metric[0].value == "3"
        assert re.search(r"^ *3 ", "".join(shown), re.MULTILINE)
        assert tag_label(ODD) in shown[-1]
        assert "acme" not in shown[-1]
        assert queue.check() == []
    data.handle(url).close()
