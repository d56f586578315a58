"""What runs in a worker process."""

import logging
import os
import signal
import socket
import sys
import threading
from dataclasses import asdict
from types import FrameType
from typing import Any

from queue_core.worker.main import SIGNALS, Worker
from queue_core.worker.processes import Channel

_PLAIN = set(vars(logging.makeLogRecord({})))
_KEPT = ("name", "levelno", "levelname", "created", "msecs", "process", "threadName", "pathname", "lineno", "funcName")


class Forward(logging.Handler):
    """Log records go to the parent, whose handlers and formats they get."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, Any] = {name: getattr(record, name) for name in _KEPT}
        fields |= {name: value for name, value in vars(record).items() if name not in _PLAIN}
        text = record.exc_text
        if record.exc_info and not text:
            text = logging.Formatter().formatException(record.exc_info)
        self._channel.send(log={**fields, "msg": record.getMessage(), "exc_text": text})


def _ignore(number: int, frame: FrameType | None) -> None:
    """Unlike SIG_IGN, a handler is not inherited by what a task's handler starts."""


def main(fd: int) -> None:
    """Run one worker, as told through the socket ``fd``, until it says stop or its other end is gone."""
    for number in SIGNALS:
        signal.signal(number, _ignore)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    sys.argv[:] = ["queue_core-worker"]
    os.set_inheritable(fd, False)
    channel = Channel(socket.socket(fileno=fd))
    config = channel.receive()
    if config is None:
        return
    logging.basicConfig(level=config["level"], handlers=[Forward(channel)])
    try:
        worker = Worker(config["url"], config["handler"], **config["options"])
        channel.send(ready=True)
        threading.Thread(target=_listen, args=[channel, worker], daemon=True).start()
        summary = worker.run(signals=False)
    except Exception as error:  # noqa: BLE001 - the parent raises it
        channel.send(error=type(error).__name__, message=str(error))
        os._exit(1)
    channel.send(summary=asdict(summary))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of abandoned handlers must not hold it up


def _listen(channel: Channel, worker: Worker) -> None:
    while (message := channel.receive()) is not None:
        worker.stop(now=bool(message.get("stop")))
    worker.stop()
