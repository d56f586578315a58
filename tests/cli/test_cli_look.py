"""The commands that look: exact as JSON, safe and readable as text."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from terminal import ESCAPED, NASTY, NOBODY, run

from queue_core import Finding, Queue, View, errors
from queue_core.cli import base, show
from queue_core.redact import UNMASKED


@pytest.fixture
def mixed(queue: Queue) -> Queue:
    """Tasks in every state, with text that no terminal should get."""
    tag = NASTY.replace("\ud800", "")
    tasks = [queue.push({"text": NASTY}, tag=tag) for _ in range(4)]
    queue.dead_letter(tasks[2].id, NASTY)
    queue.cancel(tasks[3].id)
    failing = queue.lease(owner=tag)
    assert failing is not None
    queue.nack(failing, f"Traceback\n  frame\nError: {NASTY}", retry_in=60)
    assert queue.lease(owner=tag, ttl=600) is not None
    queue.push({"text": "y" * 5_000}, tag=tag)
    assert all(vars_of(queue.counts()).values())
    return queue


def vars_of(counts: Any) -> dict[str, int]:
    return {name: getattr(counts, name) for name in counts.__struct_fields__}


def printable(text: str) -> bool:
    return all(sign.isprintable() or sign == "\n" for sign in text)


@pytest.mark.parametrize("state", ["pending", "scheduled", "inflight", "dead", "trash"])
def test_tasks_get_and_explain_of_every_state(mixed: Queue, state: str) -> None:
    listed = run("tasks", "--state", state)
    assert printable(listed.stdout)
    assert "\\x1b[31mred" in listed.stdout
    page = json.loads(run("tasks", "--state", state, "--json").stdout)
    assert page["total"] == len(page["tasks"]) > 0
    task = page["tasks"][0]
    assert task["state"] == state
    assert task["payload"] == mixed.get(task["id"]).payload
    assert datetime.fromisoformat(task["created_at"]).utcoffset() == timedelta(0)
    assert json.loads(run("get", task["id"], "--json").stdout) == task
    story = run("get", task["id"]).stdout
    assert printable(story)
    assert task["id"] in story
    assert "UTC (" in story
    why = run("explain", task["id"]).stdout
    assert printable(why)
    assert json.loads(run("explain", task["id"], "--json").stdout)["text"] != ""


def test_a_table_shows_the_last_line_of_an_error_and_get_all_of_it(mixed: Queue) -> None:
    assert "Error: \\x1b[31mred" in run("tasks", "--state", "scheduled").stdout
    failed = next(task for task in mixed.tasks("scheduled") if task.error)
    story = run("get", failed.id).stdout
    assert "\n    frame\n" in story
    assert "nacked" in story


def test_long_payloads_are_cut_with_a_note_and_exact_as_json(mixed: Queue) -> None:
    long = next(task.id for task in mixed.tasks("pending") if len(task.payload["text"]) == 5_000)
    assert "characters in all; --json prints every one" in run("get", long).stdout
    assert json.loads(run("get", long, "--json").stdout)["payload"] == {"text": "y" * 5_000}
    assert max(map(len, run("tasks", "--state", "pending").stdout.splitlines())) < 200


def test_pages_follow_each_other(queue: Queue) -> None:
    queue.push_many([(n, "t") for n in range(5)])
    first = run("tasks", "--state", "pending", "--limit", "3")
    mark = re.search(r"--after (\S+)", first.stderr)
    assert mark is not None
    assert "3 of 5 pending tasks." in first.stderr
    second = json.loads(run("tasks", "--state", "pending", "--limit", "3", "--after", mark[1], "--json").stdout)
    assert [task["payload"] for task in second["tasks"]] == [3, 4]
    assert second["next"] is None
    last = json.loads(run("tasks", "--state", "pending", "--limit", "1", "--reverse", "--json").stdout)
    assert last["tasks"][0]["payload"] == 4
    assert run("tasks", "--state", "dead", "--tag", "t").stderr == "0 of 0 dead tasks in tag t.\n"


def test_stats_as_text_and_json(mixed: Queue) -> None:
    mixed.push_many([(0, f"tag {n}") for n in range(30)])
    text = run("stats").stdout
    assert printable(text)
    assert "… and 11 more tags; --tags 31 shows all" in text
    values = json.loads(run("stats", "--json").stdout)
    assert len(values["tags"]) == 31
    assert values["backlog"] == mixed.snapshot().backlog
    assert values["tags"][0]["name"] == NASTY.replace("\ud800", "")
    assert values["ring"]["next"] is not None
    assert values["totals"]["wait_seconds"] >= 0


def test_stats_of_an_empty_queue(queue: Queue) -> None:
    assert "oldest wait —" in run("stats").stdout
    assert json.loads(run("stats", "--json").stdout)["oldest_wait"] is None
    assert run("journal").stderr == "No such events.\n"
    assert run("journal", "--json").stdout == ""


def test_the_journal_as_text_and_as_lines_of_json(mixed: Queue) -> None:
    text = run("journal", "--limit", "500").stdout
    assert printable(text)
    assert "dead_letter" in text
    events = [json.loads(line) for line in run("journal", "--limit", "500", "--json").stdout.splitlines()]
    assert [event["number"] for event in events] == [event.number for event in mixed.journal()]
    assert {"serve", "wait_seconds", "weight"} <= next(event for event in events if event["kind"] == "lease").keys()
    assert len(run("journal", "--after", str(events[2]["number"]), "--limit", "1", "--json").stdout.splitlines()) == 1


def test_check_finds_nothing_in_a_sound_store(mixed: Queue) -> None:
    result = run("check")
    assert result.stdout == ""
    assert result.stderr.startswith("Sound: ")
    assert json.loads(run("check", "--json").stdout)["findings"] == []


def test_check_ends_with_1_when_it_finds_something(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(View, "check", lambda self: [Finding(2, f"the queue counts {NASTY}")])
        text = run("check", code=1)
        told = json.loads(run("check", "--json", code=1).stdout)
    assert text.stdout == f"invariant 2: the queue counts {ESCAPED}\n"
    assert "1 finding" in text.stderr
    assert told["sound"] is False
    assert told["findings"] == [{"invariant": 2, "message": f"the queue counts {NASTY}"}]


def test_task_not_found_is_exit_3(queue: Queue) -> None:
    for command in ("get", "explain"):
        result = run(command, NOBODY, code=3)
        assert result.stderr.startswith("Error: no task")
        assert result.stdout == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidPayload("x"), 2), (errors.TaskNotFound(NOBODY), 3), (errors.Conflict("x"), 3),
        (errors.LeaseLost(["x"]), 3), (errors.NotPermitted("x"), 3), (errors.StoreBusy("x"), 4),
        (errors.StoreFull("x"), 4), (errors.QueueFull("x"), 4), (errors.MissingDriver("x"), 4),
    ],
)  # fmt: skip
def test_every_error_has_its_exit_code(error: errors.QueueError, code: int) -> None:
    assert base.exit_code(error) == code


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.0421, "0.042 s"), (-5, "0 s"), (12.4, "12 s"), (60, "1 min"), (252, "4 min 12 s"), (59.9, "1 min"),
     (3600, "1 h"), (11_100, "3 h 5 min"), (187_200, "2 d 4 h")],
)  # fmt: skip
def test_spans_for_a_person(seconds: float, text: str) -> None:
    assert show.span(seconds) == text


def test_tables_are_aligned_with_wide_signs() -> None:
    shown = show.table(("TAG", ">N"), [["名前", "1"], ["ab", "22"]])
    assert shown.split("\n") == ["TAG    N", "名前   1", "ab    22"]


def test_the_commands_work_on_a_store_without_journal_and_say_what_it_does_not_keep(tmp_path: Path) -> None:
    url = f"files://{tmp_path / 'queue'}"
    (tmp_path / "tasks.ndjson").write_text('{"n": 1}\n{"n": 2}\n')
    run("push", str(tmp_path / "tasks.ndjson"), "--tag", "acme", "--url", url)
    assert json.loads(run("stats", "--json", "--url", url).stdout)["pending"] == 2
    listed = json.loads(run("tasks", "--state", "pending", "--json", "--url", url).stdout)["tasks"]
    assert [task["payload"] for task in listed] == [{"n": 1}, {"n": 2}]
    why = run("explain", listed[1]["id"], "--url", url).stdout
    assert "1 serve" in why
    assert "when cannot be told: no history is kept" in why
    assert "keeps no journal" in run("journal", "--url", url, code=4).stderr
    assert "keeps no journal" in run("fairness", "--url", url, code=4).stderr
    assert "keeps no history" in run("series", "--url", url, code=4).stderr
    assert "Sound" in run("check", "--url", url).stderr


SECRET = "Zq9_hunter2"


@pytest.fixture
def secretive(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """Tasks in every state with a secret in payload, error, reason, attempts and dedupe key."""
    monkeypatch.delenv("QUEUE_REDACT", raising=False)
    said = f"Traceback\n  login(password='{SECRET}')\nError: https://bob:{SECRET}@host said {{'token': '{SECRET}'}}"
    payload = {"token": SECRET, "url": f"https://bob:{SECRET}@host", "n": 1}
    tasks = [queue.push(payload, tag="acme", dedupe_key=f"token={SECRET}:{n}") for n in range(5)]
    queue.dead_letter(tasks[3].id, said)
    queue.cancel(tasks[4].id)
    queue.nack(queue.lease(owner="w1"), said, retry_in=60)
    queue.dead_letter(queue.lease(owner="w1"), f"Authorization: Basic {SECRET}")
    assert queue.lease(owner="w1", ttl=600) is not None
    queue.push({"pad": "x" * 50_000, "token": SECRET}, tag="acme")
    queue.push({"token": SECRET, "pad": "x" * 50_000}, tag="acme")
    assert all(vars_of(queue.counts()).values())
    return queue


def test_no_command_that_looks_shows_a_secret(secretive: Queue) -> None:
    for state in ("pending", "scheduled", "inflight", "dead", "trash"):
        listed = json.loads(run("tasks", "--state", state, "--json").stdout)["tasks"]
        texts = [run("tasks", "--state", state).stdout, json.dumps(listed)]
        for task in listed:
            stored = secretive.get(task["id"])
            assert SECRET in repr(stored.payload)
            assert task["payload"]["token"] == "•••• (8–15 characters)"
            assert "payload.token" in task["masked"]
            texts += [
                run(command, task["id"], *more).stdout for command in ("get", "explain") for more in ([], ["--json"])
            ]
        assert "•••• (8–15 characters)" in texts[0]
        assert all(text and SECRET not in text for text in texts)
    told = run("get", secretive.tasks("scheduled").items[0].id).stdout
    assert told.rstrip().endswith("masked: payload.token, payload.url, error, dedupe_key, history")
    for more in ([], ["--json"]):
        journal = run("journal", *more).stdout
        assert "dead_letter" in journal
        assert SECRET not in journal


def test_rules_of_ones_own_hold_and_a_mistake_in_them_shows_nothing(
    secretive: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = tmp_path / "redact.toml"
    monkeypatch.setenv("QUEUE_REDACT", str(rules))
    id = secretive.tasks("scheduled").items[0].id
    rules.write_text("mask = false\n")
    shown = json.loads(run("get", id, "--json").stdout)
    assert (shown["payload"], shown["masked"]) == (secretive.get(id).payload, [])
    rules.write_text("maks = false\n")
    for command in (["get", id], ["tasks", "--state", "dead"], ["explain", id], ["journal"]):
        result = run(*command, code=2)
        assert result.stdout == ""
        assert "redact.toml: unknown key 'maks': allowed are mask" in result.stderr
    assert "pending" in run("stats").stdout


def test_a_task_can_be_shown_unmasked_by_whoever_may(secretive: Queue) -> None:
    task = secretive.tasks("scheduled").items[0]
    assert SECRET in show.task_story(task, datetime.now(UTC), UNMASKED)
    assert json.loads(show.dumps(task, UNMASKED))["payload"] == task.payload
