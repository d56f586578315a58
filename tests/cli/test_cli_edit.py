"""queue-core dead edit: a new payload, by option, by file, in an editor."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from terminal import Terminal, run

from queue_core import Queue, Undecodable
from queue_core.control.editing import restored
from queue_core.redact import MARK, Redactor
from queue_core.stores.base import Change
from queue_core.task import parse_id

HIDDEN = "hunter2hunter2"
MASK = f"{MARK} (8–15 characters)"


def bury(queue: Queue, *payloads: Any) -> list[str]:
    """Dead letters with these payloads."""
    return [queue.dead_letter(queue.push(payload, tag="acme").id, "broken").id for payload in payloads]


def test_a_payload_is_replaced_and_the_task_redriven(queue: Queue) -> None:
    (dead,) = bury(queue, {"url": "htp://x"})
    result = run("dead", "edit", dead, "--payload", '{"url": "http://x"}', "--redrive", "--yes", "--reason", "typo")
    assert result.stdout == ""
    assert '-  "url": "htp://x"\n+  "url": "http://x"\n' in result.stderr
    task = queue.get(dead)
    assert (task.payload, task.state, task.cycle) == ({"url": "http://x"}, "pending", 2)
    assert f"was replaced and it was redriven: version {task.version}." in result.stderr
    assert [(entry.action, entry.reason) for entry in queue.audit()] == [("edit", "typo"), ("redrive", "typo")]
    assert "htp://x" in run("dead", "show", dead).stdout, "the payload of before is kept"


@pytest.mark.parametrize("value", [2**70, "x" * 10_000, "\ud800\x00é🦄", None, [], {"": [1.5, True]}])
def test_any_json_value_comes_from_a_file_or_from_standard_input(queue: Queue, tmp_path: Path, value: Any) -> None:
    first, second = bury(queue, "old", "old")
    file = tmp_path / "new.json"
    file.write_text(json.dumps(value))
    told = json.loads(run("dead", "edit", first, "--file", str(file), "--yes", "--json").stdout)
    assert told["payload"] == value == queue.get(first).payload
    assert [edit["payload"] for edit in told["edits"]] == ["old"]
    run("dead", "edit", second, "--file", "-", "--yes", stdin=json.dumps(value))
    assert queue.get(second).payload == value


def test_what_is_no_payload_changes_nothing(queue: Queue, tmp_path: Path) -> None:
    (dead,) = bury(queue, "old")
    bad = tmp_path / "bad.json"
    bad.write_bytes(b'{"a": \xff}')
    assert "not UTF-8" in run("dead", "edit", dead, "--file", str(bad), "--yes", code=2).stderr
    queue.configure(max_payload=10)
    assert "10" in run("dead", "edit", dead, "--payload", json.dumps("x" * 20), "--yes", code=2).stderr
    assert "no terminal" in run("dead", "edit", dead, "--payload", "1", code=2).stderr
    assert "no terminal to edit at" in run("dead", "edit", dead, code=2).stderr
    same = run("dead", "edit", dead, "--payload", '"old"', "--redrive", "--yes", code=1)
    assert f"queue-core dead redrive {dead}" in same.stderr
    version = queue.get(dead).version
    assert (
        f"is at version {version}"
        in run("dead", "edit", dead, "--payload", "1", "--version", str(version - 1), "--yes", code=3).stderr
    )
    live = queue.push("live", tag="acme")
    assert "is pending" in run("dead", "edit", live.id, "--payload", "1", "--yes", code=3).stderr
    assert (queue.get(dead).payload, queue.get(dead).version) == ("old", version)
    run("dead", "edit", dead, "--payload", "1", "--version", str(version), "--yes")
    assert queue.get(dead).payload == 1


def test_an_edit_stands_when_the_redrive_is_refused(queue: Queue) -> None:
    task = queue.push("old", tag="acme", dedupe_key="k")
    queue.dead_letter(task.id, "broken")
    queue.push("holder", tag="acme", dedupe_key="k")
    refused = run("dead", "edit", task.id, "--payload", "1", "--redrive", "--yes", code=3)
    assert "Before that, its payload was replaced." in refused.stderr
    assert (queue.get(task.id).payload, queue.get(task.id).state) == (1, "dead")


def test_a_value_that_is_left_as_its_mask_keeps_what_it_hides(queue: Queue) -> None:
    old = {"n": 1, "password": HIDDEN, "tokens": [HIDDEN, HIDDEN], "card": 4111111111111111}
    (dead,) = bury(queue, old)
    seen = json.loads(run("dead", "show", dead, "--json").stdout)["payload"]
    assert seen == {"n": 1, "password": MASK, "tokens": [MASK, MASK], "card": 0}
    shown = run("dead", "edit", dead, "--payload", json.dumps(seen | {"n": 2}), "--yes").stderr
    assert HIDDEN not in shown
    assert queue.get(dead).payload == old | {"n": 2}
    for new in ({"other": MASK}, {"tokens": [MASK]}, {"tokens": [MASK, MASK, "new"]}, MASK):
        assert "a mask where" in run("dead", "edit", dead, "--payload", json.dumps(new), "--yes", code=2).stderr
    changed = run(
        "dead", "edit", dead, "--payload", json.dumps(seen | {"n": 2, "password": "another6another6"[:14]}), "--yes"
    )
    assert "What changes is masked." in changed.stderr
    assert "another6" not in changed.stderr
    assert queue.get(dead).payload["password"] == "another6another6"[:14]
    assert queue.get(dead).payload["tokens"] == [HIDDEN, HIDDEN]


def test_bytes_that_are_no_json_are_replaced_by_some(queue: Queue) -> None:
    (dead,) = bury(queue, "old")
    queue.perform(lambda store: store.change(parse_id(dead), Change("edit", payload=b"\xff{\x1b")))
    assert isinstance(queue.get(dead).payload, Undecodable)
    shown = run("dead", "edit", dead, "--payload", "[1]", "--yes").stderr
    assert "\x1b" not in shown
    assert queue.get(dead).payload == [1]


def editor(path: Path, script: str) -> str:
    """An editor that does that to the file it is given."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_in_an_editor_secrets_are_masked_and_mistakes_can_be_mended(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dead,) = bury(queue, {"n": 1, "password": HIDDEN})
    log = tmp_path / "seen"
    script = f"""
        cat "$1" >> {log}
        if grep -q oops "$1"; then sed -i s/oops/2/ "$1"; else sed -i 's/"n": 1/"n": oops/' "$1"; fi
    """
    monkeypatch.setenv("EDITOR", editor(tmp_path / "editor", script))
    with Terminal("dead", "edit", dead, "--redrive") as terminal:
        terminal.see("Edit it again? [Y/n]")
        assert "not JSON" in terminal.shown
        terminal.enter("\n")
        terminal.see("this payload and redrive it? [y/N]")
        assert '+  "n": 2' in terminal.shown
        terminal.enter("y\n")
        assert "redriven" in terminal.end(0)
    assert queue.get(dead).payload == {"n": 2, "password": HIDDEN}
    assert HIDDEN not in log.read_text()
    assert MASK in log.read_text()


def test_an_editor_that_is_left_without_a_change_changes_nothing(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dead,) = bury(queue, {"n": 1, "password": HIDDEN})
    version = queue.get(dead).version
    for script in ("true", 'touch "$1"'):
        monkeypatch.setenv("EDITOR", editor(tmp_path / "editor", script))
        with Terminal("dead", "edit", dead) as terminal:
            assert "Nothing was changed" in terminal.end(1)
    monkeypatch.setenv("EDITOR", editor(tmp_path / "editor", """sed -i 's/"n": 1/"n": 2/' "$1" """))
    with Terminal("dead", "edit", dead) as terminal:
        terminal.see("[y/N]")
        terminal.enter("n\n")
        terminal.end(1)
    assert queue.get(dead).version == version
    assert queue.audit() == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    | st.sampled_from([HIDDEN, f"token={HIDDEN}", 4111111111111111, MASK]),
    lambda inner: st.lists(inner) | st.dictionaries(
        st.text() | st.sampled_from(["password", "tokens", f"token={HIDDEN}"]), inner
    ),
    max_leaves=20,
)  # fmt: skip


@given(payload=JSON)
def test_what_is_given_back_as_it_was_seen_is_what_it_was(payload: Any) -> None:
    seen = Redactor().value(payload)
    assert restored(payload, seen, json.loads(json.dumps(seen))) == payload
