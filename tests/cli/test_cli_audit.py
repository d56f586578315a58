"""queue-core audit: who did what."""

import json
import os
from pathlib import Path

import pytest
from terminal import NASTY, kill_off, run

from queue_core import Queue
from queue_core.control import Operator


def lines(*args: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in run("audit", "--json", *args).stdout.splitlines()]


@pytest.fixture
def acted(queue: Queue) -> Queue:
    """Ann has paused a tag and redriven two tasks, Bob has edited one and was refused once."""
    one, _, three = kill_off(queue, 3)
    run("pause", "acme", "--reason", "password=hunter2hunter2")
    run("redrive", "--where", f"-id:{three}", "--yes")
    bob = Operator(queue, "bob", "operator", origin="notebook")
    bob.edit(three, "new")
    with pytest.raises(Exception, match="needs it dead"):
        bob.purge(one, "x")
    return queue


def test_the_newest_is_last_and_each_can_be_found(acted: Queue) -> None:
    assert [(line["action"], line["actor"], line["plan"], line["count"]) for line in lines()] == [
        ("configure", "ann", None, 0), ("plan", "ann", 1, 2), ("run", "ann", 1, 0), ("run", "ann", 1, 2),
        ("edit", "bob", None, 1), ("purge", "bob", None, 0),
    ]  # fmt: skip
    assert [line["number"] for line in lines("--actor", "bob")] == [5, 6]
    assert [line["number"] for line in lines("--action", "edit")] == [5]
    assert [line["number"] for line in lines("--plan", "1")] == [2, 3, 4]
    assert [line["number"] for line in lines("--limit", "2", "--actor", "ann")] == [3, 4]
    assert len(lines("--since", "1h")) == 6
    assert lines("--since", "2999-01-01T00:00Z") == []
    shown = run("audit", "--limit", "6")
    assert "refused: " in shown.stdout
    assert "hunter2" not in shown.stdout, "what people wrote is masked as well"
    assert "--limit 12 shows more" in shown.stderr
    assert "hunter2" not in lines()[0]["reason"]
    assert run("audit", "--actor", "nobody").stderr == "No such entry.\n"


def test_an_export_is_all_of_it_in_a_new_file(acted: Queue, tmp_path: Path) -> None:
    file = tmp_path / "audit.ndjson"
    assert run("audit", "--export", str(file)).stderr == f"6 entries written to {file}.\n"
    assert [json.loads(line) for line in file.read_text().splitlines()] == lines()
    assert "there already" in run("audit", "--export", str(file), code=2).stderr
    assert run("audit", "--export", str(tmp_path / "one"), "--limit", "1").stderr.startswith("1 entry written")
    assert "No such file" in run("audit", "--export", str(tmp_path / "no" / "x"), code=4).stderr


def test_an_export_that_fails_leaves_no_file(acted: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "audit.ndjson"
    real, calls = json.dumps, iter(range(100))

    def full(value: object, **how: bool) -> str:
        if next(calls) == 2:
            raise OSError(28, "No space left on device")
        return real(value, **how)  # type: ignore[arg-type]

    monkeypatch.setattr("queue_core.cli.show.json.dumps", full)
    assert "No space left" in run("audit", "--export", str(file), code=4).stderr
    assert not os.path.exists(file)


def test_odd_text_harms_no_terminal(queue: Queue) -> None:
    run("pause", "\x07" * 100, "--reason", NASTY)
    shown = run("audit").stdout
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\\u0007" in shown


def test_more_than_a_page_is_read(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_core.cli.audit.PAGE", 3)
    operator = Operator(queue, "bob")
    for _ in range(10):
        operator.pause("acme")
    assert [line["number"] for line in lines()] == list(range(1, 11))
    assert [line["number"] for line in lines("--limit", "2")] == [9, 10]
