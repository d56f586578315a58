"""Worker processes: each runs a worker of its own, told what to do through a socket.

Signals are not passed on: a supervisor may signal the whole group, so children ignore them and hear of the end
from their parent, or from the end of the socket when it has died.
"""

import json
import logging
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

from queue_core import errors
from queue_core.errors import InvalidArgument, QueueError, StoreError
from queue_core.queue import Queue
from queue_core.worker.terms import Message, Post, Summary, Terms

log = logging.getLogger("queue_core.worker")

BOOT = "import sys; sys.path[:] = sys.argv[2:]; from queue_core.worker.child import main; main(int(sys.argv[1]))"
RESTART = 1.0  # seconds before a process that died is replaced
MARGIN = 1.0  # seconds for a process to end after its handlers' grace


class Channel:
    """JSON lines over a socket, from any thread."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._lines = end.makefile("rb")
        self._lock = threading.Lock()

    def send(self, **message: Any) -> bool:
        """Whether the other side is there to hear it."""
        data = json.dumps(message, default=str).encode() + b"\n"
        with self._lock:
            try:
                self._socket.sendall(data)
            except OSError:
                return False
        return True

    def receive(self) -> dict[str, Any] | None:
        """The next message; None when the other side is gone."""
        try:
            line = self._lines.readline()
        except OSError:
            return None
        message: dict[str, Any] | None = json.loads(line) if line.endswith(b"\n") else None
        return message

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


class _Life:
    """One process, from its start to its end."""

    def __init__(self, config: dict[str, Any]) -> None:
        ours, theirs = socket.socketpair()
        # A signal to the group that arrives before the child has its own handlers must wait for them.
        masked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", BOOT, str(theirs.fileno()), *sys.path],
                stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            )  # fmt: skip
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)
            theirs.close()
        self.channel = Channel(ours)
        self.channel.send(**config)
        self.ready = False
        self.summary: Summary | None = None
        self.error: Exception | None = None

    def attend(self) -> int:
        """Hear it out; its exit code."""
        while (message := self.channel.receive()) is not None:
            match message:
                case {"log": fields}:
                    logger = logging.getLogger(fields["name"])
                    if logger.isEnabledFor(fields["levelno"]):
                        logger.handle(logging.makeLogRecord(fields))
                case {"ready": _}:
                    self.ready = True
                case {"summary": counts}:
                    self.summary = Summary(**counts)
                case {"error": name, "message": text}:
                    kind = getattr(errors, name, QueueError)
                    known = issubclass(kind, StoreError | InvalidArgument)
                    self.error = kind(text) if known else QueueError(f"a worker process ended with {name}: {text}")
        code = self._process.wait()
        self.channel.close()
        return code

    def kill(self) -> None:
        self._process.kill()


class Processes:
    """A crew of processes, each watched by a thread that replaces it when it dies."""

    def __init__(self, queue: Queue, handler: str, terms: Terms, size: int, post: Post) -> None:
        if not queue.capabilities.multi_process:
            raise InvalidArgument(
                f"processes={size} with {queue.url}, which no other process can open: use lmdb, or processes=0"
            )
        if not queue.plain:
            raise InvalidArgument(
                "processes open the queue by its URL, without this one's payload_type or serializer: convert in the "
                "handler, or use processes=0"
            )
        self.size = size
        self._terms = terms
        self._post = post
        self._config = {
            "url": queue.url, "handler": handler, "level": log.getEffectiveLevel(),
            "options": {
                "concurrency": terms.concurrency, "ttl": terms.ttl, "max_runtime": terms.max_runtime,
                "heartbeat_interval": terms.heartbeat_interval, "grace": terms.grace,
                "stop_when_idle": terms.stop_when_idle, "owner": terms.owner,
            },
        }  # fmt: skip
        self._lock = threading.Lock()
        self._lives: dict[int, _Life] = {}
        self._told: dict[str, bool] = {}  # what every process, present or to come, is told
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._sum = Summary()

    def start(self) -> None:
        for slot in range(self.size):
            thread = threading.Thread(target=self._keep, args=[slot], name=f"queue_core-process-{slot}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> float:
        self._tell(now=False)
        return self._terms.grace + MARGIN

    def hurry(self) -> float:
        self._tell(now=True)
        return MARGIN

    def abandon(self) -> None:
        """Kill what is left; its leases run out."""
        with self._lock:
            for slot, life in self._lives.items():
                log.warning("worker process %d did not end in time and is killed", slot)
                life.kill()
        for thread in self._threads:
            thread.join(MARGIN)

    def close(self) -> Summary:
        with self._lock:
            for life in self._lives.values():  # none, unless run() itself failed
                life.kill()
            return self._sum

    def _tell(self, *, now: bool) -> None:
        self._stopping.set()
        with self._lock:
            self._told["stop"] = now
            for life in self._lives.values():
                life.channel.send(**self._told)

    def _keep(self, slot: int) -> None:
        """Keep a process running until it says goodbye, or the worker stops."""
        error: Exception | None = None
        try:
            while not self._stopping.is_set():
                life = self._begin(slot)
                code = life.attend()
                with self._lock:
                    del self._lives[slot]
                    self._sum += life.summary or Summary()
                error = life.error
                if error is not None or life.summary is not None:
                    break
                if self._stopping.is_set():
                    break
                if not life.ready:
                    error = QueueError(f"a worker process ended with code {code} before it was ready")
                    break
                log.error("worker process %d died with code %d, its leases will run out; replaced", slot, code,
                          extra={"event": "died", "code": code})  # fmt: skip
                self._stopping.wait(RESTART)
        except Exception as caught:  # noqa: BLE001 - run() raises it
            error = caught
        finally:
            self._post(Message("ended", error))

    def _begin(self, slot: int) -> _Life:
        with self._lock:
            life = self._lives[slot] = _Life(self._config)
            if self._told:
                life.channel.send(**self._told)
            return life
