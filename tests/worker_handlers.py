"""Handlers that other processes can import; what they do is appended to the file that the payload names."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from queue_core.worker import Job


def note(job: Job, word: str) -> None:
    """One line: the word, the process, the attempt."""
    with Path(job.payload["log"]).open("a") as file:
        file.write(f"{word} {os.getpid()} {job.attempt}\n")


def sleep(job: Job) -> None:
    """Takes ``seconds``, or until ``go`` exists; notes when it hears that the worker stops."""
    note(job, "began")
    heard = False
    end = time.monotonic() + job.payload["seconds"]
    while time.monotonic() < end and not Path(job.payload["log"]).with_name("go").exists():
        if job.stopping and not heard:
            heard = True
            note(job, "heard")
        time.sleep(0.01)
    note(job, "ended")


def compute(job: Job) -> None:
    """Keeps a core busy for a moment."""
    total = sum(number * number for number in range(job.payload["upto"]))
    note(job, str(total))


def die(job: Job) -> None:
    """Kills its process."""
    note(job, "began")
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(job: Job) -> None:
    if job.attempt == 1:
        die(job)
    note(job, "ended")


def fail(job: Job) -> None:
    raise ValueError(f"no good: {job.payload}")


class Machine:
    """Holds a function that cannot be found under its name."""

    def run(self, job: Job) -> Any:
        return None


machine = Machine()


def stop_itself(job: Job) -> None:
    """Freezes its process, as a debugger or a full machine would."""
    note(job, "began")
    os.kill(os.getpid(), signal.SIGSTOP)
