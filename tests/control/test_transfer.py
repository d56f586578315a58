"""Export and import: exact or masked, never taken for what it is not."""

import csv
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from acting import dead
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queue_core import InvalidArgument, Queue, State, StoreFull, open_queue
from queue_core.control import Operator, transfer
from queue_core.control.transfer import Moving, beside, neutral
from queue_core.task import Task

ODD = [
    "=1+1", "@x", "-2", "+3", "\tx", 'q"uo,te', "line\nbreak", "NaN", "001", "", "é ☃ 🦉", "\x00", "a" * 10_000,
]  # fmt: skip


def same(task: Task) -> tuple[Any, ...]:
    """All that a task is, but for the numbers that a store gives out."""
    record = task.record
    return (
        task.id, task.tag, record.state, record.payload, record.created, record.due, record.max_attempts,
        record.dedupe_key, record.attempts, record.cycle, record.leases, record.defers, record.history, record.error,
        record.reason, record.entered, record.origin, record.edits,
    )  # fmt: skip


def everything(queue: Queue) -> list[Task]:
    return [task for state in State for task in queue.tasks(state, limit=10_000)]


def filled(queue: Queue) -> None:
    """Tasks of every state, with odd text wherever text can be."""
    for number, text in enumerate(ODD):
        queue.push({"n": 2**70, text[:50]: [text, None, 1.5]}, tag=text, delay=60 * (number % 2))
    dead(queue, 3, tag="acme", error="boom\n=cmd")
    dead(queue, 2, tag="bolt", error="token=hunter2", dedupe_key="k" * 1_000)
    for task in queue.tasks("dead", tag="bolt", limit=1):
        queue.purge(task.id)
    queue.push({"lone": "\ud800", "password": "hunter2"}, tag="held")
    queue.lease_many(100, ttl=600)
    for lease in queue.lease_many(100):
        queue.release(lease)


@pytest.fixture
def other(tmp_path: Path, clock: Any) -> Any:
    with open_queue(tmp_path / "other", clock=clock) as queue:
        yield queue
        assert queue.check() == []


def test_an_unmasked_export_gives_the_same_tasks_back(
    queue: Queue, admin: Operator, other: Queue, tmp_path: Path, clock: Any
) -> None:
    filled(queue)
    path = tmp_path / "all.ndjson"
    export = admin.export_tasks(path, masked=False)
    tasks = everything(queue)
    assert (export.tasks, export.complete, export.masked) == (len(tasks), True, False)
    outcome = Operator(other, "bob").import_tasks(path, reason="moving house")
    assert (outcome.taken, outcome.left_out) == (len(tasks), {})
    back = {task.id: task for task in everything(other)}
    for task in tasks:
        mine = back[task.id]
        if task.state is State.INFLIGHT:
            assert (mine.state, len(mine.history)) == (State.PENDING, len(task.history) + 1)
        else:
            assert same(mine) == same(task)
    assert [task.id for task in other.tasks("dead")] == [task.id for task in queue.tasks("dead")]
    assert [(g.fingerprint, g.count) for g in other.groups()] == [
        (g.fingerprint, g.count) for g in queue.groups() if g.count
    ]
    assert other.audit()[-1].outcome == f"{len(tasks)} of {len(tasks)} taken in"
    again = Operator(other, "bob").import_tasks(path)
    assert (again.taken, sum(again.left_out.values())) == (0, len(tasks))
    assert all("is here already" in why for why in again.left_out)


def test_the_side_file_says_what_the_file_is(queue: Queue, operator: Operator, tmp_path: Path, clock: Any) -> None:
    dead(queue, 5)
    dead(queue, 2, tag="bolt")
    path = tmp_path / "dead.ndjson"
    operator.export_tasks(path, "state:dead tag:acme")
    about = json.loads(beside(path).read_text())
    assert (about["where"], about["at"], about["tasks"], about["complete"], about["masked"], about["file"]) == (
        "state:dead tag:acme", clock.at().isoformat(), 5, True, True, "dead.ndjson",
    )  # fmt: skip
    assert len(path.read_text().splitlines()) == 5


@pytest.mark.parametrize(("limit", "tasks", "complete"), [(3, 3, False), (7, 7, True), (100, 7, True)])
def test_a_limit_is_told(
    queue: Queue, operator: Operator, tmp_path: Path, limit: int, tasks: int, complete: bool
) -> None:
    dead(queue, 7)
    export = operator.export_tasks(tmp_path / "some.ndjson", "", limit=limit)
    assert (export.tasks, export.complete) == (tasks, complete)
    assert len((tmp_path / "some.ndjson").read_text().splitlines()) == tasks


def test_an_export_that_is_stopped_is_not_complete(queue: Queue, operator: Operator, tmp_path: Path) -> None:
    queue.push_many(list(range(2_500)))
    export = operator.export_tasks(tmp_path / "some.ndjson", progress=lambda scanned, total: scanned < 1_000)
    assert (export.tasks, export.complete) == (1_000, False)


def test_a_masked_export_holds_no_secret_and_is_not_imported(
    queue: Queue, operator: Operator, other: Queue, tmp_path: Path
) -> None:
    filled(queue)
    for name in ("masked.ndjson", "masked.csv"):
        operator.export_tasks(tmp_path / name)
        assert "hunter2" not in (tmp_path / name).read_text()
    with pytest.raises(InvalidArgument, match="it was masked, so that its secrets are lost"):
        Operator(other, "bob").import_tasks(tmp_path / "masked.ndjson")
    with pytest.raises(InvalidArgument, match=r"no \.ndjson"):
        Operator(other, "bob").import_tasks(tmp_path / "masked.csv")
    assert other.counts().all == 0
    assert other.audit() == []


def test_no_lease_can_be_used_from_a_file(queue: Queue, admin: Operator, tmp_path: Path) -> None:
    queue.push(1)
    lease = queue.lease()
    assert lease is not None
    admin.export_tasks(tmp_path / "all.ndjson", masked=False)
    secret = lease.token.rsplit(".", 1)[1]
    assert secret not in (tmp_path / "all.ndjson").read_text()
    assert queue.audit()[-1].action == "export"


def test_csv_begins_no_formula(queue: Queue, operator: Operator, tmp_path: Path) -> None:
    filled(queue)
    path = tmp_path / "all.csv"
    export = operator.export_tasks(path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == export.tasks == queue.counts().all
    assert not [cell for row in rows for cell in row.values() if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    tags = {row["id"]: row["tag"] for row in rows}
    assert {tags[task.id] for task in everything(queue)} >= {"'=1+1", "é ☃ 🦉", "line\nbreak"}
    for task in everything(queue):
        assert tags[task.id].removeprefix("'") == task.tag


@given(st.text())
def test_a_neutral_cell_is_told_from_a_formula(text: str) -> None:
    assert neutral(text).removeprefix("'") == text.removeprefix("'")
    assert not neutral(text).startswith(("=", "+", "-", "@", "\t", "\r"))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda text: text[:-200], "line 3: no task|not the file that was exported"),
        (lambda text: text.replace('"n": 1', '"n": 9').replace('"n":1', '"n":9'), "not the file that was exported"),
        (lambda text: "".join(text.splitlines(keepends=True)[:2]), "3 tasks were written and 2 are there"),
        (lambda text: text + "\n", "line 4: no task"),
        (lambda text: text.replace('"state": "dead"', '"state": "happy"', 1), "line 1: no task"),
        (lambda text: text.replace('"leases": 1', '"leases": 0', 1), "line 1: no task"),
        (lambda text: "[1]\n" + text, "line 1: no task"),
        (lambda text: text.replace('"tag": "acme"', '"tag": 5', 1), "line 1"),
        (lambda text: text.replace("{", "", 1), "line 1: no task"),
        (
            lambda text: re.sub(r'"entered": "[^"]*"', '"entered": 9223372036854775808', text, count=1),
            "line 1: no task",
        ),
        (lambda text: text.replace('"cycle": 1,', f'"cycle": {2**70},'), "line 1: no task"),
        (lambda text: text.replace('"dedupe_key": null', r'"dedupe_key": "\ud800"'), "line 1: no task"),
        (lambda text: text.replace('"due": null', '"due": -5'), "line 1: no task"),
    ],
)
def test_a_file_that_was_spoiled_is_refused_whole(
    queue: Queue, admin: Operator, other: Queue, tmp_path: Path, spoil: Any, said: str
) -> None:
    dead(queue, 3)
    path = tmp_path / "dead.ndjson"
    admin.export_tasks(path, masked=False)
    path.write_text(spoil(path.read_text()))
    with pytest.raises(InvalidArgument, match=said):
        Operator(other, "bob").import_tasks(path)
    assert other.counts().all == 0


def test_without_its_side_file_a_file_is_taken_as_it_is(
    queue: Queue, admin: Operator, other: Queue, tmp_path: Path
) -> None:
    dead(queue, 3)
    path = tmp_path / "dead.ndjson"
    admin.export_tasks(path, masked=False)
    beside(path).unlink()
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    bob = Operator(other, "bob")
    assert bob.import_tasks(path, dry_run=True).tasks == 2
    assert other.counts().all == 0
    assert bob.import_tasks(path).taken == 2
    dry = bob.import_tasks(path, dry_run=True)
    assert dry.left_out == {"a task of this id is here already": 2}
    beside(path).write_text("{}")
    with pytest.raises(InvalidArgument, match="not what an export writes"):
        bob.import_tasks(path)
    with pytest.raises(InvalidArgument, match="cannot be read"):
        bob.import_tasks(tmp_path / "none.ndjson")


def test_a_held_dedupe_key_leaves_a_task_out(queue: Queue, admin: Operator, other: Queue, tmp_path: Path) -> None:
    queue.push(1, tag="acme", dedupe_key="k")
    queue.push(2, tag="acme")
    admin.export_tasks(tmp_path / "all.ndjson", masked=False)
    other.push("mine", tag="acme", dedupe_key="k")
    outcome = Operator(other, "bob").import_tasks(tmp_path / "all.ndjson")
    assert (outcome.taken, outcome.left_out) == (1, {"its dedupe key is held by another task": 1})


def test_a_file_is_replaced_only_by_a_whole_one(queue: Queue, operator: Operator, tmp_path: Path) -> None:
    dead(queue, 3)
    path = tmp_path / "dead.ndjson"
    path.write_text("old")

    def broken(*_: int) -> bool:
        raise OSError(28, "No space left on device")

    with pytest.raises(StoreFull, match="cannot be written"):
        operator.export_tasks(path, progress=broken)
    assert path.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == sorted(name for name in os.listdir(tmp_path) if not name.startswith("."))
    with pytest.raises(InvalidArgument, match=r"neither \.ndjson nor \.csv"):
        operator.export_tasks(tmp_path / "dead.xlsx")


def test_the_files_store_exports_and_imports_as_well(queue: Queue, admin: Operator, tmp_path: Path, clock: Any) -> None:
    filled(queue)
    admin.export_tasks(tmp_path / "all.ndjson", masked=False)
    with open_queue(f"files://{tmp_path}/files", clock=clock, durability="none") as files:
        outcome = Operator(files, "bob").import_tasks(tmp_path / "all.ndjson")
        assert (outcome.taken, outcome.left_out) == (queue.counts().all, {})
        Operator(files, "root", "admin").export_tasks(tmp_path / "back.ndjson", masked=False)
        assert files.check() == []
    back = [json.loads(line)["id"] for line in (tmp_path / "back.ndjson").read_text().split("\n") if line]
    assert sorted(back) == sorted(task.id for task in everything(queue))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=10,
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(payload=JSON, tag=st.text(max_size=50), error=st.text(max_size=50), key=st.none() | st.text(max_size=20))
def test_any_task_comes_back_as_it_was(tmp_path: Path, payload: Any, tag: str, error: str, key: str | None) -> None:
    with open_queue("memory://") as one, open_queue("memory://") as two:
        one.push(payload, tag=tag, max_attempts=1, dedupe_key=key)
        lease = one.lease()
        assert lease is not None
        one.nack(lease, error)
        Operator(one, "ann", "admin").export_tasks(tmp_path / "one.ndjson", masked=False)
        Operator(two, "ann").import_tasks(tmp_path / "one.ndjson")
        (mine,), (theirs,) = two.tasks("dead").items, one.tasks("dead").items
        assert same(mine) == same(theirs)
        assert two.check() == []


def test_export_is_a_part_of_the_operator() -> None:
    assert issubclass(Operator, Moving)


def test_a_payload_that_is_too_large_here_is_named_before_any_is_taken(
    queue: Queue, admin: Operator, other: Queue, tmp_path: Path
) -> None:
    queue.push_many(["x", "y" * 200, "z"])
    admin.export_tasks(tmp_path / "all.ndjson", masked=False)
    other.configure(max_payload=100)
    with pytest.raises(InvalidArgument, match="line 2: its payload is 202 bytes, and the limit of this queue is 100"):
        Operator(other, "bob").import_tasks(tmp_path / "all.ndjson")
    assert other.counts().all == 0


def test_an_unmasked_export_is_for_its_owner_and_written_down_before_it_is_there(
    queue: Queue, admin: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.push({"password": "hunter2"})
    path = tmp_path / "all.ndjson"
    with monkeypatch.context() as patched:
        patched.setattr(transfer, "note", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            admin.export_tasks(path, masked=False)
    assert not path.exists()
    admin.export_tasks(path, masked=False)
    assert path.stat().st_mode & 0o077 == 0
    assert [(entry.action, entry.count, entry.intent) for entry in queue.audit()] == [("export", 1, "all.ndjson")]
