"""queue-core dead: error groups, dead letters, and what is done about them."""

import json
import re
from pathlib import Path

import pytest
from terminal import ESCAPED, NASTY, NOBODY, fail, ids, kill_off, run
from test_cli_edit import bury

from queue_core import Queue, open_queue

TIMEOUT = 'Traceback (most recent call last):\n  File "x.py", line 3\nTimeoutError: read timeout after 30 s'
SECRET = "401 for token=abcdefghijklmnop"


def groups(*args: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(run("dead", "groups", *args, "--json").stdout)["groups"]
    return found


def test_groups_count_what_says_the_same(queue: Queue) -> None:
    fail(queue, [TIMEOUT, TIMEOUT.replace("30", "31"), SECRET])
    fail(queue, [TIMEOUT.replace("30", "9")], tag="other")
    shown = run("dead", "groups")
    assert "TimeoutError: read timeout after <n> s" in shown.stdout
    assert "abcdefghijklmnop" not in shown.stdout
    assert shown.stderr == "4 dead letters in 2 error groups.\n"
    first, second = groups()
    assert (first["dead"], first["tags"], first["deaths"], first["resolved_by"]) == (3, 2, 3, None)
    assert first["newest"] == ids(queue, "dead")[-1]
    assert "abcdefghijklmnop" not in json.dumps(second)
    assert [one["dead"] for one in groups("--where", "tag:acme timeout")] == [2]
    assert [one["dead"] for one in groups("--where", "tag:nobody", "--all")] == [0, 0]
    run("redrive", "--all", "--yes")
    assert groups() == []
    assert (
        run("dead", "groups").stderr
        == "0 dead letters in 0 error groups. 2 groups more without any; --all shows them.\n"
    )
    assert [one["dead"] for one in groups("--all")] == [0, 0]


def test_a_group_is_resolved_by_the_first_digits_of_its_id_and_reopened_by_a_death(queue: Queue) -> None:
    fail(queue, [TIMEOUT, "no route to host"])
    mark = next(str(one["group"]) for one in groups() if "Timeout" in str(one["error"]))
    told = run("dead", "resolve", mark[:6].upper(), "--reason", "mended").stderr
    assert f"{mark} is resolved" in told
    assert f"queue-core dead redrive --where group:{mark}" in told
    assert "resolved" in run("dead", "groups").stdout
    assert [one["resolved_by"] for one in groups() if one["group"] == mark] == ["ann"]
    fail(queue, [TIMEOUT])
    assert "reopened" in run("dead", "groups").stdout
    run("dead", "resolve", mark)
    assert json.loads(run("dead", "reopen", mark, "--json").stdout)["resolved_by"] is None
    assert "no error group 00" in run("dead", "resolve", "00" * 8, code=3).stderr
    assert [entry.action for entry in queue.audit()][-3:] == ["resolve", "resolve", "reopen"]


def test_a_beginning_that_fits_several_groups_is_not_guessed(queue: Queue) -> None:
    fail(queue, ["a" * n for n in range(1, 40)])
    firsts = [str(one["group"])[0] for one in groups()]
    shared = next(digit for digit in firsts if firsts.count(digit) > 1)
    assert f"{firsts.count(shared)} error groups begin with {shared}" in run("dead", "resolve", shared, code=2).stderr


def test_the_newest_are_listed_first_and_it_says_of_how_many(queue: Queue) -> None:
    dead = fail(queue, [TIMEOUT, SECRET, TIMEOUT, SECRET, TIMEOUT])
    result = run("dead", "list", "--limit", "2")
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == [dead[4], dead[3]]
    assert result.stderr == "2 of 5 dead.\n"
    result = run("dead", "list", "timeout", "tag:acme", "--limit", "2")
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == [dead[4], dead[2]]
    assert result.stderr == "2 of 3 dead that match.\n"
    listed = json.loads(run("dead", "list", "--where", "-error:timeout", "--json").stdout)
    assert [task["id"] for task in listed["tasks"]] == [dead[3], dead[1]]
    assert listed["total"] == 2
    assert {task["group"] for task in listed["tasks"]} == {queue.get(dead[1]).record.group.hex()}
    assert [task["masked"] for task in listed["tasks"]] == [["error", "history"]] * 2
    assert "abcdefghijklmnop" not in json.dumps(listed)
    assert run("dead", "list", "error:abcdefghijklmnop").stderr == "0 of 0 dead that match.\n", "filters see masks"
    queue.purge(dead[0])
    assert run("dead", "list", "--trash", "payload.n:0").stdout.splitlines()[1].split()[0] == dead[0]


def test_a_dead_letter_is_shown_with_all_that_happened_to_it(queue: Queue) -> None:
    long = TIMEOUT + "\n" + "at the end " * 1_000 + "END"
    task = queue.push({"n": 2**70, "password": "hunter2hunter2"}, tag="acme", max_attempts=2)
    for error in ("first", long):
        lease = queue.lease(owner=NASTY.replace("\ud800", ""))
        assert lease is not None
        queue.nack(lease, error, retry_in=0)
    queue.redrive(task.id)
    queue.dead_letter(task.id, NASTY)
    shown = run("dead", "show", task.id).stdout
    assert re.search(r"pushed\n.*attempt 1, cycle 1 by .*: nacked after .*: first\n.*attempt 2", shown)
    assert "END" in shown, "the error is whole"
    assert ESCAPED.partition("\\ud800")[0] in shown
    assert "\x1b" not in shown
    assert f"error group     {queue.get(task.id).record.group.hex()}: " in shown
    assert str(2**70) in shown
    assert "hunter2" not in shown
    assert "masked: payload.password" in shown
    exact = json.loads(run("dead", "show", task.id, "--json").stdout)
    assert (exact["payload"]["n"], exact["masked"]) == (2**70, ["payload.password"])
    assert "hunter2" not in json.dumps(exact)


def test_only_an_admin_sees_what_is_masked_and_that_is_written_down(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dead,) = bury(queue, {"password": "hunter2hunter2"})
    refused = run("dead", "show", dead, "--reveal", code=3)
    assert "QUEUE_ROLE=admin" in refused.stderr
    assert refused.stdout == ""
    assert queue.audit() == []
    monkeypatch.setenv("QUEUE_ROLE", "admin")
    assert "hunter2hunter2" in run("dead", "show", dead, "--reveal", "--reason", "ticket 12").stdout
    assert json.loads(run("dead", "show", dead, "--reveal", "--json").stdout)["payload"]["password"] == "hunter2hunter2"
    first, _ = queue.audit()
    assert (first.actor, first.role, first.origin, first.action, first.reason) == (
        "ann", "admin", "cli", "reveal", "ticket 12",
    )  # fmt: skip
    assert "hunter2" not in run("dead", "show", dead).stdout, "a role alone reveals nothing"


def test_each_verb_of_dead_by_id_and_by_filter(queue: Queue) -> None:
    one, two, three = kill_off(queue, 3)
    assert "1 task purged." in run("dead", "purge", one, "--reason", "twice").stderr
    assert "1 task purged: 1 selected" in run("dead", "purge", "--where", f"id:{two}", "--reason", "x", "--yes").stderr
    assert "2 tasks restored: " in run("dead", "restore", "--all", "--yes").stderr
    run("dead", "move", three, "--to", "")
    assert queue.get(three).tag == ""
    queue.push({"n": 0}, tag="acme")
    moved = run("dead", "move", "--where", "payload.n:0 OR payload.n:1", "--to", "slow", "--yes")
    assert moved.stderr.startswith("2 tasks moved: 2 selected")
    assert [(task.tag, task.state) for task in queue.tasks("dead", tag="slow")] == [("slow", "dead")] * 2
    assert queue.counts().pending == 1, "what waits is not moved by dead move"
    assert "1 task redriven." in run("dead", "redrive", one).stderr
    assert "in that tag already" in run("dead", "move", two, "--to", "slow", code=3).stderr


def test_expunge_is_for_admins_who_say_why_and_yes(queue: Queue) -> None:
    one, two = kill_off(queue, 2)
    run("purge", one, two, "--reason", "x")
    assert "QUEUE_ROLE=admin" in run("dead", "expunge", one, "--yes", code=3).stderr
    assert "QUEUE_ROLE=admin" in run("dead", "expunge", "--all", "--yes", code=3).stderr
    admin = ["--role", "admin"]
    assert "--reason" in run("dead", "expunge", one, "--yes", *admin, code=2).stderr
    assert "Nothing brings them back" in run("dead", "expunge", one, "--reason", "law", *admin, code=2).stderr
    assert queue.counts().trash == 2
    run("dead", "expunge", one, "--reason", "law", "--yes", *admin)
    assert "Take it back" not in run("dead", "expunge", "--all", "--reason", "law", "--yes", *admin).stderr
    assert queue.counts().all == 0
    assert [entry.reason for entry in queue.audit() if entry.action == "expunge"] == ["law"]


@pytest.mark.parametrize(
    "args",
    [["pause"], ["configure", "--max-pending", "5"], ["redrive", "--all"], ["requeue", "--all-inflight", "--yes"],
     ["dead", "edit", NOBODY, "--payload", "1", "--yes"], ["plan", "make", "redrive", "--all"]],
)  # fmt: skip
def test_a_viewer_changes_nothing(queue: Queue, args: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (task,) = kill_off(queue, 1)
    queue.push(1)
    queue.lease()
    before = (queue.counts(), queue.snapshot().settings, queue.get(task))
    monkeypatch.setenv("QUEUE_ROLE", "viewer")
    if NOBODY in args:
        args = [task if one == NOBODY else one for one in args]
    refused = run(*args, code=3)
    assert "has the role viewer" in refused.stderr
    assert "QUEUE_ROLE" in refused.stderr
    assert (queue.counts(), queue.snapshot().settings, queue.get(task)) == before
    assert run("dead", "list").exit_code == 0, "but sees"


def test_who_acts_is_found_when_nobody_says(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUE_ACTOR", "")
    run("pause", "acme", "--reason", "their API is down")
    monkeypatch.delenv("QUEUE_ACTOR")
    run("resume", "acme")

    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("getpass.getuser", unknown)
    run("configure", "acme", "--weight", "2")
    names = [entry.actor for entry in queue.audit()]
    assert all(re.fullmatch(r"\S+@\S+", name) for name in names[:2])
    assert names[2].startswith("user ")
    assert [(entry.action, entry.reason) for entry in queue.audit()] == [
        ("configure", "their API is down"), ("configure", ""), ("configure", ""),
    ]  # fmt: skip


ODD = ["", "a\nb", "\x07\u202e", '*"(', "é 名 🦄", "x" * 10_000]


@pytest.mark.parametrize("tag", ODD)
def test_odd_tags_are_that_tag_and_no_other(queue: Queue, tag: str) -> None:
    kill_off(queue, 2, tag)
    kill_off(queue, 1, tag + "x")
    kill_off(queue, 1, "acme")
    assert "2 tasks redriven" in run("redrive", "--all", "--tag", tag, "--yes").stderr
    assert run("redrive", "--all", "--tag", tag).stderr.startswith("0 tasks redriven")
    for shown in (run("plan", "show", "1").stdout, run("plan", "list").stdout, run("audit").stdout):
        assert "\x07" not in shown
        assert "\u202e" not in shown
    assert queue.counts().dead == 2


def test_what_is_odd_inside_a_task_is_shown_and_harms_nothing(queue: Queue) -> None:
    deep: object = 1
    for _ in range(800):
        deep = [deep]
    values = [NASTY, {"\x00": "\x00"}, 2**70, "x" * 10_000, deep, {"password": {"deep": [deep]}}, None, "", {}]
    dead = bury(queue, *values)
    for id, value in zip(dead, values, strict=True):
        assert "\x1b" not in run("dead", "show", id).stdout
        assert "\x1b" not in run("dead", "list", f"id:{id}").stdout
        if "password" not in str(value):
            assert json.loads(run("dead", "show", id, "--json").stdout)["payload"] == value
    listed = json.loads(run("dead", "list", "--json", "--limit", "100").stdout)
    assert [task["id"] for task in listed["tasks"]] == dead[::-1]


def test_where_no_plans_are_kept_tasks_are_moved_one_by_one(tmp_path: Path) -> None:
    url = f"files://{tmp_path}/plain"
    with open_queue(url) as queue:
        one, *_ = kill_off(queue, 3)
        kill_off(queue, 1, "other")
        here = ["--url", url]
        assert "4 dead letters in 1 error group" in run("dead", "groups", *here).stderr
        assert run("dead", "list", "tag:other", *here).stderr == "1 of 1 dead that match.\n"
        assert "attempt" in run("dead", "show", one, *here).stdout
        assert "1 task redriven." in run("dead", "redrive", "--where", "tag:acme payload.n:1", "-y", *here).stderr
        assert "2 dead tasks that match? There is no" in run("redrive", "--where", "tag:acme", *here, code=2).stderr
        told = run("purge", "--all", "--reason", "x", "--yes", *here)
        assert "keeps no audit" in told.stderr
        assert told.stderr.endswith("3 tasks purged.\n")
        mark = queue.get(one).record.group.hex()
        queue.restore(one)
        assert mark in run("dead", "groups", *here).stdout
        for args in (
            ["redrive", "--all", "--dry-run"], ["redrive", one, "--rate", "5"], ["plan", "make", "redrive", "--all"],
            ["dead", "resolve", mark],
        ):  # fmt: skip
            assert "lmdb" in run(*args, *here, code=2).stderr
        assert "keeps no plans" in run("plan", "list", *here, code=4).stderr
        assert "keeps no audit" in run("audit", *here, code=4).stderr
        assert queue.check() == []


def test_the_help_of_list_has_the_grammar() -> None:
    shown = run("dead", "list", "--help").stdout
    assert "payload.user.id:42" in shown
    assert "free words" in shown
