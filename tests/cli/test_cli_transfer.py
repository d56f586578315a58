"""queue-core dead export, import: what is written, what is said, what is refused."""

import json
from pathlib import Path

from terminal import fail, ids, kill_off, run

from queue_core import Queue, open_queue

SECRET = "401 for token=abcdefghijklmnop"


def test_dead_letters_go_into_a_file_with_what_it_is_beside_it(queue: Queue, tmp_path: Path) -> None:
    kill_off(queue, 3)
    fail(queue, [SECRET], tag="bolt")
    queue.push("waiting", tag="acme")
    file = tmp_path / "dead.ndjson"
    assert run("dead", "export", str(file)).stderr == f"4 tasks written to {file}, masked.\n"
    assert "abcdefghijklmnop" not in file.read_text()
    done = json.loads(run("dead", "export", str(file), "tag:acme", "--limit", "2", "--json").stdout)
    assert (done["tasks"], done["where"], done["complete"], done["file"]) == (
        2, "state:dead tag:acme", False, str(file),
    )  # fmt: skip
    about = json.loads((tmp_path / "dead.ndjson.about.json").read_text())
    assert (about["tasks"], about["complete"], about["masked"]) == (2, False, True)
    assert "not all that match" in run("dead", "export", str(file), "--limit", "1").stderr
    assert "5 tasks" in run("dead", "export", str(tmp_path / "all.csv"), "--all-states").stderr


def test_what_is_wrong_with_an_export_is_said(queue: Queue, tmp_path: Path) -> None:
    assert "neither .ndjson nor .csv" in run("dead", "export", str(tmp_path / "dead.xls"), code=2).stderr
    assert "give a filter once" in run("dead", "export", "x.csv", "a", "--where", "b", code=2).stderr
    assert "did you mean tag" in run("dead", "export", "x.csv", "tga:x", code=2).stderr
    assert "QUEUE_ROLE=admin" in run("dead", "export", str(tmp_path / "x.ndjson"), "--unmasked", code=3).stderr
    assert "cannot be written" in run("dead", "export", str(tmp_path / "none" / "x.csv"), code=4).stderr


def test_an_unmasked_export_comes_back(queue: Queue, tmp_path: Path) -> None:
    kill_off(queue, 3)
    file = str(tmp_path / "dead.ndjson")
    run("dead", "export", file, "--unmasked", "--role", "admin")
    url = str(tmp_path / "other")
    open_queue(url).close()
    told = run("dead", "import", file, "--dry-run", "--url", url)
    assert told.stderr == "3 tasks can be read; nothing was taken in.\n"
    assert "add --yes" in run("dead", "import", file, "--url", url, code=2).stderr
    assert run("dead", "import", file, "--yes", "--url", url, "--reason", "moved").stderr == "3 of 3 tasks taken in.\n"
    again = run("dead", "import", file, "--yes", "--url", url, "--json", code=1)
    assert json.loads(again.stdout) == {
        "tasks": 3, "taken": 0, "left_out": {"a task of this id is here already: it is dead": 3},
    }  # fmt: skip
    with open_queue(url) as other:
        assert ids(other, "dead") == ids(queue, "dead")
        assert [entry.reason for entry in other.audit()] == ["moved", "moved", "", ""]
        assert other.check() == []


def test_a_masked_export_is_not_imported(queue: Queue, tmp_path: Path) -> None:
    kill_off(queue, 2)
    file = str(tmp_path / "dead.ndjson")
    run("dead", "export", file)
    assert "import an unmasked export" in run("dead", "import", file, "--yes", code=2).stderr
    assert queue.counts().dead == 2


def test_an_empty_filter_is_not_every_task(queue: Queue) -> None:
    """As of a variable of a shell that is not set."""
    kill_off(queue, 2)
    for command in (["redrive"], ["dead", "purge", "--reason", "x"], ["cancel", "--reason", "x"]):
        assert "it is empty, which would be every task" in run(*command, "--where", " ", "--yes", code=2).stderr
    assert queue.counts().dead == 2
