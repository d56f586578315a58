"""One run of a plan: in pieces that are short for the workers, at a rate, after a canary, until it is stopped."""

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from queue_core.control.audit import control_of
from queue_core.errors import Conflict, StoreError, StoreFull
from queue_core.plans import AuditEntry, Plan, Verdict
from queue_core.queue import Queue
from queue_core.task import State, parse_id

# What a piece may compute under the write lock, so that a lease does not wait for long. Waiting for the lock and the
# disk does not count: a small piece waits as long, and small pieces wait more often.
PIECE_SECONDS = 0.008
FIRST, MOST = 16, 1_000  # tasks in the first piece, and in any
REST = 0.25  # of the time of a piece, left to others before the next
BEAT = 4.0  # seconds between two signs of life
POLL = 0.2  # seconds between two looks at the canary, or for a stop

Progress = Callable[[Plan], None]


def runner_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


class Run:
    """Moves a claimed plan on until it is finished, stopped, or its canary has failed."""

    def __init__(
        self, queue: Queue, plan: Plan, entry: AuditEntry, progress: Progress | None, stopped: Callable[[], bool]
    ) -> None:
        self._queue = queue
        self._plan = plan
        self._run = plan.run
        self._entry = entry
        self._progress = progress or (lambda _: None)
        self._stopped = stopped
        self._size = FIRST
        self._grows = len(plan.options.payload or b"")
        self._began = time.monotonic()
        self._before = plan.done
        self._beat = self._began

    def to_the_end(self) -> Plan:
        """The plan as this run leaves it. An error or an interrupt stops it, and is raised."""
        try:
            self._progress(self._plan)
            if not self._plan.left:
                self._advance(0)
            while self._plan.left and not self._stopped():
                if self._canary_left() == 0 and not self._canary():
                    return self._plan
                self._piece()
            if self._plan.left:
                self._stop("asked to stop")
            return self._plan
        except Conflict:  # another has stopped it, or runs it since this run fell silent
            self._plan = self._queue.plan(self._plan.number)
            self._progress(self._plan)
            return self._plan
        except BaseException as error:
            with suppress(StoreError):  # it cannot be noted either: the run is taken for silent, and can be resumed
                self._stop(f"{type(error).__name__}: {error}"[:200])
            raise

    def _stop(self, why: str) -> None:
        number, run, entry = self._plan.number, self._run, replace(self._entry, intent=why)
        try:
            self._plan = self._queue.perform(lambda store: control_of(store).stop(number, run, why, entry))
        except Conflict:
            self._plan = self._queue.plan(number)
        self._progress(self._plan)

    def _advance(self, limit: int) -> None:
        number, run, entry, grows = self._plan.number, self._run, self._entry, limit * self._grows
        self._plan = self._queue.perform(
            lambda store: control_of(store).advance(number, run, limit, entry, grows=grows)
        )
        self._beat = time.monotonic()
        self._progress(self._plan)

    def _canary_left(self) -> int | None:
        """How many tasks the canary may still release; None when there is none, or it has passed."""
        plan = self._plan
        if plan.canary is None or plan.canary_passed:
            return None
        return max(plan.canary.size - plan.moved, 0)

    def _piece(self) -> None:
        limits = [self._size, self._plan.left]
        if (canary := self._canary_left()) is not None:
            limits.append(canary)
        if self._plan.rate is not None:
            due = (time.monotonic() - self._began) * self._plan.rate + 1 - (self._plan.done - self._before)
            if due < 1:
                self._rest(min((1 - due) / self._plan.rate, POLL))
                return
            limits.append(int(due))
        size, began = min(limits), time.thread_time()
        try:
            self._advance(size)
        except StoreFull:
            if size == 1 or self._plan.action != "expunge":  # others would take the last room there is
                raise
            self._size = size // 2  # nothing was changed, and less may fit: what gives room needs some first
            return
        took = time.thread_time() - began
        if size == self._size:
            ideal = int(self._size * PIECE_SECONDS / max(took, 1e-6))
            self._size = max(1, min(MOST, ideal, 2 * self._size))
        time.sleep(took * REST)

    def _rest(self, seconds: float) -> None:
        time.sleep(seconds)
        if time.monotonic() - self._beat > BEAT:
            self._advance(0)

    # --- the canary

    def _canary(self) -> bool:
        """Wait for the ends of the tasks that were released; whether to go on."""
        plan, canary = self._plan, self._plan.canary
        assert canary is not None
        with self._queue.view() as view:
            found = view.outcome(plan.number, verdict=Verdict.MOVED, limit=canary.size)
        waiting, succeeded, failed = [id for _, id, _ in found], 0, 0
        while True:
            states = self._states(waiting)
            succeeded += sum(state is None for state in states.values())
            failed += sum(state in (State.DEAD, State.TRASH) for state in states.values())
            waiting = [id for id, state in states.items() if state not in (None, State.DEAD, State.TRASH)]
            if failed > (1 - canary.success) * canary.size + 1e-9:
                self._stop(
                    f"the canary failed: of {canary.size:,} tasks {succeeded:,} succeeded and {failed:,} did not, "
                    f"{canary.success:.0%} had to; to go on all the same, resume it and skip the canary"
                )
                return False
            if not waiting:
                self._plan = self._queue.perform(lambda store: control_of(store).passed(plan.number, self._run))
                self._began, self._before = time.monotonic(), self._plan.done
                return True
            if self._stopped():
                self._stop("asked to stop")
                return False
            self._rest(POLL)

    def _states(self, ids: list[str]) -> dict[str, State | None]:
        """Where they are now; None: acknowledged."""
        with self._queue.view() as view:
            found = {id: view.reader.find(parse_id(id)) for id in ids}
        return {id: one.record.state if one is not None else None for id, one in found.items()}
