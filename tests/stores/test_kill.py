"""A process that is killed at any moment leaves a sound store, and nothing is lost or doubled."""

import os
import random
import subprocess
import sys
from collections import Counter
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from killing import kill, start

from queue_core import Conflict, LeaseLost, QueueError, TaskNotFound, open_queue

SOAK = os.environ.get("SOAK", "") not in ("", "0")
KILLS = 2_000 if SOAK else 200
VERBS = [
    *("push", "push", "push_many", "lease", "lease", "lease", "ack", "ack", "nack", "release", "beat", "dead"),
    *("redrive", "cancel", "purge", "requeue", "recover"),
]


def misbehave(url: str, options: dict[str, Any], ledger: Path, seed: int) -> None:
    """Random verbs until killed. Each is written into the ledger before and after: try, then done."""
    draw = random.Random(seed)
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(*words: object) -> None:
        os.write(file, (" ".join(map(str, words)) + "\n").encode())

    queue = open_queue(url, **options)
    held = []
    number = 0
    while True:
        number += 1
        tag = draw.choice("abcd")
        verb = draw.choice(VERBS)
        note("try", verb, 3 if verb == "push_many" else 1)
        count = 1
        try:
            match verb:
                case "push":
                    queue.push(number, tag=tag, delay=draw.choice([0, 0, 0.01]))
                case "push_many":
                    count = len(queue.push_many([(number, tag), (number, "b"), (number, "e")]))
                case "lease":
                    lease = queue.lease(ttl=draw.choice([0.005, 30]))
                    count = int(lease is not None)
                    held += [lease] if lease else []
                case "recover":
                    count = queue.requeue_inflight() if draw.random() < 0.1 else 0
                case "redrive" | "purge" | "cancel" | "requeue":
                    state = {"cancel": "pending", "requeue": "inflight"}.get(verb, "dead")
                    page = queue.tasks(state, limit=3)
                    count = 0
                    for task in page.items[:1]:
                        getattr(queue, verb)(task.id)
                        count = 1
                case _ if held:
                    lease = held.pop(draw.randrange(len(held)))
                    match verb:
                        case "ack":
                            queue.ack(lease)
                        case "nack":
                            queue.nack(lease, "no", retry_in=0)
                        case "release":
                            queue.release(lease)
                        case "beat":
                            held.append(queue.heartbeat(lease))
                        case "dead":
                            queue.dead_letter(lease, "enough")
                case _:
                    count = 0
        except QueueError as error:
            count = 0
            if not isinstance(error, LeaseLost | Conflict | TaskNotFound):  # another process was faster
                note("error", type(error).__name__, error)
                raise
        note("done", verb, count)


def tally(ledgers: list[Path]) -> tuple[Counter[str], Counter[str], list[str]]:
    """(done, tried without an answer, errors), by verb; each process at a time has a ledger of its own."""
    done: Counter[str] = Counter()
    open_: Counter[str] = Counter()
    errors = []
    for ledger in filter(Path.exists, ledgers):
        last: tuple[str, int] | None = None
        for line in ledger.read_text().splitlines():
            kind, verb, count = line.split(" ", 2)
            if kind == "error":
                errors.append(line)
            elif kind == "try":
                if last is not None:  # the process was killed in between
                    open_[last[0]] += last[1]
                last = (verb, int(count))
            else:
                done[verb] += int(count)
                last = None
        if last is not None:
            open_[last[0]] += last[1]
    return done, open_, errors


def pushed(counter: Counter[str]) -> int:
    return counter["push"] + counter["push_many"]


def seldom(ledgers: list[Path]) -> int:
    """How often the verb was done that was done least."""
    done, _, _ = tally(ledgers)
    return min(done[verb] for verb in ("push", "push_many", "lease", "ack", "nack", "release", "beat", "dead"))


@pytest.mark.soak
@pytest.mark.timeout(0 if SOAK else 600)
@pytest.mark.parametrize(
    ("store", "options", "kills", "together"),
    [("lmdb", {}, KILLS, 2), ("files", {"durability": "none"}, KILLS // 2, 3)],
)
def test_kills_at_random_moments(place: Path, store: str, options: dict[str, Any], kills: int, together: int) -> None:
    """Several processes on one directory, killed one after the other: those that are left go on with what is left.

    A kill loses nothing that is not flushed, so there need be no flushes, and no disk.
    """
    directory = place / "queue"
    url, ledgers = f"{store}://{directory}", [place / f"ledger-{number}" for number in range(together)]
    draw = random.Random(20)
    open_queue(url, **options).close()
    for killed in count(step=together):
        if killed >= kills and (seldom(ledgers) > 20 or killed >= 5 * kills):
            break
        pids = [
            start(partial(misbehave, url, options, ledger, killed + number)) for number, ledger in enumerate(ledgers)
        ]
        for pid in draw.sample(pids, together):
            kill(pid, ledgers, 1_000, draw)
        with open_queue(url, **options) as queue:
            assert queue.check() == [], f"after kill {killed + together}"
            totals, counts = queue.snapshot().totals, queue.counts()
        done, unanswered, errors = tally(ledgers)
        assert errors == []
        assert pushed(done) <= totals.pushed <= pushed(done) + pushed(unanswered)
        assert done["ack"] <= totals.acked <= done["ack"] + unanswered["ack"]
        assert done["lease"] <= totals.leased <= done["lease"] + unanswered["lease"]
        assert totals.pushed == totals.acked + totals.expunged + counts.all
    assert seldom(ledgers) > 20, tally(ledgers)[0]
    if store == "lmdb":
        command = [sys.executable, "-m", "lmdb", "verify", str(directory)]
        verified = subprocess.run(command, capture_output=True, text=True)
        assert verified.returncode == 0, verified.stdout + verified.stderr
