"""One task at a time, settings, error groups: each with one entry in the audit, in the transaction of what was done."""

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from acting import dead

from queue_core import Conflict, InvalidArgument, InvalidPayload, NotPermitted, Queue, State, TaskNotFound, open_queue
from queue_core.control import Operator
from queue_core.task import moment

GONE = "0195f2c4-7d3a-7c52-9a43-1f0e8f5f0d11"


def last(queue: Queue) -> Any:
    return queue.audit(limit=1)[0]


def test_an_action_writes_who_did_what_why_and_what_came_of_it(queue: Queue, operator: Operator, clock: Any) -> None:
    (id,) = dead(queue)
    seen = queue.get(id).version
    clock.advance(5)
    task = operator.redrive(id, version=seen, reason="the site is back")
    assert task.state is State.PENDING
    entry = last(queue)
    assert (entry.number, moment(entry.at), entry.actor, entry.role, entry.origin) == (
        1, clock.at(), "ann@example.org", "operator", "test",
    )  # fmt: skip
    assert (entry.action, entry.where, entry.reason, entry.count) == ("redrive", f"id:{id}", "the site is back", 1)
    assert entry.intent == f"at version {seen}"
    assert entry.outcome == f"pending, version {task.version}"


def test_what_has_changed_is_refused_with_its_present_state_and_that_is_written(
    queue: Queue, operator: Operator
) -> None:
    (id,) = dead(queue)
    seen = queue.get(id).version
    queue.redrive(id)
    with pytest.raises(Conflict, match="pending") as refused:
        operator.purge(id, "old", version=seen)
    assert refused.value.state == State.PENDING
    assert queue.get(id).state is State.PENDING
    assert (last(queue).count, last(queue).outcome) == (0, f"refused: {refused.value}")
    with pytest.raises(TaskNotFound):
        operator.redrive(GONE)
    assert last(queue).outcome.startswith("refused: no task")
    assert len(queue.audit()) == 2


@pytest.mark.parametrize("name", ["dead_letter", "cancel", "purge"])
@pytest.mark.parametrize("reason", ["", "  ", "\n"])
def test_a_reason_is_asked_for_where_data_is_dropped(operator: Operator, name: str, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{name} needs a reason"):
        getattr(operator, name)(GONE, reason)


def test_each_verb_does_what_the_queue_does(queue: Queue, operator: Operator, admin: Operator) -> None:
    task = queue.push(1, tag="acme", delay=60)
    assert operator.requeue(task.id).state is State.PENDING
    assert operator.move_tag(task.id, "bolt").tag == "bolt"
    assert operator.edit(task.id, {"n": 2}, reason="typo").payload == {"n": 2}
    assert operator.cancel(task.id, "no longer wanted").state is State.TRASH
    assert operator.restore(task.id).state is State.PENDING
    lease = queue.lease(ttl=30)
    assert lease is not None
    extended = operator.extend(task.id, 600).expires_at
    assert extended is not None
    assert (extended - lease.expires_at).total_seconds() == 570
    assert operator.dead_letter(task.id, "stuck").reason == "stuck"
    assert operator.purge(task.id, "stuck for good").state is State.TRASH
    assert admin.expunge(task.id, "holds personal data").id == task.id
    with pytest.raises(TaskNotFound):
        queue.get(task.id)
    done = [entry.action for entry in queue.audit()]
    assert done == ["requeue", "move_tag", "edit", "cancel", "restore", "extend", "dead_letter", "purge", "expunge"]
    assert [entry.outcome.split(",")[0] for entry in queue.audit()][-2:] == ["trash", "gone"]
    assert queue.audit()[2].intent == "payload of 7 bytes"


def test_an_edit_keeps_the_payload_of_before_and_refuses_what_is_no_json(queue: Queue, operator: Operator) -> None:
    (id,) = dead(queue)
    with pytest.raises(InvalidPayload, match="is nan"):
        operator.edit(id, {"n": float("nan")})
    before = queue.get(id)
    after = operator.edit(id, {"n": [1]}, version=before.version)
    assert [edit.payload for edit in after.record.edits] == [b'{"n":0}']
    assert (after.state, after.tag, after.place, after.history) == (
        before.state, before.tag, before.place, before.history,
    )  # fmt: skip
    with pytest.raises(Conflict, match="you saw version"):
        operator.edit(id, {}, version=before.version)


def test_settings_are_audited_with_what_was_set(queue: Queue, operator: Operator) -> None:
    operator.pause("acme", reason="deploying")
    assert queue.configure("acme").paused
    assert (last(queue).where, last(queue).intent, last(queue).reason) == ("tag:acme", "paused=True", "deploying")
    operator.resume("acme")
    assert operator.configure("acme", weight=3, max_inflight=None).weight == 3
    assert last(queue).intent == "weight=3 max_inflight=None"
    operator.configure(max_pending=10)
    assert last(queue).where is None
    with pytest.raises(InvalidArgument, match="weight"):
        operator.configure("acme", weight=0)
    assert len(queue.audit()) == 4


def test_recovery_is_one_entry_with_its_count(queue: Queue, operator: Operator, clock: Any) -> None:
    queue.push_many([(n, "acme") for n in range(5)])
    queue.lease_many(5, ttl=600)
    clock.advance(60)
    assert operator.requeue_inflight(older_than=clock.at(-120)) == 0
    assert operator.requeue_inflight(older_than=clock.at()) == 5
    assert (last(queue).action, last(queue).count, last(queue).outcome) == ("requeue_inflight", 5, "5 done")
    queue.lease_many(2)
    assert operator.dead_letter_inflight(older_than=datetime.now(UTC), reason="host lost") == 2
    assert len(queue.audit()) == 6


def test_a_group_is_resolved_and_reopened_by_the_next_death(queue: Queue, operator: Operator) -> None:
    dead(queue, 2)
    (group,) = queue.groups()
    mark = group.fingerprint.hex()
    resolved = operator.resolve(mark, reason="fixed in 1.4")
    assert (resolved.resolved_by, bool(resolved.resolved)) == ("ann@example.org", True)
    assert not operator.reopen(mark).resolved
    operator.resolve(mark)
    dead(queue)
    (group,) = queue.groups()
    assert (group.resolved, bool(group.reopened), group.count) == (0, True, 3)
    with pytest.raises(Conflict, match="no error group"):
        operator.resolve("ff" * 8)
    with pytest.raises(InvalidArgument, match="16 hexadecimal digits"):
        operator.resolve("xyz")
    assert [entry.action for entry in queue.audit()] == ["resolve", "reopen", "resolve"]


def test_a_secret_is_seen_by_an_admin_and_that_is_written(queue: Queue, admin: Operator) -> None:
    task = queue.push({"password": "hunter2"})
    assert admin.reveal(task.id, "support case 7").payload == {"password": "hunter2"}
    assert (last(queue).action, last(queue).where, last(queue).reason) == ("reveal", f"id:{task.id}", "support case 7")


def test_the_audit_cannot_be_changed_by_anything_that_is_public(queue: Queue, operator: Operator) -> None:
    operator.pause("acme")
    with pytest.raises(AttributeError):
        queue.audit()[0].actor = "somebody else"  # type: ignore[misc]
    names = [name for name in dir(operator) + dir(queue) if "audit" in name and not name.startswith("_")]
    assert names == ["audit"]


def test_where_no_audit_is_kept_entries_go_to_the_log(
    tmp_path: Path, clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with open_queue(f"files://{tmp_path}/q", clock=clock) as queue, caplog.at_level(logging.INFO, "queue_core.audit"):
        operator = Operator(queue, "ann", origin="test")
        task = queue.push(1, tag="acme")
        operator.cancel(task.id, "not wanted")
        operator.pause("acme")
        with pytest.raises(Conflict):
            operator.redrive(task.id)
        assert queue.audit() == queue.plans() == []
        with pytest.raises(InvalidArgument, match="neither plans nor an audit"):
            operator.plan("redrive", "")
        with pytest.raises(InvalidArgument, match="neither plans nor an audit"):
            operator.run(1)
        assert queue.check() == []
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3
    assert '"action": "cancel"' in said[0]
    assert '"reason": "not wanted"' in said[0]
    assert '"action": "configure"' in said[1]
    assert "refused" in said[2]


def test_a_retention_of_dead_letters_is_for_admins_and_has_a_reason(
    queue: Queue, operator: Operator, admin: Operator
) -> None:
    """It removes for good."""
    with pytest.raises(NotPermitted, match="a retention of dead letters needs the role admin"):
        operator.configure(dead_retention=0)
    with pytest.raises(InvalidArgument, match="needs a reason"):
        admin.configure(dead_retention=0)
    assert admin.configure(dead_retention=60, reason="law").dead_retention == 60
    assert operator.configure(dead_retention=None).dead_retention is None
    assert [entry.reason for entry in queue.audit()] == ["law", ""]


def test_what_takes_several_commits_is_written_before_and_after(queue: Queue, operator: Operator) -> None:
    """So that a process that is killed in between leaves a trace."""
    queue.push_many([1, 2])
    queue.lease_many(2)
    operator.requeue_inflight()
    assert [(entry.count, entry.outcome) for entry in queue.audit()] == [(0, "begun"), (2, "2 done")]
