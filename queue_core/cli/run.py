"""queue-core work and queue-core demo."""

import difflib
import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from queue_core.cli.base import (
    Interrupted,
    Meter,
    Session,
    count,
    duration,
    json_option,
    listening,
    pass_session,
    say,
    url_option,
)
from queue_core.cli.show import safe, table, tag_text
from queue_core.queue import Queue

if TYPE_CHECKING:
    from queue_core.census import Producer, Source
    from queue_core.worker import Summary, Worker

FORMAT = "%(asctime)s %(levelname)s %(message)s"


def handler_name(value: str) -> str:
    """module:function, which can be imported from here. Raises BadParameter."""
    module_name, separator, path = value.partition(":")
    if not (separator and module_name and path):
        raise click.BadParameter(f"{value!r} is not module:function, such as jobs:fetch.")
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.insert(0, os.getcwd())  # as python -m does: the modules that lie here
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there and lacks something itself
        raise click.BadParameter(f"no module {error.name!r} is found from {os.getcwd()}.") from None
    for name in path.split("."):
        if not hasattr(found, name):
            close = difflib.get_close_matches(name, dir(found), 1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise click.BadParameter(f"{module_name!r} has no {name!r}{hint}")
        found = getattr(found, name)
    if not callable(found):
        raise click.BadParameter(f"{value!r} is of type {type(found).__name__}, not a function.")
    return value


@click.command(short_help="Work on tasks with a handler.")
@click.argument("handler", type=handler_name)
@click.option(
    "--concurrency", type=click.IntRange(1), default=1, show_default=True, help="Tasks at one time, in each process."
)
@click.option(
    "--processes", type=click.IntRange(0), default=0, show_default=True,
    help="Processes, for a handler that computes; 0: threads of this one.",
)  # fmt: skip
@click.option("--ttl", type=duration, metavar="SPAN", help="A lease that is not renewed lasts so long.  [default: 30s]")
@click.option("--max-runtime", type=duration, metavar="SPAN", help="Renew no lease for longer than this.")
@click.option("--grace", type=duration, metavar="SPAN", help="Time for handlers to end when told to.  [default: 3.5s]")
@click.option("--stop-when-idle", is_flag=True, help="End when nothing can be leased; retries to come do not count.")
@click.option("-v", "--verbose", is_flag=True, help="Log each task that is done, too.")
@url_option
@pass_session
def work(session: Session, /, handler: str, verbose: bool, **options: Any) -> None:
    """Lease tasks, one tag after the other, and call HANDLER, module:function, with each; its payload attribute is
    what was pushed. When it returns, the task is done. What it raises is the task's error, and the task is tried again.

    Ctrl-C or SIGTERM: nothing more is leased, handlers have the grace to end, what is left is given back uncounted. A
    second one does that at once. Ended by SIGTERM the exit code is 0.

    \b
    Examples:
      queue-core work jobs:fetch --concurrency 8
      queue-core work jobs:resize --processes 4 --ttl 2m --max-runtime 10m
      queue-core work jobs:fetch --stop-when-idle
    """
    from queue_core.worker import Worker

    given = {name: value for name, value in options.items() if value is not None}
    with session.open(create=True) as queue, _logging(logging.DEBUG if verbose else logging.INFO):
        worker = Worker(queue, handler, **given)
        number, summary = _attended(worker)
    told = (
        f"{summary.done:,} done, {summary.failed:,} failed, {summary.deferred:,} deferred, "
        f"{summary.released:,} given back, {summary.lost:,} lost"
    )
    if number == signal.SIGINT:
        session.so_far = told
        raise Interrupted(number)
    say(f"{told}.")


def _attended(worker: "Worker") -> tuple[int, "Summary"]:
    """Run a worker; the signal that ended it, 0 for none, and what it did."""
    numbers: list[int] = []

    def listen(number: int) -> None:
        numbers.append(number)
        if len(numbers) > 2:  # it does not even stop at once
            raise Interrupted(number)
        worker.stop(now=len(numbers) == 2)

    with listening(listen):
        summary = worker.run(signals=False)
    return numbers[0] if numbers else 0, summary


@contextmanager
def _logging(level: int) -> Iterator[None]:
    """The log of queue_core on standard error, from a level on."""
    log = logging.getLogger("queue_core")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(FORMAT))
    before, log.propagate = (log.level, log.propagate), False
    log.addHandler(handler)
    log.setLevel(level)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]


# --- demo -----------------------------------------------------------------------------------------


@click.command(short_help="A census of the Python source on this machine.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this distribution; may be repeated.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), metavar="R", help="Push so many files a second.")
@click.option("--pace", type=duration, default=0.0, metavar="SPAN", help="A file takes at least so long, to be seen.")
@click.option("--forever", is_flag=True, help="When the list is through, begin again.")
@click.option(
    "--backlog", type=click.IntRange(1), metavar="N",
    help="Push no more while so many files wait. [2,000 with --forever]",
)  # fmt: skip
@click.option("--push-only", is_flag=True, help="Only push; queue-core work queue_core.census:measure works.")
@click.option("--results", type=click.Path(path_type=Path, dir_okay=False), help="Where the results go, a line a file.")
@click.option(
    "--processes", type=click.IntRange(0), default=os.cpu_count() or 1, show_default="cores",
    help="Processes that work; 0: threads of this one.",
)  # fmt: skip
@click.option(
    "--concurrency", type=click.IntRange(1), help="Files at one time in each process.  [default: 1, with --pace 8]"
)
@url_option
@json_option
@pass_session
def demo(
    session: Session, only: tuple[str, ...], rate: float | None, pace: float, forever: bool, backlog: int | None,
    push_only: bool, results: Path | None, processes: int, concurrency: int | None,
) -> None:  # fmt: skip
    """Take a census of the Python source on this machine, as real work for a queue of its own.

    Every .py file of the standard library and of the installed distributions is a task, its tag the distribution it
    belongs to. The handler reads, decodes, compiles and measures it. A file that does not compile cleanly fails and
    ends as a dead letter. At the end a table of what was found is printed.

    \b
    Examples:
      queue-core demo --url ./census
      queue-core demo --url ./census --only click --only msgspec --json
      queue-core demo --forever --rate 16 --pace 1 --push-only
    """
    from queue_core import census

    with session.open(create=True) as queue:
        results = (results or _beside(queue)).absolute()
        files = _chosen(census.sources(), only)
        foreign = census.foreign_tag(queue, {file.distribution for file in files})
        if foreign is not None:
            raise click.UsageError(
                f"the queue holds tasks of other work, in tag {tag_text(foreign)}, which the census would hold up: "
                "give the demo a queue of its own, such as --url ./census"
            )
        producer = census.Producer(
            queue, files, results, rate=rate, pace=pace, backlog=backlog or (2_000 if forever else None),
            again=(lambda: _chosen(census.sources(), only)) if forever else None,
        )  # fmt: skip
        producer.start()
        try:
            if push_only:
                _push(producer, None if forever else len(files))
            else:
                _census(session, queue, producer, len(files), processes, concurrency or (8 if pace else 1))
        finally:
            producer.stop.set()
            producer.join()
            session.so_far = f"{count(producer.pushed, 'file')} pushed"
        if producer.error is not None:
            raise producer.error
        if push_only:
            say(f"{count(producer.pushed, 'file')} pushed.")
        else:
            _report(session, queue, results, {file.distribution for file in files})


def _chosen(files: list["Source"], only: tuple[str, ...]) -> list["Source"]:
    """The files of these distributions; all when none is named. Raises UsageError for a name that is not here."""
    names = {file.distribution for file in files}
    for name in only:
        if name not in names:
            close = difflib.get_close_matches(name, names, 3, 0.4)
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise click.UsageError(f"--only {name!r}: no such distribution with Python files is installed{hint}")
    return [file for file in files if not only or file.distribution in only]


def _beside(queue: Queue) -> Path:
    """Where results go unless told: next to the store, under its name."""
    scheme, _, path = queue.url.partition("://")
    return Path(f"{path}.census.ndjson") if scheme != "memory" and path else Path("census.ndjson")


def _push(producer: "Producer", total: int | None) -> None:
    """Wait for the end of the pushing."""
    meter = Meter(total)
    while producer.is_alive():
        producer.join(0.1)
        meter.show(producer.pushed, f"{count(producer.pushed, 'file')} pushed")
    meter.clear()


def _census(
    session: Session, queue: Queue, producer: "Producer", total: int, processes: int, concurrency: int
) -> None:  # fmt: skip
    """Work until all that was pushed is through."""
    from queue_core.census import HANDLER
    from queue_core.worker import Worker

    worker = Worker(queue, HANDLER, processes=processes, concurrency=concurrency)
    watch = threading.Thread(target=_watch, args=[queue, producer, worker, total], name="census watch", daemon=True)
    watch.start()
    try:
        with _logging(logging.ERROR):
            number, _ = _attended(worker)
    finally:
        producer.stop.set()
        watch.join()
    if number:
        raise Interrupted(number)


def _watch(queue: Queue, producer: "Producer", worker: "Worker", total: int) -> None:
    """Show how far it is, and stop the worker when nothing is left, or nothing comes any more."""
    meter = Meter(total)
    try:
        while not producer.stop.wait(0.2):
            producing = producer.is_alive()
            counts = queue.counts()
            live = counts.pending + counts.scheduled + counts.inflight
            words = f"{count(producer.pushed, 'file')} pushed, {live:,} to do, {counts.dead:,} dead"
            meter.show(max(producer.pushed - live, 0), words)
            if producer.error is not None or not (producing or live):
                return
    finally:
        meter.clear()
        worker.stop()


def _report(session: Session, queue: Queue, results: Path, names: set[str]) -> None:
    """The table of what was found."""
    from queue_core import census

    dead = {tag.name: tag.dead for tag in queue.snapshot().tags if tag.name in names}
    rows = census.summary(census.read(results), dead)
    whole = census.Row("all", *(sum(getattr(row, name) for row in rows) for name in census.Row.__slots__[1:]))
    if session.as_json:
        session.data({"distributions": [asdict(row) for row in rows], "all": asdict(whole), "results": str(results)})
    else:
        heads = ("DISTRIBUTION", ">FILES", ">LINES", ">FUNCTIONS", ">CLASSES", ">BYTES", ">FAILURES")
        cells = [[safe(row.distribution, 40), *(f"{getattr(row, name):,}" for name in row.__slots__[1:])]
                 for row in (*rows, whole)]  # fmt: skip
        click.echo(table(heads, cells))
    say(f"{count(whole.files - whole.failures, 'file')} measured: {results}")
    if whole.failures:
        say(f"{count(whole.failures, 'file')} did not compile cleanly: queue-core tasks --state dead")
