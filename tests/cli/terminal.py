"""What the tests of the command line share: the program in this process and in others, and a queue for it."""

import fcntl
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Callable
from types import TracebackType
from typing import Any

import click
from click.testing import CliRunner, Result

from queue_core import Queue
from queue_core.cli import Later, cli

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


def fail(queue: Queue, errors: list[str], tag: str = "acme") -> list[str]:
    """A dead letter for each error, the oldest first; their ids."""
    found = []
    for number, error in enumerate(errors):
        task = queue.push({"n": number}, tag=tag, max_attempts=1)
        lease = queue.lease()
        assert lease is not None
        assert lease.id == task.id
        queue.nack(lease, error)
        found.append(task.id)
    return found


def all_commands() -> dict[str, click.Command]:
    """Every command by its path, such as "dead list"; groups, too."""
    found: dict[str, click.Command] = {}
    waiting: list[tuple[str, click.Command]] = list(cli.commands.items())
    while waiting:
        path, command = waiting.pop()
        found[path] = command.real if isinstance(command, Later) else command
        if isinstance(found[path], click.Group):
            inner = found[path]
            assert isinstance(inner, click.Group)
            waiting += [(f"{path} {name}", one) for name, one in inner.commands.items()]
    return dict(sorted(found.items()))


class Terminal:
    """The program with a person at its terminal; its data goes to ``out``."""

    def __init__(self, *args: str) -> None:
        self._control, terminal = pty.openpty()
        how = {"stdin": terminal, "stderr": terminal, "start_new_session": True, "preexec_fn": take_terminal}
        self.process = program(*args, **how)
        os.close(terminal)
        self.shown = ""

    def see(self, words: str) -> None:
        """Wait until this is shown."""
        while words not in self.shown:
            more = self._read()
            assert more, f"it ended: {self.shown}"
            self.shown += more

    def enter(self, keys: str) -> None:
        os.write(self._control, keys.encode())

    def end(self, code: int) -> str:
        """Everything that was shown, when it has ended."""
        while more := self._read():
            self.shown += more
        assert self.process.wait(30) == code, self.shown
        assert "Traceback" not in self.shown
        return self.shown

    def _read(self) -> str:
        try:
            return os.read(self._control, 10_000).decode("utf-8", "replace").replace("\r\n", "\n")
        except OSError:  # nobody has the other end open any more
            return ""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._control)


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
