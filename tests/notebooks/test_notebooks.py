"""The notebooks run from top to bottom: on their sample, on an empty queue, on one with everything in it, beside
workers, and on a time that is over.

Each has one kernel, which forgets what cells have made between one queue and the next.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nbformat
import pytest
from kernels import Kernel, kernel
from waiting import until

from queue_core import Queue, State, open_queue
from queue_core.figures.base import PAGE_STYLE
from queue_core.ledger import Counts
from queue_core.notebook import Period
from queue_core.notebook.report import LOOKED
from queue_core.task import SECOND
from queue_core.worker import Job, Worker

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(300)]

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
FIGURE = "application/vnd.plotly.v1+json"
FIGURES = {"backlog": 6, "fairness": 3, "leases": 3, "triage": 3, "what-if": 3}
EMPTY = {  # what they say where nothing has ever been
    "backlog": "Nothing was measured in this time.", "fairness": "Nothing was served in the time that is kept.",
    "leases": "Nothing was leased in the time that is kept.", "triage": "No dead letters.",
    "what-if": "No task ended in the time that is kept",
}  # fmt: skip
KEPT = {"backlog": "history", "fairness": "journal", "leases": "journal", "triage": "plans", "what-if": "journal"}
ODD_TAGS = ("", "acme", "<b>bold</b>", "$x^2$", "**new\nline**", "\x1b[31m", "e\u202egnaro", "long" * 1_000)

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


Outputs = dict[str, list[Any]]  # by the name of the notebook


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Kernel]]:
    """The kernel of a notebook, by its name."""
    home, made = tmp_path_factory.mktemp("kernels"), dict[str, Kernel]()
    with ExitStack() as stack:

        def get(name: str) -> Kernel:
            if name not in made:
                (home / name).mkdir()
                made[name] = stack.enter_context(kernel(home / name, home / f"{name}.log"))
            return made[name]

        yield get
        for typed in made.values():  # all of them, before the end of the first is waited for
            typed.client.shutdown()


Change = Callable[[str], str]


@pytest.fixture
def run(kernels: Callable[[str], Kernel]) -> Any:
    """Execute notebooks on a queue (None: each on a sample of its own), at one time; their outputs. A cell that fails
    fails the test."""

    def begin(path: Path, url: str | None, times: int, change: Change) -> tuple[Kernel, str]:
        """Hand all cells to the kernel; the last of them."""
        typed = kernels(path.stem)
        typed.fresh(QUEUE_URL=url)
        cells = [change(cell.source) for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        if times > 1:  # each cell again right after itself, then all of them once more
            cells = [cell for cell in cells for _ in range(2)] + cells
        return typed, [typed.begin(cell) for cell in cells][-1]

    def run(url: str | None, paths: Sequence[Path] = NOTEBOOKS, *, times: int = 1, change: Change = str) -> Outputs:
        begun = {path.stem: begin(path, url, times, change) for path in paths}
        for name, (typed, last) in begun.items():
            assert typed.wait_for(last) == [], (name, typed.shown[-1])
        return {name: typed.shown for name, (typed, _) in begun.items()}

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
        assert re.search(r"A recorded sample of the census, recorded on 20\d\d-\d\d-\d\d until", printed(outputs)), name
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
        for name, outputs in run(queue.url, times=3).items():
            assert queue.url in printed(outputs), name
            assert [drawn(figure) for figure in figures(outputs)] == [True] * 3 * FIGURES[name], name
            rich = [data for output in outputs if (data := output.get("data", {})) != {"text/html": PAGE_STYLE}]
            assert {kind for data in rich for kind in data} <= {FIGURE, "text/plain"}, name
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
        armed = {"change": lambda cell: cell.replace("ARMED = False", "ARMED = True")}
        outputs = run(queue.url, [FOLDER / "triage.ipynb"], **armed)

        plan, undo = sorted(queue.plans(), key=lambda plan: plan.number)
        assert (plan.action, plan.moved, plan.undone_by) == ("redrive", before.dead, undo.number)
        assert (undo.undo_of, undo.moved) == (plan.number, before.dead)
        assert {entry.origin for entry in queue.audit()} == {"notebook"}
        assert "Not armed" not in printed(outputs["triage"])
        assert queue.counts() == before
        assert queue.check() == []


def test_they_look_back_at_a_period(run: Any, tmp_path: Path) -> None:
    """A day ago 12 tasks were done, 3 died and 3 are held still; today 4 were done, and 2 died."""
    now = [time.time_ns() // 1_000 - 26 * 3_600 * SECOND]
    with open_queue(f"lmdb://{tmp_path}/queue", clock=lambda: now[0]) as then:
        for hours, done, died, held in ((25, 12, 3, 3), (0, 4, 2, 0)):
            then.push_many([({"n": n}, "acme" if n % 2 else "bolt") for n in range(done + died + held)])
            now[0] += 60 * SECOND
            leases = then.lease_many(done + died + held, ttl=1e6)
            now[0] += 60 * SECOND
            then.ack_many(leases[:done])
            for lease in leases[done : done + died]:
                then.dead_letter(lease, "broken")
            now[0] += hours * 3_600 * SECOND
    with open_queue(f"lmdb://{tmp_path}/queue") as queue:
        assert queue.counts() == Counts(inflight=3, dead=5)
        for period, done, died, held in (
            (Period("24h"), 4, 2, 0),
            (Period("2h", datetime.now(UTC) - timedelta(hours=24, minutes=30)), 12, 3, 3),
        ):
            shown = run(queue.url, change=lambda cell, period=period: LOOKED.sub(f"PERIOD = {period!r}", cell))
            said, leased = {name: printed(outputs) for name, outputs in shown.items()}, done + died + held
            assert all(str(period) in text for text in said.values())
            assert f"{leased} tasks came in and {done} were done" in said["backlog"]
            assert f"{leased} serves checked: 0 breaches" in said["fairness"]
            assert sum(bar for bar in figures(shown["fairness"])[1]["data"][0]["x"]) == leased
            assert re.search(rf"^ +ack +{done} ", said["leases"], re.MULTILINE)
            assert re.search(rf"^ *dead_letter +{died} ", said["leases"], re.MULTILINE)
            assert "3 tasks are in flight" in said["leases"]
            assert f"{died} letters of {period} found" in said["triage"]
            assert f"{died} tasks of 2 tags" in said["triage"]
            assert f"{leased} tasks in 2 tags" in said["what-if"]
        assert queue.check() == []


def test_a_missing_queue_is_not_made(kernels: Callable[[str], Kernel], tmp_path: Path) -> None:
    typed = kernels("leases")
    typed.fresh(QUEUE_URL=f"lmdb://{tmp_path}/missing")
    assert typed.wait_for(typed.begin("from queue_core.notebook import opened\nopened()")) == ["StoreGone"]
    assert "missing" in typed.shown[-1].evalue
    assert not (tmp_path / "missing").exists()


@each
def test_it_opens_what_the_first_cell_opens_and_nothing_else(path: Path) -> None:
    code = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]

    assert "queue = opened()" in code[0].splitlines()
    assert LOOKED.search(code[0])
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
