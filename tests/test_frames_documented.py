"""Frames as data for others: every column is documented, and a frame survives Parquet and SQL whatever is in it."""

import inspect
import pkgutil
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import duckdb
import pandas as pd
import pytest
from injected import Clock
from msgspec.structs import replace

from queue_core import Item, Queue, State, Task, frames, open_queue
from queue_core.control import Operator
from queue_core.fairness.past import Later
from queue_core.frames import control, journal, operations, rules, series, story, tables, tag, turns
from queue_core.frames.tables import Schema, rows
from queue_core.frames.then import RING_THEN
from queue_core.history import Event
from queue_core.ledger import WorkerRecord

FRAMES: dict[str, Schema] = {
    "tags": tables.TAGS, "tasks": tables.TASKS, "leases": tables.LEASES, "dead": tables.DEAD,
    "groups": control.GROUPS, "heat": control.HEAT, "tag_groups": tag.TAG_GROUPS, "attempts": control.ATTEMPTS,
    "timeline": control.ATTEMPTS, "story": story.STORY, "edits": story.EDITS, "journal": journal.JOURNAL,
    "serves": tables.SERVES, "series": series.SERIES, "series_totals": series.TOTALS, "then": series.THEN,
    "tag_series": tag.TAG_SERIES, "times": series.WAITS, "times_histogram": tag.TIMES, "ring": turns.RING,
    "shares": turns.SHARES,
    "ring_shares": {**turns.RING, **{name: turns.SHARES[name] for name in turns.MERGED}, "served": "Int64"},
    "jain": turns.JAIN, "violations": turns.VIOLATIONS, "proof": tables.SERVES, "around": turns.AROUND,
    "ring_then": RING_THEN, "shares_then": turns.SHARES, "held": {**tables.LEASES, "mark": "str"},
    "plans": control.PLANS, "progress": operations.PROGRESS, "planned": story.PLANNED, "reasons": operations.REASONS,
    "results": control.RESULTS, "audit": control.AUDIT, "tag_audit": control.AUDIT, "workers": operations.WORKERS,
    "rules": rules.RULES,
}  # fmt: skip
HAVING_ROWS = {
    "times",
    "series",
    "series_totals",
    "then",
    "tag_series",
    "edits",
    "rules",
    "story",
}  # always, or at once
ODD = ("", "a\0b", "<b>bold</b>", "nan", "001", "1e5", "a\nb", "\u202eevil", "é", "x" * 10_000)
TEXT = "no \0 \ud800 <i>\n" + "y" * 70_000  # as an error, a reason, an owner: of those there may be any
CALL = re.compile(r"`([\w.]+)\(([\w, ]+)\)`\. [^\n]+(?:\n\nThe columns of `(\w+)_frame`(?:, and:|\.))?")
ROW = re.compile(r"^\| `(\w+)` \| `([^`]+)` \| (.+) \|$", re.MULTILINE)


def fill(queue: Queue, clock: Clock) -> Task:
    """Odd text in tasks of every state, a plan that was run, and a worker. Gives a task with attempts and an edit."""
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
    plan = operator.plan("redrive", "tag:nan", reason="mended \0")
    operator.redrive(queue.tasks(State.DEAD, tag="nan").items[0].id)  # so that the plan finds it changed
    operator.run(plan.number)
    tried = next(found for found in map(queue.get, (task.id for task in tasks)) if found.history)
    return operator.edit(tried.id, {"odd": TEXT[:9]})


def broken(events: Sequence[Event]) -> list[Event]:
    """The same serves as of two tags that could be served from the beginning, of which the first is passed over."""
    return [
        Event(event.number, event.tag, replace(event.entry, tag=min(event.entry.tag, 2), since=0)) for event in events
    ]


def every(queue: Queue, tried: Task) -> dict[str, pd.DataFrame]:
    """Each documented frame of one moment."""
    with queue.view() as view:
        snapshot, events, groups, plans = view.snapshot(), view.journal(limit=10_000), view.groups(), view.plans()
        at, measured = snapshot.at, view.series(since=snapshot.at - timedelta(hours=2))
        dead, audit = view.tasks("dead"), view.audit()
        stats = next((stats for stats in snapshot.tags if stats.name == "nan"), None)
        then = frames.turns_then(view, at) or frames.TurnsThen(at, snapshot, [], [], Later(), 0, {}, frozenset())
        by_tag, leases = frames.series_frame(measured), frames.leases_frame(view.tasks("inflight"), at)
        ring, shares = frames.ring_frame(snapshot), frames.shares_frame(snapshot, events)
        violations = turns.violations_frame(snapshot, broken(events))
        return {
            "tags": frames.tags_frame(snapshot),
            "tasks": frames.tasks_frame(dead, at),
            "leases": leases,
            "dead": frames.dead_frame(dead, at),
            "groups": frames.groups_frame(groups, at),
            "heat": frames.heat_frame(view, groups),
            "tag_groups": frames.tag_groups_frame(dead, groups, at),
            "attempts": frames.attempts_frame(tried),
            "timeline": frames.timeline_frame(tried, at),
            "story": frames.story_frame(tried, events, audit),
            "edits": frames.edits_frame(tried),
            "journal": frames.journal_frame(events),
            "serves": frames.serves_frame(events),
            "series": by_tag,
            "series_totals": frames.series_totals_frame(measured),
            "then": series.then_frame(by_tag),
            "tag_series": frames.tag_series_frame(by_tag, "nan", stats),
            "times": frames.times_frame(snapshot),
            "times_histogram": frames.times_histogram_frame(stats),
            "ring": ring,
            "shares": shares,
            "ring_shares": turns.ring_shares_frame(ring, shares),
            "jain": turns.jain_frame(snapshot, events, 10),
            "violations": violations,
            "proof": turns.proof_frame(violations, frames.serves_frame(broken(events))),
            "around": turns.around_frame(events, at),
            "ring_then": frames.ring_then_frame(then),
            "shares_then": frames.shares_then_frame(then),
            "held": turns.held_frame(leases, snapshot),
            "plans": frames.plans_frame(plans, 0),
            "progress": frames.progress_frame(plans, 0, at),
            "planned": frames.planned_frame(plans[0]) if plans else rows(story.PLANNED, []),
            "reasons": frames.reasons_frame(plans[0]) if plans else rows(operations.REASONS, []),
            "results": frames.results_frame(view.outcome(plans[0].number) if plans else []),
            "audit": frames.audit_frame(audit),
            "tag_audit": frames.tag_audit_frame(view, "nan"),
            "workers": frames.workers_frame(snapshot),
            "rules": rules.rules_frame(rules.judge(snapshot)),
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
        assert {name for name, frame in made.items() if not frame.empty} <= HAVING_ROWS
    return made


def test_every_frame_has_the_columns_that_it_declares(made: dict[str, pd.DataFrame]) -> None:
    assert list(made) == list(FRAMES)
    for name, frame in made.items():
        assert [(column, str(kind)) for column, kind in frame.dtypes.items()] == list(FRAMES[name].items()), name


def functions() -> dict[str, Callable[..., pd.DataFrame]]:
    """Every public function that makes a frame, by how it is called: with its module where that has to be named."""
    found = {}
    for place in pkgutil.iter_modules(frames.__path__):
        module = import_module(f"{frames.__name__}.{place.name}")
        for name, made in inspect.getmembers(module, inspect.isfunction):
            exported = name in frames.__all__
            public = exported or (name.endswith("_frame") and not name.startswith("_"))
            if public and made.__module__ == module.__name__ and get_type_hints(made)["return"] is pd.DataFrame:
                found[name if exported else f"{place.name}.{name}"] = made
    return found


def test_the_document_has_every_frame_every_column_and_no_other() -> None:
    text = Path(frames.__file__).with_name("FRAMES.md").read_text()
    parts = re.split(r"^## (\w+)_frame$", text, flags=re.MULTILINE)
    documented = dict(zip(parts[1::2], parts[2::2], strict=True))
    public = functions()
    assert list(documented) == list(FRAMES)
    assert sorted(documented) == sorted(re.sub(r"^\w+\.|_frame$", "", name) for name in public)
    for name, part in documented.items():
        called, arguments, base = CALL.fullmatch(part.strip().partition("\n\n|")[0]).groups()  # type: ignore[union-attr]
        given = inspect.signature(public[called]).parameters.values()
        assert arguments == ", ".join(one.name for one in given if one.default is one.empty), name
        added = ROW.findall(part)
        columns = {**(FRAMES[base] if base else {}), **{column: kind for column, kind, _ in added}}
        assert list(columns.items()) == list(FRAMES[name].items()), name
        assert len(re.findall(r"^\| ", part, re.MULTILINE)) == len(added) + bool(added), name  # and the head


def test_every_frame_comes_back_from_parquet_as_it_was(made: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    for name, frame in made.items():
        frame.to_parquet(tmp_path / name)
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / name), frame, obj=name)


def test_every_frame_can_be_asked_in_sql(made: dict[str, pd.DataFrame]) -> None:
    with duckdb.connect() as connection:
        for name, frame in made.items():
            connection.register(f"{name}_frame", frame)
            found = connection.sql(f"SELECT * FROM {name}_frame")
            assert found.columns == list(FRAMES[name]), name
            assert len(found.fetchall()) == len(frame), name
