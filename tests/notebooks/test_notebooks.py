"""The notebooks run from a clean kernel: on their sample, on an empty queue, on one with everything in it, and beside
workers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from waiting import until

from queue_core import Queue, State, open_queue
from queue_core.ledger import Counts
from queue_core.worker import Job, Worker

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(300)]

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
FIGURE = "application/vnd.plotly.v1+json"
FIGURES = {"backlog": 6, "fairness": 3, "leases": 3, "triage": 3, "what-if": 3}
EMPTY = {  # what they say where nothing has ever been
    "backlog": "Nothing was measured in this time.", "fairness": "Nothing has been served yet.",
    "leases": "Nothing has been leased yet.", "triage": "No dead letters.", "what-if": "No task has ended yet",
}  # fmt: skip
KEPT = {"backlog": "history", "fairness": "journal", "leases": "journal", "triage": "plans", "what-if": "journal"}
ODD_TAGS = ("", "acme", "<b>bold</b>", "$x^2$", "**new\nline**", "\x1b[31m", "e\u202egnaro", "long" * 1_000)

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


Outputs = dict[str, list[Any]]  # by the name of the notebook


def execute(path: Path, url: str | None, home: Path, twice: bool, changed: tuple[str, str]) -> list[Any]:
    """Execute a notebook in a kernel of its own and give its outputs; a cell that fails raises."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace(*changed)
    if twice:  # each cell again right after itself, then all of them once more
        cells = [cell for cell in notebook.cells for _ in range(2)] + notebook.cells
        notebook.cells = [nbformat.from_dict({**cell, "id": str(i)}) for i, cell in enumerate(cells)]
    env = {**os.environ, "IPYTHONDIR": str(home / path.stem)}
    env.pop("QUEUE_URL", None)
    with tempfile.TemporaryDirectory(prefix="nb") as sockets:  # a path to one may have about a hundred characters
        manager = AsyncKernelManager(transport="ipc", ip=f"{sockets}/kernel")
        client = NotebookClient(notebook, km=manager, timeout=120, resources={"metadata": {"path": str(FOLDER)}})
        asyncio.run(client.async_execute(env=env if url is None else {**env, "QUEUE_URL": url}, cleanup_kc=True))
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Execute notebooks on a queue (None: each on a sample of its own), two at a time; their outputs."""

    def run(
        url: str | None, paths: Sequence[Path] = NOTEBOOKS, *, twice: bool = False, changed: tuple[str, str] = ("", "")
    ) -> Outputs:
        with ThreadPoolExecutor(2) as pool:
            done = {path.stem: pool.submit(execute, path, url, tmp_path, twice, changed) for path in paths}
        return {name: outputs.result() for name, outputs in done.items()}

    return run


def figures(outputs: list[Any]) -> list[dict[str, Any]]:
    return [output.data[FIGURE] for output in outputs if FIGURE in output.get("data", {})]


def printed(outputs: list[Any]) -> str:
    assert {output.get("name", "stdout") for output in outputs} <= {"stdout"}, "something was written to stderr"
    return "".join(output.text for output in outputs if output.output_type == "stream")


def drawn(figure: dict[str, Any]) -> bool:
    """Whether it shows data, and not just the words that there is none."""
    return bool(figure["data"])


def fill(queue: Queue) -> None:
    """Tasks in every state, expired and due ones too, in tags of every kind."""
    for tag in ODD_TAGS:
        queue.push_many([({"n": n}, tag) for n in range(12)])
    queue.configure("acme", weight=3)
    queue.configure("$x^2$", paused=True)
    queue.configure("<b>bold</b>", max_inflight=1)
    leases = queue.lease_many(30, ttl=600, owner="worker\n<b>1</b>")
    queue.ack_many(leases[:10])
    for lease in leases[10:14]:
        queue.dead_letter(lease, "<i>broken</i>\nfor good")
    for lease in leases[14:18]:
        queue.nack(lease, "$later$", retry_in=3_600)
    queue.defer(leases[18], 0)
    queue.lease(ttl=0.001, owner="late")
    queue.purge(queue.tasks(State.DEAD, limit=1).items[0].id)


def state(queue: Queue) -> tuple[int, list[int], Counts]:
    """What a change of any kind would change."""
    return queue.mark(), [event.number for event in queue.journal(limit=1)], queue.counts()


def test_every_notebook_is_known() -> None:
    assert [path.stem for path in NOTEBOOKS] == sorted(FIGURES)


def test_they_run_on_a_sample_without_a_service(run: Any) -> None:
    for name, outputs in run(None).items():
        assert "Queue('memory://')" in printed(outputs), name
        assert [drawn(figure) for figure in figures(outputs)] == [True] * FIGURES[name], name


def test_they_run_on_an_empty_queue(run: Any, tmp_path: Path) -> None:
    with open_queue(f"lmdb://{tmp_path}/queue") as queue:
        before = state(queue)
        for name, outputs in run(queue.url).items():
            shown = figures(outputs)
            assert [drawn(figure) for figure in shown] == [False] * FIGURES[name], name
            assert all("no data" in figure["layout"]["annotations"][0]["text"] for figure in shown), name
            assert EMPTY[name] in printed(outputs), name
        assert state(queue) == before
        assert queue.check() == []


def test_they_run_twice_on_a_full_queue_show_it_as_plain_text_and_change_nothing(run: Any, tmp_path: Path) -> None:
    with open_queue(f"lmdb://{tmp_path}/queue") as queue:
        fill(queue)
        counts = queue.counts()
        assert min(counts.pending, counts.scheduled, counts.inflight, counts.dead, counts.trash) > 0
        before = state(queue)
        for name, outputs in run(queue.url, twice=True).items():
            assert queue.url in printed(outputs), name
            assert [drawn(figure) for figure in figures(outputs)] == [True] * 3 * FIGURES[name], name
            assert {kind for output in outputs for kind in output.get("data", {})} <= {FIGURE, "text/plain"}, name
            assert not {"\x1b", "\u202e"} & set(printed(outputs) + json.dumps(figures(outputs), ensure_ascii=False)), (
                name
            )
            drawings = json.dumps(figures(outputs))
            assert not re.search("<b>bold|<i>broken", drawings), name
            assert ("&lt;i&gt;broken" if name == "triage" else "&lt;b&gt;bold") in drawings, name
        assert state(queue) == before
        assert queue.check() == []


def test_they_run_beside_workers(run: Any, tmp_path: Path) -> None:
    """Each task that is done brings the next, so that there is work for as long as the notebooks run."""

    def handle(job: Job) -> None:
        time.sleep(0.05)
        if job.payload["n"] % 4 == 3:
            raise ValueError(f"no more than {job.payload['n']:,}")
        queue.push(job.payload, tag=job.tag)

    with open_queue(f"lmdb://{tmp_path}/queue") as queue, ThreadPoolExecutor(1) as pool:
        fill(queue)
        worker = Worker(queue, handle, concurrency=2)
        working = pool.submit(worker.run, signals=False)
        try:
            until(lambda: queue.snapshot().totals.acked > 12)
            outputs = run(queue.url)
        finally:
            worker.stop()
        assert working.result().done > 12
        for name, shown in outputs.items():
            assert [drawn(figure) for figure in figures(shown)] == [True] * FIGURES[name], name
        assert "1 worker registered, 0 of them lost" in printed(outputs["leases"])
        assert queue.check() == []


def test_they_run_on_a_store_without_journal_and_say_so(run: Any, tmp_path: Path) -> None:
    with open_queue(f"files://{tmp_path}/queue", durability="none") as queue:
        fill(queue)
        before = state(queue)
        for name, outputs in run(queue.url).items():
            assert queue.url in printed(outputs), name
            assert drawn(figures(outputs)[0]) is (name != "what-if"), name
            assert EMPTY[name] not in printed(outputs), name
            assert f"This store keeps no {KEPT[name]}" in printed(outputs), name
        assert state(queue) == before
        assert queue.check() == []


def test_triage_acts_when_it_is_armed_and_takes_it_back(run: Any, tmp_path: Path) -> None:
    with open_queue(f"lmdb://{tmp_path}/queue") as queue:
        fill(queue)
        before = queue.counts()
        outputs = run(queue.url, [FOLDER / "triage.ipynb"], changed=("ARMED = False", "ARMED = True"))

        plan, undo = sorted(queue.plans(), key=lambda plan: plan.number)
        assert (plan.action, plan.moved, plan.undone_by) == ("redrive", before.dead, undo.number)
        assert (undo.undo_of, undo.moved) == (plan.number, before.dead)
        assert {entry.origin for entry in queue.audit()} == {"notebook"}
        assert "Not armed" not in printed(outputs["triage"])
        assert queue.counts() == before
        assert queue.check() == []


def test_a_missing_queue_is_not_made(run: Any, tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError, match=r"StoreGone.*missing"):
        run(f"lmdb://{tmp_path}/missing", [FOLDER / "leases.ipynb"])

    assert not (tmp_path / "missing").exists()


@each
def test_it_opens_what_the_first_cell_opens_and_nothing_else(path: Path) -> None:
    code = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]

    assert "queue = opened()" in code[0].splitlines()
    assert re.findall(r"\b(?:opened|open_queue|sample)\(", "\n".join(code)) == ["opened("]


def test_outputs_are_not_committed() -> None:
    for path in NOTEBOOKS:
        code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        assert all(cell.outputs == [] and cell.execution_count is None for cell in code), path.stem
    strip = [sys.executable, "-m", "nbstripout", "--verify", *map(str, NOTEBOOKS)]
    assert subprocess.run(strip, capture_output=True, check=False).returncode == 0


@each
def test_reads_like_an_article(path: Path) -> None:
    kinds = [cell.cell_type for cell in nbformat.read(path, as_version=4).cells]

    assert 8 <= len(kinds) <= 14
    assert kinds == ["markdown", "code"] * (len(kinds) // 2)
