"""The commands that act, by id and on many, and the settings."""

import json

import pytest
from terminal import NASTY, NOBODY, kill_off, run

from queue_core import Queue, errors


def test_each_verb_by_id(queue: Queue) -> None:
    task = queue.push({"n": 1}, tag="acme")
    for args, state in [
        (["dead-letter", task.id, "--reason", "broken"], "dead"), (["redrive", task.id], "pending"),
        (["cancel", task.id, "--reason", "gone"], "trash"), (["restore", task.id], "pending"),
    ]:  # fmt: skip
        result = run(*args)
        assert result.stdout == ""
        assert result.stderr.startswith("1 task ")
        assert queue.get(task.id).state == state
    lease = queue.lease()
    assert lease is not None
    run("requeue", task.id)
    with pytest.raises(errors.LeaseLost):
        queue.ack(lease)
    run("dead-letter", task.id, "--reason", NASTY)
    assert queue.get(task.id).reason == NASTY.replace("\ud800", "\ufffd" * 3).strip()
    moved = json.loads(run("purge", task.id, task.id, "--reason", "twice", "--json").stdout)
    assert moved == {"moved": [task.id], "refused": []}
    assert queue.get(task.id).state == "trash"


def test_what_does_not_move_is_told_with_its_reason(queue: Queue) -> None:
    (dead,) = kill_off(queue, 1)
    live = queue.push(1, tag="acme")
    result = run("redrive", live.id, dead, NOBODY, "--json", code=1)
    told = json.loads(result.stdout)
    assert told["moved"] == [dead]
    assert [(one["id"], one["error"]) for one in told["refused"]] == [
        (live.id, "Conflict"), (NOBODY, "TaskNotFound"),
    ]  # fmt: skip
    assert "1 task redriven, 2 not." in result.stderr
    assert "0 tasks redriven, 1 not." in run("redrive", live.id, code=3).stderr


def test_all_of_a_tag_and_no_other(queue: Queue) -> None:
    kill_off(queue, 3, "acme")
    kill_off(queue, 2, "other")
    run("redrive", "--all", "--tag", "acme", "--yes")
    assert (queue.counts().dead, queue.counts().pending) == (2, 3)
    queue.push(1, tag="acme", delay=60)
    assert run("cancel", "--all", "--tag", "acme", "-y", "--reason", "gone").stderr == (
        "4 tasks cancelled: 4 selected, 4 moved, 0 skipped, 0 failed (plan 2).\nTake it back: queue-core plan undo 2\n"
    )
    assert "2 tasks purged: " in run("purge", "--all", "-y", "--reason", "gone").stderr
    assert "6 tasks restored: " in run("restore", "--all", "-y").stderr
    counts = queue.counts()
    assert (counts.dead, counts.pending, counts.scheduled) == (2, 3, 1)


def test_nothing_to_do_asks_nobody(queue: Queue) -> None:
    assert run("redrive", "--all").stderr.startswith("0 tasks redriven: 0 selected")
    assert run("requeue", "--all-inflight").stderr.startswith("0 tasks requeued")


@pytest.mark.parametrize("args", [["redrive", "--all"], ["requeue", "--all-inflight"],
                                  ["dead-letter", "--all-inflight", "--reason", "x"]])  # fmt: skip
def test_without_a_terminal_many_want_yes(queue: Queue, args: list[str]) -> None:
    kill_off(queue, 3)
    queue.push_many([(n, "live") for n in range(3)])
    queue.lease_many(3)
    before = queue.counts()
    result = run(*args, code=2)
    assert "3 " in result.stderr
    assert "--yes" in result.stderr
    assert queue.counts() == before


def test_recovery_of_silent_leases(queue: Queue) -> None:
    queue.push_many([(n, "t") for n in range(3)])
    queue.lease_many(2, ttl=3600)
    assert run("requeue", "--all-inflight", "--older-than", "1h", "-y").stderr.startswith("0 tasks requeued")
    told = run("requeue", "--all-inflight", "-y", "--json")
    assert json.loads(told.stdout)["requeued"] == 2
    assert all(task.attempts in (0, 1) for task in queue.tasks("pending"))
    queue.lease_many(3, ttl=3600)
    told = run("dead-letter", "--all-inflight", "--older-than", "0", "--reason", "host lost", "-y", "--json")
    assert json.loads(told.stdout)["dead_lettered"] == 3
    assert {task.reason for task in queue.tasks("dead")} == {"host lost"}


def test_pause_and_resume(queue: Queue) -> None:
    queue.push(1, tag="acme")
    assert run("pause", "acme").stderr == "Paused tag acme.\n"
    assert queue.lease() is None
    run("resume", "acme")
    assert run("pause").stderr == "Paused the whole queue.\n"
    assert queue.lease() is None
    assert "PAUSED" in run("stats").stdout
    assert json.loads(run("resume", "--json").stdout)["paused"] is False
    assert queue.lease() is not None
    assert "spelled right" in run("pause", "acne").stderr
    assert "no tag" in run("resume", "nobody", code=3).stderr
    queue.push(1)
    assert run("pause", "").stderr == "Paused tag ''.\n"
    assert [tag.name for tag in queue.snapshot().tags if tag.settings.paused] == ["acne", ""]


def test_configure_shows_and_changes(queue: Queue) -> None:
    run("configure", "acme", "--weight", "3", "--max-inflight", "10", "--min-interval", "0.5s", "--max-pending", "5")
    assert json.loads(run("configure", "acme", "--json").stdout) == {
        "tag": "acme", "weight": 3, "paused": False, "max_inflight": 10, "min_interval_seconds": 0.5, "max_pending": 5,
    }  # fmt: skip
    changed = json.loads(run("configure", "acme", "--max-inflight", "none", "--max-pending", "0", "--json").stdout)
    assert (changed["max_inflight"], changed["max_pending"], changed["weight"]) == (None, 0, 3)
    assert (
        "a retention of dead letters needs the role admin" in run("configure", "--dead-retention", "30d", code=3).stderr
    )
    assert "needs a reason" in run("configure", "--dead-retention", "30d", "--role", "admin", code=2).stderr
    run("configure", "--dead-retention", "30d", "--max-payload", "100", "--role", "admin", "--reason", "law")
    with pytest.raises(errors.InvalidPayload, match="100"):
        queue.push("x" * 200)
    run("configure", "--dead-retention", "none")
    assert "weight" not in run("configure").stdout
    assert "No tag nobody" in run("configure", "nobody").stderr
