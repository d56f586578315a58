"""What the tests of the command line share: the program in this process and in others, and a queue for it."""

import fcntl
import subprocess
import sys
import termios
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner, Result

from queue_core import Queue
from queue_core.cli import cli

NOBODY = "00000000-0000-0000-0000-000000000000"
NASTY = "\x1b[31mred\u202e\ud800\n"  # text that no terminal should get
ESCAPED = "\\x1b[31mred\\u202e\\ud800\\n"


def run(*args: str, code: int = 0, stdin: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(cli, args, input=stdin, prog_name="queue-core")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.stderr
    return result


STARTED: "list[subprocess.Popen[str]]" = []


def program(*args: str, **how: Any) -> "subprocess.Popen[str]":
    """The program in a process of its own; one that a failed test leaves running is killed after it."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-m", "queue_core", *args], **(pipes | how))
    STARTED.append(process)
    return process


def ended(process: "subprocess.Popen[str]", code: int) -> tuple[str, str]:
    out, err = process.communicate(timeout=30)
    assert process.returncode == code, err
    assert "Traceback" not in err
    return out, err


def ids(queue: Queue, state: str) -> list[str]:
    return [task.id for task in queue.tasks(state)]


def kill_off(queue: Queue, number: int, tag: str = "acme") -> list[str]:
    tasks = queue.push_many([({"n": n}, tag) for n in range(number)])
    return [queue.dead_letter(task.id, "broken").id for task in tasks]


def insist(process: "subprocess.Popen[str]", act: Callable[[], object]) -> None:
    """Act until the process ends: a signal that comes just before a read begins is heard after it."""
    for _ in range(30):
        act()
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            continue
        return
    raise AssertionError("the process does not end")


def take_terminal() -> None:
    """In the child, before the program begins: its standard input controls it, as a terminal does."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
