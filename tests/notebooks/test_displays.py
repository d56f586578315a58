"""How things show themselves in IPython: escaped, masked, and never with an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import pytest
from injected import Clock
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from queue_core import Queue, State, figures, open_queue
from queue_core.control import Operator
from queue_core.figures.base import INK, MIME, PAGE_STYLE
from queue_core.notebook import display
from queue_core.notebook.cards import Card, Table
from queue_core.notebook.sheet import sheet
from queue_core.plans import Plan

pytestmark = pytest.mark.notebook

HOSTILE = "<script>alert(1)</script>&\"'\0\x1b[31m\u202e$x^2$"
HTML, PLAIN = "text/html", "text/plain"
TAG = re.compile(r"<(?!/?(?:div|strong|table|thead|tbody|tr|td|th|pre)[ >])")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """A real shell of IPython, with the extension."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    quiet = Config()
    quiet.HistoryManager.enabled = False
    shell = InteractiveShell(config=quiet)
    shell.extension_manager.load_extension("queue_core.notebook")
    yield shell
    shell.extension_manager.unload_extension("queue_core.notebook")
    InteractiveShell.clear_instance()


def shown(shell: InteractiveShell, thing: Any) -> dict[str, str]:
    """What a frontend gets, which is never markup of a task."""
    data, _ = shell.display_formatter.format(thing, include={HTML, PLAIN})
    assert TAG.findall(data[HTML]) == []
    assert not {"\0", "\x1b", "\u202e"} & set(data[HTML] + data[PLAIN])
    return dict(data)


def dead(queue: Queue, error: str = "timeout", payload: Any = None, tag: str = "acme") -> str:
    id = queue.push(payload, tag=tag, max_attempts=1).id
    queue.nack(queue.lease(owner=HOSTILE), error)  # type: ignore[arg-type]
    return id


def plan(queue: Queue, **more: Any) -> Plan:
    return Operator(queue, "ann", "operator", origin="test").plan("redrive", "state:dead", **more)


def test_a_queue_and_a_snapshot_say_how_they_are(shell: InteractiveShell, queue: Queue) -> None:
    for number in range(12):
        queue.push_many([(n, f"tag-{number:02}") for n in range(number + 1)])
    for thing in (queue, queue.snapshot()):
        told = shown(shell, thing)
        for text in told.values():
            assert "nobody has leased" not in text
            assert "78 wait" in text
            assert "The 10 busiest of 12 tags" in text
            assert "tag-11" in text
            assert "tag-01" not in text
    assert queue.url in shown(shell, queue)[PLAIN]


def test_a_dead_letter_shows_its_error_its_reason_and_its_attempts(shell: InteractiveShell, queue: Queue) -> None:
    task = queue.get(dead(queue, "boom: <b>", {"n": 2**70, "password": "hunter2", "text": HOSTILE}, HOSTILE))
    told = shown(shell, task)
    assert "boom: &lt;b&gt;" in told[HTML]
    for text in told.values():
        assert str(2**70) in text
        assert "failed with no attempts left" in text
        assert "nacked" in text
        assert "hunter2" not in text
    assert "<script>alert(1)</script>" in told[PLAIN]  # where that is no markup


@pytest.mark.parametrize("state", list(State))
def test_a_task_of_every_state_is_shown(shell: InteractiveShell, queue: Queue, state: State) -> None:
    task = queue.push(HOSTILE, tag=HOSTILE, delay=60 if state is State.SCHEDULED else 0, dedupe_key=HOSTILE)
    if state is State.INFLIGHT:
        task = queue.lease(owner=HOSTILE).task  # type: ignore[union-attr]
    elif state is State.DEAD:
        task = queue.dead_letter(task.id, HOSTILE)  # type: ignore[arg-type]
    elif state is State.TRASH:
        task = queue.cancel(task.id)
    told = shown(shell, queue.get(task.id))
    assert task.id in told[PLAIN]
    assert state.capitalize() in told[HTML]


def test_a_lease_is_shown_without_its_token(shell: InteractiveShell, queue: Queue) -> None:
    queue.push({"token": "abcdefgh12345678"}, tag="acme")
    lease = queue.lease(owner="worker-7", ttl=90)
    assert lease is not None
    for text in shown(shell, lease).values():
        assert "worker-7" in text
        assert "1 min 30 s" in text
        assert lease.token not in text
        assert "abcdefgh12345678" not in text


def test_a_plan_has_the_words_of_the_dashboard(shell: InteractiveShell, queue: Queue) -> None:
    dead(queue, tag=HOSTILE)
    made = plan(queue, rate=2, canary=1, reason="mended: password=hunter2")
    from queue_core.frames import planned_words

    told = shown(shell, made)
    for words in planned_words(made):
        assert words in told[PLAIN]
    assert "hunter2" not in told[PLAIN] + told[HTML]
    assert told[PLAIN].startswith("Plan 1, redrive: ready\n")
    assert told == shown(shell, queue.plan(1))


def test_in_a_list_a_thing_takes_a_line(shell: InteractiveShell, queue: Queue) -> None:
    dead(queue)
    things = [queue, queue.tasks("dead").items[0], plan(queue)]
    data, _ = shell.display_formatter.format(things, include={PLAIN})
    assert data[PLAIN] == f"[{queue!r},\n {things[1]!r},\n Plan(1, redrive)]"


@pytest.mark.parametrize("scheme", ["memory", "lmdb", "files"])
def test_a_closed_queue_says_so(shell: InteractiveShell, tmp_path: Path, scheme: str) -> None:
    queue = open_queue("memory://" if scheme == "memory" else f"{scheme}://{tmp_path}/queue")
    queue.close()
    for text in shown(shell, queue).values():
        assert "cannot be shown" in text
        assert "was closed" in text


def test_rules_that_cannot_be_read_show_nothing(
    shell: InteractiveShell, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = queue.push({"password": "hunter2"})
    monkeypatch.setenv("QUEUE_REDACT", "/nowhere/rules.toml")
    for thing in (task, queue):
        for text in shown(shell, thing).values():
            assert "redaction rules" in text
            assert "hunter2" not in text


def test_names_that_are_taken_stay(shell: InteractiveShell) -> None:
    extension = shell.extension_manager
    assert callable(shell.user_ns["monitor"])
    extension.unload_extension("queue_core.notebook")
    assert "triage" not in shell.user_ns
    shell.user_ns["monitor"] = "mine"
    extension.load_extension("queue_core.notebook")
    assert shell.user_ns["monitor"] == "mine"
    extension.unload_extension("queue_core.notebook")
    assert shell.user_ns["monitor"] == "mine"


def test_unloaded_a_thing_shows_itself_as_before(shell: InteractiveShell, queue: Queue) -> None:
    shell.extension_manager.unload_extension("queue_core.notebook")
    data, _ = shell.display_formatter.format(queue)
    assert data == {PLAIN: repr(queue)}


def test_the_words_of_a_store_without_plans(shell: InteractiveShell, tmp_path: Path) -> None:
    with open_queue(f"files://{tmp_path}/queue", durability="none") as queue:
        queue.push(1, tag="acme")
        assert "acme" in shown(shell, queue)[PLAIN]


def test_a_card_aligns_what_it_says() -> None:
    card = Card("T", ["line"], [("a", "1"), ("long", "2")], [Table(("Name", ">N"), [("x", "1"), ("yy", "1,000")])])
    assert card.plain() == "T\nline\n  a     1\n  long  2\n  Name      N\n  x         1\n  yy    1,000"


def test_no_colour_is_fixed(shell: InteractiveShell, queue: Queue) -> None:
    dead(queue)
    for thing in (queue, queue.tasks("dead").items[0], plan(queue)):
        assert not re.search(r"(?<!-)\b(color|background)\b|#[0-9a-f]{3,6}\b", shown(shell, thing)[HTML])


def test_the_clock_of_the_queue_counts(shell: InteractiveShell, queue: Queue, clock: Clock) -> None:
    queue.push(1, tag="acme")
    clock.advance(40)
    assert "40 s" in shown(shell, queue)[PLAIN]
    assert f"{display.stamp(clock.at())}" in shown(shell, queue)[PLAIN]


# --- figures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("marked", [False, True])
def test_a_figure_has_no_ground_of_its_own_where_it_shows_itself(monkeypatch: pytest.MonkeyPatch, marked: bool) -> None:
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, *, raw: shown.append(data))
    monkeypatch.setenv("PLOTLY_RENDERER", "plotly_mimetype")
    figure = figures.no_data("no data")
    figure = figures.series.marked(figure, datetime.now(UTC)) if marked else figure
    before = figure.to_json()
    figure._ipython_display_()
    style, drawn = shown
    assert style == {"text/html": PAGE_STYLE}
    layout = drawn[MIME]["layout"]
    assert (layout["paper_bgcolor"], layout["plot_bgcolor"], layout["font"]["color"]) == (*["rgba(0,0,0,0)"] * 2, INK)
    assert figure.to_json() == before  # which the pages paint themselves


def test_its_text_can_be_read_on_white_as_on_black() -> None:
    ink, white, black = map(figures.luminance, (INK, "#ffffff", "#111111"))
    assert min((white + 0.05) / (ink + 0.05), (ink + 0.05) / (black + 0.05)) > 4.2


def test_a_report_leaves_out_how_a_notebook_colours_figures() -> None:
    cell = nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("display_data", data={"text/html": PAGE_STYLE})])
    cells = [nbformat.v4.new_markdown_cell("# A title"), cell]
    page = sheet(nbformat.v4.new_notebook(cells=cells), about="A test", at=datetime.now(UTC))
    assert "A title" in page
    assert PAGE_STYLE not in page
