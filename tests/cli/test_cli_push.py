"""queue-core push: what becomes a task, what does not, and what is said about it."""

import json
import re
import shlex
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from terminal import NOBODY, kill_off, run

from queue_core import Queue


def test_push_takes_the_tag_from_a_field(queue: Queue, tmp_path: Path) -> None:
    file = tmp_path / "sites.ndjson"
    file.write_text('\ufeff{"site": "a", "n": 1}\n\n{"site": 7, "n": 2}\n{"site": "é\\n", "n": 3}')
    result = run("push", str(file), "--tag-key", "site")
    assert result.stderr == "3 tasks pushed.\n"
    assert result.stdout == ""
    assert [(task.tag, task.payload) for task in queue.tasks("pending")] == [
        ("a", {"site": "a", "n": 1}), ("7", {"site": 7, "n": 2}), ("é\n", {"site": "é\n", "n": 3}),
    ]  # fmt: skip


def test_push_of_every_option(queue: Queue) -> None:
    line = json.dumps({"user": {"id": 5}, "job": [1, 2**70], "key": NOBODY, "once": "k"})
    keys = ("--tag-key", "user.id", "--payload-key", "job", "--id-key", "key", "--dedupe-key", "once")
    run("push", "-", *keys, "--delay", "10m", "--max-attempts", "2", stdin=line)
    (task,) = queue.tasks("scheduled")
    assert (task.tag, task.payload, task.id, task.dedupe_key) == ("5", [1, 2**70], NOBODY, "k")
    assert task.max_attempts == 2
    assert task.due_at is not None
    assert timedelta(minutes=9) < task.due_at - datetime.now(UTC) <= timedelta(minutes=10)


def test_push_tells_what_was_replaced_redriven_and_held(queue: Queue) -> None:
    (dead,) = kill_off(queue, 1, "t")
    live = queue.push(1, tag="t")
    queue.push(1, tag="t", dedupe_key="held")
    rows = [{"id": dead, "k": "1"}, {"id": live.id, "k": "2"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    told = run("push", "-", "--tag", "t", "--id-key", "id", "--dedupe-key", "k", "--json", stdin=lines)
    assert json.loads(told.stdout) == {
        "pushed": 0, "replaced": 1, "redriven": 1, "already_there": 0, "bad": 0, "bad_lines": []
    }  # fmt: skip
    told = run("push", "-", "--tag", "t", "--dedupe-key", "k", stdin='{"k": "held"}\n{"k": "new"}\n')
    assert told.stderr == "1 task pushed, 1 already there under their dedupe key.\n"


BAD = [
    (b"{oops", "not JSON"),
    (b'{"site": NaN}', "NaN"),
    (b'{"site": "\xff"}', "not UTF-8"),
    (b'{"n": 1}', "no field 'site'"),
    (b"[1]", "not an object"),
    (b'{"site": ["a"]}', "text or a whole number"),
    (b'{"site": true}', "text or a whole number"),
    (b'{"site": "a", "n": 1e999}', "inf"),
    (b'{"site": "' + b"x" * 70_000 + b'"}', "65,535"),
    (b'{"site": "a", "n": ' + b"9" * 5_000 + b"}", "4300"),
    (b'{"site": "a", "n": "' + b"x" * (1 << 20) + b'"}', "1,048,5"),
    (b'{"site": "\\ud800"}', "lone surrogate"),
    (b'{"site": ' + b"[" * 100_000, "nested too deeply"),
]


@pytest.mark.parametrize(("line", "problem"), BAD)
@pytest.mark.parametrize("batch", ["1", "1000"])
def test_a_bad_line_ends_a_push_after_all_before_it(queue: Queue, line: bytes, problem: str, batch: str) -> None:
    data = b'{"site": "a"}\n\n{"site": "b"}\n' + line + b'\n{"site": "c"}\n'
    result = run("push", "-", "--tag-key", "site", "--batch", batch, stdin=data, code=1)
    first, stopped = result.stderr.splitlines()
    assert first.startswith("line 4: ")
    assert problem in first
    assert stopped.startswith("Stopped at line 4: 2 tasks pushed from the lines before it, nothing from it on.")
    assert [task.tag for task in queue.tasks("pending")] == ["a", "b"]


def test_bad_lines_are_skipped_as_asked(queue: Queue) -> None:
    data = b"".join(b'{"site": "good"}\n' + line + b"\n" for line, _ in BAD)
    result = run("push", "-", "--tag-key", "site", "--skip-bad", "--json", stdin=data, code=1)
    account = json.loads(result.stdout)
    assert (account["pushed"], account["bad"]) == (len(BAD), len(BAD))
    assert sorted(bad["line"] for bad in account["bad_lines"]) == list(range(2, 2 * len(BAD) + 1, 2))
    assert queue.counts().pending == len(BAD)


def test_the_hint_for_going_on_is_true(queue: Queue, tmp_path: Path) -> None:
    file = tmp_path / "sites.ndjson"
    file.write_text('{"site": "a"}\noops\n{"site": "b"}\n')
    hint = re.search(r"tail -n \+\d+ \S+", run("push", str(file), code=1).stderr)
    assert hint is not None
    rest = subprocess.run(shlex.split(hint[0]), capture_output=True, check=True).stdout
    assert rest == b'oops\n{"site": "b"}\n'


def test_50_megabytes_are_refused_with_their_size_and_the_limit(queue: Queue) -> None:
    told = run("push", "-", stdin='"' + "x" * 50_000_000 + '"\n1\n', code=1).stderr
    assert "50,000,002 bytes" in told
    assert "1,048,576" in told
    assert queue.counts().all == 0


def test_a_full_queue_ends_a_push_and_tells_how_far_it_came(queue: Queue) -> None:
    queue.configure(max_pending=3)
    result = run("push", "-", "--batch", "2", stdin="1\n2\n3\n4\n5\n", code=4)
    assert "max_pending is 3" in result.stderr
    assert "2 tasks pushed; nothing was pushed from line 3 on." in result.stderr
    assert queue.counts().pending == 2


def test_a_queue_in_memory_is_told_not_to_last() -> None:
    result = run("push", "-", "--url", "memory://", stdin="1\n")
    assert "memory:// begins empty and ends with this command" in result.stderr
    assert "1 task pushed." in result.stderr
