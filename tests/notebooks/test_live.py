"""The live view, leases and the queue of a notebook, in a real kernel: updated in place, stopped, restarted, killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernels import Kernel, kernel
from waiting import until

from queue_core import InvalidArgument, Queue, StoreGone, open_queue
from queue_core.notebook import Monitor, drawing, lease_for, opened

pytestmark = pytest.mark.notebook

PLAIN = {"PLOTLY_RENDERER": "plotly_mimetype"}  # which is what Plotly takes here, after it has looked for two seconds
FIGURE = "application/vnd.plotly.v1+json"
LOAD = "%load_ext queue_core.notebook\nfrom queue_core.notebook import lease_for, monitor, opened\nqueue = opened()"
CLOSE = "from queue_core.notebook.monitor import _live\nfor view in list(_live): view.stop()\nqueue.close()"
ENDED = "while view.running: await asyncio.sleep(0.05)"
DRAWN = "n = view.updates\nwhile view.updates < n + 2: await asyncio.sleep(0.05)"
OPEN = "import asyncio\nview = monitor(queue, every=0.2)"


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    with open_queue(f"lmdb://{tmp_path}/queue") as queue:
        queue.push_many([(n, "acme") for n in range(3)])
        yield queue
        assert queue.check() == []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel that ends without a word, though a view is live."""
    home = tmp_path_factory.mktemp("kernel")
    with kernel(home, home / "log", **PLAIN) as shared:
        yield shared
        shared.fresh(QUEUE_URL="memory://")
        shared.run(f"{LOAD}\n{OPEN}")
    log = (home / "log").read_text()
    assert [line for line in log.splitlines() if "Traceback" in line or "pending" in line] == [], log


@pytest.fixture
def typed(shared: Kernel, queue: Queue) -> Iterator[Kernel]:
    """A kernel with the extension and the queue; it forgets those of before."""
    shared.fresh(QUEUE_URL=queue.url)
    shared.outputs.clear()
    shared.run(LOAD)
    yield shared
    shared.run(CLOSE)


READERS = "import lmdb, sys; print(lmdb.open(sys.argv[1], readonly=True).readers())"


def readers(queue: Queue) -> list[str]:
    """The read transactions that are open on a store, of any process."""
    return active(subprocess.run(asking(queue), capture_output=True, text=True, check=True).stdout)


def asking(queue: Queue) -> list[str]:
    return [sys.executable, "-c", READERS, queue.url.removeprefix("lmdb://")]


def active(table: str) -> list[str]:
    """The lines of LMDB's table of readers that have a transaction: others have no number."""
    return [line for line in table.splitlines()[1:] if len(line.split()) == 3 and line.split()[2] != "-"]


# --- the view -------------------------------------------------------------------------------------------


def test_it_is_updated_in_place_while_other_cells_run_and_stopped(typed: Kernel, queue: Queue) -> None:
    typed.run(OPEN)
    typed.listen(lambda: "Live, every 0.2 s" in typed.text())
    places = typed.places
    assert sum(FIGURE in data for data in typed.outputs.values()) == 3
    queue.push_many([(n, "fresh") for n in range(77)])
    typed.listen(lambda: "fresh" in typed.text())  # though no cell runs
    typed.listen(lambda: "fresh" in str([data.get(FIGURE) for data in typed.outputs.values()]))
    assert typed.run("print(1 + 1)") == "2\n"
    assert typed.places == places
    typed.run("view.stop(); view.stop()")
    typed.listen(lambda: "Stopped at" in typed.text())
    drawn = typed.run("print(view.updates)")
    assert typed.run("await asyncio.sleep(0.6); print(view.updates)") == drawn


def test_between_updates_it_holds_no_transaction_and_the_map_can_grow(
    typed: Kernel, queue: Queue, tmp_path: Path
) -> None:
    ask = f"import subprocess\nprint(subprocess.run({asking(queue)!r}, capture_output=True, text=True).stdout)"
    with queue.view() as view:
        assert view.counts().pending == 3
        assert len(active(typed.run(ask))) == 1  # it is seen where there is one
    typed.run("view = monitor(queue, every=60)")
    assert readers(queue) == []  # the view is live, and the kernel idle
    typed.run(OPEN)
    typed.run(DRAWN)
    assert active(typed.run(ask)) == []  # the view is live, and waits for the end of this cell
    typed.run(f"from queue_core import open_queue\nsmall = open_queue({str(tmp_path / 'small')!r}, map_size=1 << 20)")
    typed.run(f"view = monitor(small, every=0.2)\n{DRAWN}")
    typed.run("for n in range(40): small.push('x' * 100_000)")
    assert typed.run(f"{DRAWN}\nprint(small.counts().pending, view.running, view.error)") == "40 True None\n"


def test_a_second_run_of_the_cell_ends_the_first(typed: Kernel) -> None:
    typed.run(OPEN + "\nfirst = view")
    typed.run(OPEN)
    assert typed.run("print(first.running, view.running)") == "False True\n"
    typed.listen(lambda: "another began" in typed.text())
    again = typed.run("same = opened() is queue; print(same)")
    assert again == "True\n"


def test_it_ends_after_its_time_with_its_queue_and_with_its_button(typed: Kernel) -> None:
    typed.run("import asyncio\nview = monitor(queue, every=0.2, seconds=0.4)")
    typed.run(ENDED)
    assert typed.run("print(view.running, view.error)") == "False None\n"
    typed.run(OPEN)
    typed.run("view._button.click()")
    assert typed.run("print(view.running, view._button.disabled)") == "False True\n"
    typed.run(OPEN)
    typed.run(f"queue.close()\n{ENDED}")
    assert "False StoreGone" in typed.run("print(view.running, type(view.error).__name__)")
    typed.listen(lambda: "was closed" in typed.text())


def test_an_interrupt_stops_all_views_when_no_cell_runs_and_is_else_for_the_cell(typed: Kernel) -> None:
    typed.run(f"{OPEN}\nfrom queue_core import open_queue\nother = monitor(open_queue('memory://'))")
    cell = typed.begin("import time\nprint('begun')\ntime.sleep(60)")
    typed.listen(lambda: "begun" in typed.told)
    typed.manager.interrupt_kernel()
    assert typed.wait_for(cell) == ["KeyboardInterrupt"]
    assert typed.run("print(view.running)") == "True\n"

    def interrupted() -> bool:
        typed.manager.interrupt_kernel()
        return "Interrupted at" in typed.text()

    typed.listen(interrupted)
    assert typed.run("print(view.running, view.error, other.running)") == "False None False\n"
    typed.run(OPEN)
    typed.listen(lambda: "Live, every 0.2 s" in typed.text())
    typed.outputs.clear()
    typed.listen(interrupted)  # it is heard by the next one as well


def test_where_it_holds_its_cell_an_interrupt_ends_both(typed: Kernel, queue: Queue) -> None:
    cell = typed.begin("view = monitor(queue, every=60, hold=True)")
    typed.listen(lambda: "Live, every 60 s, until it is interrupted" in typed.text())
    assert readers(queue) == []
    typed.manager.interrupt_kernel()
    assert typed.wait_for(cell) == []
    assert "interrupted at" in typed.run("print(view)")


def test_it_ends_when_its_cell_was_deleted(typed: Kernel) -> None:
    def run(code: str, **about: Any) -> None:
        request = typed.client.session.msg("execute_request", {"code": code}, metadata=about)  # as JupyterLab does
        typed.client.shell_channel.send(request)
        assert typed.wait_for(request["header"]["msg_id"]) == []

    run("first = monitor(queue)", cellId="first")
    run("pass", cellId="second", deletedCells=["third"])
    assert typed.run("print(first.running)") == "True\n"
    run("print(first)", cellId="second", deletedCells=["first"])
    assert "its cell was deleted" in typed.told


def test_outside_a_notebook_it_holds_its_cell_until_it_is_interrupted(queue: Queue, tmp_path: Path) -> None:
    code = f"""
import os, signal, sys, threading, time
from queue_core import open_queue
from queue_core.notebook import monitor
live = sys.modules["queue_core.notebook.monitor"]._live
def interrupt():
    while not live or live[0].updates < 3:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
queue = open_queue({queue.url!r})
threading.Thread(target=interrupt).start()
view = monitor(queue, every=0.2)
print("ended", view, view.updates > 2)
print(monitor(queue, every=0.2, seconds=0))
"""
    variables = {**os.environ, **PLAIN}
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True, timeout=60
    )
    assert re.search(r"ended Monitor\(.*, interrupted at .*\) True", done.stdout)
    assert "stopped at" in done.stdout.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("every", "seconds"), [(0, None), (-1, None), ("2", None), (True, None), (2, -1), (2, "x")])
def test_a_pace_that_cannot_be_meant_is_refused(queue: Queue, every: float, seconds: float | None) -> None:
    with pytest.raises(InvalidArgument, match="number of seconds"):
        Monitor(queue, every, seconds)


def test_no_text_of_a_task_ends_the_script(queue: Queue) -> None:
    import plotly.graph_objects as go

    figure = go.Figure([{"type": "bar", "y": ["</script><script>alert(1)</script>\u2028<!--"], "x": [1]}])
    drawing.bundle(figure, "name")
    script = drawing.changing([figure])
    assert script.count("<") == 2  # the ends of the script itself
    assert "\u2028" not in script


# --- leases -----------------------------------------------------------------------------------------------


def test_an_interrupted_cell_gives_its_task_back_at_once(typed: Kernel, queue: Queue) -> None:
    cell = typed.begin("import time\nwith lease_for(queue, ttl=600) as lease:\n    time.sleep(60)")
    until(lambda: queue.counts().inflight == 1)
    typed.manager.interrupt_kernel()
    assert typed.wait_for(cell) == ["KeyboardInterrupt"]
    counts = queue.counts()
    assert (counts.inflight, counts.pending) == (0, 3)
    assert queue.tasks("pending").items[0].attempts == 0
    again = "with lease_for(queue) as lease: print(lease.payload)"
    assert typed.run(again) + typed.run(again) == "0\n1\n"
    assert (queue.counts().inflight, queue.counts().pending) == (0, 1)


def test_a_lease_of_a_cell_that_was_interrupted_runs_out(typed: Kernel, queue: Queue) -> None:
    cell = typed.begin("import time\nlease = queue.lease(ttl=2, owner='cell')\ntime.sleep(60)")
    until(lambda: queue.counts().inflight == 1)
    id = queue.tasks("inflight").items[0].id
    typed.manager.interrupt_kernel()
    assert typed.wait_for(cell) == ["KeyboardInterrupt"]
    assert id in leased(queue)


def test_a_kernel_that_is_restarted_and_killed_leaves_no_reader_and_no_lease_for_ever(
    queue: Queue, tmp_path: Path
) -> None:
    with kernel(tmp_path, tmp_path / "log", QUEUE_URL=queue.url, **PLAIN) as typed:
        typed.run(f"{LOAD}\n{OPEN}\nlost = queue.lease(ttl=2)")
        typed.begin("import time\nwith lease_for(queue, ttl=600) as lease:\n    time.sleep(60)")
        until(lambda: queue.counts().inflight == 2)
        typed.manager.restart_kernel(now=False)
        counts = queue.counts()
        assert (counts.pending, counts.inflight) == (2, 1)  # that of the with was given back
        typed.client.wait_for_ready(timeout=60)
        typed.run(f"{LOAD}\n{OPEN}")  # the same store, and it is open nowhere else
        assert len(leased(queue)) == 3
        typed.begin("queue.push('one more')\nqueue.lease(ttl=2)\nimport time\ntime.sleep(60)")
        until(lambda: queue.counts().inflight == 4)
        os.kill(typed.manager.provisioner.pid, signal.SIGKILL)  # type: ignore[union-attr]
        assert len(leased(queue, 1)) == 1
    assert readers(queue) == []


def leased(queue: Queue, count: int = 3) -> list[str]:
    """The ids of the next tasks, waited for."""
    return [lease.id for _ in range(count) if (lease := queue.lease(ttl=600, wait=20)) is not None]


def test_a_lease_for_a_with_ends_as_its_body_does(queue: Queue) -> None:
    with lease_for(queue, owner="w") as lease:
        assert lease is not None
    assert queue.counts().pending == 2  # done
    with pytest.raises(ZeroDivisionError), lease_for(queue) as lease:
        1 / 0  # noqa: B018
    (task,) = queue.tasks("scheduled")
    assert task.error is not None
    assert "ZeroDivisionError" in task.error or "division" in task.error
    with pytest.raises(KeyboardInterrupt), lease_for(queue):
        raise KeyboardInterrupt
    assert queue.counts().inflight == 0
    with lease_for(queue), lease_for(queue) as none:
        assert none is None


# --- the queue of a notebook ------------------------------------------------------------------------------


def test_a_relative_path_begins_where_the_kernel_runs(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUEUE_URL", "lmdb://queue")
    found = opened()
    assert found.url == queue.url
    assert opened() is found
    found.close()
    again = opened()
    assert again is not found
    assert again.counts() == queue.counts()
    again.close()
    for scheme in ("lmdb://", "files://", ""):
        with pytest.raises(StoreGone, match=rf"there is no queue at .*{tmp_path}/elsewhere.*where the kernel runs"):
            opened(f"{scheme}elsewhere")
    assert not (tmp_path / "elsewhere").exists()
