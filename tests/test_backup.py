"""Backup and restore: what comes back is what was there, under a new epoch."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from backups import busy, everything, leftovers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queue_core import Conflict, InvalidArgument, Kind, LeaseLost, Outcome, Queue, StoreGone, open_queue
from queue_core.backup import backup, restore, verify
from queue_core.control import Operator
from queue_core.stores.engine import epoch


@pytest.fixture
def stored(tmp_path: Path) -> Any:
    with open_queue(tmp_path / "queue") as queue:
        yield queue
        assert queue.check() == []


# --- there and back ---


def test_what_comes_back_is_what_was_there(stored: Queue, tmp_path: Path) -> None:
    tokens = busy(stored)
    before, counts, settings_before = everything(stored), stored.counts(), stored.snapshot().tags
    taken = backup(stored, tmp_path / "backup")
    assert (taken.store, taken.tasks, taken.tags) == ("queue", counts.all, len(settings_before))
    assert taken.counts["inflight"] == len(tokens) == 29
    stored.push("after the backup")

    done = restore(tmp_path / "backup", tmp_path / "restored")
    assert (done.epoch, done.requeued, done.backup) == (1, 29, taken)
    with open_queue(tmp_path / "restored") as queue:
        assert queue.check() == []
        after = everything(queue)
        assert after.keys() == before.keys()
        same = {id for id in before if before[id][4] != "inflight"}
        assert {id: after[id] for id in same} == {id: before[id] for id in same}
        assert [(tag.name, tag.settings, tag.totals.acked) for tag in queue.snapshot().tags] == [
            (tag.name, tag.settings, tag.totals.acked) for tag in settings_before
        ]
        assert queue.counts().inflight == 0
        assert queue.counts().pending == counts.pending + counts.inflight
    assert sorted(path.name for path in (tmp_path / "restored").iterdir()) == ["data.mdb", "lock.mdb", "write.lock"]
    assert leftovers(tmp_path) == []


def test_nothing_that_was_given_out_before_means_anything_after(stored: Queue, tmp_path: Path) -> None:
    tokens = busy(stored)
    backup(stored, tmp_path / "backup")
    later = stored.lease_many(50)
    assert later, "the original goes on after the backup"
    versions = {task.id: task.version for task in stored.tasks("inflight", limit=10_000)}

    restore(tmp_path / "backup", tmp_path / "restored")
    with open_queue(tmp_path / "restored") as queue:
        for token in [*tokens, *(lease.token for lease in later)]:
            with pytest.raises(LeaseLost):
                queue.ack(token)
        fresh = queue.lease_many(400)
        assert len(fresh) > 200
        assert min(lease.fence for lease in fresh) > max(lease.fence for lease in later) + (1 << 31)
        assert min(lease.task.version for lease in fresh) > max(versions.values()) + (1 << 31)
        stale = {lease.token for lease in later} & {lease.token for lease in fresh}
        assert stale == set()
        assert queue.check() == []


def test_an_attempt_that_was_open_ends_as_requeued(stored: Queue, tmp_path: Path) -> None:
    task = stored.push("work", tag="a", max_attempts=1)
    place = task.place
    stored.lease(owner="gone")
    backup(stored, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "restored")
    with open_queue(tmp_path / "restored") as queue:
        found = queue.get(task.id)
        assert (found.state, found.place, found.attempts) == ("pending", place, 1)
        (attempt,) = found.history
        assert (attempt.outcome, attempt.owner) == (Outcome.REQUEUED, "gone")
        assert queue.snapshot().totals.requeued == 1
        assert [event.kind for event in queue.journal()][-2:] == [Kind.CONFIGURE, Kind.REQUEUE]
        assert queue.journal()[-2].detail == "epoch=1"
        assert queue.check() == []


def test_plans_that_were_not_run_are_void(stored: Queue, tmp_path: Path) -> None:
    for task in stored.push_many([(n, "a") for n in range(5)]):
        stored.dead_letter(task.id, "no")
    plan = Operator(stored, "somebody", role="operator").plan("redrive", where="tag:a")
    backup(stored, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "restored")
    with open_queue(tmp_path / "restored") as queue:
        with pytest.raises(Conflict, match="void"):
            Operator(queue, "somebody", role="operator").run(plan.number)
        assert queue.counts().dead == 5
        assert queue.check() == []


def test_a_store_that_was_restored_can_be_backed_up_and_restored(stored: Queue, tmp_path: Path) -> None:
    stored.push("first")
    source = stored
    for number in range(3):
        backup(source, tmp_path / f"backup{number}")
        done = restore(tmp_path / f"backup{number}", tmp_path / f"restored{number}")
        assert done.epoch == number + 1
        if source is not stored:
            source.close()
        source = open_queue(tmp_path / f"restored{number}")
        source.push(number)
    assert [task.payload for task in source.tasks("pending")] == ["first", 0, 1, 2]
    assert source.check() == []
    source.close()


def test_the_new_epoch_takes_many_in_pieces(queue: Queue) -> None:
    """On the reference store: the transition knows nothing of files."""
    queue.push_many([(n, f"tag{n % 7}") for n in range(2_500)])
    tokens = [lease.token for lease in queue.lease_many(2_400, ttl=0.001)]
    write: Any = queue._store
    before = queue.snapshot()
    assert write._write(epoch.begin).result == 1
    assert [write._write(epoch.recall).result for _ in range(4)] == [1_000, 1_000, 400, 0]
    assert (queue.counts().inflight, queue.counts().pending) == (0, 2_500)
    assert queue.snapshot().totals.requeued == before.totals.requeued + 2_400
    assert [task.place for task in queue.tasks("pending", limit=10_000)] == list(range(1, 2_501))
    with pytest.raises(LeaseLost):
        queue.ack_many(tokens[:3])


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    verbs=st.lists(
        st.sampled_from(["push", "lease", "ack", "nack", "dead", "redrive", "cancel", "later"]), max_size=40
    ),
    tags=st.lists(st.text(max_size=3).filter(lambda tag: tag.isprintable()), min_size=1, max_size=3),
)
def test_any_history_comes_back(tmp_path_factory: pytest.TempPathFactory, verbs: list[str], tags: list[str]) -> None:
    tmp_path = tmp_path_factory.mktemp("history")
    with open_queue(tmp_path / "queue", durability="none") as queue:
        held = []
        for number, verb in enumerate(verbs):
            tag, dead, waiting = tags[number % len(tags)], queue.tasks("dead", limit=1), queue.tasks("pending", limit=1)
            match verb:
                case "push" | "later":
                    queue.push(number, tag=tag, delay=3600 if verb == "later" else 0)
                case "lease":
                    held += [lease] if (lease := queue.lease(ttl=3600)) is not None else []
                case "ack" | "nack" if held:
                    queue.ack(held.pop()) if verb == "ack" else queue.nack(held.pop(), "no")
                case "dead" | "cancel" if waiting:
                    queue.cancel(waiting.items[0].id) if verb == "cancel" else queue.dead_letter(
                        waiting.items[0].id, "x"
                    )
                case "redrive" if dead:
                    queue.redrive(dead.items[0].id)
                case _:
                    pass
        before, totals = everything(queue), queue.snapshot().totals
        backup(queue, tmp_path / "backup")
        assert queue.check() == []
    done = restore(tmp_path / "backup", tmp_path / "restored")
    assert done.requeued == len(held)
    with open_queue(tmp_path / "restored") as queue:
        assert queue.check() == []
        after = everything(queue)
        assert after.keys() == before.keys()
        assert {id for id in before if before[id] != after[id]} == {lease.id for lease in held}
        assert queue.snapshot().totals.pushed == totals.pushed
    shutil.rmtree(tmp_path)


# --- what is refused ---


@pytest.mark.parametrize(
    "target", ["queue", "queue/inside", "queue/../queue/x", "file", "full", "missing/parent", "link"]
)
def test_a_target_that_is_taken_or_in_the_store_is_refused(stored: Queue, tmp_path: Path, target: str) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "full")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidArgument):
        backup(stored, tmp_path / target)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("target", ["", "\0", "nul\0inside", "\ud800"])
def test_what_is_no_path_is_refused(stored: Queue, tmp_path: Path, target: Any) -> None:
    for call in (lambda: backup(stored, target), lambda: restore(target, tmp_path / "x"), lambda: verify(target)):
        with pytest.raises(InvalidArgument, match="no path"):
            call()


def test_a_name_that_the_disk_cannot_take_is_refused_before_anything_is_copied(stored: Queue, tmp_path: Path) -> None:
    told: list[int] = []
    with pytest.raises(Exception, match="File name too long"):
        backup(stored, tmp_path / ("x" * 10_000), told=lambda done, total: told.append(done))
    assert told == []
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(("url", "hint"), [("memory://", "keep the queue in a directory"), ("files:///{}", "cp -a")])
def test_stores_that_cannot_be_copied_say_what_to_do(tmp_path: Path, url: str, hint: str) -> None:
    with open_queue(url.format(tmp_path / "files")) as queue:
        queue.push(1)
        with pytest.raises(InvalidArgument, match=hint):
            backup(queue, tmp_path / "backup")
        assert queue.check() == []
    assert not (tmp_path / "backup").exists()


def test_a_queue_that_was_closed_is_gone(tmp_path: Path) -> None:
    first, second = open_queue(tmp_path / "queue"), open_queue(tmp_path / "queue")
    second.close()
    with pytest.raises(StoreGone, match="was closed"):
        backup(second, tmp_path / "backup")
    backup(first, tmp_path / "backup")
    assert first.check() == []
    first.close()


def test_an_empty_directory_is_filled(stored: Queue, tmp_path: Path) -> None:
    stored.push(1)
    for name in ("backup", "restored"):
        (tmp_path / name).mkdir()
    backup(stored, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "restored")
    with open_queue(tmp_path / "restored") as queue:
        assert queue.counts().pending == 1
        assert queue.check() == []


def test_restoring_never_overwrites(stored: Queue, tmp_path: Path) -> None:
    stored.push(1)
    backup(stored, tmp_path / "backup")
    stored.push(2)
    with pytest.raises(InvalidArgument, match="move this one away"):
        restore(tmp_path / "backup", tmp_path / "queue")
    assert stored.counts().pending == 2


def test_a_backup_cannot_be_opened_as_a_store(stored: Queue, tmp_path: Path) -> None:
    stored.push(1)
    backup(stored, tmp_path / "backup")
    for create in (True, False):
        with pytest.raises(InvalidArgument, match="is a backup: bring it back with queue-core restore"):
            open_queue(tmp_path / "backup", create=create)
    assert verify(tmp_path / "backup").sound
    assert sorted(path.name for path in (tmp_path / "backup").iterdir()) == ["backup.json", "data.mdb"]


def test_only_a_backup_can_be_restored(stored: Queue, tmp_path: Path) -> None:
    stored.push(1)
    with pytest.raises(InvalidArgument, match="is no backup, it has no backup"):
        restore(tmp_path / "queue", tmp_path / "restored")
    for call in (lambda: restore(tmp_path / "none", tmp_path / "restored"), lambda: verify(tmp_path / "none")):
        with pytest.raises((StoreGone, InvalidArgument)):
            call()
    assert not (tmp_path / "restored").exists()
