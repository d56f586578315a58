"""The loop of a worker in its own process: lease, handle, settle, once for threads and for coroutines."""

import asyncio
import logging
import os
import secrets
import socket
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any, TypeVar

from queue_core.aio import Waiter, Waiters
from queue_core.errors import LeaseLost, QueueError
from queue_core.ledger import WorkerRecord
from queue_core.queue import Queue
from queue_core.task import Lease
from queue_core.worker.job import Defer, Job, Reject, Retry
from queue_core.worker.ports import FastSwitching, Inline, OnLoop, Port, runs_on_loop, straight
from queue_core.worker.pulse import PASSING, Pulse
from queue_core.worker.terms import Handler, Message, Post, Summary, Terms

T = TypeVar("T")
log = logging.getLogger("queue_core.worker")

IDLE = 0.5  # seconds without anything to lease, after which a worker that stops when idle is idle
LONG = 3600.0  # seconds: any other wait is ended by stopping
BACKOFF = (0.1, 5.0)  # seconds between tries while the store is busy or full: the first, and the most
PARTING = 0.5  # seconds for cancelled coroutines to clean up


class Crew:
    """``concurrency`` runners of this process, their heartbeats, and what they have done."""

    def __init__(self, queue: Queue, handler: Handler, terms: Terms, post: Post) -> None:
        self.size = terms.concurrency
        self._queue = queue
        self._handler = handler
        self._terms = terms
        self._post = post
        host = socket.gethostname()
        self.name = f"{terms.owner or f'{host}:{os.getpid()}'}:{secrets.token_hex(4)}"
        self._record = WorkerRecord(self.name, host, os.getpid(), queue.clock(), 0, concurrency=terms.concurrency)
        self._counts: Counter[str] = Counter()
        self._waiting = 0  # runners with nothing to do
        self._counting = threading.Lock()
        self._stopping = threading.Event()
        self._over = threading.Event()
        self._waiters = Waiters(queue)
        self._pulse = Pulse(queue, terms, self._report, self._say, post)
        self._loop: threading.Thread | None = None

    # --- what run() does with it

    def start(self) -> None:
        FastSwitching.begin()
        self._say("started", None, "worker started: %d at a time", self._terms.concurrency)
        self._pulse.start()
        if runs_on_loop(self._handler):
            self._loop = threading.Thread(
                target=asyncio.run, args=[self._gather()], name="queue_core-loop", daemon=True
            )
            self._loop.start()
            return
        port = Inline(self._handler, self._waiters)
        for number in range(self.size):
            threading.Thread(
                target=straight, args=[self._runner(port)], name=f"queue_core-runner-{number}", daemon=True
            ).start()

    def stop(self) -> float:
        """Lease no more; how many seconds the handlers get."""
        if not self._stopping.is_set():
            self._say("stopping", None, "worker stopping: %d running", len(self._pulse.jobs()))
            self._stopping.set()
            self._waiters.dismiss_all()
        return self._terms.grace

    def hurry(self) -> float:
        """Stop at once; how many seconds that gives."""
        self.stop()
        return 0.0

    def abandon(self) -> None:
        """Give back what is left, uncounted. A handler in a thread goes on, its result is discarded.

        One that has overrun its time is left to run out instead: that counts.
        """
        self._over.set()
        for job in self._pulse.jobs():
            lease = self._take(job)
            job.interrupt()
            if lease is not None and not job.overtime:
                self._give_back(lease)
        if self._loop is not None:
            self._loop.join(PARTING)

    def close(self) -> Summary:
        """The end: the last report, and what was done."""
        self._pulse.stop()
        try:
            self._report(stopped=True)
        except QueueError as error:
            self._say("store", None, "the last report failed: %s", error)
        FastSwitching.end()
        summary = Summary(**{field.name: self._counts[field.name] for field in fields(Summary)})
        self._say("stopped", None, "worker stopped: %s", summary)
        return summary

    # --- the loop

    async def _gather(self) -> None:
        port = OnLoop(self._handler, self._waiters)
        try:
            await asyncio.gather(*(self._runner(port) for _ in range(self.size)))
        finally:
            port.close()

    async def _runner(self, port: Port) -> None:
        """Lease, handle, settle, until told to stop. A finished lease is settled in the commit of the next."""
        error: Exception | None = None
        finished: Job | None = None
        try:
            while (job := await self._next(port, finished)) is not None:
                failure = await port.handle(job)
                finished = job if failure is None else None
                if failure is not None:
                    await port.call(partial(self._fail, job, failure))
        except Exception as caught:  # noqa: BLE001 - run() raises it
            error = caught
        finally:
            self._post(Message("ended", error))

    async def _next(self, port: Port, finished: Job | None) -> Job | None:
        """The next job, after ``finished`` has been acknowledged; None when stopping."""
        found = await port.call(partial(self._enter, finished))
        while isinstance(found, Waiter):
            idling = self._terms.stop_when_idle
            self._wait_count(+1)
            try:
                lease = await port.wait(found, IDLE if idling else LONG)
                if lease is None and idling and self._waiting == self.size:
                    self._post(Message("stop"))
            except PASSING as error:
                self._say("store", None, "leasing failed, will be tried again: %s", error)
                lease = None
            finally:
                self._wait_count(-1)
            found = lease if lease is not None else await port.call(self._enter)
        if found is None:
            return None
        if self._stopping.is_set():
            await port.call(partial(self._give_back, found))
            return None
        job = Job(self._queue, found, self._stopping, self._lost)
        self._pulse.add(job)
        return job

    def _enter(self, finished: Job | None = None) -> Lease | Waiter[Lease | None] | None:
        """A lease, or a place in the line; None when stopping. ``finished`` is acknowledged in any case."""
        acks: list[Lease] = []
        if finished is not None and (held := self._take(finished)) is not None:
            acks.append(held)

        def settled() -> None:
            for _ in acks:
                self._count("done")
                self._say("done", finished, "done in %.3f s", finished.seconds if finished else 0)
            acks.clear()

        def lease() -> Lease | None:
            won = self._queue.lease(ttl=self._terms.ttl, owner=self.name, ack=tuple(acks))
            settled()
            return won

        def step() -> Lease | Waiter[Lease | None] | None:
            if self._stopping.is_set():
                self._queue.ack_many(acks)
                settled()
                return None
            entered = self._waiters.enter(lease, lease)
            if isinstance(entered, Waiter) and self._stopping.is_set():  # it may have come after all were dismissed
                self._waiters.dismiss(entered)
            return entered

        while True:
            try:
                return self._insist(step)
            except LeaseLost:
                acks.clear()
                self._lost(finished)

    def _fail(self, job: Job, failure: BaseException) -> None:
        """Settle a job whose handler raised."""
        lease = self._take(job)
        if lease is None:
            return
        try:
            self._insist(partial(self._settle, job, lease, failure))
        except LeaseLost:
            self._lost(job)

    def _settle(self, job: Job, lease: Lease, failure: BaseException) -> None:
        match failure:
            case Defer():
                self._queue.defer(lease, failure.delay)
                self._count("deferred")
                self._say("deferred", job, "%s", failure)
                return
            case Retry():
                self._queue.nack(lease, _trace(failure), retry_in=failure.delay)
            case Reject():
                self._queue.dead_letter(lease, failure.reason)
            case _:
                self._queue.nack(lease, _trace(failure))
        self._count("failed")
        self._say("failed", job, "failed after %.3f s: %r", job.seconds, failure)

    def _insist(self, verb: Callable[[], T]) -> T:
        """Try until the store takes it: busy or full passes. Given up when the worker is over."""
        delay, most = BACKOFF
        while True:
            try:
                return verb()
            except PASSING as error:
                self._say("store", None, "the store did not take it, next try in %.1f s: %s", delay, error)
                if self._over.wait(delay):
                    raise
                delay = min(delay * 2, most)

    def _give_back(self, lease: Lease) -> None:
        try:
            self._queue.release(lease)
        except LeaseLost:
            self._count("lost")
        except QueueError as error:
            self._say("store", None, "task %s could not be released, its lease will run out: %s", lease.id, error)
        else:
            self._count("released")

    def _take(self, job: Job) -> Lease | None:
        self._pulse.drop(job)
        return job.take()

    # --- what is counted, told and reported

    def _lost(self, job: Job | None) -> None:
        self._count("lost")
        if job is not None:
            self._pulse.drop(job)
        self._say("lost", job, "lease lost: the result is discarded")

    def _count(self, what: str) -> None:
        with self._counting:
            self._counts[what] += 1

    def _wait_count(self, step: int) -> None:
        with self._counting:
            self._waiting += step

    def _report(self, *, stopped: bool = False) -> None:
        now, before = self._queue.clock(), self._record
        self._queue.report(
            WorkerRecord(
                before.id, before.host, before.pid, before.started, now, now if stopped else 0, before.concurrency,
                self._counts["done"], self._counts["failed"],
            )
        )  # fmt: skip

    def _say(self, event: str, job: Job | None, message: str, *args: object) -> None:
        level = LEVELS[event]
        if not log.isEnabledFor(level):
            return
        extra: dict[str, Any] = {"event": event, "worker": self.name}
        if job is not None:
            extra |= {"task_id": job.id, "tag": job.tag, "attempt": job.attempt, "seconds": job.seconds}
            message, args = f"task %s of tag %.60r, attempt %d: {message}", (job.id, job.tag, job.attempt, *args)
        log.log(level, message, *args, extra=extra)


LEVELS = {
    "started": logging.INFO, "stopping": logging.INFO, "stopped": logging.INFO, "done": logging.DEBUG,
    "deferred": logging.DEBUG, "failed": logging.WARNING, "lost": logging.WARNING, "overtime": logging.WARNING,
    "store": logging.WARNING,
}  # fmt: skip


def _trace(error: BaseException) -> str:
    """The traceback, from the handler's own frame on."""
    frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
    return "".join(traceback.format_exception(type(error), error, frames))
