"""queue-core report: a notebook run on a queue, as one file that needs nothing else; whole, or not there."""

import json
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook
from terminal import STARTED, ended, run
from waiting import until

from queue_core import Queue
from queue_core.notebook import Period, report

HOSTILE = "<script>alert(1)</script>"
SECRET = "hunter2"


def articles(folder: Path, monkeypatch: pytest.MonkeyPatch, **cells: str) -> None:
    """Notebooks of one cell in place of those that come with queue_core."""
    for name, code in cells.items():
        about = f"# Why {name}?\n\nSet `QUEUE_URL`, or not."
        words = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": about}
        cell = {"cell_type": "code", "id": "b", "metadata": {}, "outputs": [], "execution_count": None, "source": code}
        held = {"cells": [words, cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (folder / f"{name}.ipynb").write_text(json.dumps(held))
    monkeypatch.setattr(report, "PACKAGED", folder)


def test_the_reports_are_listed_with_what_they_ask() -> None:
    listed = run("report").stdout
    assert re.search(r"^fairness +Is it fair\?$", listed, re.MULTILINE)
    assert {row["name"] for row in json.loads(run("report", "--json").stdout)} >= {"backlog", "fairness"}


def test_what_is_wrong_is_said_before_anything_is_run(queue: Queue, tmp_path: Path) -> None:
    out = str(tmp_path / "report.html")
    assert "there are backlog, fairness" in run("report", "fairnes", "--out", out, code=2).stderr
    assert "--out fairness.html" in run("report", "fairness", code=2).stderr
    assert "a path" in run("report", "fairness", "--out", out, "--url", "memory://", code=2).stderr
    none = str(tmp_path / "none")
    assert "there is no store" in run("report", "fairness", "--out", out, "--url", none, code=4).stderr
    assert "No such file" in run("report", "fairness", "--out", f"{none}/report.html", code=4).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["queue"]


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (["--last", "24x"], "'24x' is not a span of time: write 90, 90s, 5m, 2h, 1d or 1h30m"),
        (["--last", "0"], "not between 0 and ten years"),
        (["--from", "2026-03-01T12:00"], "has no time zone: add Z for UTC"),
        (["--from", "yesterday"], "'yesterday' is not a span of time"),
        (["--to", "2h"], "say where it begins, too, as in --last 24h"),
        (["--last", "24h", "--from", "2h"], "give one of them"),
        (["--from", "1h", "--to", "2h"], "--from is not before --to"),
        (["--from", "2999-01-01T00:00Z"], "--from is not before --to, or before now"),
        (["--last", "24h", "--to", "2999-01-01T00:00Z"], "leave it out to look up to now"),
        (["--from", "1900-01-01T00:00Z"], "at most ten years"),
    ],
)
def test_a_time_that_cannot_be_looked_back_at_is_refused(
    queue: Queue, tmp_path: Path, times: list[str], said: str
) -> None:
    error = run("report", "fairness", "--out", str(tmp_path / "report.html"), *times, code=2).stderr
    assert said in error.replace("\n", " ")
    assert [path.name for path in tmp_path.iterdir()] == ["queue"]


def test_a_notebook_that_looks_back_at_nothing_is_not_run_for_a_time(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "articles").mkdir()
    articles(folder, monkeypatch, tasks="1")
    error = run("report", "tasks", "--out", str(tmp_path / "report.html"), "--last", "2h", code=2).stderr
    assert "tasks looks back at no period: leave --last, --from and --to out" in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["articles", "queue"]


@pytest.mark.parametrize(
    ("times", "length", "ago"),
    [
        (["--last", "24h"], 86_400, None),
        (["--from", "3h", "--to", "1h"], 7_200, 3_600),
        (["--from", "90m"], 5_400, 0),
        (["--last", "1h30m", "--to", "1d"], 5_400, 86_400),
    ],
)
def test_a_time_is_told_to_the_notebook(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: list[str], length: float, ago: float | None
) -> None:
    told: list[Period | None] = []

    def executed(path: Path, url: str, progress: object, *, period: Period | None) -> NotebookNode:
        told.append(period)
        return new_notebook(cells=[new_markdown_cell("# Why?")])

    monkeypatch.setattr(report, "executed", executed)
    run("report", "backlog", "--out", str(tmp_path / "report.html"), *times)
    (period,) = told
    assert period is not None
    assert period.length is not None
    assert period.length.total_seconds() == pytest.approx(length)
    if ago is None:
        assert period.until is None
    else:
        assert period.until is not None
        assert (datetime.now(UTC) - period.until).total_seconds() == pytest.approx(ago, abs=30)
    assert f"/queue, {period}, 20" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_fairness_as_one_file(queue: Queue, tmp_path: Path) -> None:
    queue.push_many([({"n": n}, tag) for n in range(3) for tag in ("acme", HOSTILE)])
    queue.ack_many(queue.lease_many(4))
    out = tmp_path / "report.html"
    out.write_text("that of yesterday")
    before = queue.mark()
    assert "written to" in run("report", "fairness", "--out", str(out)).stderr
    page = out.read_text()
    assert "in the last 4 serves every tag got its share" in page
    assert re.search(r"<p class=\"about\">.*/queue, 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC</p>", page)
    assert page.count('<div class="figure"') == 3
    assert page.count("plotly.js v") == 1
    assert HOSTILE not in page
    assert "from queue_core" not in page
    assert "Set <code>QUEUE_URL" not in page
    bare = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"<link|<img|<iframe|\bsrc=|@import|url\(", bare)
    assert "default-src 'none'" in page
    assert queue.mark() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["queue", "report.html"]


@pytest.mark.slow
def test_a_cell_that_fails_leaves_what_was_there(queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / "articles").mkdir()
    articles(folder, monkeypatch, broken=f"raise ValueError('no: password={SECRET}')", dying="import os; os._exit(3)")
    out = tmp_path / "report.html"
    out.write_text("that of yesterday")
    for name, said in (("broken", "ValueError: no: password=•"), ("dying", "its kernel ended")):
        error = run("report", name, "--out", str(out), code=1).stderr
        assert said in error
        assert "nothing was written" in error
        assert SECRET not in error
    assert out.read_text() == "that of yesterday"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["articles", "queue", "report.html"]


@pytest.mark.slow
def test_the_code_can_be_shown_and_the_rules_hold_in_the_kernel(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when their file is named from where the program was started."""
    queue.push({"colour": "red-4711"})
    (folder := tmp_path / "articles").mkdir()
    code = (
        'from queue_core import frames\nfrom queue_core.notebook import Period, opened\n"1 < 2"\nPERIOD = Period()\n'
        "print(PERIOD)\n"
    )
    articles(folder, monkeypatch, tasks=f'{code}frames.tasks_frame(opened().tasks("pending"), opened().snapshot().at)')
    (tmp_path / "mask.toml").write_text('add_keys = ["colour"]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUEUE_REDACT", "mask.toml")
    run("report", "tasks", "--out", "report.html", "--code", "--last", "90m", "--to", "2026-03-01T12:00+01:00")
    page = (tmp_path / "report.html").read_text()
    assert "<title>Why tasks?</title>" in page
    assert "&quot;1 &lt; 2&quot;" in page
    assert "4711" not in page
    assert "colour" in page
    assert "plotly" not in page  # without a figure
    assert "PERIOD = Period(&#x27;1h30m&#x27;, &#x27;2026-03-01T11:00:00+00:00&#x27;)" in page
    assert '<div class="said">the 1 h 30 min until 2026-03-01 11:00:00 UTC</div>' in page


@pytest.mark.slow
def test_ctrl_c_ends_the_kernel_and_writes_nothing(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "articles").mkdir()
    told = tmp_path / "kernel"
    code = f"import os, time\nopen({str(told)!r}, 'w').write(f'{{os.getpid()}} ')\ntime.sleep(600)"
    articles(folder, monkeypatch, slow=code)
    start = (
        "import pathlib\nfrom queue_core import cli\nfrom queue_core.notebook import report\n"
        f"report.PACKAGED = pathlib.Path({str(folder)!r})\ncli.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", start, "report", "slow", "--out", str(tmp_path / "report.html")],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    STARTED.append(process)
    until(lambda: told.exists() and told.read_text().endswith(" "))
    process.send_signal(signal.SIGINT)
    assert "Interrupted" in ended(process, 130)[1]
    until(lambda: not Path(f"/proc/{told.read_text().strip()}").exists())
    assert not list(tmp_path.glob("*report.html*"))
