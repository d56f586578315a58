"""Processes that are killed at random moments. Moments are counted by what was done, so that a busy machine changes
nothing."""

import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from waiting import until


def start(work: Callable[[], object]) -> int:
    """Fork a process that works until it is killed; its id."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return pid


def kill(pid: int, ledgers: Sequence[Path], most: int, draw: random.Random) -> None:
    """Kill it when less than ``most`` bytes more stand in the ledgers of all, in the midst of what it does then."""
    wanted = size(ledgers) + draw.randrange(most)
    until(lambda: size(ledgers) >= wanted or os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT))
    time.sleep(draw.uniform(0, 0.005))  # the random moment itself, not a wait for anything
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), "it has ended by itself"


def size(ledgers: Sequence[Path]) -> int:
    """Bytes in all that exist."""
    return sum(ledger.stat().st_size for ledger in ledgers if ledger.exists())
