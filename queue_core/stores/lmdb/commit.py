"""Group commit: concurrent callers of one process share a transaction.

Whoever finds no commit under way leads; the rest hand over their operation and wait for a lock of their
own. The leader runs all that have gathered while it waited for the write lock, commits once, and hands
the lead to one of those that came meanwhile (the leader/followers pattern, D. Schmidt et al., 2000).
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import lmdb

from queue_core.errors import OutcomeUnknown, QueueError, StoreBusy
from queue_core.stores.base import Clock, Logged
from queue_core.stores.engine import deliver
from queue_core.stores.engine.records import Records
from queue_core.stores.lmdb.environment import Environment, MapFull
from queue_core.stores.lmdb.records import Carried, LmdbRecords

GROUP = 512  # operations in one transaction
POLL = 0.03  # seconds between two looks for commits of other processes, by one waiting thread
LOOK_EVERY = 10  # polls between two looks for a removed directory


class Call:
    """One operation on its way."""

    __slots__ = ("clock", "done", "error", "grows", "led", "logged", "operation", "result", "turn")

    def __init__(self, operation: Callable[[Records], Any], clock: Clock, grows: int) -> None:
        self.operation = operation
        self.clock = clock
        self.grows = grows
        self.result: Any = None
        self.error: BaseException | None = None
        self.logged: Sequence[Logged] = ()
        self.done = False  # committed, or refused by itself
        self.led: list[Call] = []  # those whose commit it leads, its own among them
        self.turn = threading.Lock()
        self.turn.acquire()


class _Spoiled(Exception):
    """An operation failed after it had written: the shared transaction cannot be committed."""


def _commit(environment: Environment, txn: lmdb.Transaction, number: int) -> None:
    try:
        txn.commit()
    except lmdb.Error as error:
        if environment.lmdb.info()["last_txnid"] < number:  # the meta page still names the commit before
            raise environment.translate(error) from error
        raise OutcomeUnknown(f"the commit's answer was lost ({error}): look the task up before trying again") from error


class Committer:
    """Runs operations in write transactions, sharing them."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.renew()
        environment.in_child.append(self.renew)

    def renew(self) -> None:
        """At the start, and in a forked child, where the other threads are gone."""
        self._mutex = threading.Lock()
        self._waiting: list[Call] = []
        self._leader: Call | None = None  # of the commit under way
        self._changed = threading.Condition(threading.Lock())
        self._sleepers = 0
        self._polling = False

    def run(self, call: Call) -> None:
        """Returns when the call is committed; raises its error, or StoreBusy when it was withdrawn."""
        until = time.monotonic() + self._environment.busy_timeout
        try:
            with self._mutex:
                self._waiting.append(call)
                if self._leader is None:
                    self._leader = call
            if self._leader is not call:
                self._wait_turn(call)
            if self._leader is call:
                self._lead(call, until)
        finally:
            if not call.done or self._leader is call:
                try:
                    self._step_down(call)
                except BaseException:  # an interrupt: nobody may wait for a leader that has gone
                    self._step_down(call)
                    raise
        if call.led:
            self._wake()
        if call.error is not None:
            raise call.error

    def _wait_turn(self, call: Call) -> None:
        if not call.turn.acquire(timeout=self._environment.busy_timeout * 2):
            if self._withdraw(call):
                raise StoreBusy("no commit within the time limit: the operation was withdrawn; try again")
            call.turn.acquire()  # it has begun: it stands, and ends when the disk answers

    def _withdraw(self, call: Call) -> bool:
        """Take the call back if it has not begun."""
        with self._mutex:
            if call in self._waiting:
                self._waiting.remove(call)
                return True
            return False

    def _lead(self, call: Call, until: float) -> None:
        try:
            self._environment.lock.acquire(max(until - time.monotonic(), 0.001))
            with self._mutex:
                call.led, self._waiting = self._waiting[:GROUP], self._waiting[GROUP:]
            self._commit(call.led)
        finally:
            self._environment.lock.release()

    def _step_down(self, call: Call) -> None:
        """Leave the line, hand over the lead, and let those go whose commit it led. Twice does no harm."""
        with self._mutex:
            if call in self._waiting:
                self._waiting.remove(call)
            if self._leader is call:
                self._leader = self._waiting[0] if self._waiting else None
                if self._leader is not None:
                    self._leader.turn.release()
        for other in call.led:
            if not other.done:
                other.error = OutcomeUnknown(
                    "the thread that led the commit was interrupted: look the task up before trying again"
                )
            if other is not call and other.turn.locked():
                other.turn.release()

    def _commit(self, batch: list[Call]) -> None:
        if len(batch) > 1:
            try:
                return self._grow_and_try(batch)
            except OutcomeUnknown as error:  # it may stand: to run it again might do it twice
                for call in batch:
                    call.error, call.done = OutcomeUnknown(str(error)), True
            except Exception:  # noqa: BLE001 - whose it is will show
                for call in batch:
                    call.error = None
        for call in batch:
            if not call.done:
                try:
                    self._grow_and_try([call])
                except Exception as error:  # noqa: BLE001 - each caller gets its own, whatever it is
                    call.error, call.done = error, True

    def _grow_and_try(self, batch: list[Call]) -> None:
        while True:
            try:
                return self._transaction(batch)
            except MapFull:
                if not self._environment.grow():
                    raise

    def _transaction(self, batch: list[Call]) -> None:
        environment = self._environment
        with environment.writing() as txn:
            if any(call.grows for call in batch):
                environment.make_room(max(call.grows for call in batch))
            try:
                carried: Carried | None = environment.carried
                environment.carried = None
                if carried is not None and carried.txn != txn.id() - 1:
                    carried = None
                records = LmdbRecords(txn, batch[0].clock(), environment.names, carried, environment.short)
                records.meta.age(records.now)
                deliver.tidy(records)
                ends = []
                for call in batch:
                    self._operate(call, records, shared=len(batch) > 1)
                    ends.append(len(records.logged))
                records.finish()
            except lmdb.Error as error:
                raise environment.translate(error) from error
            number = txn.id()
            _commit(environment, txn, number)
            environment.carried = records.carry(number)
        if len(environment.names) > 100_000:
            environment.names.clear()
        environment.names.update(records.new_names)
        for call, start, end in zip(batch, [0, *ends], ends, strict=False):
            call.logged, call.done = records.logged[start:end], True
        environment.committed()

    def _operate(self, call: Call, records: LmdbRecords, shared: bool) -> None:
        changes = records.changes
        try:
            call.result = call.operation(records)
        except Exception as error:
            if not shared:
                raise
            if records.changes != changes or not isinstance(error, QueueError):
                raise _Spoiled from error
            call.error = error

    # --- waiting for a commit

    def _wake(self) -> None:
        if self._sleepers:
            with self._changed:
                self._changed.notify_all()

    def wait(self, mark: int, timeout: float) -> None:
        """Sleep until any process commits. One thread looks for the commits of others, for all."""
        until = time.monotonic() + timeout
        with self._changed:
            self._sleepers += 1
            try:
                polls = 0
                while (
                    self._environment.last_txnid(look=polls % LOOK_EVERY == 0) == mark
                    and (left := until - time.monotonic()) > 0
                ):
                    polls += 1
                    if self._polling:
                        self._changed.wait(left)
                        continue
                    self._polling = True
                    try:
                        self._changed.wait(min(left, POLL))
                    finally:
                        self._polling = False
            finally:
                self._sleepers -= 1
                self._changed.notify_all()

    def stop_waiting(self) -> None:
        with self._changed:
            self._changed.notify_all()
