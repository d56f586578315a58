"""The notebooks run from a clean kernel: on their sample, on an empty queue, on one with everything in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from queue_core import Queue, State, open_queue
from queue_core.ledger import Counts

pytestmark = pytest.mark.notebook

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
FIGURE = "application/vnd.plotly.v1+json"
FIGURES = {"backlog": 6, "fairness": 3}
ODD_TAGS = ("", "acme", "<b>bold</b>", "$x^2$", "**new\nline**", "\x1b[31m", "e\u202egnaro", "long" * 1_000)

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture
def sockets() -> Iterator[str]:
    """A short path: that of a socket may have about a hundred characters."""
    with tempfile.TemporaryDirectory(prefix="nb") as directory:
        yield f"{directory}/kernel"


@pytest.fixture
def run(sockets: str, tmp_path: Path) -> Any:
    """Execute a notebook on a queue (None: on its sample) and give its outputs; a cell that fails raises."""

    def run(path: Path, url: str | None, *, twice: bool = False) -> list[Any]:
        notebook = nbformat.read(path, as_version=4)
        if twice:  # each cell again right after itself, then all of them once more
            cells = [cell for cell in notebook.cells for _ in range(2)] + notebook.cells
            notebook.cells = [nbformat.from_dict({**cell, "id": str(i)}) for i, cell in enumerate(cells)]
        env = {**os.environ, "IPYTHONDIR": str(tmp_path / "ipython")}
        env.pop("QUEUE_URL", None)
        manager = AsyncKernelManager(transport="ipc", ip=sockets)
        client = NotebookClient(notebook, km=manager, timeout=60, resources={"metadata": {"path": str(FOLDER)}})
        client.execute(env=env if url is None else {**env, "QUEUE_URL": url}, cleanup_kc=True)
        return [output for cell in notebook.cells for output in cell.get("outputs", ())]

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


@each
def test_runs_on_a_sample_without_a_service(path: Path, run: Any) -> None:
    outputs = run(path, None)

    assert "Queue('memory://')" in printed(outputs)
    assert [drawn(figure) for figure in figures(outputs)] == [True] * FIGURES[path.stem]


@each
def test_runs_on_an_empty_queue(path: Path, run: Any, tmp_path: Path) -> None:
    with open_queue(f"lmdb://{tmp_path}/queue") as queue:
        before = state(queue)
        outputs = run(path, queue.url)

        shown = figures(outputs)
        assert [drawn(figure) for figure in shown] == [False] * FIGURES[path.stem]
        assert all("no data" in figure["layout"]["annotations"][0]["text"] for figure in shown)
        assert state(queue) == before
        assert queue.check() == []


@each
def test_runs_twice_on_a_full_queue_shows_it_as_plain_text_and_changes_nothing(
    path: Path, run: Any, tmp_path: Path
) -> None:
    with open_queue(f"lmdb://{tmp_path}/queue") as queue:
        fill(queue)
        counts = queue.counts()
        assert min(counts.pending, counts.scheduled, counts.inflight, counts.dead, counts.trash) > 0
        before = state(queue)
        outputs = run(path, queue.url, twice=True)

        assert queue.url in printed(outputs)
        assert [drawn(figure) for figure in figures(outputs)] == [True] * 3 * FIGURES[path.stem]
        assert {kind for output in outputs for kind in output.get("data", {})} <= {FIGURE, "text/plain"}
        assert not {"\x1b", "\u202e"} & set(printed(outputs) + json.dumps(figures(outputs), ensure_ascii=False))
        drawings = json.dumps(figures(outputs))
        assert "&lt;b&gt;bold" in drawings
        assert "<b>bold" not in drawings
        assert state(queue) == before
        assert queue.check() == []


@each
def test_runs_on_a_store_without_journal_and_says_so(path: Path, run: Any, tmp_path: Path) -> None:
    with open_queue(f"files://{tmp_path}/queue", durability="none") as queue:
        fill(queue)
        before = state(queue)
        outputs = run(path, queue.url)

        assert queue.url in printed(outputs)
        assert drawn(figures(outputs)[0])
        assert "Nothing has been served yet" not in printed(outputs)
        if path.stem == "fairness":
            assert "keeps no journal" in printed(outputs)
        assert state(queue) == before
        assert queue.check() == []


@each
def test_a_missing_queue_is_not_made(path: Path, run: Any, tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError, match=r"StoreGone.*missing"):
        run(path, f"lmdb://{tmp_path}/missing")

    assert not (tmp_path / "missing").exists()


@each
def test_outputs_are_not_committed(path: Path) -> None:
    code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]

    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    strip = [sys.executable, "-m", "nbstripout", "--verify", str(path)]
    assert subprocess.run(strip, capture_output=True, check=False).returncode == 0


@each
def test_reads_like_an_article(path: Path) -> None:
    kinds = [cell.cell_type for cell in nbformat.read(path, as_version=4).cells]

    assert 8 <= len(kinds) <= 14
    assert kinds == ["markdown", "code"] * (len(kinds) // 2)
