"""Operations that share a transaction: each must find the store as if those before it had been committed."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lmdb
import pytest
from msgspec.structs import asdict, replace

from queue_core import Conflict, LeaseLost, OutcomeUnknown, Queue, QueueError, QueueFull, TaskNotFound, open_queue
from queue_core.ledger import copied
from queue_core.stores.base import Change, Ending, Found, NewTask
from queue_core.stores.engine import deliver, operate, settle
from queue_core.stores.engine.records import Records
from queue_core.stores.lmdb import commit
from queue_core.task import SECOND, Outcome, State, Token

Operation = Callable[[Records], Any]


def in_one_commit(queue: Queue, operations: Sequence[Operation]) -> list[Any]:
    """The result, or the error, of each."""
    environment = queue._store._environment  # type: ignore[attr-defined]
    calls = [commit.Call(operation, queue.clock, 0) for operation in operations]
    environment.lock.acquire(5)
    try:
        environment.committer._commit(calls)
    finally:
        environment.lock.release()
    assert all(call.done for call in calls)
    return [call.result if call.error is None else call.error for call in calls]


def test_a_task_that_has_left_the_line_is_not_leased_in_the_same_commit(tmp_path: Path) -> None:
    with open_queue(tmp_path) as queue:
        tasks = queue.push_many(range(5))
        queue.lease(ttl=1000)  # nothing is to be moved by time for long
        results = in_one_commit(
            queue,
            [
                lambda tx: operate.change(tx, tasks[2].record.id, Change("cancel")),
                *[lambda tx: deliver.lease(tx, 1, SECOND, "", ())] * 4,
            ],
        )
        assert [found.record.payload for found in [*results[1], *results[2], *results[3], *results[4]]] == [
            b"1", b"3", b"4",
        ]  # fmt: skip
        assert [task.payload for task in queue.tasks("trash")] == [2]
        assert queue.check() == []


def test_an_answer_that_is_lost_is_unknown_to_all_and_nothing_is_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(environment: Any, txn: lmdb.Transaction, number: int) -> None:
        txn.commit()
        raise OutcomeUnknown("the answer was lost")

    def push(tx: Records) -> list[Found]:
        return deliver.push(tx, [NewTask(random.randbytes(16), False, "", b"1", 0, 5, None)])

    with open_queue(tmp_path) as queue:
        with monkeypatch.context() as patch:
            patch.setattr(commit, "_commit", lose)
            results = in_one_commit(queue, [push] * 3)
        assert [type(result) for result in results] == [OutcomeUnknown] * 3
        assert queue.counts().pending == 3
        assert queue.check() == []


# --- random histories -------------------------------------------------------------------------------


class Draw:
    """Draws operations that run alike on any store: what they act on is chosen by looking, when they run."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.ids = [rng.randbytes(16) for _ in range(30)]

    def operation(self) -> tuple[str, Operation]:
        kind = self.rng.choice(["push"] * 4 + ["lease"] * 3 + ["settle"] * 3 + ["change"] * 5 + ["beat", "configure"])
        return kind, getattr(self, kind)()

    def _of(self, tx: Records, states: Sequence[State] | frozenset[State], number: int) -> bytes:
        """An id whose task is in one of the states; any id when there is none, or now and then."""
        able = [id for id in self.ids if (task := tx.find(id)) is not None and task.state in states]
        return able[number % len(able)] if able and number % 7 else self.ids[number % len(self.ids)]

    def _token(self, tx: Records, number: int) -> Token:
        id = self._of(tx, [State.INFLIGHT], number)
        hold = task.hold if (task := tx.find(id)) is not None and task.state is State.INFLIGHT else None
        return Token(id, hold.fence, hold.nonce) if hold is not None else Token(id, 0, 0)

    def push(self) -> Operation:
        pick = self.rng.choice
        numbers = [self.rng.randrange(100) for _ in range(pick([1, 1, 1, 3]))]
        delay, attempts, key = pick([0, 0, 0, SECOND, 5 * SECOND]), pick([1, 2, 5]), pick([None, None, "k", "l"])
        items = [NewTask(pick(self.ids), True, pick("abc"), b"%d" % n, delay, attempts, key) for n in numbers]
        return lambda tx: deliver.push(tx, items)

    def lease(self) -> Operation:
        n, ttl, acked = self.rng.randrange(1, 4), self.rng.choice([1, 10, 60]) * SECOND, self.rng.randrange(10_000)
        return lambda tx: deliver.lease(tx, n, ttl, "w", [self._token(tx, acked)] if acked % 3 == 0 else ())

    def settle(self) -> Operation:
        ending = self.rng.choice(
            [
                Ending(Outcome.ACKED), Ending(Outcome.NACKED, "boom"), Ending(Outcome.NACKED, "boom", 0),
                Ending(Outcome.RELEASED), Ending(Outcome.DEFERRED, delay=3 * SECOND),
                Ending(Outcome.DEAD_LETTERED, reason="why"),
            ]
        )  # fmt: skip
        numbers = [self.rng.randrange(10_000) for _ in range(self.rng.choice([1, 1, 2]))]
        return lambda tx: settle.settle(tx, [self._token(tx, number) for number in numbers], ending)

    def change(self) -> Operation:
        action, number = self.rng.choice(sorted(operate.ACTIONS)), self.rng.randrange(10_000)
        tag = self.rng.choice("abc") if action == "move_tag" else None
        asked = Change(action, reason="why", ttl=7 * SECOND, payload=b"0", tag=tag)
        return lambda tx: operate.change(tx, self._of(tx, operate.ACTIONS[action][0], number), asked)

    def beat(self) -> Operation:
        number = self.rng.randrange(10_000)
        return lambda tx: settle.heartbeat(tx, self._token(tx, number), None)

    def configure(self) -> Operation:
        tag = self.rng.choice([None, "a", "b", "c", "d"])
        changes: dict[str, int | bool | None] = self.rng.choice(
            [
                {"paused": True}, {"paused": False}, {"paused": False}, {"max_inflight": self.rng.choice([None, 1, 2])},
                {"min_interval": self.rng.choice([0, SECOND])}, {"max_pending": self.rng.choice([None, None, 6])},
            ]
        )  # fmt: skip
        if tag is not None and self.rng.random() < 0.5:
            changes = {"weight": self.rng.randrange(1, 4)}
        return lambda tx: operate.configure(tx, tag, dict(changes))


def plain(result: Any) -> Any:
    """Without what is random in it."""
    match result:
        case Found(record, tag):
            return replace(record, hold=record.hold and replace(record.hold, nonce=0)), tag
        case list():
            return [plain(one) for one in result]
        case QueueError():
            return type(result)
    return result


def everything(queue: Queue) -> Any:
    with queue._store._read() as tx:  # type: ignore[attr-defined]
        apart = ("created", "sweep_left")  # a refused operation alone sweeps no tags, in a group the commit does
        meta = {name: value for name, value in asdict(copied(tx.meta)).items() if name not in apart}
        tasks = [plain([Found(task, "") for task in tx.page(state, None, None, 100, False)]) for state in State]
        return meta, [asdict(tag) for tag in tx.tags()], tasks


def alone(queue: Queue, operation: Operation) -> Any:
    try:
        return queue._store._write(operation).result  # type: ignore[attr-defined]
    except QueueError as error:
        return error


def test_a_shared_commit_does_what_single_ones_do(tmp_path: Path, clock: Any) -> None:
    """The same random operations, in groups on one store and one by one on the other."""
    seen: Counter[Any] = Counter()
    for seed in range(40):
        rng = random.Random(seed)
        draw = Draw(rng)
        with (
            open_queue(tmp_path / str(seed), clock=clock, durability="none") as shared,
            open_queue("memory://", clock=clock) as single,
        ):
            for group in range(20):
                for queue in (shared, single):
                    queue.configure()  # a commit of its own, so that both have seen this time
                drawn = [draw.operation() for _ in range(rng.randrange(1, 12))]
                got = plain(in_one_commit(shared, [operation for _, operation in drawn]))
                for (kind, operation), result in zip(drawn, got, strict=True):
                    assert result == plain(alone(single, operation)), (seed, group, kind)
                    seen[result if isinstance(result, type) else kind] += 1
                assert everything(shared) == everything(single), (seed, group)
                assert shared.check() == [], (seed, group)
                clock.advance(rng.choice([0, 0.5, 2, 9, -1]))
            assert single.check() == []
    assert {Conflict, LeaseLost, QueueFull, TaskNotFound, "push", "lease", "settle", "change"} <= set(seen)
