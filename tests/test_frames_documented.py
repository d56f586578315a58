"""Frames as data for others: every column is documented, and a frame survives Parquet and SQL whatever is in it."""

import re
from datetime import timedelta
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from injected import Clock

from queue_core import Item, Queue, Task, frames, open_queue
from queue_core.control import Operator
from queue_core.frames import control, journal, operations, series, tables, turns
from queue_core.frames.tables import Schema
from queue_core.ledger import WorkerRecord

FRAMES: dict[str, Schema] = {
    "tags": tables.TAGS, "tasks": tables.TASKS, "leases": tables.LEASES, "dead": tables.DEAD,
    "groups": control.GROUPS, "heat": control.HEAT, "attempts": control.ATTEMPTS, "journal": journal.JOURNAL,
    "serves": tables.SERVES, "series": series.SERIES, "series_totals": series.TOTALS, "times": series.WAITS,
    "ring": turns.RING, "shares": turns.SHARES, "plans": control.PLANS, "results": control.RESULTS,
    "audit": control.AUDIT, "workers": operations.WORKERS,
}  # fmt: skip
ODD = ("", "a\0b", "<b>bold</b>", "nan", "001", "1e5", "a\nb", "\u202eevil", "é", "x" * 10_000)
TEXT = "no \0 \ud800 <i>\n" + "y" * 70_000  # as an error, a reason, an owner: of those there may be any
ROW = re.compile(r"^\| `(\w+)` \| `([^`]+)` \| (.+) \|$", re.MULTILINE)


def fill(queue: Queue, clock: Clock) -> Task:
    """Odd text in tasks of every state, a plan that was run, and a worker. Gives a task with attempts."""
    tasks = queue.push_many([Item({"n": n, "big": 2**70, "odd": TEXT[:9]}, tag) for n in range(5) for tag in ODD])
    queue.report(WorkerRecord("w\0", "host\n", 1, clock(), clock()))
    queue.configure("nan", weight=2, max_inflight=2**40)
    for n in range(3 * len(ODD)):
        clock.advance(1)
        lease = queue.lease(owner=f"w{n}\0<i>", ttl=3_600)
        assert lease is not None
        if n % 3 == 0:
            queue.dead_letter(lease, TEXT)
        elif n % 3 == 1:
            queue.nack(lease, TEXT, retry_in=3_600)
    operator = Operator(queue, "ann \0", "admin", origin="test")
    operator.run(operator.plan("redrive", "tag:nan", reason="mended \0").number)
    return next(found for found in map(queue.get, (task.id for task in tasks)) if found.history)


def every(queue: Queue, tried: Task) -> dict[str, pd.DataFrame]:
    """Each documented frame of one moment."""
    with queue.view() as view:
        snapshot, events, groups, plans = view.snapshot(), view.journal(limit=10_000), view.groups(), view.plans()
        at, measured = snapshot.at, view.series(since=snapshot.at - timedelta(hours=2))
        return {
            "tags": frames.tags_frame(snapshot),
            "tasks": frames.tasks_frame(view.tasks("dead"), at),
            "leases": frames.leases_frame(view.tasks("inflight"), at),
            "dead": frames.dead_frame(view.tasks("dead"), at),
            "groups": frames.groups_frame(groups, at),
            "heat": frames.heat_frame(view, groups),
            "attempts": frames.attempts_frame(tried),
            "journal": frames.journal_frame(events),
            "serves": frames.serves_frame(events),
            "series": frames.series_frame(measured),
            "series_totals": frames.series_totals_frame(measured),
            "times": frames.times_frame(snapshot),
            "ring": frames.ring_frame(snapshot),
            "shares": frames.shares_frame(snapshot, events),
            "plans": frames.plans_frame(plans, 0),
            "results": frames.results_frame(view.outcome(plans[0].number) if plans else []),
            "audit": frames.audit_frame(view.audit()),
            "workers": frames.workers_frame(snapshot),
        }


@pytest.fixture(params=["empty", "full"])
def made(request: pytest.FixtureRequest, queue: Queue, clock: Clock) -> dict[str, pd.DataFrame]:
    """Each documented frame, by its name: of a queue in which nothing has ever been, or of one with odd text in all."""
    if request.param == "full":
        made = every(queue, fill(queue, clock))
        assert [name for name, frame in made.items() if frame.empty] == []
    else:
        with open_queue("memory://") as other:
            made = every(queue, other.push(1))
        assert {name for name, frame in made.items() if not frame.empty} <= {"times", "series", "series_totals"}
    return made


def test_every_frame_has_the_columns_that_it_declares(made: dict[str, pd.DataFrame]) -> None:
    assert list(made) == list(FRAMES)
    for name, frame in made.items():
        assert [(column, str(kind)) for column, kind in frame.dtypes.items()] == list(FRAMES[name].items()), name


def test_the_document_has_every_column_and_no_other() -> None:
    text = Path(frames.__file__).with_name("FRAMES.md").read_text()
    parts = re.split(r"^## (\w+)_frame$", text, flags=re.MULTILINE)
    documented = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert sorted(documented) == sorted(FRAMES)
    for name, part in documented.items():
        rows = ROW.findall(part)
        assert [(column, kind) for column, kind, _ in rows] == list(FRAMES[name].items()), name
        assert len(re.findall(r"^\| ", part, re.MULTILINE)) == len(rows) + 1, name  # and the head
        assert part.strip().startswith(f"`{name}_frame("), name
        assert f"{name}_frame" in frames.__all__


def test_every_frame_comes_back_from_parquet_as_it_was(made: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    for name, frame in made.items():
        frame.to_parquet(tmp_path / name)
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / name), frame, obj=name)


def test_every_frame_can_be_asked_in_sql(made: dict[str, pd.DataFrame]) -> None:
    with duckdb.connect() as connection:
        for name, frame in made.items():
            connection.register(name, frame)
            found = connection.sql(f"SELECT * FROM {name}")
            assert found.columns == list(FRAMES[name]), name
            assert len(found.fetchall()) == len(frame), name
