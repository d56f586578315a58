"""Heartbeats of all jobs of a worker, and its own reports, in one thread."""

import threading
import time
from collections.abc import Callable

from queue_core.errors import LeaseLost, OutcomeUnknown, StoreBusy, StoreFull, TaskNotFound
from queue_core.queue import Queue
from queue_core.task import State
from queue_core.worker.job import Job
from queue_core.worker.terms import Message, Post, Terms

REPORT_INTERVAL = 10.0  # seconds
PASSING = (StoreBusy, StoreFull, OutcomeUnknown)  # try again later


class Pulse:
    """Beats for every job before a third of its ttl has gone, until ``max_runtime``; then it only looks on."""

    def __init__(
        self, queue: Queue, terms: Terms, report: Callable[[], None], say: Callable[..., None], post: Post
    ) -> None:
        self._queue = queue
        self._terms = terms
        self._report = report
        self._say = say
        self._post = post
        self._lock = threading.Lock()
        self._jobs: set[Job] = set()
        self._stop = threading.Event()
        self._report_due = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="queue_core-pulse", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def add(self, job: Job) -> None:
        # The thread never sleeps longer than an interval, so a new job need not wake it.
        job.beat_due = job.started + self._terms.interval
        with self._lock:
            self._jobs.add(job)

    def drop(self, job: Job) -> None:
        with self._lock:
            self._jobs.discard(job)

    def jobs(self) -> list[Job]:
        with self._lock:
            return list(self._jobs)

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._round()):
                pass
        except Exception as error:  # noqa: BLE001 - the worker stops with it; handlers without beats must not go on
            self._post(Message("failed", error))

    def _round(self) -> float:
        """Beat and report where it is due; how long to sleep."""
        interval = self._terms.interval
        soonest = time.monotonic() + interval
        for job in self.jobs():
            if time.monotonic() >= job.beat_due:
                job.beat_due = time.monotonic() + (interval if self._beat(job) else interval / 4)
            soonest = min(soonest, job.beat_due)
        if time.monotonic() >= self._report_due:
            self._report_due = time.monotonic() + REPORT_INTERVAL
            self._try(self._report)
        return max(min(soonest, self._report_due) - time.monotonic(), 0)

    def _beat(self, job: Job) -> bool:
        """Whether that went well enough to wait a whole interval."""
        limit = self._terms.max_runtime
        if limit is not None and not job.overtime and job.seconds >= limit:
            job.overtime = True
            self._say("overtime", job, "has run longer than %g s: no more heartbeats, its lease will run out", limit)
        return self._try(lambda: self._look(job) if job.overtime else job.heartbeat())

    def _try(self, verb: Callable[[], None]) -> bool:
        try:
            verb()
        except LeaseLost:
            pass  # the job has been told, or was settled meanwhile
        except PASSING as error:
            self._say("store", None, "heartbeat or report failed, will be tried again: %s", error)
            return False
        return True

    def _look(self, job: Job) -> None:
        """Whether the task of an overtime job is still its own."""
        try:
            task = self._queue.get(job.id)
            held = task.state is State.INFLIGHT and task.record.hold is not None and task.record.hold.fence == job.fence
        except TaskNotFound:
            held = False
        if not held:
            job.lose()
